//! The request to uninstall packages: their order, the edits of the spec, and notes on what happens on each node. Pure.

use std::collections::BTreeMap;

use serde_json::json;

use crate::api::{Entry, Executor, Package, Skyhook, Stage, State};
use crate::cluster::{Cluster, Node, Phase};
use crate::plan::{Change, Consequences, Field, Guard, Step, Target};
use crate::text::{NodeSet, plural, some_of};

/// Nodes by the effect of an uninstall.
#[derive(Debug, Default)]
pub struct PlacementSummary<'a> {
    /// The package is complete: the uninstall starts immediately.
    pub ready: Vec<&'a Node>,
    /// The uninstall is in progress.
    pub begun: Vec<(&'a Node, &'a Entry)>,
    /// The package is being installed: the uninstall starts once the current stage is complete.
    pub unfinished: Vec<(&'a Node, &'a Entry)>,
    /// The operator ignores the node.
    pub ignored: Vec<&'a Node>,
    /// Selected nodes without the package.
    pub absent: Vec<&'a Node>,
    /// Selected nodes with only another version, or with another version that is being uninstalled.
    pub other: Vec<(&'a Node, &'a Entry)>,
    pub malformed: Vec<&'a Node>,
    /// Nodes with the package that are no longer selected: the operator does nothing there.
    pub deselected: Vec<&'a Node>,
}

impl<'a> PlacementSummary<'a> {
    pub fn of(
        cluster: &'a Cluster,
        skyhook: &'a Skyhook,
        name: &'a str,
        package: &Package,
    ) -> PlacementSummary<'a> {
        let mut survey = PlacementSummary::default();
        for node in &cluster.nodes {
            let here = cluster.placement(skyhook, name, node);
            if !here.selected {
                survey.deselected.extend(here.entry.map(|_| node));
                continue;
            }
            let other = cluster.placements_on(skyhook.name(), node).into_iter().find_map(|p| {
                let other = p.package == name && p.version != package.version;
                p.entry.filter(|_| other && (here.entry.is_none() || p.phase.is_uninstall()))
            });
            survey.other.extend(other.map(|other| (node, other)));
            match (here.phase, here.entry) {
                (Phase::Malformed, _) => survey.malformed.push(node),
                (_, None) if other.is_some() => {}
                (_, None) => survey.absent.push(node),
                (phase, Some(entry)) if phase.is_uninstall() => survey.begun.push((node, entry)),
                _ if here.ignored => survey.ignored.push(node),
                // The operator starts an uninstall from every stage that is complete.
                (_, Some(entry)) if entry.state != State::Complete => {
                    survey.unfinished.push((node, entry));
                }
                _ => survey.ready.push(node),
            }
        }
        survey
    }

    /// The selected nodes on which the uninstall is running or will run.
    pub fn concerned(&self) -> impl Iterator<Item = &'a Node> {
        let with_entry = self.begun.iter().chain(&self.unfinished).map(|(node, _)| *node);
        let rest = self.ready.iter().chain(&self.ignored);
        with_entry.chain(rest.copied())
    }

    /// Whether no selected node has the package in the version of the spec, and no node state is malformed.
    pub fn is_absent(&self) -> bool {
        self.concerned().next().is_none() && self.malformed.is_empty()
    }
}

/// Formats nodes: `gpu-1`, or `gpu-[1-3] (3 nodes)`.
pub fn nodes<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> String {
    let set = NodeSet::of(nodes.into_iter().map(|n| n.name.as_str()));
    match set.len() {
        1 => set.limited(6),
        n => format!("{} ({})", set.limited(6), plural(n, "node")),
    }
}

/// A package with its custom resource and nodes.
#[derive(Clone, Copy)]
pub struct ImpactNotes<'a> {
    pub cluster: &'a Cluster,
    pub skyhook: &'a Skyhook,
    pub name: &'a str,
    pub package: &'a Package,
    pub survey: &'a PlacementSummary<'a>,
}

impl ImpactNotes<'_> {
    /// Adds the effects of the uninstall on each node; `removed_before` are the packages that are uninstalled
    /// before.
    pub fn uninstall(self, enables: bool, removed_before: &[&str], consequences: &mut Consequences) {
        let ImpactNotes { name, survey, .. } = self;
        let version = &self.package.version;
        if !survey.begun.is_empty() {
            consequences.notes.push(format!(
                "the uninstall of {name} is in progress on {}",
                nodes(survey.begun.iter().map(|(n, _)| *n))
            ));
        }
        if !survey.absent.is_empty() {
            consequences.notes.push(format!(
                "{name} is not on {}; nothing runs there",
                nodes(survey.absent.iter().copied())
            ));
        }
        let mut unfinished: BTreeMap<(&Stage, &State), Vec<&Node>> = BTreeMap::new();
        for (node, entry) in &survey.unfinished {
            unfinished.entry((&entry.stage, &entry.state)).or_default().push(node);
        }
        for ((stage, state), on) in unfinished {
            consequences.warn(format!(
                "on {}, {name} is at {stage} ({state}): the uninstall starts only after this stage is complete",
                nodes(on)
            ));
        }
        let mut others: BTreeMap<&str, Vec<&Node>> = BTreeMap::new();
        for (node, entry) in &survey.other {
            others.entry(entry.version.as_ref()).or_default().push(node);
        }
        for (other, on) in others {
            consequences.warn(format!(
                "on {}, {name} is at version {other}: the operator upgrades {name} to {version} before the \
                 uninstall, or never installs {version} (SKY104)",
                nodes(on)
            ));
        }
        if survey.is_absent() && survey.other.is_empty() {
            consequences.warn(format!(
                "no selected node has {name}, so there is nothing to uninstall: the operator considers {name} uninstalled and \
                 will not install it (SKY103)"
            ));
        }
        self.left_alone(consequences);
        let mut staying = self.skyhook.dependants(name);
        staying.retain(|dependant| {
            let uninstall = self.skyhook.package(dependant).map(Package::uninstall);
            !removed_before.contains(dependant) && !uninstall.is_some_and(|u| u.enabled && u.apply)
        });
        for dependant in staying {
            consequences.warn(format!(
                "{dependant} depends on {name}: {dependant} stays installed, but is blocked until {name} is installed again \
                 (SKY111)"
            ));
        }
        if enables {
            consequences.warn(format!(
                "--enable requires uninstall.sh and uninstall_check.sh in the package: without these scripts, the uninstall \
                 fails on every node, and neither {name} nor the custom resource can be removed"
            ));
        }
        if survey.concerned().next().is_some() {
            consequences.cannot_undo(format!(
                "host changes made by the uninstall of {name}; --cancel installs the package again"
            ));
        }
    }

    /// Warns about nodes that are no longer selected, and nodes whose state cannot be read.
    fn left_alone(self, consequences: &mut Consequences) {
        let ImpactNotes { name, survey, .. } = self;
        if !survey.malformed.is_empty() {
            consequences.warn(format!(
                "the node state on {} cannot be read: it is unknown whether {name} is installed there (SKY206)",
                nodes(survey.malformed.iter().copied())
            ));
        }
        if !survey.deselected.is_empty() {
            consequences.warn(format!(
                "{name} stays on {}, which {} no longer selects",
                nodes(survey.deselected.iter().copied()),
                self.skyhook
            ));
        }
    }

    /// Adds the effects of canceling a requested uninstall now.
    pub fn cancel(self, consequences: &mut Consequences) {
        let ImpactNotes { cluster, name, survey, .. } = self;
        let at = |stage: Stage| -> Vec<&Node> {
            survey.begun.iter().filter(|(_, e)| e.stage == stage).map(|(n, _)| *n).collect()
        };
        let reset = at(Stage::Uninstall);
        let beyond = at(Stage::UninstallInterrupt);
        let untouched = survey.ready.len() + survey.unfinished.len() + survey.ignored.len();
        if untouched > 0 {
            consequences.notes.push(format!(
                "the uninstall of {name} has not started on {}; nothing changes there",
                plural(untouched, "node")
            ));
        }
        if !reset.is_empty() {
            consequences.notes.push(format!(
                "the uninstall is aborted on {}; {name} is installed there again from its first stage",
                nodes(reset.iter().copied())
            ));
        }
        if !beyond.is_empty() {
            consequences.warn(format!(
                "the uninstall can no longer be canceled on {}: the interrupt has started and runs to completion; then the \
                 operator installs {name} again",
                nodes(beyond.iter().copied())
            ));
        }
        if !survey.absent.is_empty() {
            consequences.notes.push(format!(
                "{name} is not on {}; it will be installed there",
                nodes(survey.absent.iter().copied())
            ));
        }
        let package_runs = cluster.package_runs_for(self.skyhook.name());
        let running = reset.iter().filter_map(|node| {
            let placement = cluster.placement(self.skyhook, name, node);
            let package_run = package_runs.uninstall_of(&placement)?;
            Some(format!("{package_run} on {}", node.name))
        });
        let running: Vec<String> = running.collect();
        if !running.is_empty() {
            let running = some_of(&running, 3);
            match cluster.flavor().executor() {
                Executor::Pod => consequences.warn(format!(
                    "the operator does not stop {running}: the uninstall may still finish there; a pod that never \
                     ends blocks the cancellation on all nodes (SKY105)"
                )),
                Executor::Job => consequences.notes.push(format!(
                    "the operator deletes {running}; anything uninstalled by then is installed again"
                )),
            }
        }
        self.left_alone(consequences);
    }
}

/// A step that changes the custom resource, for the operator to act on.
pub fn step(cluster: &Cluster, skyhook: &Skyhook, change: Change) -> Step {
    Step::new(Target::of_skyhook(cluster.flavor(), skyhook), change, "the operator applies this setting")
}

/// The path of a package's field in the spec.
pub fn path(package: &str, field: &[&str]) -> Vec<String> {
    let start = ["spec", "packages", package];
    start.iter().chain(field).map(|part| (*part).to_owned()).collect()
}

/// Guard the version: another version is another uninstall.
pub fn same(name: &str, package: &Package) -> Guard {
    let version = format!("/spec/packages/{name}/version");
    Guard::default().require(version, json!(package.version))
}

/// The missing fields of an uninstall request.
pub fn request(name: &str, package: &Package) -> Vec<Field> {
    let now = package.uninstall();
    if package.uninstall.is_none() {
        let whole = json!({"enabled": true, "apply": true});
        return vec![Field::new(path(name, &["uninstall"]), None, Some(whole))];
    }
    [("enabled", now.enabled), ("apply", now.apply)]
        .into_iter()
        .filter(|(_, is)| !is)
        .map(|(field, _)| {
            let path = path(name, &["uninstall", field]);
            Field::new(path, Some(json!(false)), Some(json!(true)))
        })
        .collect()
}

/// Removes an uninstalled package from the spec. The guard requires that only packages in `removed_before`
/// depend on it.
///
/// An unchanged request at the same version proves that the package has not been reinstalled: the operator does not
/// install a package with a requested uninstall.
pub fn out_of_the_spec(
    cluster: &Cluster,
    skyhook: &Skyhook,
    name: &str,
    package: &Package,
    removed_before: &[&str],
) -> Step {
    let mut whole = package.whole.clone();
    if !whole["uninstall"].is_object() {
        whole["uninstall"] = json!({});
    }
    for field in ["enabled", "apply"] {
        whole["uninstall"][field] = json!(true);
    }
    // Accept any old value: the operator fills in the package's name.
    let field = Field::new(path(name, &[]), Some(whole), None).with_any_old_value();
    let apply = format!("/spec/packages/{name}/uninstall/apply");
    let mut guard = same(name, package).require(apply, json!(true)).not_deleting();
    let others = skyhook.packages();
    for (other, _) in others.filter(|(other, _)| *other != name && !removed_before.contains(other)) {
        guard = guard.require(format!("/spec/packages/{other}/dependsOn/{name}"), json!(null));
    }
    step(cluster, skyhook, Change::Spec(vec![field])).guard(guard)
}

/// The packages of a spec in the order of their uninstall: dependants before their dependencies, otherwise by name.
///
/// Packages in a dependency cycle (SKY207) have no such order: the first by name is then taken.
pub fn removal_order(skyhook: &Skyhook) -> Vec<&str> {
    let mut left: Vec<&str> = skyhook.packages().map(|(name, _)| name).collect();
    let mut order = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let needed = |name: &str| skyhook.dependants(name).iter().any(|d| *d != name && left.contains(d));
        let next = left.iter().position(|name| !needed(name)).unwrap_or(0);
        order.push(left.remove(next));
    }
    order
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn order(depends: serde_json::Value) -> Vec<String> {
        let packages = depends.as_object().expect("a map").iter();
        let packages: serde_json::Map<_, _> = packages
            .map(|(name, on)| {
                let on = on.as_str().unwrap_or_default().split_whitespace();
                let on: serde_json::Map<_, _> = on.map(|d| (d.to_owned(), json!("1"))).collect();
                (name.clone(), json!({"version": "1", "dependsOn": on}))
            })
            .collect();
        let skyhook: Skyhook =
            serde_json::from_value(json!({"spec": {"packages": packages}})).expect("a skyhook");
        removal_order(&skyhook).into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn what_others_need_goes_last() {
        let chain = json!({"base": "", "driver": "base", "tuning": "driver base", "alone": ""});
        assert_eq!(order(chain), ["alone", "tuning", "driver", "base"]);
        assert_eq!(order(json!({"b": "", "a": ""})), ["a", "b"]);
    }

    #[test]
    fn a_circle_ends_somewhere() {
        let circle = json!({"a": "b", "b": "a", "c": "a"});
        assert_eq!(order(circle), ["c", "a", "b"]);
    }
}
