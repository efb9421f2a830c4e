//! Predicts the effects of a plan: applies its steps to a copy of the cluster, and runs the model on the
//! copy.

mod hindrances;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use hindrances::{add_freed, add_hindrances, add_webhooks};

use super::change::carry_out;
use super::edit::state_of;
use super::planners::merge::permanently_failed;
use super::{Change, Condition, Consequences, Edit, Grade, Kind, Plan, Step, Target, some_nodes};
use crate::api::keys::NodeKey;
use crate::api::skyhook::interrupt_strength;
use crate::api::{ApiFlavor, Entry, Executor, NodeState, Object, Skyhook};
use crate::cluster::drain::ObstacleReader;
use crate::cluster::package_run::PackageRuns;
use crate::cluster::placement::{Pending, is_uninstalled};
use crate::cluster::{Certainty, Cluster, NamedNodes, Node, NodeRecord, PackageRun, Source};
use crate::model::profile::obstacles_end_turn;
use crate::model::{Effects, Model, PackageChange, PackageDocument, Simulation, WorkByPlace};

/// A cluster before a plan. The operator's work without the plan is simulated once for all plans.
pub struct Baseline<'a> {
    pub cluster: &'a Cluster,
    simulation: OnceCell<Simulation<'a>>,
    work: OnceCell<WorkByPlace<'a>>,
    /// The work of [`Simulation::unhindered`].
    unhindered: OnceCell<WorkByPlace<'a>>,
    package_runs: OnceCell<PackageRuns<'a>>,
}

impl<'a> Baseline<'a> {
    pub fn of(cluster: &'a Cluster) -> Baseline<'a> {
        Baseline {
            cluster,
            simulation: OnceCell::new(),
            work: OnceCell::new(),
            unhindered: OnceCell::new(),
            package_runs: OnceCell::new(),
        }
    }

    fn simulation(&self) -> &Simulation<'a> {
        self.simulation.get_or_init(|| Simulation::new(self.cluster))
    }

    fn work(&self) -> &WorkByPlace<'a> {
        self.work.get_or_init(|| self.simulation().work())
    }

    fn package_runs(&self) -> &PackageRuns<'a> {
        self.package_runs.get_or_init(|| self.cluster.package_runs())
    }

    fn unhindered(&self) -> &WorkByPlace<'a> {
        self.unhindered.get_or_init(|| Simulation::unhindered(self.cluster).work())
    }
}

impl Plan {
    /// Computes grade, numbers and effects from the steps; the planner's statements stay. Unknown effects are omitted; a
    /// warning then names the source that could not be read.
    pub fn forecast(&mut self, before: &Baseline<'_>) {
        let mut consequences = std::mem::take(&mut self.consequences).statements();
        if !self.is_empty() {
            self.add_effects(before, &mut consequences);
        }
        self.consequences = consequences;
    }

    fn add_effects(&self, before: &Baseline<'_>, consequences: &mut Consequences) {
        let cluster = before.cluster;
        let after = self.carried_out(cluster);
        let mut edited = Edited::of(self, cluster);
        edited.add_released(cluster, &after);
        let named = edited.skyhooks(&after);
        let mut unread: BTreeSet<Source> = BTreeSet::new();
        let mut work = StartedWork::new();
        if cluster.skyhooks.unread().is_some() && !self.only_stops() {
            unread.insert(Source::Skyhooks);
        }
        // Without pods and Jobs, only the work without obstacles is known.
        let hidden = cluster.certainty_of_no_package_run() == Certainty::Unknown;
        if after.nodes.ok().is_none() {
            unread.insert(Source::Nodes);
        } else {
            let then = Simulation::new(&after).until_intervention();
            work = edited.started(before.work(), then.work(), true);
            // A pause, for example, only delays the work.
            let waits = |name: &&str| hidden || then.is_stuck(name) || !is_active(&after, name);
            if named.iter().any(waits) {
                let then = Simulation::unhindered(&after).work();
                // Without an operator at work, the next batch is not known.
                let away = cluster.operator().is_down() || cluster.migration().holding().next().is_some();
                let mut later = edited.started(before.unhindered(), then, hidden || away);
                // A pause or an ignore label that the plan leaves behind ends by another decision.
                let stops = |name: &str| is_active(cluster, name) && !is_active(&after, name);
                let leaves = |node: &str| !is_ignored(cluster, node) && is_ignored(&after, node);
                later
                    .retain(|(skyhook, node), _| named.contains(skyhook) && !stops(skyhook) && !leaves(node));
                for skyhook in after.skyhooks.iter().filter(|skyhook| named.contains(skyhook.name())) {
                    let nodes: Vec<&Node> = after.nodes.iter().filter(|node| skyhook.selects(node)).collect();
                    for (package, nodes) in permanently_failed(&after, skyhook, &nodes) {
                        for node in nodes {
                            if let Some(packages) = later.get_mut(&(skyhook.name(), node)) {
                                packages.retain(|(name, _), _| *name != package);
                            }
                        }
                    }
                }
                later.retain(|_, packages| !packages.is_empty());
                for (place, packages) in later {
                    let here = work.entry(place).or_default();
                    for (package, kind) in packages {
                        let known = here.entry(package).or_default();
                        *known = known.or(kind);
                    }
                }
            }
            let starts = |name: &str| work.keys().any(|(skyhook, _)| *skyhook == name);
            let is_refused = |name: &str| then.is_refused(name) && !before.simulation().is_refused(name);
            let is_named = |name: &&str| starts(name) || named.contains(name) || is_refused(name);
            let stops_short = |effects: &Effects<'_>| {
                edited.records.iter().any(|(skyhook, _)| *skyhook == effects.skyhook)
                    && effects.rollout.stuck.is_some()
            };
            let names = after.skyhooks.iter().map(Skyhook::name).filter(is_named).filter(|_| !hidden);
            for effects in then.effects(cluster, &after, &names.collect::<Vec<_>>()) {
                let edits = edited.resources.contains(effects.skyhook)
                    && effects.packages.iter().any(|package| package.change != PackageChange::Unchanged);
                match effects.unread {
                    Some(source) => drop(unread.insert(source)),
                    None if edits || starts(effects.skyhook) || stops_short(&effects) => {
                        consequences.rollouts.push(effects.rollout);
                        consequences.effects.extend(effects.packages);
                    }
                    // The plan lets the rollout begin, and it gets no further than this drain.
                    None if is_refused(effects.skyhook) => {
                        let mut rollout = effects.rollout;
                        rollout.cordoned.retain(|node| effects.stuck_on.is_some_and(|on| on.name == *node));
                        consequences.rollouts.push(rollout);
                    }
                    None => {}
                }
            }
        }
        if hidden {
            unread.extend([Source::Pods, Source::Jobs]);
        }
        self.add_stopped_interrupts(before, &after, &mut work);
        if !hidden {
            add_unaffected(before.work(), &work, &mut consequences.effects);
        }
        self.add_numbers(cluster, &work, consequences);
        add_hindrances(before, &after, &edited, &work, consequences);
        add_webhooks(self, cluster, consequences);
        let reruns = work.iter().any(|((skyhook, node), packages)| {
            let (edits, creates) =
                (edited.records.contains(&(*skyhook, *node)), edited.created.contains(skyhook));
            let entries = cluster.node(node).and_then(|node| cluster.on_node(node, skyhook));
            let ran = |package: &str| {
                entries.is_some_and(|on| {
                    on.is_malformed() || on.entries().iter().any(|entry| entry.name == package)
                })
            };
            packages.keys().any(|(package, uninstall)| !uninstall && (creates || edits && ran(package)))
        });
        if reruns {
            consequences.cannot_undo("host changes made by rerunning packages");
        }
        for step in self.steps() {
            consequences.at_least(self.grade_of(step, cluster));
            self.add_losses(step, cluster, &after, consequences);
        }
        add_freed(self, cluster, &after, consequences);
        for source in unread {
            if let Some(why) = cluster.source(source).unread() {
                // Any package may run, and any node be interrupted.
                let worst = named.iter().filter_map(|name| after.skyhook(name)).map(Grade::of_running).max();
                let worst = worst.filter(|_| source != Source::Skyhooks).unwrap_or(Grade::B4);
                consequences.at_least(worst);
                consequences.warn(format!(
                    "cannot read {source} ({why}), so the operator's next actions are not shown"
                ));
            }
        }
    }

    /// Adds the running interrupts of custom resources that the plan pauses and resumes: the pause stops their Jobs, and
    /// the interrupt begins again after it.
    fn add_stopped_interrupts<'a, 'b: 'a>(
        &self,
        before: &Baseline<'b>,
        after: &Cluster,
        work: &mut StartedWork<'a>,
    ) {
        let flavor = before.cluster.flavor();
        if flavor.executor() != Executor::Job {
            return;
        }
        let pauses =
            |step: &&Step| matches!(step.change, Change::Hold(_)) && step.target.kind == flavor.into();
        let paused: BTreeSet<&str> = self.steps().filter(pauses).map(|step| &*step.target.name).collect();
        for skyhook in before.cluster.skyhooks.iter().filter(|s| paused.contains(s.name())) {
            let running = before.package_runs().all().iter();
            let running = running.filter(|run| run.skyhook == skyhook.name() && run.interrupt && run.alive());
            for run in running.filter(|_| is_active(after, skyhook.name())) {
                let Some((named, _)) = skyhook.packages().find(|(name, _)| run.package == *name) else {
                    continue;
                };
                // One interrupt may serve several packages, and only one is named.
                let strongest = skyhook
                    .packages()
                    .filter_map(|(name, package)| skyhook.pending_interrupt(name, package))
                    .max_by_key(|kind| interrupt_strength(kind))
                    .unwrap_or("reboot");
                let here = work.entry((skyhook.name(), run.node)).or_default();
                here.entry((named, run.stage.is_uninstall())).or_default().get_or_insert(strongest);
            }
        }
    }

    /// Whether the plan only ignores nodes, and pauses or disables custom resources.
    fn only_stops(&self) -> bool {
        let words = ["pause", "disable", "ignore"];
        let stops: Vec<String> =
            words.into_iter().flat_map(|word| ApiFlavor::ALL.map(|flavor| flavor.key(word))).collect();
        // Keys of other programs start nothing, nor does the reason that accompanies a pause.
        let is_ours = |key: &str| ApiFlavor::ALL.iter().any(|flavor| NodeKey::parse(*flavor, key).is_some());
        let harmless = |(key, edit): (&String, &Edit)| {
            if stops.contains(key) { edit.to.as_deref() == Some("true") } else { !is_ours(key) }
        };
        self.steps().all(|step| match &step.change {
            Change::Metadata(metadata) => {
                metadata.unschedulable.is_none()
                    && metadata.annotations.iter().chain(&metadata.labels).all(harmless)
            }
            _ => false,
        })
    }

    /// Adds the numbers of this work and its grade. A node counts once.
    fn add_numbers(&self, cluster: &Cluster, work: &StartedWork<'_>, consequences: &mut Consequences) {
        let mut kinds_by_node: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for ((_, node), packages) in work {
            let kinds = kinds_by_node.entry(node).or_default();
            for ((package, uninstall), interrupt) in packages {
                consequences.at_least(Grade::of_rerun(*interrupt));
                kinds.extend(*interrupt);
                let runs = if *uninstall { &mut consequences.uninstalls } else { &mut consequences.reruns };
                *runs.entry((*package).to_owned()).or_default() += 1;
            }
        }
        for (node, kinds) in &kinds_by_node {
            consequences.drains += usize::from(!kinds.is_empty());
            if kinds.contains("reboot") {
                consequences.reboots += 1;
                consequences.reboot_nodes.push((*node).to_owned());
            } else if kinds.iter().any(|kind| *kind != "noop") {
                consequences.restarts += 1;
            }
        }
        let nodes: BTreeSet<&str> = self.nodes().into_iter().chain(kinds_by_node.into_keys()).collect();
        consequences.nodes = nodes.len();
        consequences.gpus = nodes.iter().filter_map(|node| cluster.node(node)).map(Node::gpus).sum();
    }

    /// The grade of a step itself, without the work that follows.
    fn grade_of(&self, step: &Step, cluster: &Cluster) -> Grade {
        let target = &step.target;
        let flavor = cluster.flavor();
        let reruns = match &step.change {
            Change::Delete { .. } => matches!(target.kind, Kind::Pod | Kind::Job),
            // Without its finalizer, the custom resource goes with its pods, and nothing is uninstalled.
            Change::Finalizer { .. } => {
                if !self.replaces(target) {
                    return Grade::B4;
                }
                true
            }
            Change::Metadata(metadata) if target.kind == Kind::Node => {
                let rewrites = |(key, edit): (&String, &Edit)| {
                    let Some(NodeKey::NodeState { skyhook, .. }) = NodeKey::parse(flavor, key) else {
                        return false;
                    };
                    let skyhook = cluster.skyhook(skyhook);
                    let [from, to] = edit_of_state(key, edit);
                    from.entries().iter().any(|entry| {
                        let same = |now: &Entry| now.stage == entry.stage && now.state == entry.state;
                        let package = skyhook.and_then(|skyhook| skyhook.package(&entry.name));
                        package.is_some_and(|package| entry.version == package.version)
                            && !to.entry(&entry.key).is_some_and(same)
                            && !is_uninstalled(skyhook, entry)
                    })
                };
                metadata.annotations.iter().any(rewrites)
            }
            // A pause stops running Jobs, which later start their stage again.
            Change::Metadata(metadata) if target.kind == flavor.into() => {
                let pause = metadata.annotations.get(&flavor.key("pause"));
                let package_runs = cluster.package_runs_for(&target.name);
                flavor.executor() == Executor::Job
                    && pause.is_some_and(|edit| edit.to.as_deref() == Some("true"))
                    && package_runs.all().iter().any(|run| run.skyhook == target.name && run.works())
            }
            _ => false,
        };
        if reruns { Grade::B2 } else { Grade::B1 }
    }

    /// Adds whether a step removes the only record of an installed package, or keeps an uninstall from running.
    fn add_losses(&self, step: &Step, cluster: &Cluster, after: &Cluster, consequences: &mut Consequences) {
        let target = &step.target;
        match &step.change {
            Change::Metadata(metadata) if target.kind == Kind::Node => {
                let lost = |flavor: ApiFlavor, key: &str, edit: &Edit| {
                    let Some(NodeKey::NodeState { skyhook, .. }) = NodeKey::parse(flavor, key) else {
                        return false;
                    };
                    let node = cluster.node(&target.name);
                    // The operator has its own copy of the older API's records that it has adopted.
                    if flavor != cluster.flavor()
                        && node.is_some_and(|node| cluster.migration().is_adopted(node, skyhook))
                    {
                        return false;
                    }
                    let [from, to] = edit_of_state(key, edit);
                    let selects = |owner: &&Skyhook| node.is_some_and(|node| owner.selects(node));
                    let owner = after.skyhook(skyhook).filter(|owner| !owner.deleting()).filter(selects);
                    // The operator records a package that it runs again. Without its entry, a package with an uninstall
                    // counts as uninstalled until then, which may be never while users keep it from running.
                    let again = |entry: &Entry| {
                        owner.is_some_and(|owner| {
                            owner.package(&entry.name).is_some_and(|package| {
                                let runs = owner.is_active()
                                    && !is_ignored(after, &target.name)
                                    && !owner.uninstalls(package);
                                runs || !package.uninstall().enabled
                            })
                        })
                    };
                    let mut entries = from.entries().iter();
                    !from.malformed().is_empty() && edit.to.is_none()
                        || entries.any(|entry| {
                            to.entry(&entry.key).is_none()
                                && !is_uninstalled(cluster.skyhook(skyhook), entry)
                                && !again(entry)
                        })
                };
                let mut edits = metadata.annotations.iter();
                consequences.loses_record |=
                    edits.any(|(key, edit)| ApiFlavor::ALL.iter().any(|flavor| lost(*flavor, key, edit)));
            }
            Change::Finalizer { .. } => {
                let recorded = cluster.tracked(&target.name).any(|(_, on)| !on.entries().is_empty());
                consequences.skips_uninstall |= recorded && !self.replaces(target);
            }
            Change::Delete { .. } => self.add_deletion(target, cluster, after, consequences),
            _ => {}
        }
    }

    /// Adds the effects of deleting a custom resource: changes that remain on hosts, running stages that end, uninstalls that it
    /// waits for, and cordons that are lifted.
    fn add_deletion(
        &self,
        target: &Target,
        cluster: &Cluster,
        after: &Cluster,
        consequences: &mut Consequences,
    ) {
        let flavor = cluster.flavor();
        let older = target.kind == flavor.other().into();
        let skyhooks = if older { &cluster.legacy } else { &cluster.skyhooks };
        let mut skyhooks = skyhooks.iter().filter(|_| older || target.kind == flavor.into());
        let Some(skyhook) = skyhooks.find(|skyhook| skyhook.name() == target.name) else {
            return;
        };
        let name = skyhook.name();
        // The newer operator removes the finalizer of the older API in its first reconcile.
        let acts = !cluster.operator().is_down();
        let gone = if older { acts } else { after.skyhook(name).is_none() };
        if gone {
            let runs = cluster.package_runs_of(if older { flavor.other() } else { flavor });
            let ended = runs.iter().filter(|run| run.skyhook == name && run.works());
            let ended = by_package(ended.map(|run| (run.package.as_str(), run.node)));
            for (package, nodes) in ended.iter().filter(|(package, _)| !package.is_empty()) {
                consequences.warn(format!(
                    "the deletion of {target} terminates running stages of {package} on {}",
                    some_nodes(nodes)
                ));
            }
        }
        if older {
            return;
        }
        // The operator removes the node states with the custom resource.
        consequences.loses_record |= cluster.nodes.ok().is_none();
        let pending = if gone { Vec::new() } else { cluster.pending_uninstalls(skyhook) };
        for stays in stay_on_hosts(cluster, skyhook, &pending) {
            consequences.loses_record = true;
            consequences.cannot_undo(stays);
        }
        let begun = pending.iter().filter(|pending| pending.entry.stage.is_uninstall());
        for (package, nodes) in by_package(begun.map(|pending| (pending.name, pending.node.name.as_str()))) {
            let nodes = some_nodes(nodes);
            consequences.note(format!("waits for the uninstall of {package} on {nodes}, which has begun"));
        }
        let cordons = cluster.tracked(name).filter(|(_, on)| on.cordon).map(|(node, _)| node.name.as_str());
        let cordons = some_nodes(cordons);
        if !cordons.is_empty() {
            consequences
                .note(format!("once {target} is gone, the operator's cordon for it is lifted on {cordons}"));
        }
    }

    /// The nodes of the plan, if it works only on nodes, pods and Jobs, and the nodes are few enough to be
    /// read by name.
    pub fn few_nodes(&self) -> Option<NamedNodes> {
        let work = self.steps().filter(|step| self.is_work(step));
        let on_runs = |kind: Kind| matches!(kind, Kind::Node | Kind::Pod | Kind::Job);
        let mut kinds = work.map(|step| step.target.kind);
        NamedNodes::few(self.nodes().into_iter().map(str::to_owned)).filter(|_| kinds.all(on_runs))
    }

    /// The cluster right after the steps, before the operator acts on them.
    ///
    /// A package that the plan removes from the spec after its uninstall stays in the spec: the uninstall is
    /// the effect to show.
    pub fn carried_out(&self, cluster: &Cluster) -> Cluster {
        let mut after = cluster.clone();
        let mut waited = false;
        let mut gone: BTreeSet<&str> = BTreeSet::new();
        for stage in &self.stages {
            for step in &stage.steps {
                carry_out(&mut after, step, waited);
                let target = &step.target;
                let mut skyhooks = after.skyhooks.iter();
                if target.kind == after.flavor().into() && skyhooks.all(|s| s.name() != target.name) {
                    gone.insert(&target.name);
                }
            }
            waited |= stage.until.is_some();
        }
        let at_once = removed_at_once(&after);
        let skyhooks = after.skyhooks.available_mut();
        skyhooks.into_iter().for_each(|all| all.retain(|skyhook| !at_once.contains(skyhook.name())));
        gone.extend(at_once.iter().map(String::as_str));
        let deleted = self.deleted_runs();
        let rewrites =
            |step: &Step| step.target.kind == Kind::Node && matches!(step.change, Change::Metadata(_));
        if !gone.is_empty() || !deleted.is_empty() || self.steps().any(rewrites) {
            // Kubernetes deletes the Jobs and pods of a custom resource, and the pods of a Job, with their owner.
            let runs = after.package_runs_of(after.flavor()).into_iter();
            let keys: BTreeSet<(String, String)> = runs
                .filter(|run| {
                    gone.contains(run.skyhook.as_str())
                        || is_deleted(run, &deleted)
                        || lost_its_entry(cluster, &after, run)
                })
                .flat_map(|run| {
                    let job = run.job.map(Object::key);
                    job.into_iter().chain(run.pods.into_iter().map(Object::key)).collect::<Vec<_>>()
                })
                .map(|(namespace, name)| (namespace.to_owned(), name.to_owned()))
                .collect();
            let remains =
                |(namespace, name): (&str, &str)| !keys.contains(&(namespace.to_owned(), name.to_owned()));
            after.jobs.available_mut().into_iter().for_each(|jobs| jobs.retain(|job| remains(job.key())));
            after.pods.available_mut().into_iter().for_each(|pods| pods.retain(|pod| remains(pod.key())));
        }
        after.reset_indexes();
        after
    }

    /// The custom resources and nodes of the Jobs and pods that the plan deletes, by their labels.
    pub(super) fn places_of_deleted_runs<'c>(&self, cluster: &'c Cluster) -> BTreeSet<(&'c str, &'c str)> {
        let deleted = self.deleted_runs();
        if deleted.is_empty() {
            return BTreeSet::new();
        }
        let deleted =
            cluster.package_runs_of(cluster.flavor()).into_iter().filter(|run| is_deleted(run, &deleted));
        deleted.filter_map(|run| Some((cluster.skyhook(&run.skyhook)?.name(), run.node))).collect()
    }

    /// Namespace and name of the pods and Jobs that the plan deletes.
    fn deleted_runs(&self) -> BTreeSet<(&str, &str)> {
        self.steps()
            .map(|step| &step.target)
            .filter(|target| matches!(target.kind, Kind::Pod | Kind::Job))
            .map(|target| (target.namespace.as_deref().unwrap_or_default(), target.name.as_str()))
            .collect()
    }
}

/// Whether the Job or a pod of the run is among these.
fn is_deleted(run: &PackageRun<'_>, deleted: &BTreeSet<(&str, &str)>) -> bool {
    let pods = run.pods.iter().map(|pod| pod.key());
    run.job.map(Object::key).into_iter().chain(pods).any(|key| deleted.contains(&key))
}

/// Whether the plan removes the entry that a Job or a pod carries out: the operator then deletes it (operator
/// `ValidateRunningPackages`, which passes over paused custom resources; for Jobs see `pause_guard::warn_of_halt`).
fn lost_its_entry(before: &Cluster, after: &Cluster, run: &PackageRun<'_>) -> bool {
    let is_recorded = |cluster: &Cluster| {
        let node = cluster.node(run.node)?;
        let mut entries = cluster.on_node(node, &run.skyhook)?.entries().iter();
        Some(entries.any(|entry| run.carries_out(entry)))
    };
    let validated = run.job.is_some() && run.alive()
        || run.bare() && after.skyhook(&run.skyhook).is_some_and(|s| !s.paused());
    validated && is_recorded(before) == Some(true) && is_recorded(after) != Some(true)
}

/// What the steps of a plan edit, except its own pauses.
#[derive(Debug, Default)]
struct Edited<'a> {
    /// Custom resources, by name.
    resources: BTreeSet<&'a str>,
    /// Custom resources whose batches change: all of their work starts sooner.
    batches: BTreeSet<&'a str>,
    /// The state of a custom resource on a node, or a stage of it there, by both names.
    places: BTreeSet<(&'a str, &'a str)>,
    /// The places whose packages get another record or run.
    records: BTreeSet<(&'a str, &'a str)>,
    /// Custom resources all of whose work belongs to the plan: it creates or resumes them, or waits until they are gone.
    whole: BTreeSet<&'a str>,
    /// Custom resources that the plan creates.
    created: BTreeSet<&'a str>,
    /// Custom resources and packages whose uninstall the plan awaits.
    awaited: BTreeSet<(&'a str, &'a str)>,
    /// Nodes whose keys or taints concern every custom resource.
    nodes: BTreeSet<&'a str>,
}

impl<'a> Edited<'a> {
    /// Whether the plan edits a custom resource or its state on a node.
    fn touches(&self, skyhook: &str) -> bool {
        self.resources.contains(skyhook) || self.places.iter().any(|(name, _)| *name == skyhook)
    }

    fn of(plan: &'a Plan, cluster: &'a Cluster) -> Edited<'a> {
        let flavor = cluster.flavor();
        let mut edited = Edited::default();
        for step in plan.steps().filter(|step| plan.is_work(step)) {
            let target = step.target.name.as_str();
            match &step.change {
                Change::Metadata(metadata) if step.target.kind == Kind::Node => {
                    let keys = metadata.annotations.keys().chain(metadata.labels.keys());
                    for key in keys.filter_map(|key| NodeKey::parse(flavor, key)) {
                        let Some(skyhook) = key.skyhook() else {
                            edited.nodes.insert(target);
                            continue;
                        };
                        edited.places.insert((skyhook, target));
                        if matches!(key, NodeKey::NodeState { .. }) {
                            edited.records.insert((skyhook, target));
                        }
                    }
                }
                Change::Taints { .. } => drop(edited.nodes.insert(target)),
                change if step.target.kind == flavor.into() => {
                    edited.resources.insert(target);
                    match change {
                        Change::Status(_) => drop(edited.batches.insert(target)),
                        Change::Create(_) => {
                            edited.whole.insert(target);
                            edited.created.insert(target);
                        }
                        Change::Finalizer { .. } => drop(edited.whole.insert(target)),
                        _ => {}
                    }
                }
                _ => {}
            }
        }
        for until in plan.stages.iter().filter_map(|stage| stage.until.as_ref()) {
            let name = until.target.name.as_str();
            match &until.condition {
                Condition::Uninstalled { package: Some(package), .. } => {
                    edited.awaited.insert((name, package));
                }
                Condition::Gone if until.target.kind == flavor.into() => drop(edited.whole.insert(name)),
                _ => {}
            }
        }
        for (skyhook, node) in plan.places_of_deleted_runs(cluster) {
            edited.places.insert((skyhook, node));
            edited.records.insert((skyhook, node));
        }
        edited
    }

    /// Adds custom resources and nodes on which the operator works again: all work there belongs to the plan, also if
    /// another obstacle still delays it.
    fn add_released(&mut self, cluster: &'a Cluster, after: &Cluster) {
        for skyhook in &cluster.skyhooks {
            if is_active(after, skyhook.name()) && !skyhook.is_active() {
                self.whole.insert(skyhook.name());
            }
            let freed = self
                .nodes
                .iter()
                .filter(|node| is_ignored(cluster, node) && !is_ignored(after, node))
                .filter(|node| cluster.node(node).is_some_and(|node| skyhook.selects(node)));
            self.places.extend(freed.map(|node| (skyhook.name(), *node)));
        }
        if self.may_end_a_drain(cluster, after) {
            let held = stopped_by_drains(after);
            self.whole.extend(stopped_by_drains(cluster).into_iter().filter(|name| !held.contains(name)));
        }
    }

    /// Whether a node becomes ignored, or a custom resource is paused or disabled: the operator then drains no longer.
    fn may_end_a_drain(&self, cluster: &Cluster, after: &Cluster) -> bool {
        let mut skyhooks = cluster.skyhooks.iter().filter(|skyhook| skyhook.is_active());
        self.nodes.iter().any(|node| !is_ignored(cluster, node) && is_ignored(after, node))
            || skyhooks.any(|skyhook| !is_active(after, skyhook.name()))
    }

    /// The custom resources whose rollouts the steps may change.
    fn skyhooks<'c>(&self, after: &'c Cluster) -> BTreeSet<&'c str> {
        let concerns = |skyhook: &&Skyhook| {
            let name = skyhook.name();
            let mut nodes = self.nodes.iter().filter_map(|name| after.node(name));
            self.touches(name) || nodes.any(|node| skyhook.selects(node))
        };
        after.skyhooks.iter().filter(concerns).map(Skyhook::name).collect()
    }

    /// The work that starts because of the plan: the operator would not do it `anyway`, or the plan changes the state that
    /// it starts from. With `sooner`, also work that would only start later.
    fn started<'w>(&self, anyway: &WorkByPlace<'_>, then: WorkByPlace<'w>, sooner: bool) -> StartedWork<'w> {
        let mut started = StartedWork::new();
        for (place, mut work) in then {
            if let Some(known) = anyway.get(&place) {
                let sooner = sooner && (work.now && !known.now || self.batches.contains(place.0));
                if !sooner && !self.places.contains(&place) && !self.whole.contains(place.0) {
                    work.packages.retain(|package, kind| {
                        let awaited = self.awaited.contains(&(place.0, package.0));
                        awaited || known.packages.get(package) != Some(kind)
                    });
                }
            }
            if !work.packages.is_empty() {
                started.insert(place, work.packages);
            }
        }
        started
    }
}

fn is_active(cluster: &Cluster, skyhook: &str) -> bool {
    cluster.skyhook(skyhook).is_some_and(Skyhook::is_active)
}

fn is_ignored(cluster: &Cluster, node: &str) -> bool {
    cluster.node(node).is_some_and(|node| node.ignored(cluster.flavor()))
}

/// The packages that run or are uninstalled, with the types of their interrupts, by the names of the custom resource and of the node.
type StartedWork<'a> = BTreeMap<(&'a str, &'a str), BTreeMap<(&'a str, bool), Option<&'a str>>>;

/// The custom resources that the operator continues on no node, because a drain is refused. None if only named nodes were
/// read: the others are done.
fn stopped_by_drains(cluster: &Cluster) -> BTreeSet<&str> {
    if cluster.limited_to_named_nodes {
        return BTreeSet::new();
    }
    let reader = ObstacleReader::new(cluster);
    let mut drains = Model::new(cluster).drains();
    drains.retain(|drain| {
        let on = cluster.on_node(drain.node, drain.skyhook.name());
        let obstacles = reader.of(drain);
        let refused =
            !obstacles.budgets.is_empty() || !obstacles.overlaps.is_empty() || !obstacles.noted.is_empty();
        let goes_on = drain.ignored || on.is_some_and(NodeRecord::drain_timed_out);
        refused && !goes_on && obstacles_end_turn(cluster, &obstacles)
    });
    drains.iter().map(|drain| drain.skyhook.name()).collect()
}

/// The node states of an annotation before and after an edit.
fn edit_of_state(key: &str, edit: &Edit) -> [NodeState; 2] {
    [&edit.from, &edit.to].map(|text| state_of(key, text.as_deref()))
}

/// Adds on which of the shown nodes the work is not started by the plan, but done `anyway`.
fn add_unaffected(anyway: &WorkByPlace<'_>, started: &StartedWork<'_>, effects: &mut [PackageDocument]) {
    for effect in effects.iter_mut().filter(|effect| effect.change != PackageChange::Finish) {
        let is_unaffected = |node: &&String| {
            let place = (effect.skyhook.as_str(), node.as_str());
            let own = |(package, _): &(&str, bool)| *package == effect.package;
            let starts = started.get(&place).is_some_and(|packages| packages.keys().any(own));
            !starts && anyway.get(&place).is_some_and(|work| work.packages.keys().any(own))
        };
        effect.regardless = effect.nodes.iter().filter(is_unaffected).cloned().collect();
    }
}

/// The custom resources that the next reconcile removes.
fn removed_at_once(after: &Cluster) -> BTreeSet<String> {
    if after.nodes.ok().is_none() || !after.skyhooks.iter().any(Skyhook::deleting) {
        return BTreeSet::new();
    }
    let model = Model::new(after);
    after.skyhooks.iter().map(Skyhook::name).filter(|name| model.finalizes(name)).map(str::to_owned).collect()
}

/// The nodes by package, each once.
fn by_package<'a, P: Ord>(pairs: impl Iterator<Item = (P, &'a str)>) -> BTreeMap<P, BTreeSet<&'a str>> {
    let mut nodes_by_package: BTreeMap<P, BTreeSet<&str>> = BTreeMap::new();
    for (package, node) in pairs {
        nodes_by_package.entry(package).or_default().insert(node);
    }
    nodes_by_package
}

/// The changes to hosts that a deletion leaves, in words.
fn stay_on_hosts(cluster: &Cluster, skyhook: &Skyhook, pending: &[Pending<'_>]) -> Vec<String> {
    let pending: BTreeSet<(&str, &str)> =
        pending.iter().map(|pending| (&*pending.node.name, pending.entry.key.as_ref())).collect();
    let entries = cluster
        .tracked(skyhook.name())
        .flat_map(|(node, on)| on.entries().iter().map(move |entry| (&*node.name, entry)));
    let stays = entries.filter(|(node, entry)| !pending.contains(&(*node, entry.key.as_ref())));
    let by_package = by_package(stays.map(|(node, entry)| (entry.identity(), node)));
    let sentence = |((name, version), nodes): (_, BTreeSet<&str>)| {
        format!(
            "changes that {name} {version} of {skyhook} made to the hosts of {} remain, because the package is not uninstalled",
            some_nodes(nodes)
        )
    };
    by_package.into_iter().map(sentence).collect()
}
