//! One package on the node.

use std::cell::OnceCell;
use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use super::relevant;
use crate::api::skyhook::compartment_title;
use crate::api::{Skyhook, Stage, State, Status};
use crate::cluster::{Cluster, Node, NodeRecord, PackageRuns, Phase, Placement};
use crate::commands::shared::progress::Progress;
use crate::model::{Action, Model, NodeProgress, ProgressState, QueuePosition, Timeline, WaitReason};
use crate::outlook::{OnNode, Outlook};
use crate::rules::{Finding, Report, Severity};
use crate::view::{NodeSet, ago, count, for_how_long, list, plural};
use crate::wait::drain;

/// A package on the node, and its progress.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct NextStep {
    /// The package.
    #[serde(rename = "name")]
    pub package: String,
    /// The version of the package.
    pub version: String,
    /// The phase of the package.
    pub phase: Phase,
    /// Whether the package is done on the node: complete, or absent if it is to be uninstalled.
    pub done: bool,
    /// The current stage, or why the package waits or fails; absent if neither is known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// A node with the data that explains its state.
pub struct Inspection<'l, 'a> {
    pub cluster: &'a Cluster,
    pub node: &'a Node,
    pub package_runs: &'l PackageRuns<'a>,
    pub outlook: &'l Outlook<'a>,
    /// The simulation of all rollouts, computed only if a node waits in a queue.
    pub timeline: OnceCell<Timeline<'a>>,
    /// Whether all requested sources were read.
    pub whole: bool,
}

impl<'a> Inspection<'_, 'a> {
    pub fn step(&self, skyhook: &Skyhook, placement: &Placement<'a>) -> NextStep {
        // A stage that has just started is not recorded yet.
        let started = placement.phase == Phase::NotStarted && self.runs_next(placement).is_some();
        NextStep {
            package: placement.package.to_owned(),
            version: placement.version.to_owned(),
            phase: if started { Phase::Running } else { placement.phase },
            done: placement.is_done(),
            message: self.message(skyhook, placement),
        }
    }

    fn message(&self, skyhook: &Skyhook, placement: &Placement<'a>) -> String {
        match placement.phase {
            Phase::Malformed => placement.malformed.unwrap_or_default().to_owned(),
            Phase::Running | Phase::Uninstalling | Phase::Failing | Phase::UninstallFailing => {
                let stage = placement.entry.map_or("", |e| e.stage.as_str());
                let state = placement.entry.filter(|e| e.state == State::Complete);
                let next = state.and_then(|_| self.runs_next(placement));
                let at = match (state, next) {
                    (Some(_), Some(next)) => {
                        format!("stage {stage} is done; stage {next} has started")
                    }
                    (Some(_), None) => {
                        format!("stage {stage} is done; the next stage has not started")
                    }
                    (None, _) => format!("at stage {stage}"),
                };
                let now = self.cluster.taken_at;
                let since = match self.package_runs.unacknowledged_since(placement) {
                    Some(at) => {
                        Some(format!(", pod assigned {} but not started by the kubelet", ago(Some(at), now)))
                    }
                    None => {
                        self.package_runs.since(placement).map(|at| format!(" {}", for_how_long(at, now)))
                    }
                };
                let outcome = self.outcome(placement).map(|o| format!(", {o}"));
                format!("{at}{}{}", since.unwrap_or_default(), outcome.unwrap_or_default())
            }
            Phase::NotStarted => {
                if let Some(stage) = self.runs_next(placement) {
                    return format!("at stage {stage}");
                }
                let missing = self.dependencies(skyhook, placement);
                if missing.is_empty() {
                    String::new()
                } else {
                    format!(
                        "depends on {}, which {} not done",
                        list(&missing),
                        if missing.len() == 1 { "is" } else { "are" }
                    )
                }
            }
            _ => String::new(),
        }
    }

    /// The running stage, if the record still shows the stage before it.
    fn runs_next(&self, placement: &Placement<'a>) -> Option<&Stage> {
        let recorded = placement.entry.map(|entry| &entry.stage);
        let mut here = self.package_runs.of_skyhook_on(placement.skyhook, &placement.node.name);
        here.find(|run| {
            run.package == placement.package
                && run.version == placement.version
                && Some(&run.stage) != recorded
                && run.alive()
                && run.unacknowledged().is_none()
        })
        .map(|run| &run.stage)
    }

    /// The dependencies that are not complete on the node.
    fn dependencies(&self, skyhook: &Skyhook, placement: &Placement<'_>) -> Vec<String> {
        let Some(package) = skyhook.package(placement.package) else {
            return Vec::new();
        };
        let on = self.cluster.on_node(self.node, skyhook.name());
        let state = on.and_then(|on| on.state.as_deref());
        let phase = |name: &str| skyhook.phase(self.cluster, name, state);
        package.depends_on.keys().filter(|name| phase(name) != Phase::Complete).cloned().collect()
    }

    /// How the package's attempt ended, from its findings.
    fn outcome(&self, placement: &Placement<'_>) -> Option<String> {
        let of_it = |f: &&Finding| {
            f.subject.skyhook.as_deref() == Some(placement.skyhook)
                && f.subject.package.as_deref() == Some(placement.package)
                && f.subject.node.as_deref() == Some(self.node.name.as_str())
        };
        self.outlook.findings.iter().filter(of_it).find_map(|f| f.reason.as_ref()?.outcome())
    }
}

impl<'a> Inspection<'_, 'a> {
    /// Why the custom resource is not complete, or a statement that it is.
    pub fn sentence(&self, skyhook: &'a Skyhook, progress: &NodeProgress<'a>) -> String {
        let sentence = match self.calm(skyhook, progress) {
            Some(calm) => self.unless_something_is_wrong(skyhook, calm),
            None => self.reason(skyhook, progress),
        };
        if skyhook.deleting() { format!("it is being deleted; {sentence}") } else { sentence }
    }

    /// The sentence for a custom resource that waits in a queue, or on which the operator acts next; `None`
    /// for other states.
    fn calm(&self, skyhook: &'a Skyhook, progress: &NodeProgress<'a>) -> Option<String> {
        match (&progress.reason, progress.queue) {
            (_, Some(queue)) => Some(self.queue(skyhook, queue)),
            (WaitReason::BatchSibling(_), _) => Some(progress.reason.to_string()),
            (WaitReason::Nothing, _) if progress.state == ProgressState::Running => {
                Some("the operator continues here in its next reconcile".to_owned())
            }
            _ => None,
        }
    }

    fn reason(&self, skyhook: &'a Skyhook, progress: &NodeProgress<'a>) -> String {
        let now = self.cluster.taken_at;
        match (&progress.reason, &progress.next_action) {
            (WaitReason::Nothing, Some(Action::Uncordon)) => {
                "all of its packages are done, but the operator has not removed its cordon from the node yet"
                    .to_owned()
            }
            (WaitReason::Nothing, _) => "all of its packages are done".to_owned(),
            (WaitReason::Stage { package, stage }, _) => {
                let lasts =
                    progress.since.map_or("for an unknown time".to_owned(), |at| for_how_long(at, now));
                format!("stage {stage} of {package} has been running {lasts}")
            }
            (WaitReason::Kubelet(pod), _) => format!(
                "{pod} was assigned to the node {}, but the kubelet has not started it",
                ago(pod.metadata.creation_timestamp, now)
            ),
            (WaitReason::OtherRun { skyhook, package, stage, .. }, _) => format!(
                "an interrupt waits until stage {stage} of {package} of {skyhook} has ended here and its pod is gone"
            ),
            (WaitReason::Deletion(_), _) => {
                let pending = self.cluster.pending_uninstalls(skyhook);
                let nodes = NodeSet::of(pending.iter().map(|p| p.node.name.as_str()));
                format!("packages must first be uninstalled from {}", nodes.limited(4))
            }
            (WaitReason::Drain(_), _) => {
                let drain = self.outlook.model.drain_progress(skyhook.name(), self.node);
                drain.map_or_else(
                    || progress.reason.to_string(),
                    |drain| drain::sentence(self.cluster, &drain),
                )
            }
            _ => progress.reason.to_string(),
        }
    }

    /// The position in the queue of a compartment.
    fn queue(&self, skyhook: &Skyhook, queue: QueuePosition<'_>) -> String {
        let place = match (queue.number, queue.waiting) {
            (_, 1) => "the node is the only one waiting in".to_owned(),
            (Some(number), all) => {
                format!("the node is number {} of {} in the queue of", count(number), count(all))
            }
            (None, all) => {
                format!("the node is one of {} waiting, in no fixed order, in", plural(all, "node"))
            }
        };
        let batch = match queue.batch {
            0 => String::new(),
            n => format!(", whose next batch has {}", plural(n, "node")),
        };
        let now = match queue.working {
            0 => "; the operator chooses the next nodes in its next reconcile".to_owned(),
            1 => "; one node is in progress now".to_owned(),
            n => format!("; {} are in progress now", plural(n, "node")),
        };
        let start = self.start(skyhook, queue.number.is_some() || queue.waiting == 1);
        format!("{place} compartment {}{batch}{now}{start}", compartment_title(queue.compartment))
    }

    /// When the node is expected to start, as the end of a sentence; empty if the order is arbitrary or
    /// durations are unknown.
    fn start(&self, skyhook: &Skyhook, ordered: bool) -> String {
        let simulated = || Model::new(self.cluster).timeline();
        let timeline = ordered.then(|| self.timeline.get_or_init(simulated));
        let start = timeline.and_then(|t| t.start(skyhook.name(), &self.node.name));
        start.map_or_else(String::new, |start| format!("; work starts here in {start}"))
    }

    /// Adds `nothing is wrong` if every source was read, no finding is above info, and the operator does not
    /// report the node as erroring.
    fn unless_something_is_wrong(&self, skyhook: &Skyhook, sentence: String) -> String {
        if self.cluster.status_on(skyhook, self.node) == Status::Erroring {
            return format!("{sentence}; the operator still reports the node as erroring");
        }
        let mut found = self.outlook.findings.iter();
        if !self.whole || found.any(|f| f.severity > Severity::Info) {
            sentence
        } else {
            format!("nothing is wrong: {sentence}")
        }
    }
}

/// A custom resource on the node.
#[derive(Serialize, JsonSchema)]
pub struct Link<'a> {
    /// `Skyhook` or `NodeWright`.
    kind: &'static str,
    /// The custom resource.
    pub name: &'a str,
    /// The priority; the lowest runs first. Absent for a deleted custom resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    /// The progress on the node.
    pub state: ProgressState,
    /// Why the custom resource is not complete on the node, or a statement that it is.
    #[serde(rename = "message")]
    pub reason: String,
    /// The progress in detail, with the operator's next action; absent if the custom resource does not select
    /// the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<Progress>,
    /// The packages of the custom resource on the node.
    pub packages: Vec<NextStep>,
    /// The operator's next action, as a sentence; `None` if an intervention is needed first.
    #[serde(skip)]
    pub next_action: Option<String>,
    #[serde(skip)]
    pub is_ignored: bool,
}

/// The custom resources on a node, with the findings that concern the node, causes first.
pub struct Chain<'a> {
    pub links: Vec<Link<'a>>,
    pub findings: Vec<Finding>,
    /// An unfinished custom resource whose errors on other nodes do not block this node.
    pub failing_elsewhere: Option<String>,
}

impl<'a> Chain<'a> {
    /// `whole`: whether all sources were read. Otherwise no reason claims that the node has no problem.
    pub fn of(cluster: &'a Cluster, node: &'a Node, report: Report, whole: bool) -> Chain<'a> {
        let package_runs = cluster.package_runs();
        let outlook = Outlook::new(cluster, report.findings);
        let look = Inspection {
            cluster,
            node,
            package_runs: &package_runs,
            outlook: &outlook,
            timeline: OnceCell::new(),
            whole,
        };
        let mut links: Vec<Link<'a>> =
            cluster.skyhooks.iter().filter_map(|skyhook| look.link(skyhook)).collect();
        let known = |name: &str| cluster.skyhook(name).is_some();
        let left =
            node.keys(cluster.flavor()).skyhooks.iter().filter(|(name, on)| on.has_keys() && !known(name));
        links.extend(left.map(|(name, _)| look.missing_resource(name)));
        let open: BTreeSet<&str> =
            links.iter().filter(|l| l.state > ProgressState::Complete).map(|l| l.name).collect();
        let anywhere = cluster.skyhooks.iter().filter(|s| open.contains(s.name())).filter_map(|s| {
            if s.deleting() {
                Some(s.name())
            } else {
                outlook.model.predecessor_everywhere(s).map(|predecessor| predecessor.skyhook.name())
            }
        });
        let errors = outlook.findings.iter().filter(|f| f.severity == Severity::Error);
        let failing_elsewhere = errors
            .filter_map(|f| f.subject.skyhook.clone())
            .into_iter()
            .find(|name| open.contains(name.as_str()));
        let reasons: Vec<*const Finding> = cluster
            .skyhooks
            .iter()
            .filter_map(|s| outlook.on_node(s.name(), &node.name))
            .filter(OnNode::explained_by_finding)
            .filter_map(|on| on.held_up_by)
            .map(std::ptr::from_ref)
            .collect();
        let explains = |finding: &Finding| reasons.iter().any(|reason| std::ptr::eq(*reason, finding));
        let reasons = (0..outlook.findings.len()).filter(|at| explains(&outlook.findings[*at])).collect();
        let findings = relevant(node, outlook.findings, &open, &anywhere.collect(), reasons);
        Chain { links, findings, failing_elsewhere }
    }

    /// The worst state of the custom resources, or `Stuck` if an error keeps the node from completing.
    pub fn state(&self, node: &Node) -> ProgressState {
        let worst = self.links.iter().map(|link| link.state).max();
        if self.is_stuck(node) { ProgressState::Stuck } else { worst.unwrap_or(ProgressState::Complete) }
    }

    /// Whether an error keeps the node from completing, or a custom resource is blocked by more than the
    /// node's ignore label.
    pub fn is_stuck(&self, node: &Node) -> bool {
        let open = |name: &str| {
            self.links.iter().any(|link| link.name == name && link.state > ProgressState::Complete)
        };
        let keeps = |f: &Finding| {
            let subject = &f.subject;
            f.severity == Severity::Error
                && (f.blocks_reconcile()
                    || f.blocked_nodes.iter().any(|name| node.name == *name)
                    || subject.node.as_deref() == Some(&node.name)
                    || f.concerns_all_nodes() && subject.skyhook.as_deref().map_or(f.blocks_installs(), open))
        };
        let blocked = |link: &Link<'_>| link.state == ProgressState::Blocked && !link.is_ignored;
        self.findings.iter().any(keeps) || self.links.iter().any(blocked)
    }
}

impl<'a> Inspection<'_, 'a> {
    fn link(&self, skyhook: &'a Skyhook) -> Option<Link<'a>> {
        let record = self.cluster.on_node(self.node, skyhook.name());
        let selected = skyhook.selects(self.node);
        if !selected && !record.is_some_and(NodeRecord::has_keys) {
            return None;
        }
        let packages = self.cluster.placements_on(skyhook.name(), self.node);
        let packages = packages.iter().map(|p| self.step(skyhook, p)).collect();
        let mut link = Link {
            kind: self.cluster.flavor().kind(),
            name: skyhook.name(),
            priority: Some(skyhook.order().0),
            state: ProgressState::Complete,
            reason: "it no longer selects the node, but its annotations or labels are still on the node"
                .to_owned(),
            packages,
            progress: None,
            next_action: None,
            is_ignored: false,
        };
        if let Some(on) = self.outlook.on_node(skyhook.name(), &self.node.name) {
            link.state = on.state;
            link.reason = self.because(skyhook, &on);
            link.progress = Some(Progress::from(&on));
            link.next_action = on.next_action().map(|action| format!("the operator {action}"));
            link.is_ignored = matches!(on.progress.reason, WaitReason::Ignored);
        } else {
            let (state, error) = self.outlook.on_deselected(skyhook, self.node);
            link.state = state;
            if let Some(error) = error {
                link.reason.clone_from(&error.message);
            }
        }
        Some(link)
    }

    /// The link for a custom resource that no longer exists, or could not be read.
    fn missing_resource(&self, name: &'a str) -> Link<'a> {
        let state = self.outlook.leftovers(name);
        let (state, reason) = match self.cluster.skyhooks.ok() {
            Some(_) if self.cluster.may_leave_out() => (
                state.max(ProgressState::Unknown),
                "it is not in the capture but may still exist: its annotations or labels are on the node",
            ),
            Some(_) => (state, "it no longer exists, but its annotations or labels are still on the node"),
            None => (state.max(ProgressState::Unknown), "it could not be read, so it may still exist"),
        };
        Link {
            kind: self.cluster.flavor().kind(),
            name,
            priority: None,
            state,
            reason: reason.to_owned(),
            packages: Vec::new(),
            progress: None,
            next_action: None,
            is_ignored: false,
        }
    }

    /// The reason for a state: the finding that holds the custom resource up, or else the model's reason.
    fn because(&self, skyhook: &'a Skyhook, on: &OnNode<'_, 'a>) -> String {
        on.explanation(self.node).unwrap_or_else(|| self.sentence(skyhook, &on.progress))
    }
}
