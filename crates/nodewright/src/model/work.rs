//! The progress of a custom resource on a node, from the gates and then from the due packages.

use super::action::{Action, NodeProgress, ProgressState};
use super::gates::At;
use super::operator::{Slot, Step};
use super::place::{NONE, Status};
use super::profile::{Profile, SpecPackage};
use super::reason::WaitReason;
use super::resource::Resource;
use super::runs::Runs;
use super::selection::Selection;
use super::{Model, gates};
use crate::api::State;
use crate::cluster::{Certainty, Node, PackageRun, Source};

impl WaitReason<'_> {
    /// The state of a node that is kept by this reason.
    pub(super) fn state(&self) -> ProgressState {
        match self {
            WaitReason::Nothing | WaitReason::Stage { .. } | WaitReason::Kubelet(_) => ProgressState::Running,
            WaitReason::Paused | WaitReason::Disabled => ProgressState::Suspended,
            WaitReason::Unread(_) => ProgressState::Unknown,
            // Taints of a node's lifecycle are expected to be removed.
            WaitReason::Taint(taint) if taint.of_lifecycle() => ProgressState::Waiting,
            WaitReason::Earlier { .. }
            | WaitReason::Batch { .. }
            | WaitReason::BatchSibling(_)
            | WaitReason::ProtectedPod(_)
            | WaitReason::Drain(_)
            | WaitReason::OtherRun { .. }
            | WaitReason::OtherInterrupt(_)
            | WaitReason::Deletion(_) => ProgressState::Waiting,
            _ => ProgressState::Blocked,
        }
    }
}

impl<'a> From<WaitReason<'a>> for NodeProgress<'a> {
    /// Progress without a next action, for this reason.
    fn from(reason: WaitReason<'a>) -> NodeProgress<'a> {
        NodeProgress { state: reason.state(), next_action: None, reason, since: None, queue: None }
    }
}

impl<'a> From<Action<'a>> for NodeProgress<'a> {
    /// Progress with an action in the next reconcile.
    fn from(action: Action<'a>) -> NodeProgress<'a> {
        NodeProgress { next_action: Some(action), ..WaitReason::Nothing.into() }
    }
}

pub(super) fn progress<'a>(model: &Model<'a>, resource: &Resource<'a>, index: usize) -> NodeProgress<'a> {
    let at = At::new(model, resource, index);
    if at.place.complete && !resource.deleting {
        return complete(&at);
    }
    if let Some(progress) = runs(&at) {
        return progress;
    }
    let progress = gates::first(&at).unwrap_or_else(|| due(&at));
    // Report this reason even if a stage is running: the stage ends or is suspended, and nothing follows
    // until someone intervenes.
    if matches!(progress.reason, WaitReason::Paused | WaitReason::Disabled | WaitReason::Ignored) {
        return progress;
    }
    match running(&at) {
        Some(run) => NodeProgress { next_action: progress.next_action, ..run },
        None => progress,
    }
}

/// The operator's next action on a node where none of its stages runs. `certain` is false if the operator takes
/// this node or another candidate of a new batch.
pub(super) fn due_action<'a>(
    model: &Model<'a>,
    resource: &Resource<'a>,
    index: usize,
) -> Option<(Action<'a>, bool)> {
    let at = At::new(model, resource, index);
    if model.halt.is_some() || at.runs().any(|run| run.alive()) {
        return None;
    }
    let progress = progress(model, resource, index);
    if let Some(action) = progress.next_action {
        return Some((action, true));
    }
    let selection = resource.selections.get(usize::from(at.place.compartment))?;
    let takes_any = matches!(progress.reason, WaitReason::Batch { .. })
        && matches!(selection, Selection::New { size: 1.., joining, .. } if joining.is_empty());
    let action = due(&at).next_action.filter(|_| takes_any && at.place.queued != NONE)?;
    Some((action, false))
}

/// Why the custom resource does not progress on one of these nodes, and that node. An ignore label is intended, and the
/// batch follows from other nodes: both come last.
pub(super) fn first_obstacle<'a>(
    model: &Model<'a>,
    resource: &Resource<'a>,
    nodes: impl Iterator<Item = (&'a Node, NodeProgress<'a>)>,
) -> Option<(WaitReason<'a>, &'a Node)> {
    // After a wait for its batch, a stage that fails fails again.
    let failing = |node: &Node| {
        let mut entries = model.cluster.on_node(node, resource.skyhook.name())?.entries().iter();
        let entry = entries.find(|entry| entry.state == State::Erroring)?;
        Some(WaitReason::Stage { package: entry.name.to_string(), stage: entry.stage.clone() })
    };
    let ranked = |(node, progress): (&'a Node, NodeProgress<'a>)| {
        let reason = progress.reason;
        let (rank, reason) = match (progress.state, &reason) {
            (_, WaitReason::Ignored) => (3, reason),
            (ProgressState::Blocked | ProgressState::Suspended, _) | (_, WaitReason::Taint(_)) => (0, reason),
            // It may succeed this time.
            (ProgressState::Running, _) => (1, failing(node)?),
            (ProgressState::Waiting, WaitReason::Batch { node: batch, .. }) => match failing(node) {
                Some(failing) => (1, failing),
                None => (4 + u8::from(batch.is_none()), reason),
            },
            (ProgressState::Waiting, WaitReason::BatchSibling(_)) => match failing(node) {
                Some(failing) => (0, failing),
                None => (4, reason),
            },
            (ProgressState::Waiting, _) => (2, reason),
            _ => return None,
        };
        Some((rank, reason, node))
    };
    nodes.filter_map(ranked).min_by_key(|(rank, ..)| *rank).map(|(_, reason, node)| (reason, node))
}

/// Progress on a complete node: the operator marks the node and removes its cordon.
fn complete<'a>(at: &At<'_, 'a>) -> NodeProgress<'a> {
    let cordoned = at.profile.record.is_some_and(|record| record.cordon);
    let marked = at.place.recorded == Status::Complete;
    let next_action = match (cordoned, marked) {
        _ if at.model.halt.is_some() || at.resource.paused => None,
        (true, _) => Some(Action::Uncordon),
        (false, true) => None,
        (false, false) => Some(Action::MarkComplete),
    };
    NodeProgress { state: ProgressState::Complete, next_action, ..WaitReason::Nothing.into() }
}

/// The operator's action on Jobs and Pods of the custom resource, evaluated before the gates.
fn runs<'a>(at: &At<'_, 'a>) -> Option<NodeProgress<'a>> {
    let skyhook = at.resource.skyhook;
    let mut restarts = None;
    for run in at.runs() {
        let (package, stage) = (run.package.clone(), run.stage.clone());
        if at.resource.unrecorded(&at.model.runs, at.profile, run) {
            return Some(Action::Record { package, stage }.into());
        }
        if at.model.halt.is_some() || !skyhook.is_active() || !run.alive() {
            continue;
        }
        if at.model.runs.outdated(run, skyhook) {
            restarts = Some(Action::Restart { package, stage });
        } else if run.suspended() && restarts.is_none() {
            restarts = Some(Action::Resume { package, stage });
        }
    }
    restarts.map(NodeProgress::from)
}

/// Progress with a running stage; `None` if no stage is running.
fn running<'a>(at: &At<'_, 'a>) -> Option<NodeProgress<'a>> {
    let run = at.runs().find(|run| run.works())?;
    let reason = match run.unacknowledged() {
        Some(pod) => WaitReason::Kubelet(pod),
        None => WaitReason::Stage { package: run.package.clone(), stage: run.stage.clone() },
    };
    Some(NodeProgress { since: run.started(), ..reason.into() })
}

/// The first action among the due packages of a chosen node (operator `RunSkyhookPackages`).
fn due<'a>(at: &At<'_, 'a>) -> NodeProgress<'a> {
    if let Some(package) = at.profile.removes {
        let package = at.resource.packages[package].name;
        return Action::RemoveEntry { package }.into();
    }
    if at.model.cluster.certainty_of_no_package_run() == Certainty::Unknown {
        let pods = at.model.cluster.pods.absence() == Certainty::Unknown;
        let unread = if pods { Source::Pods } else { Source::Jobs };
        return WaitReason::Unread(unread).into();
    }
    let mut held = None;
    for (package, step) in &at.profile.due {
        let progress = take_up(at, *package, step);
        if progress.next_action.is_some() {
            return progress;
        }
        held.get_or_insert(progress);
    }
    held.unwrap_or_else(|| gates::dependency::check(at))
}

/// The operator's action on one package.
fn take_up<'a>(at: &At<'_, 'a>, index: usize, step: &Step) -> NodeProgress<'a> {
    let package = &at.resource.packages[index];
    let name = package.name;
    let own = |run: &&PackageRun<'a>| run.package == name && run.version == package.package.version;
    if let Some(run) = at.runs().filter(own).find(|run| run.alive()) {
        return WaitReason::Stage { package: run.package.clone(), stage: run.stage.clone() }.into();
    }
    if let Some(run) = at.runs().filter(own).find(|run| at.resource.gives_up(at.profile, run)) {
        return WaitReason::GivenUp {
            package: run.package.clone(),
            stage: run.stage.clone(),
            run: run.to_string(),
        }
        .into();
    }
    match step {
        Step::Start { stage, drains } => {
            if *drains && let Some(held) = gates::drain::check(at) {
                return held;
            }
            Action::StartStage { package: name, stage: stage.clone() }.into()
        }
        Step::Interrupt => gates::interrupt::check(at).unwrap_or_else(|| {
            Action::Interrupt { package: name, kind: package.interrupt.unwrap_or_default() }.into()
        }),
        Step::Skip | Step::Promote => Action::SkipInterrupt { package: name }.into(),
        Step::Wait => {
            let other = at.profile.due.iter().map(|(at, _)| *at).find(|at| *at != index);
            let other = other.map_or(name, |other| at.resource.packages[other].name);
            WaitReason::OtherInterrupt(other).into()
        }
    }
}

impl<'a> Resource<'a> {
    /// Whether a stage has failed and is not retried: its Job has failed and the node state records the stage
    /// as erroring, or its Pod has ended.
    pub fn gives_up(&self, state: &Profile<'a>, run: &PackageRun<'a>) -> bool {
        run.given_up() && (run.job.is_none() || self.is_at(state, run, |slot| slot.state == State::Erroring))
    }

    /// Whether a stage has ended and the operator has not recorded the outcome in the node state.
    pub fn unrecorded(&self, runs: &Runs<'a>, state: &Profile<'a>, run: &PackageRun<'a>) -> bool {
        runs.ended(run) && self.is_at(state, run, Slot::active)
    }

    /// Whether the package of a run is recorded at the run's stage, with a slot that satisfies `such`.
    fn is_at(&self, state: &Profile<'a>, run: &PackageRun<'a>, such: impl Fn(&Slot) -> bool) -> bool {
        let mut packages = self.packages.iter();
        let own = |p: &SpecPackage<'a>| p.name == run.package && p.package.version == run.version;
        let slot = packages.position(own).and_then(|at| state.slots[at].as_ref());
        slot.is_some_and(|slot| slot.stage == run.stage && such(slot))
    }
}
