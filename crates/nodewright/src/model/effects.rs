//! Effects of an edit: which packages change on which nodes, how many at once, and which custom resources
//! wait.

mod moments;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use moments::Moments;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::action::ProgressState;
use super::on_nodes::knows_workloads_on;
use super::resource::Resource;
use super::timeline::{Happening, Remaining, Timeline};
use super::{Model, WaitReason};
use crate::api::skyhook::BatchState;
use crate::api::{ApiFlavor, Package, Skyhook, Stage, State};
use crate::cluster::drain::EvictionBlock;
use crate::cluster::{Cluster, DisruptionBudget, Node, PackageRun, Pod, Source};

/// The effects of an edit on one custom resource.
#[derive(Debug, Default)]
pub struct Effects<'a> {
    pub skyhook: &'a str,
    /// The effects by package, sorted by name; includes packages that were removed from the spec.
    pub packages: Vec<PackageDocument>,
    /// Nodes that are no longer selected; the operator changes nothing on them.
    pub deselected: Vec<&'a Node>,
    /// The nodes that are cordoned.
    pub cordoned: Vec<&'a Node>,
    /// Nodes that are interrupted before they are cordoned.
    pub interrupted_uncordoned: Vec<&'a Node>,
    /// Nodes that lose the runtime-required taint.
    pub untainted: Vec<&'a Node>,
    /// Number of pods that are evicted from the cordoned nodes; `None` if their pods were not read.
    pub evicted: Option<usize>,
    /// PodDisruptionBudgets that refuse evictions now, sorted by path, with the affected nodes. Empty if the
    /// operator deletes pods instead of evicting them.
    pub refusing: Vec<(&'a DisruptionBudget, BTreeSet<&'a str>)>,
    /// Number of nodes in one batch, summed over all compartments; `None` if only some nodes were read.
    pub allowed: Option<usize>,
    /// Whether a second batch may start beside the first. With `interruptionBudget` alone, the operator chooses nodes in the
    /// arbitrary order of its cache, even before its cache shows the nodes that it has just chosen (operator v0.17,
    /// `BuildState`, `createNewBatch`: twice the budget in 3 of 20 runs of the scenario `edit_effects`). Nodes of a deployment policy are sorted.
    pub overlapping: bool,
    /// Custom resources that wait for this one, on shared nodes or everywhere.
    pub waiting: Vec<&'a str>,
    /// Why the rollout never finishes; `None` if it does. If only some nodes were read, only a pause, a
    /// disable or a halt of the operator is known.
    pub stuck: Option<WaitReason<'a>>,
    /// The nodes on which the rollout never finishes; `None` if only some nodes were read.
    pub incomplete: Option<usize>,
    /// A node to which `stuck` applies; `None` if it applies to the whole custom resource.
    pub stuck_on: Option<&'a Node>,
    /// Why a drain that the rollout waits for is refused, which is then the first obstacle.
    pub refused_drain: Option<String>,
    /// A required source that was not read; the other fields are unknown then.
    pub unread: Option<Source>,
    pub remaining: Option<Remaining>,
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
        let known = skyhooks.iter().filter_map(|name| model.resource(name.as_ref()));
        let mut all: Vec<Effects<'a>> = known.map(|resource| at_first(&model, resource)).collect();
        let timeline = &self.timeline;
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
            let names: BTreeSet<&str> =
                before.chain(after).flat_map(Skyhook::packages).map(|(name, _)| name).collect();
            for name in names {
                let package = |skyhook: Option<&'a Skyhook>| skyhook.and_then(|s| s.package(name));
                let kind = self.interrupts.get(&(effects.skyhook, name)).copied();
                effects.packages.extend(own.package(name, package(was), package(is), kind));
            }
            let leaves = |node: &&Node| {
                was.is_some_and(|s| s.selects(node))
                    && is.is_some_and(|s| !s.selects(node))
                    && live.on_node(node, effects.skyhook).is_some()
            };
            effects.deselected = live.nodes.iter().filter(leaves).collect();
            effects.cordoned = own.cordoned();
            effects.interrupted_uncordoned = own.interrupted_uncordoned();
            effects.untainted = timeline.untainted(&model, effects.skyhook);
            let known = knows_workloads_on(live, &effects.cordoned);
            effects.evicted = known.then(|| own.evicted());
            if is.is_some_and(|is| is.spec.drain_config.disable_eviction != Some(true)) {
                effects.refusing = refusing(edited, &pods, &effects.cordoned);
            }
            effects.remaining = timeline.remaining(effects.skyhook);
            let completions = timeline
                .moments
                .iter()
                .filter(|moment| moment.skyhook == effects.skyhook && moment.what == Happening::Complete)
                .count();
            effects.incomplete = effects.incomplete.map(|open| open.saturating_sub(completions));
            if edited.limited_to_named_nodes {
                // Order and time depend on nodes that were not read.
                effects.remaining = None;
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
            let estimate = effects.remaining.map(|remaining| remaining.seconds);
            for package in &mut effects.packages {
                package.estimate = estimate.filter(|_| !package.nodes.is_empty());
            }
            let mut edits = effects.packages.iter();
            let waits = stopped
                && edits
                    .any(|p| matches!(p.change, PackageChange::WithoutEffect | PackageChange::NotInstalled));
            if !waits && !timeline.stuck.contains(&effects.skyhook) {
                effects.stuck = None;
            }
            // A batch may wait for the drain, and an ignore label is intended.
            let first = matches!(
                effects.stuck,
                None | Some(WaitReason::Batch { .. } | WaitReason::Drain(_) | WaitReason::Ignored)
            ) && timeline.stuck.contains(&effects.skyhook);
            if let Some(refused) = timeline.refused.get(effects.skyhook).filter(|_| first) {
                effects.stuck_on = Some(refused.node);
                effects.refused_drain = Some(refused.to_string());
                // How many nodes wait with it is not known: the simulation goes on.
                effects.incomplete = None;
            }
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

/// The effects that can be computed without a timeline.
fn at_first<'a>(model: &Model<'a>, resource: &Resource<'a>) -> Effects<'a> {
    let sizes = resource.compartments.iter().map(|c| {
        // Reset the counters: the recorded ones belong to a rollout that is over.
        let fresh = BatchState { completed_nodes: 0, failed_nodes: 0, ..c.state.clone() };
        c.batch_size(c.members.len() as i64, &fresh)
    });
    let skyhook = resource.skyhook.name();
    let partial = model.cluster.limited_to_named_nodes;
    let (stuck, stuck_on) = stuck(model, resource).unzip();
    Effects {
        skyhook,
        allowed: (!partial).then(|| sizes.sum()),
        overlapping: resource.skyhook.spec.deployment_policy.is_empty(),
        waiting: if partial { Vec::new() } else { model.waiting_for(skyhook) },
        stuck,
        incomplete: (!partial)
            .then(|| resource.places.iter().filter(|place| resource.is_open(place)).count()),
        stuck_on: stuck_on.flatten(),
        unread: unread(model, skyhook),
        ..Effects::default()
    }
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

/// Why the custom resource does not progress on some node, and that node. A reason that applies to all nodes comes first,
/// and the batch last: it follows from other nodes.
fn stuck<'a>(model: &Model<'a>, resource: &Resource<'a>) -> Option<(WaitReason<'a>, Option<&'a Node>)> {
    if let Some(halt) = &model.halt {
        return Some((halt.clone(), None));
    }
    if resource.paused {
        return Some((WaitReason::Paused, None));
    }
    if resource.disabled {
        return Some((WaitReason::Disabled, None));
    }
    if model.cluster.limited_to_named_nodes {
        return None;
    }
    let name = resource.skyhook.name();
    // After a wait for its batch, a stage that fails fails again.
    let failing = |node: &Node| {
        let mut entries = model.cluster.on_node(node, name)?.entries().iter();
        let entry = entries.find(|entry| entry.state == State::Erroring)?;
        Some(WaitReason::Stage { package: entry.name.to_string(), stage: entry.stage.clone() })
    };
    let ranked = |node: &'a Node, progress: ProgressState, reason: WaitReason<'a>| {
        let (rank, reason) = match (progress, &reason) {
            (ProgressState::Blocked | ProgressState::Suspended, _) | (_, WaitReason::Taint(_)) => (0, reason),
            // It may succeed this time.
            (ProgressState::Running, _) => (1, failing(node)?),
            (ProgressState::Waiting, WaitReason::Batch { node: None, .. }) => (4, reason),
            (ProgressState::Waiting, WaitReason::Batch { .. }) => (3, reason),
            (ProgressState::Waiting, WaitReason::BatchSibling(_)) => match failing(node) {
                Some(failing) => (0, failing),
                None => (3, reason),
            },
            (ProgressState::Waiting, _) => (2, reason),
            _ => return None,
        };
        Some((rank, reason, node))
    };
    let waits = model.all_progress(name).filter_map(|(node, p)| ranked(node, p.state, p.reason));
    waits.min_by_key(|(rank, ..)| *rank).map(|(_, reason, node)| (reason, Some(node)))
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
        self.timeline.stuck.contains(&skyhook)
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
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

impl Effects<'_> {
    /// Why the rollout never completes, with the node if the reason names none.
    pub fn why_stuck(&self) -> Option<String> {
        if self.refused_drain.is_some() {
            return self.refused_drain.clone();
        }
        let reason = self.stuck.as_ref()?;
        Some(match (reason, self.stuck_on) {
            (WaitReason::Ignored, Some(node)) => format!("{node} is ignored"),
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
        })
    }

    pub fn rollout(&self) -> RolloutDocument {
        let refusing = self.refusing.iter().map(|(budget, nodes)| RefusingBudget {
            budget: budget.path(),
            nodes: owned(nodes.iter().copied()),
        });
        RolloutDocument {
            skyhook: self.skyhook.to_owned(),
            batch: self.allowed,
            batches_may_overlap: self.overlapping,
            deselected: names(&self.deselected),
            cordoned: names(&self.cordoned),
            interrupted_uncordoned: names(&self.interrupted_uncordoned),
            untainted: names(&self.untainted),
            evicted_pods: self.evicted,
            refusing_budgets: refusing.collect(),
            waiting: owned(self.waiting.iter().copied()),
            stuck: self.why_stuck(),
            incomplete_nodes: self
                .incomplete
                .filter(|nodes| *nodes > 0 && self.stuck_on.is_some() && self.why_stuck().is_some()),
            estimate: self.remaining.map(|remaining| remaining.seconds),
            uncertainty: self.remaining.map(|remaining| remaining.uncertainty),
        }
    }
}

fn names(nodes: &[&Node]) -> Vec<String> {
    owned(nodes.iter().map(|node| node.name.as_str()))
}

fn owned<'n>(names: impl Iterator<Item = &'n str>) -> Vec<String> {
    names.map(str::to_owned).collect()
}
