//! The operator's work once a plan removes its obstacle or deletes a custom resource.

use std::collections::{BTreeMap, BTreeSet};

use super::effects;
use super::uninstalls::{self, ByPackage, Uninstalls};
use crate::api::keys::NodeKey;
use crate::api::{ApiFlavor, NodeState, Skyhook, State};
use crate::cluster::hold::{HOLDER, REASON};
use crate::cluster::{Cluster, Node, Source};
use crate::plan::{Change, Edit, Grade, Kind, Metadata, Plan, Step};

/// The required sources. Pods and Jobs show permanently failed packages, which do not start.
pub const NEEDS: [Source; 6] =
    [Source::Nodes, Source::Policies, Source::Skyhooks, Source::Operator, Source::Pods, Source::Jobs];
/// Resources that are also listed if nodes are drained: budgets may refuse the evictions.
pub const LISTS: &[(&str, &str)] = &[("policy", "poddisruptionbudgets")];
/// Annotations of custom resources that stop all work on them.
const STOPS: [&str; 2] = ["pause", "disable"];
/// The label of nodes on which nothing starts.
const IGNORE: &str = "ignore";

/// Adds the work that starts because the plan resumes, enables or deletes a custom resource, no longer
/// ignores nodes, or requests an uninstall.
pub fn add(cluster: &Cluster, plan: &mut Plan) {
    if !starts_work(plan) {
        return;
    }
    let mut consequences = std::mem::take(&mut plan.consequences);
    for source in [Source::Skyhooks, Source::Nodes] {
        if let Some(why) = cluster.source(source).unread() {
            consequences.at_least(Grade::B4);
            consequences.warn(format!(
                "{source} cannot be read ({why}): the operator may start work, including reboots, that is not shown here"
            ));
        }
    }
    let edits = Edits::of(plan, cluster.flavor());
    let ignored = |node: &Node| node.ignored(cluster.flavor());
    let all = || cluster.nodes.items().iter();
    let is_freed = |node: &&Node| {
        let edit = edits.ignores.get(node.name.as_str());
        ignored(node) && edit.is_some_and(|edit| edit.to.as_deref() != Some("true"))
    };
    let freed: Vec<&Node> = all().filter(is_freed).collect();
    let mut concerned: BTreeMap<&str, u64> = BTreeMap::new();
    for skyhook in cluster.skyhooks.items() {
        if edits.deleted.contains(skyhook.name()) {
            let packages = uninstalls::of_deletion(cluster, skyhook);
            uninstalls::uninstalls(cluster, skyhook, &packages, &mut consequences);
            concerned.extend(packages.values().flatten().map(|n| (&*n.name, n.gpus())));
        } else if edits.runs_after(skyhook) {
            let nodes = if skyhook.is_active() {
                freed.clone()
            } else {
                let open = |node: &&Node| !ignored(node) || is_freed(node);
                all().filter(open).collect()
            };
            let begins = effects::begins(cluster, skyhook, &nodes, &mut consequences);
            concerned.extend(begins.iter().map(|n| (&*n.name, n.gpus())));
        }
        for (_, package) in edits.requested.iter().filter(|r| r.0 == skyhook.name()) {
            let is_recorded = |node: &&Node| {
                let placement = cluster.placement(skyhook, package, node);
                placement.selected && placement.entry.is_some()
            };
            let nodes: Vec<&Node> = all().filter(is_recorded).collect();
            if !nodes.is_empty() {
                concerned.extend(nodes.iter().map(|n| (&*n.name, n.gpus())));
                let packages = ByPackage::from([((*package, Uninstalls::Now), nodes)]);
                uninstalls::uninstalls(cluster, skyhook, &packages, &mut consequences);
            }
        }
    }
    consequences.nodes = consequences.nodes.max(concerned.len());
    consequences.gpus = consequences.gpus.max(concerned.values().sum());
    plan.consequences = consequences;
}

/// Whether work may start because the plan resumes, enables, creates or deletes a custom resource, edits its
/// packages, no longer ignores nodes, or makes a complete package on a node incomplete.
pub fn starts_work(plan: &Plan) -> bool {
    ApiFlavor::ALL.into_iter().any(|flavor| {
        let edits = Edits::of(plan, flavor);
        let ends = |edit: &&Edit| edit.to.as_deref() != Some("true");
        let all = edits.stops.values().flatten();
        let mut stops = all.flat_map(|metadata| of_stops(flavor, metadata));
        stops.any(|edit| ends(&edit))
            || !edits.released.is_empty()
            || edits.ignores.values().any(ends)
            || !edits.deleted.is_empty()
            || !edits.reruns.is_empty()
            || edits.edits_packages
    })
}

/// Whether the plan recreates a custom resource, and otherwise restores its keys, conditions and taints on nodes. Its
/// grade then depends only on the work that starts.
pub fn only_recreates(plan: &Plan) -> bool {
    let restores = |metadata: &Metadata| {
        let removes = |(key, edit): (&String, &Edit)| edit.to.is_none() && NodeKey::holds_node_state(key);
        !metadata.annotations.iter().any(removes)
    };
    let creates = |step: &Step| matches!(step.change, Change::Create(_));
    let harmless = |step: &Step| match &step.change {
        Change::Metadata(metadata) => step.target.kind == Kind::Node && restores(metadata),
        Change::Conditions { .. } | Change::Taints { .. } | Change::Hold(_) | Change::Release(_) => true,
        _ => creates(step) && step.target.kind.is_custom(),
    };
    plan.steps().any(creates) && plan.steps().all(harmless)
}

/// Whether the plan only sets or removes pauses, disables and ignore labels. Its grade then depends only on
/// the work that starts.
pub fn edits_only_stops(plan: &Plan) -> bool {
    let noted = |key: &String| {
        let words = STOPS.into_iter().chain([IGNORE]);
        let mut keys = words.flat_map(|word| ApiFlavor::ALL.map(|flavor| flavor.key(word)));
        let reasons = STOPS.map(|word| REASON.replace("pause", word));
        key == HOLDER || reasons.contains(key) || keys.any(|k| k == *key)
    };
    plan.steps().all(|step| match &step.change {
        Change::Metadata(metadata) => {
            let mut keys = metadata.annotations.keys().chain(metadata.labels.keys());
            metadata.unschedulable.is_none() && keys.all(noted)
        }
        change => change.is_hold(),
    })
}

/// The edits of a plan that affect whether the operator works, by the name of their target.
struct Edits<'p> {
    flavor: ApiFlavor,
    stops: BTreeMap<&'p str, Vec<&'p Metadata>>,
    /// Custom resources whose pause the plan ends but has not set.
    released: BTreeSet<&'p str>,
    ignores: BTreeMap<&'p str, &'p Edit>,
    /// Pairs of a custom resource and a package whose uninstall is requested.
    requested: BTreeSet<(&'p str, &'p str)>,
    /// Custom resources that are deleted, so that their packages are uninstalled.
    deleted: BTreeSet<&'p str>,
    /// Nodes on which a complete package becomes incomplete, so that it runs again.
    reruns: BTreeSet<&'p str>,
    /// Whether packages of a custom resource change, or a custom resource is created.
    edits_packages: bool,
}

impl<'p> Edits<'p> {
    fn of(plan: &'p Plan, flavor: ApiFlavor) -> Edits<'p> {
        let mut edits = Edits {
            flavor,
            stops: BTreeMap::new(),
            released: BTreeSet::new(),
            ignores: BTreeMap::new(),
            requested: BTreeSet::new(),
            deleted: BTreeSet::new(),
            reruns: BTreeSet::new(),
            edits_packages: false,
        };
        let ignore = flavor.key(IGNORE);
        for Step { target, change, .. } in plan.steps() {
            let name = target.name.as_str();
            match change {
                Change::Metadata(metadata) if target.kind == flavor.into() => {
                    edits.stops.entry(name).or_default().push(metadata);
                }
                Change::Metadata(metadata) => {
                    let edit = metadata.labels.get(&ignore);
                    edits.ignores.extend(edit.map(|edit| (name, edit)));
                    if reruns(flavor, metadata) {
                        edits.reruns.insert(name);
                    }
                }
                Change::Create(_) if target.kind == flavor.into() => edits.edits_packages = true,
                Change::Spec(fields) if target.kind == flavor.into() => {
                    edits.edits_packages |=
                        fields.iter().any(|field| field.path.get(1).is_some_and(|f| f == "packages"));
                    let packages = fields.iter().filter_map(|field| {
                        let path: Vec<&str> = field.path.iter().map(String::as_str).collect();
                        match path.as_slice() {
                            ["spec", "packages", package, "uninstall", "apply"] => {
                                let requests = field.to.as_ref()?.as_bool()?;
                                requests.then_some((name, *package))
                            }
                            _ => None,
                        }
                    });
                    edits.requested.extend(packages);
                }
                Change::Release(_) if target.kind == flavor.into() => {
                    edits.released.insert(name);
                }
                Change::Delete { .. } if target.kind == flavor.into() => {
                    edits.deleted.insert(name);
                }
                _ => {}
            }
        }
        for Step { target, change, .. } in plan.steps() {
            if matches!(change, Change::Hold(_)) {
                edits.released.remove(target.name.as_str());
            }
        }
        edits
    }

    /// Whether the operator works on a custom resource once the plan is carried out.
    fn runs_after(&self, skyhook: &Skyhook) -> bool {
        let edits = self.stops.get(skyhook.name());
        let released = self.released.contains(skyhook.name());
        if edits.is_none() && !released {
            return skyhook.is_active();
        }
        let mut after = skyhook.clone();
        let annotations = &mut after.metadata.annotations;
        if released {
            annotations.remove(&self.flavor.key("pause"));
        }
        let edits = edits.into_iter().flatten();
        for (key, edit) in edits.flat_map(|metadata| &metadata.annotations) {
            match &edit.to {
                Some(value) => annotations.insert(key.clone(), value.clone()),
                None => annotations.remove(key),
            };
        }
        after.is_active()
    }
}

/// The edits of the annotations that stop all work.
fn of_stops(flavor: ApiFlavor, metadata: &Metadata) -> Vec<&Edit> {
    let keys = STOPS.map(|word| flavor.key(word));
    let edits = keys.iter().filter_map(|key| metadata.annotations.get(key));
    edits.collect()
}

/// Whether a package that is recorded as complete becomes incomplete.
fn reruns(flavor: ApiFlavor, metadata: &Metadata) -> bool {
    metadata.annotations.iter().any(|(key, edit)| {
        let is_state = matches!(NodeKey::parse(flavor, key), Some(NodeKey::NodeState { .. }));
        let state = |text: &Option<String>| text.as_ref().map(|text| NodeState::of(&[(key.as_str(), text)]));
        let (Some(from), to) = (state(&edit.from).filter(|_| is_state), state(&edit.to)) else {
            return false;
        };
        let stays = |name: &str| {
            to.iter().flat_map(|state| state.entries()).any(|e| e.key == *name && e.state == State::Complete)
        };
        from.entries().iter().any(|e| e.state == State::Complete && !stays(e.key.as_ref()))
    })
}
