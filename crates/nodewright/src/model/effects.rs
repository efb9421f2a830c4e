//! Effects of an edit: which packages change on which nodes, how many at once, and which custom resources
//! wait.

mod moments;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use moments::Moments;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::on_nodes::knows_workloads_on;
use super::profile::replaces_changed_pods;
use super::resource::Resource;
use super::timeline::{Happening, Moment, Stuck, Timeline};
use super::work::first_obstacle;
use super::{Model, WaitReason};
use crate::api::skyhook::BatchState;
use crate::api::{ApiFlavor, Package, Skyhook, Stage};
use crate::cluster::drain::EvictionBlock;
use crate::cluster::{Cluster, DisruptionBudget, Node, PackageRun, Pod, Source};

/// The effects of an edit on one custom resource.
#[derive(Debug, Default)]
pub struct Effects<'a> {
    pub skyhook: &'a str,
    /// The effects by package, sorted by name; includes packages that were removed from the spec.
    pub packages: Vec<PackageDocument>,
    /// The effects on nodes.
    pub rollout: RolloutDocument,
    /// PodDisruptionBudgets that refuse evictions now, sorted by path, with the affected nodes. Empty if the
    /// operator deletes pods instead of evicting them.
    pub refusing: Vec<(&'a DisruptionBudget, BTreeSet<&'a str>)>,
    /// Why the rollout never finishes; `None` if it does. If only some nodes were read, only a pause, a
    /// disable or a halt of the operator is known.
    pub stuck: Option<WaitReason<'a>>,
    /// A node to which `stuck` applies; `None` if it applies to the whole custom resource.
    pub stuck_on: Option<&'a Node>,
    /// Whether a drain that the rollout waits for is refused, which is then the first obstacle.
    pub drain_refused: bool,
    /// A required source that was not read; the other fields are unknown then.
    pub unread: Option<Source>,
}

/// The effect of an edit on a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PackageChange {
    /// The package was not edited, and no stage runs.
    Unchanged,
    /// The package was edited, but no stage runs: complete nodes stay complete.
    WithoutEffect,
    /// A stage that runs finishes, and nothing starts: the custom resource is paused or disabled.
    Finish,
    /// The package is installed, or its installation continues.
    Install,
    /// The package runs again at the version that is installed.
    Reinstall,
    /// An uninstall that has started is canceled, and the package is installed again.
    CancelUninstall,
    /// The package changes from one version to another.
    Upgrade,
    /// The package changes to a lower version: the operator installs it like a new package.
    Downgrade,
    /// Only the package's configuration is applied again.
    Configure,
    /// Only the package's interrupt runs, with the stages after it.
    Interrupt,
    /// The package is uninstalled.
    Uninstall,
    /// The package was removed from the spec and stays installed.
    LeftSpec,
    /// The package was removed from the spec, and no node has it.
    Removed,
    /// No node has the package, and no stage runs.
    NotInstalled,
}

/// The effects of an edit on these custom resources. `live` is the cluster before the edit, `edited` the
/// cluster after it. Custom resources that are missing in `edited` are omitted. Empty if the nodes were not
/// read.
pub fn effects<'a>(live: &'a Cluster, edited: &'a Cluster, skyhooks: &[impl AsRef<str>]) -> Vec<Effects<'a>> {
    match edited.nodes.ok() {
        Some(_) => Simulation::new(edited).effects(live, edited, skyhooks),
        None => Vec::new(),
    }
}

impl<'a> Simulation<'a> {
    /// [`effects()`], from the simulation of the `edited` cluster.
    pub fn effects(
        &self,
        live: &'a Cluster,
        edited: &'a Cluster,
        skyhooks: &[impl AsRef<str>],
    ) -> Vec<Effects<'a>> {
        let model = Model::new(edited);
        let timeline = &self.timeline;
        let known = skyhooks.iter().filter_map(|name| model.resource(name.as_ref()));
        let known =
            known.map(|resource| at_first(&model, resource, timeline.stuck.get(resource.skyhook.name())));
        let mut all: Vec<Effects<'a>> = known.collect();
        let pods = edited.evictions().pods_by_node();
        for effects in &mut all {
            if effects.unread.is_none() && is_config_map_unread(live, edited, effects.skyhook) {
                effects.unread = Some(Source::ConfigMaps);
            }
            if effects.unread.is_some() {
                continue;
            }
            let own = Moments::of(timeline, live, edited, effects.skyhook);
            let was = live.skyhook(effects.skyhook);
            let is = edited.skyhook(effects.skyhook);
            let (before, after) = (was.into_iter(), is.into_iter());
            let packages: BTreeSet<&str> =
                before.chain(after).flat_map(Skyhook::packages).map(|(name, _)| name).collect();
            for name in packages {
                let package = |skyhook: Option<&'a Skyhook>| skyhook.and_then(|s| s.package(name));
                let kind = self.interrupts.get(&(effects.skyhook, name)).copied();
                effects.packages.extend(own.package(name, package(was), package(is), kind));
            }
            let leaves = |node: &&Node| {
                was.is_some_and(|s| s.selects(node))
                    && is.is_some_and(|s| !s.selects(node))
                    && live.on_node(node, effects.skyhook).is_some()
            };
            // Runs on nodes that are not selected are not validated.
            let validated = |run: &PackageRun<'a>, skyhook: Option<&'a Skyhook>| {
                let node = edited.node(run.node)?;
                skyhook.filter(|skyhook| skyhook.is_active() && skyhook.selects(node))
            };
            let outdated = |run: &PackageRun<'a>, skyhook| {
                validated(run, skyhook).is_some_and(|skyhook| model.runs.outdated(run, skyhook))
            };
            // Operator `podMatchesPackage`.
            let pod = |run: &PackageRun<'a>, skyhook| {
                let package = validated(run, skyhook)?.package(&run.package)?;
                Some(["image", "containerSHA", "env", "resources"].map(|field| package.whole.get(field)))
            };
            let replaced = |run: &PackageRun<'a>| {
                let changed = || pod(run, was).zip(pod(run, is)).is_some_and(|(was, is)| was != is);
                replaces_changed_pods(edited) && run.alive() && !run.interrupt && changed()
            };
            let ended = model
                .runs
                .all
                .of(effects.skyhook)
                .filter(|run| outdated(run, is) && !outdated(run, was) || replaced(run));
            let cordoned = own.cordoned();
            if is.is_some_and(|is| is.spec.drain_config.disable_eviction != Some(true)) {
                effects.refusing = refusing(edited, &pods, &cordoned);
            }
            let rollout = &mut effects.rollout;
            rollout.deselected = names(live.nodes.iter().filter(leaves));
            let nodes: BTreeSet<&str> = ended.map(|run| run.node).collect();
            rollout.stopped = nodes.into_iter().map(str::to_owned).collect();
            rollout.cordoned = names(cordoned.iter().copied());
            rollout.interrupted_uncordoned = names(own.interrupted_uncordoned());
            rollout.untainted = names(timeline.untainted(&model, effects.skyhook));
            rollout.evicted_pods = knows_workloads_on(live, &cordoned).then(|| own.evicted());
            let remaining = timeline.remaining(effects.skyhook).filter(|_| !edited.limited_to_named_nodes);
            (rollout.estimate, rollout.uncertainty) =
                remaining.map(|remaining| (remaining.seconds, remaining.uncertainty)).unzip();
            let estimate = rollout.estimate;
            if edited.limited_to_named_nodes {
                // Order and time depend on nodes that were not read.
                effects.packages.iter_mut().for_each(|p| p.at_once = None);
            }
            let stopped = matches!(effects.stuck, Some(WaitReason::Paused | WaitReason::Disabled));
            // Since v0.18 a pause suspends Jobs.
            let suspended =
                edited.flavor() == ApiFlavor::NodeWright && matches!(effects.stuck, Some(WaitReason::Paused));
            if stopped {
                let runs = edited.package_runs_for(effects.skyhook);
                // Whether a stage goes on there is not known.
                let is_known =
                    |run: &PackageRun<'_>| edited.node(run.node).is_some_and(|node| !node.is_silent());
                let running: Vec<&PackageRun<'_>> =
                    runs.all().iter().filter(|run| !suspended && run.works() && is_known(run)).collect();
                effects.packages.iter_mut().for_each(|package| package.stop(&running));
            }
            for package in &mut effects.packages {
                package.estimate = estimate.filter(|_| !package.nodes.is_empty());
            }
            let mut edits = effects.packages.iter();
            let waits = stopped
                && edits
                    .any(|p| matches!(p.change, PackageChange::WithoutEffect | PackageChange::NotInstalled));
            let never_ends = timeline.stuck.contains_key(effects.skyhook);
            if !waits && !never_ends {
                effects.stuck = None;
            }
            // A batch may wait for the drain, and an ignore label is intended.
            let first = matches!(
                effects.stuck,
                None | Some(WaitReason::Batch { .. } | WaitReason::Drain(_) | WaitReason::Ignored)
            ) && never_ends;
            let refused = timeline.refused.get(effects.skyhook);
            let refused_first = refused.filter(|_| first);
            effects.drain_refused = refused_first.is_some();
            effects.stuck_on = refused_first.map(|refused| refused.node).or(effects.stuck_on);
            let why = effects.stuck.as_ref().map(|stuck| words(stuck, effects.stuck_on));
            let rollout = &mut effects.rollout;
            rollout.stuck = refused_first.map(ToString::to_string).or(why);
            // How many nodes wait with a refused drain is not known: the simulation goes on.
            let known = refused.is_none() && effects.stuck_on.is_some() && rollout.stuck.is_some();
            rollout.incomplete_nodes = rollout.incomplete_nodes.filter(|nodes| *nodes > 0 && known);
            let refusing = effects.refusing.iter().map(|(budget, nodes)| RefusingBudget {
                budget: budget.path(),
                nodes: nodes.iter().copied().map(str::to_owned).collect(),
            });
            rollout.refusing_budgets = refusing.collect();
        }
        all
    }
}

impl<'a> Timeline<'a> {
    /// The nodes that lose the runtime-required taint: every custom resource that requires it is complete on them
    /// (operator `HandleRuntimeRequired`).
    fn untainted(&self, model: &Model<'a>, skyhook: &str) -> Vec<&'a Node> {
        let requiring: Vec<&Resource<'a>> =
            model.resources.iter().filter(|resource| resource.skyhook.spec.runtime_required).collect();
        let Some(own) = requiring.iter().find(|resource| resource.skyhook.name() == skyhook) else {
            return Vec::new();
        };
        let completions = self.moments.iter().filter(|moment| moment.what == Happening::Complete);
        let completions: BTreeSet<_> = completions.map(|m| (m.skyhook, m.node.name.as_str())).collect();
        let completes = |resource: &Resource<'a>, node: &Node| {
            let complete = resource.index(&node.name).is_none_or(|at| resource.places[at].complete);
            complete || completions.contains(&(resource.skyhook.name(), node.name.as_str()))
        };
        let removes = |node: &&&Node| {
            model.cluster.runtime_required().on(node).is_some()
                && requiring.iter().all(|resource| completes(resource, node))
        };
        own.nodes.iter().filter(removes).copied().collect()
    }
}

/// The effects that follow from one reconcile, and from the end of the simulation.
fn at_first<'a>(model: &Model<'a>, resource: &Resource<'a>, end: Option<&Stuck<'a>>) -> Effects<'a> {
    let sizes = resource.compartments.iter().map(|c| {
        // Reset the counters: the recorded ones belong to a rollout that is over.
        let fresh = BatchState { completed_nodes: 0, failed_nodes: 0, ..c.state.clone() };
        c.batch_size(c.members.len() as i64, &fresh)
    });
    let skyhook = resource.skyhook.name();
    let partial = model.cluster.limited_to_named_nodes;
    let (stuck, stuck_on) = match (stop(model, resource), end) {
        (None, Some(end)) if !partial && end.open > 0 => {
            let at_first = || first_obstacle(model, resource, model.all_progress(skyhook));
            end.obstacle.clone().or_else(at_first).unzip()
        }
        (stop, _) => (stop, None),
    };
    let waiting = model.waiting_for(skyhook).into_iter().filter(|_| !partial);
    let rollout = RolloutDocument {
        skyhook: skyhook.to_owned(),
        batch: (!partial).then(|| sizes.sum()),
        // The operator chooses nodes in the arbitrary order of its cache, even before its cache shows the nodes that it
        // has just chosen (operator v0.17, `BuildState`, `createNewBatch`: twice the budget in 3 of 20 runs of the
        // scenario `edit_effects`). Nodes of a deployment policy are sorted.
        batches_may_overlap: resource.skyhook.spec.deployment_policy.is_empty(),
        waiting: waiting.map(str::to_owned).collect(),
        incomplete_nodes: end.map(|end| end.open).filter(|_| !partial),
        ..RolloutDocument::default()
    };
    Effects { skyhook, rollout, stuck, stuck_on, unread: unread(model, skyhook), ..Effects::default() }
}

/// A source that was not read, so that the progress on some node is unknown. Ignores nodes that were not
/// named: they only affect the order.
fn unread(model: &Model<'_>, skyhook: &str) -> Option<Source> {
    model.all_progress(skyhook).map(|(_, p)| p.reason).find_map(|reason| match reason {
        WaitReason::Unread(Source::Nodes) if model.cluster.limited_to_named_nodes => None,
        WaitReason::Unread(source) => Some(source),
        _ => None,
    })
}

/// Whether a configMap was edited, but the ConfigMaps with which the operator compares it were not read.
fn is_config_map_unread(live: &Cluster, edited: &Cluster, skyhook: &str) -> bool {
    let (Some(was), Some(is)) = (live.skyhook(skyhook), edited.skyhook(skyhook)) else {
        return false;
    };
    let is_edited = |(name, package): (&str, &Package)| {
        was.package(name).is_some_and(|was| was.config_map != package.config_map)
    };
    edited.config_maps.ok().is_none() && is.packages().any(is_edited)
}

/// The budgets that refuse to evict pods of these nodes now.
fn refusing<'a>(
    cluster: &'a Cluster,
    pods: &HashMap<&str, Vec<&Pod>>,
    nodes: &[&'a Node],
) -> Vec<(&'a DisruptionBudget, BTreeSet<&'a str>)> {
    let mut refusing: BTreeMap<String, (&DisruptionBudget, BTreeSet<&str>)> = BTreeMap::new();
    for node in nodes {
        for pod in pods.get(node.name.as_str()).into_iter().flatten() {
            let budgets = match cluster.evictions().block(pod) {
                Some(EvictionBlock::Budget(budget)) => vec![budget],
                Some(EvictionBlock::Overlap(budgets)) => budgets,
                None => Vec::new(),
            };
            for budget in budgets {
                let (_, nodes) = refusing.entry(budget.path()).or_insert((budget, BTreeSet::new()));
                nodes.insert(node.name.as_str());
            }
        }
    }
    refusing.into_values().collect()
}

impl<'a> Model<'a> {
    /// The custom resources that wait for this one, on a node or everywhere.
    pub fn waiting_for(&self, skyhook: &str) -> Vec<&'a str> {
        let named = |at: usize| self.resources.get(at).is_some_and(|r| r.skyhook.name() == skyhook);
        let waits = |resource: &&Resource<'a>| {
            let everywhere = resource.gate.is_some_and(|(first, _)| first.name() == skyhook);
            let mut open = resource.places.iter().filter(|place| !place.complete);
            everywhere || open.any(|place| named(usize::from(place.earlier)))
        };
        self.resources.iter().filter(waits).map(|resource| resource.skyhook.name()).collect()
    }
}

/// Why the custom resource does not progress on any node.
fn stop<'a>(model: &Model<'a>, resource: &Resource<'a>) -> Option<WaitReason<'a>> {
    let annotated = match resource {
        resource if resource.paused => Some(WaitReason::Paused),
        resource => resource.disabled.then_some(WaitReason::Disabled),
    };
    model.halt.clone().or(annotated)
}

/// All rollouts of a cluster, simulated to their end.
pub struct Simulation<'a> {
    timeline: Timeline<'a>,
    /// The type of the interrupt of a package, by custom resource and package.
    interrupts: HashMap<(&'a str, &'a str), &'a str>,
}

/// The work of the operator for a custom resource on a node.
#[derive(Debug, Default)]
pub struct Work<'a> {
    /// The packages that run, and whether they are uninstalled, with the type of the interrupt that they cause on the
    /// node.
    pub packages: BTreeMap<(&'a str, bool), Option<&'a str>>,
    /// Whether the operator starts with it now, before anything else has finished.
    pub now: bool,
}

/// [`Work`] by the names of the custom resource and of the node.
pub type WorkByPlace<'a> = BTreeMap<(&'a str, &'a str), Work<'a>>;

impl<'a> Simulation<'a> {
    /// The rollouts if nobody intervenes.
    pub fn new(cluster: &'a Cluster) -> Simulation<'a> {
        Simulation::of(Model::new(cluster))
    }

    /// The rollouts without pauses, disables, ignore labels, stopped rollouts and earlier custom resources, and with a
    /// running operator: the work that follows once they end.
    pub fn unhindered(cluster: &'a Cluster) -> Simulation<'a> {
        Simulation::of(Model::unhindered(cluster))
    }

    fn of(model: Model<'a>) -> Simulation<'a> {
        let interrupts = model.resources.iter().flat_map(|resource| {
            resource.packages.iter().filter_map(|p| Some(((resource.skyhook.name(), p.name), p.interrupt?)))
        });
        Simulation { interrupts: interrupts.collect(), timeline: model.timeline() }
    }

    /// Whether the rollout of a custom resource does not finish.
    pub fn is_stuck(&self, skyhook: &str) -> bool {
        self.timeline.stuck.contains_key(skyhook)
    }

    /// Whether a drain for the custom resource itself is refused, or timed out, until somebody intervenes.
    pub fn is_refused(&self, skyhook: &str) -> bool {
        self.timeline.refused.get(skyhook).is_some_and(|refused| refused.skyhook == skyhook)
    }

    /// Without the stages that start only after an intervention. A package that starts nowhere before one keeps its stages, so
    /// that a preview still names it.
    #[must_use]
    pub fn until_intervention(mut self) -> Simulation<'a> {
        let package = |moment: &Moment<'a>| match moment.what {
            Happening::Start { package, .. } => Some((moment.skyhook, package)),
            _ => None,
        };
        let moments = &mut self.timeline.moments;
        let starting: BTreeSet<_> = moments.iter().filter(|m| !m.assumed).filter_map(package).collect();
        moments.retain(|m| !m.assumed || package(m).is_none_or(|package| !starting.contains(&package)));
        let places: BTreeSet<_> =
            moments.iter().filter(|m| package(m).is_some()).map(|m| (m.skyhook, &*m.node.name)).collect();
        moments.retain(|m| !m.assumed || places.contains(&(m.skyhook, &*m.node.name)));
        self
    }

    /// The operator's work on each node before somebody has to intervene.
    pub fn work(&self) -> WorkByPlace<'a> {
        let mut work = WorkByPlace::new();
        for moment in self.timeline.moments.iter().filter(|moment| !moment.assumed) {
            let place = (moment.skyhook, moment.node.name.as_str());
            let package = match &moment.what {
                Happening::Complete => continue,
                Happening::Cordon { .. } => None,
                Happening::Start { package, stage } => Some((*package, stage)),
            };
            let here: &mut Work<'a> = work.entry(place).or_default();
            here.now |= moment.at_once;
            if let Some((package, stage)) = package {
                let kind = self.interrupts.get(&(moment.skyhook, package)).copied();
                let known = here.packages.entry((package, stage.is_uninstall())).or_default();
                *known = known.or(kind.filter(|_| stage.is_interrupt()));
            }
        }
        work
    }
}

/// The effects of an edit on one package of a custom resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PackageDocument {
    /// The custom resource.
    pub skyhook: String,
    /// The package.
    pub package: String,
    /// The kind of effect.
    pub change: PackageChange,
    /// The old version; absent unless `change` is `Upgrade` or `Downgrade`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The new version; absent unless `change` is `Upgrade` or `Downgrade`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Nodes on which stages run, in the order in which they start.
    pub nodes: Vec<String>,
    /// Of these nodes, those on which the package runs regardless of the change; absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub regardless: Vec<String>,
    /// Stages that run, in this order.
    pub stages: Vec<String>,
    /// The type of the package's interrupt, such as `reboot`; absent if the nodes are not interrupted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupt: Option<String>,
    /// Maximum number of these nodes at work at the same time, or twice as many where `batchesMayOverlap`; absent if only some
    /// nodes were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_once: Option<usize>,
    /// Estimated time in seconds until the whole custom resource is complete; absent if no stage runs or the
    /// time is unknown.
    #[serde(rename = "estimateSeconds", skip_serializing_if = "Option::is_none")]
    pub estimate: Option<f64>,
}

/// The effects of an edit on the nodes of a custom resource.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutDocument {
    /// The custom resource.
    pub skyhook: String,
    /// Number of nodes in one batch, summed over all compartments; absent if only some nodes were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<usize>,
    /// Whether a second batch may start beside the first: without a deploymentPolicy, the operator chooses nodes in no
    /// fixed order, also before it sees which it has just chosen.
    #[serde(default)]
    pub batches_may_overlap: bool,
    /// Nodes that are no longer selected: packages, cordons and taints stay on them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deselected: Vec<String>,
    /// Nodes on which the operator deletes the Jobs and pods of running stages, because the change outdates them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stopped: Vec<String>,
    /// Nodes that are cordoned.
    pub cordoned: Vec<String>,
    /// Nodes that are interrupted before they are cordoned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interrupted_uncordoned: Vec<String>,
    /// Nodes that lose the runtime-required taint once they are complete.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub untainted: Vec<String>,
    /// Number of pods evicted from these nodes; absent if their pods were not read, as in a capture of
    /// `collect`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evicted_pods: Option<usize>,
    /// PodDisruptionBudgets that refuse evictions now.
    pub refusing_budgets: Vec<RefusingBudget>,
    /// Custom resources that wait for this one, on shared nodes or everywhere.
    pub waiting: Vec<String>,
    /// Why the rollout never completes; absent if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stuck: Option<String>,
    /// Number of nodes on which the rollout never completes; absent if it does, if `stuck` applies to all nodes, and if
    /// only some nodes were read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete_nodes: Option<usize>,
    /// Estimated time in seconds until the custom resource is complete; absent if unknown.
    #[serde(rename = "estimateSeconds", skip_serializing_if = "Option::is_none")]
    pub estimate: Option<f64>,
    /// Relative uncertainty of the estimate, such as 0.5 if the time may be half as long again, or shorter by the same
    /// factor; absent without an estimate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncertainty: Option<f64>,
}

/// A PodDisruptionBudget that refuses evictions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RefusingBudget {
    /// The budget, as `NAMESPACE/NAME`.
    pub budget: String,
    /// The cordoned nodes with pods that the budget protects.
    pub nodes: Vec<String>,
}

impl PackageDocument {
    /// Replaces the stages that would start by those of these runs: the custom resource is paused or disabled.
    fn stop(&mut self, runs: &[&PackageRun<'_>]) {
        let starts = !self.nodes.is_empty();
        self.nodes.clear();
        self.stages.clear();
        for run in runs.iter().filter(|run| run.package == self.package) {
            self.nodes.push(run.node.to_owned());
            self.stages.extend(Some(run.stage.to_string()).filter(|stage| !self.stages.contains(stage)));
        }
        if !self.nodes.is_empty() {
            self.change = PackageChange::Finish;
        } else if starts {
            self.change = PackageChange::Unchanged;
        }
    }

    /// Whether the change starts on more nodes than a batch holds: the operator starts it on all nodes,
    /// regardless of the batch (operator `HandleVersionChange`, `HandleConfigUpdates`,
    /// `HandleUninstallRequests`, `HandleCancelledUninstalls`).
    pub fn exceeds_budget(&self, rollout: &RolloutDocument) -> bool {
        let everywhere = matches!(
            self.change,
            PackageChange::Configure | PackageChange::Uninstall | PackageChange::CancelUninstall
        ) || self.stages.contains(&Stage::Upgrade.to_string());
        let exceeds = |(at_once, batch): (usize, usize)| at_once > batch;
        everywhere && self.at_once.zip(rollout.batch).is_some_and(exceeds)
    }
}

/// Why a rollout never completes, with the node if the reason names none.
fn words(reason: &WaitReason<'_>, node: Option<&Node>) -> String {
    match (reason, node) {
        (WaitReason::Ignored, Some(node)) => format!("{node} is ignored"),
        (WaitReason::Earlier { skyhook, everywhere: false, .. }, Some(node)) => {
            format!("{skyhook} runs first on {node}")
        }
        (WaitReason::ProtectedPod(pod), Some(node)) => format!("{pod} forbids the interrupt of {node}"),
        (WaitReason::Stage { package, stage }, Some(node)) => {
            format!("stage {stage} of {package} fails on {node}")
        }
        (
            WaitReason::Taint(_)
            | WaitReason::Dependency { .. }
            | WaitReason::NeverScheduled(_)
            | WaitReason::GivenUp { .. },
            Some(node),
        ) => format!("{reason} on {node}"),
        (WaitReason::Batch { node: None, .. }, _) => "no node of the next batch can start".to_owned(),
        _ => reason.to_string(),
    }
}

fn names<'n>(nodes: impl IntoIterator<Item = &'n Node>) -> Vec<String> {
    nodes.into_iter().map(|node| node.name.to_string()).collect()
}
