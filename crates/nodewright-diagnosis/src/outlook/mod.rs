//! State, cause and next action of custom resources: the model's progress merged with the findings, once for all
//! commands. Pure.
//!
//! [`Outlook::on_node`] judges a custom resource on a node, [`Outlook::resource`] a whole custom resource, from
//! the same judgment of its nodes. [`decides`] and [`Facts::state`] decide between reasons.

mod resource;

use std::cell::OnceCell;
use std::collections::HashMap;

use crate::api::{Skyhook, Status};
use crate::cluster::placement::Pending;
use crate::cluster::{Certainty, Cluster, Node, NodeRecord, PackageRuns};
use crate::model::{Action, Model, NodeProgress, ProgressState, Timeline, WaitReason};
use crate::plan::Condition;
use crate::rules::support::blockers::{BlockingFindings, Impact, delays};
use crate::rules::{Finding, Finds, Severity};
use crate::text::plural;

pub use resource::{NodeStates, Summary, action_in_progress, stop_text};

/// The model and the findings of one cluster.
pub struct Outlook<'a> {
    pub cluster: &'a Cluster,
    pub model: Model<'a>,
    /// All findings, including muted ones: a mute does not change how a custom resource is doing.
    pub findings: Vec<Finding>,
    /// The causes among the findings, with the nodes that they block.
    pub impact: Impact<'a>,
    /// The remaining time of each rollout.
    pub timeline: Timeline<'a>,
    /// The findings that block a custom resource on a node, by both.
    blocking: Blocking<'a>,
    blockers: OnceCell<BlockingFindings>,
    package_runs: OnceCell<PackageRuns<'a>>,
    /// The most severe lasting cause that blocks a custom resource on a node, as an index of `impact.causes`, and its
    /// finding about that node, or else its first, as an index of `findings`.
    held: HashMap<Place<'a>, [usize; 2]>,
}

/// Names of a custom resource and a node.
type Place<'a> = (&'a str, &'a str);

/// A custom resource on a node.
#[derive(Debug, Clone)]
pub struct OnNode<'o, 'a> {
    pub state: ProgressState,
    /// Whether a stage fails there, or has failed permanently.
    pub fails: bool,
    /// Whether the work on the node is done, although a deletion still waits for other nodes.
    pub is_clean: bool,
    pub progress: NodeProgress<'a>,
    /// The finding that blocks the custom resource here. For a wait, the cause of the wait, which may be about
    /// another node or custom resource.
    pub held_up_by: Option<&'o Finding>,
}

impl<'a> OnNode<'_, 'a> {
    /// The state in which the node counts: each node counts once.
    pub fn counted(&self) -> ProgressState {
        match self.state {
            _ if self.is_clean => ProgressState::Complete,
            _ if self.fails => ProgressState::Failed,
            state => state,
        }
    }

    /// Whether the finding is the reason for the state, and not only evidence for the model's reason.
    pub fn explained_by_finding(&self) -> bool {
        let earlier = matches!(self.progress.reason, WaitReason::Earlier { .. });
        self.held_up_by.is_some() && !earlier && decides(&self.progress.reason) != Decides::Model
    }

    /// The message of the finding that explains the state, with the name of its node if that is not `node`.
    pub fn explanation(&self, node: &Node) -> Option<String> {
        let finding = self.held_up_by.filter(|_| self.explained_by_finding())?;
        Some(match finding.subject.node.as_deref() {
            Some(other) if node.name != *other => format!("{other}: {}", finding.message),
            _ => finding.message.clone(),
        })
    }

    /// Why the custom resource is not complete on `node`: the finding that explains it, or else the model's reason.
    pub fn message(&self, node: &Node) -> Option<String> {
        if self.state == ProgressState::Complete {
            return None;
        }
        self.explanation(node).or_else(|| match self.progress.reason {
            WaitReason::Nothing => self.next_action().map(|action| format!("the operator {action} next")),
            ref reason => Some(reason.to_string()),
        })
    }

    /// The operator's next action; `None` if an intervention is needed first.
    pub fn next_action(&self) -> Option<&Action<'a>> {
        let goes_on = matches!(self.state, ProgressState::Running | ProgressState::Waiting);
        self.progress.next_action.as_ref().filter(|_| goes_on)
    }
}

/// Indexes of findings above info that block something, by the custom resource and node that they block.
#[derive(Default)]
struct Blocking<'a> {
    on_node: HashMap<Place<'a>, Vec<usize>>,
    /// Findings that list this node among the nodes that they block.
    beside: HashMap<Place<'a>, Vec<usize>>,
    /// Findings about all nodes of a custom resource.
    whole: HashMap<&'a str, Vec<usize>>,
    /// Findings that end the operator's reconcile, for all custom resources.
    all: Vec<usize>,
}

impl<'a> Blocking<'a> {
    fn of(cluster: &'a Cluster, findings: &[Finding]) -> Blocking<'a> {
        let mut blocking = Blocking::default();
        let node = |name: &String| cluster.node(name).map(|node| node.name.as_str());
        for (at, finding) in findings.iter().enumerate() {
            if finding.severity == Severity::Info || !finding.blocks_progress() {
                continue;
            }
            let subject = &finding.subject;
            if finding.blocks_reconcile() {
                blocking.all.push(at);
            }
            let skyhook = subject.skyhook.as_deref().and_then(|name| cluster.skyhook(name));
            let Some(skyhook) = skyhook.map(|skyhook| skyhook.name()) else {
                continue;
            };
            if let Some(node) = subject.node.as_ref().and_then(node) {
                blocking.on_node.entry((skyhook, node)).or_default().push(at);
            }
            if finding.concerns_all_nodes() {
                blocking.whole.entry(skyhook).or_default().push(at);
            }
            for node in finding.blocked_nodes.iter().filter_map(node) {
                blocking.beside.entry((skyhook, node)).or_default().push(at);
            }
        }
        blocking
    }

    /// The most severe finding that blocks a custom resource on a node; of equals, the closest to the node, then
    /// the first.
    fn gravest<'f>(&self, findings: &'f [Finding], place: Place<'a>) -> Option<&'f Finding> {
        let tiers = [
            self.on_node.get(&place).map_or(&[][..], Vec::as_slice),
            self.beside.get(&place).map_or(&[][..], Vec::as_slice),
            self.whole.get(place.0).map_or(&[][..], Vec::as_slice),
            &self.all,
        ];
        let here = tiers.into_iter().flatten().map(|at| &findings[*at]);
        here.reduce(|best, other| if other.severity > best.severity { other } else { best })
    }
}

impl<'a> Outlook<'a> {
    /// `findings`: the findings of all rules on the cluster, causes first.
    pub fn new(cluster: &'a Cluster, findings: Vec<Finding>) -> Outlook<'a> {
        let model = Model::new(cluster);
        let impact = Impact::new(cluster, &model, &findings);
        let mut held = HashMap::new();
        let causes = impact.causes.iter().enumerate();
        for (at, cause) in causes.filter(|(_, cause)| cause.lasts(&findings)) {
            let blocks = |at: &usize| findings[*at].blocks_progress();
            if !cause.cause.findings.iter().chain(&cause.cause.effects).any(blocks) {
                continue;
            }
            // By custom resource and node; the first of several is the most severe.
            let mut on_node: HashMap<(Option<&str>, &str), usize> = HashMap::new();
            for at in &cause.cause.findings {
                let subject = &findings[*at].subject;
                if let Some(node) = subject.node.as_deref() {
                    on_node.entry((subject.skyhook.as_deref(), node)).or_insert(*at);
                    on_node.entry((None, node)).or_insert(*at);
                }
            }
            for (skyhook, nodes) in &cause.blocked {
                for node in nodes {
                    let own = on_node.get(&(Some(*skyhook), *node)).or_else(|| on_node.get(&(None, *node)));
                    let finding = own.unwrap_or(&cause.cause.findings[0]);
                    // Causes are in order of their severity.
                    held.entry((*skyhook, *node)).or_insert([at, *finding]);
                }
            }
        }
        Outlook {
            cluster,
            model,
            blocking: Blocking::of(cluster, &findings),
            blockers: OnceCell::new(),
            package_runs: OnceCell::new(),
            findings,
            impact,
            timeline: Model::new(cluster).estimates(),
            held,
        }
    }

    /// A custom resource on a node; `None` if the custom resource does not select the node.
    pub fn on_node(&self, skyhook: &str, node: &str) -> Option<OnNode<'_, 'a>> {
        let progress = self.model.progress(skyhook, node)?;
        let (skyhook, node) = (self.cluster.skyhook(skyhook)?, self.cluster.node(node)?);
        Some(self.judged(skyhook, node, progress))
    }

    /// A custom resource on each node that it selects, in the operator's order of nodes.
    pub fn on_nodes(&self, skyhook: &str) -> impl Iterator<Item = (&'a Node, OnNode<'_, 'a>)> {
        let own = self.cluster.skyhook(skyhook);
        own.into_iter()
            .flat_map(move |own| {
                self.model.all_progress(own.name()).map(move |(node, progress)| (own, node, progress))
            })
            .map(move |(skyhook, node, progress)| (node, self.judged(skyhook, node, progress)))
    }

    /// The state of the leftovers of a missing custom resource: none of them proceeds on its own.
    pub fn leftovers(&self, name: &str) -> ProgressState {
        let about = self.findings.iter().filter(|f| f.subject.skyhook.as_deref() == Some(name));
        about
            .filter(|f| f.severity > Severity::Info && !f.blocks.is_empty())
            .map(|finding| implied(finding).unwrap_or(ProgressState::Unknown))
            .max()
            .unwrap_or(ProgressState::Complete)
    }

    /// The state of a custom resource's keys on a node that it no longer selects, with the error that decides it.
    pub fn on_deselected(&self, skyhook: &Skyhook, node: &Node) -> (ProgressState, Option<&Finding>) {
        let error = self.findings.iter().find(|finding| {
            finding.severity == Severity::Error
                && finding.subject.skyhook.as_deref() == Some(skyhook.name())
                && finding.subject.node.as_deref() == Some(&node.name)
        });
        (error.and_then(implied).unwrap_or(ProgressState::Complete), error)
    }

    /// The findings that block a goal of a custom resource until someone intervenes, and their causes.
    pub fn blockers(&self, skyhook: &Skyhook, goal: &Condition) -> Vec<&Finding> {
        let blockers = self.blockers.get_or_init(|| BlockingFindings::of(&self.findings));
        blockers.of_goal(&self.findings, self.cluster, skyhook, goal)
    }

    /// The model's progress, corrected by the findings.
    fn judged(&self, skyhook: &'a Skyhook, node: &'a Node, progress: NodeProgress<'a>) -> OnNode<'_, 'a> {
        let place = (skyhook.name(), node.name.as_str());
        let record = self.cluster.on_node(node, place.0);
        let (state, held_up_by) = self.state(skyhook, node, place, &progress);
        let erroring = record.is_some_and(|on: &NodeRecord| on.status == Some(Status::Erroring));
        let given_up = matches!(progress.reason, WaitReason::GivenUp { .. });
        let cleaned = matches!(progress.next_action, Some(Action::Finalize))
            || matches!(progress.reason, WaitReason::Deletion(_));
        let is_clean = skyhook.deleting() && cleaned;
        let fails = !is_clean && state != ProgressState::Complete && (erroring || given_up);
        OnNode { state, fails, is_clean, progress, held_up_by }
    }

    fn state(
        &self,
        skyhook: &Skyhook,
        node: &Node,
        place: Place<'a>,
        progress: &NodeProgress<'a>,
    ) -> (ProgressState, Option<&Finding>) {
        let idle = matches!(progress.reason, WaitReason::Nothing);
        let complete = progress.state == ProgressState::Complete && idle;
        if complete && self.cluster.never_installed(skyhook).is_empty() {
            return (ProgressState::Complete, None);
        }
        let own = self.blocking.gravest(&self.findings, place);
        let model = progress.state;
        if decides(&progress.reason) == Decides::Model {
            return (model, own);
        }
        let held = self.held.get(&place);
        let cause = held.map(|[cause, _]| &self.impact.causes[*cause]);
        let first = held.map(|[_, finding]| &self.findings[*finding]);
        if let Some(finding) = own
            && let Some(state) = implied(finding)
        {
            let is_effect = finding.rule.finds == Finds::Effects;
            return (state, first.filter(|_| is_effect).or(own));
        }
        // A wait lasts as long as its cause, wherever that is; a finding about the wait itself is more exact.
        let waits = model == ProgressState::Waiting || model == ProgressState::Running && idle;
        if let Some(cause) = cause.filter(|_| waits && own.is_none()) {
            let state = match cause.severity() {
                Severity::Error => ProgressState::Blocked,
                _ => ProgressState::Suspended,
            };
            return (state, first);
        }
        // A stage cannot run on a node that is not ready.
        let stage = matches!(progress.reason, WaitReason::Stage { .. } | WaitReason::Kubelet(_));
        let here = |finding: &Finding| finding.subject.node.as_deref() == Some(&node.name);
        let state = match own {
            None => model,
            Some(_) if stage && node.not_ready_since().is_some() => ProgressState::Waiting,
            // A transient problem may still be retried.
            Some(finding) if stage || here(finding) => match model {
                ProgressState::Blocked | ProgressState::Suspended => ProgressState::Running,
                _ => model,
            },
            Some(_) => ProgressState::Waiting,
        };
        (state, own)
    }
}

/// The deletion of a custom resource.
pub struct DeletionOutlook<'o, 'a> {
    /// `Deleting` if it makes progress, `Waiting` if it takes long or fails in part, but may still finish, `Stuck`
    /// until someone intervenes, `Blocked` if only finalizers of third parties remain, or `Unknown`.
    pub state: ProgressState,
    /// The reason for the state, as a clause.
    pub reason: String,
    /// The findings that hold it up: permanent ones first, then those that may resolve themselves.
    pub held_up_by: Vec<&'o Finding>,
    /// The packages that must be uninstalled first. Without the operator's finalizer, a deletion waits for none.
    pub pending: Vec<Pending<'a>>,
}

impl<'a> Outlook<'a> {
    /// The deletion of a custom resource; `None` if no deletion was requested.
    pub fn deletion(&self, skyhook: &'a Skyhook) -> Option<DeletionOutlook<'_, 'a>> {
        if !skyhook.deleting() {
            return None;
        }
        let pending =
            if skyhook.has_finalizer() { self.cluster.pending_uninstalls(skyhook) } else { Vec::new() };
        let findings = &self.findings;
        let blockers = self.blockers(skyhook, &Condition::Gone);
        let delays = delays(self.cluster, findings, skyhook);
        let (state, reason) = self.deletion_state(skyhook, &pending, &blockers, &delays);
        Some(DeletionOutlook { state, reason, held_up_by: [blockers, delays].concat(), pending })
    }

    fn deletion_state(
        &self,
        skyhook: &'a Skyhook,
        pending: &[Pending<'a>],
        blockers: &[&Finding],
        delays: &[&Finding],
    ) -> (ProgressState, String) {
        let cluster = self.cluster;
        let left = remaining_uninstalls(pending);
        let runs_unread = cluster.certainty_of_no_package_run() == Certainty::Unknown;
        let unread = "package pods or jobs could not be read and may still be running";
        if !skyhook.has_finalizer() {
            let others = skyhook.third_party_finalizers().join(", ");
            return (ProgressState::Blocked, format!("only third-party finalizers are left: {others}"));
        }
        if let Some(blocker) = blockers.first() {
            let mut runs = self.package_runs.get_or_init(|| cluster.package_runs()).of(skyhook.name());
            let at_work = if runs_unread {
                format!("; {unread}")
            } else if runs.any(|run| run.may_progress(cluster) && run.trouble().is_none()) {
                "; pods are still running".to_owned()
            } else {
                String::new()
            };
            return (ProgressState::Stuck, format!("{}{at_work}", with_node(blocker)));
        }
        if runs_unread {
            return (ProgressState::Unknown, unread.to_owned());
        }
        if let Some(delay) = delays.first() {
            return (ProgressState::Waiting, with_node(delay));
        }
        if cluster.nodes.ok().is_none() {
            let reason = "nodes could not be read, so the remaining uninstalls are unknown";
            return (ProgressState::Unknown, reason.to_owned());
        }
        let old = !pending.is_empty() && cluster.is_stale(skyhook.metadata.deletion_timestamp);
        let mut on_nodes = self.on_nodes(skyhook.name());
        let goes_on = |state| matches!(state, ProgressState::Running | ProgressState::Waiting);
        if old && !on_nodes.any(|(_, on)| goes_on(on.state)) {
            return (ProgressState::Waiting, format!("{left}, and none is running"));
        }
        (ProgressState::Deleting, left)
    }
}

/// The uninstalls that a deletion waits for: `2 uninstalls left on 1 node`; without any, what comes next.
pub fn remaining_uninstalls(pending: &[Pending<'_>]) -> String {
    let nodes = pending.chunk_by(|one, next| one.node.name == next.node.name).count();
    match pending.len() {
        0 => "nothing is left to uninstall; the operator removes its finalizer next".to_owned(),
        left => format!("{} left on {}", plural(left, "uninstall"), plural(nodes, "node")),
    }
}

/// The finding's message, with its node.
fn with_node(finding: &Finding) -> String {
    match &finding.subject.node {
        Some(node) => format!("on {node}: {}", finding.message),
        None => finding.message.clone(),
    }
}

/// The source that decides the state of a custom resource on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decides {
    /// The model: somebody's decision or the operator itself is the reason, and a finding adds only evidence.
    Model,
    /// A finding that blocks the custom resource there, if there is one; otherwise the model. The operator
    /// itself ends the wait if nothing fails.
    Findings,
    /// Like `Findings`, but something outside of the operator ends the wait.
    FindingsOfOthers,
}

/// The source that decides, by the model's reason.
pub fn decides(reason: &WaitReason<'_>) -> Decides {
    match reason {
        WaitReason::Paused
        | WaitReason::Disabled
        | WaitReason::Ignored
        | WaitReason::MalformedState { .. }
        | WaitReason::InvalidSpec { .. }
        | WaitReason::OperatorDown
        | WaitReason::PolicyMissing(_) => Decides::Model,
        // Node lifecycle taints may be temporary: only a finding shows that one blocks the custom resource.
        WaitReason::Taint(taint) if !taint.of_lifecycle() => Decides::Model,
        WaitReason::Taint(_)
        | WaitReason::MigrationHold(_)
        | WaitReason::RolloutStopped(_)
        | WaitReason::Dependency { .. }
        | WaitReason::NeverScheduled(_)
        | WaitReason::GivenUp { .. }
        | WaitReason::ProtectedPod(_)
        | WaitReason::Unread(_) => Decides::FindingsOfOthers,
        WaitReason::Nothing
        | WaitReason::Earlier { .. }
        | WaitReason::Batch { .. }
        | WaitReason::BatchSibling(_)
        | WaitReason::Stage { .. }
        | WaitReason::Kubelet(_)
        | WaitReason::Drain(_)
        | WaitReason::OtherRun { .. }
        | WaitReason::OtherInterrupt(_)
        | WaitReason::Deletion(_) => Decides::Findings,
    }
}

/// The state that a finding implies for the custom resource that it blocks; `None` if the model's state stays.
pub fn implied(finding: &Finding) -> Option<ProgressState> {
    match finding.severity {
        Severity::Error => Some(ProgressState::Blocked),
        _ if finding.blocks_for_good() => Some(ProgressState::Suspended),
        _ => None,
    }
}

/// The properties of a custom resource that is not being deleted, or of one of its compartments, that decide its
/// state. `deletion.rs` decides for deletions.
#[derive(Debug, Default, Clone, Copy)]
pub struct Facts {
    pub nodes_unread: bool,
    pub disabled: bool,
    pub paused: bool,
    /// An error blocks it, on any node.
    pub error: bool,
    /// Nodes whose work advances without an intervention.
    pub advancing: usize,
    pub nodes: usize,
    /// Nodes that are not complete.
    pub open: usize,
    /// Nodes that run, whether or not a stage fails there.
    pub running: usize,
    /// Waiting nodes that the operator drains, or chooses in its next reconcile.
    pub acted_on: usize,
    pub failed: usize,
    /// Nodes that are blocked or suspended, whether or not a stage fails there.
    pub blocked: usize,
    pub unknown: usize,
}

impl Facts {
    /// The state of the custom resource: the first whose condition holds.
    pub fn state(&self) -> ProgressState {
        match self {
            f if f.nodes_unread => ProgressState::Unknown,
            f if f.disabled => ProgressState::Disabled,
            f if f.paused => ProgressState::Paused,
            f if f.error && f.advancing > 0 => ProgressState::Degraded,
            f if f.error => ProgressState::Stuck,
            f if f.nodes == 0 => ProgressState::Waiting,
            f if f.open == 0 => ProgressState::Complete,
            f if f.running > 0 && f.failed + f.blocked > 0 => ProgressState::Degraded,
            f if f.running + f.acted_on > 0 => ProgressState::Progressing,
            f if f.unknown > 0 => ProgressState::Unknown,
            f if f.blocked > 0 => ProgressState::Blocked,
            _ => ProgressState::Waiting,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ProgressState::{
        Blocked, Complete, Degraded, Disabled, Paused, Progressing, Stuck, Unknown, Waiting,
    };

    #[test]
    fn the_first_reason_decides() {
        let running = Facts { nodes: 4, open: 2, running: 1, advancing: 1, ..Facts::default() };
        let idle = Facts { nodes: 4, open: 2, ..Facts::default() };
        let all = Facts { disabled: true, paused: true, error: true, ..running };
        for (facts, state) in [
            (Facts { nodes_unread: true, ..all }, Unknown),
            (all, Disabled),
            (Facts { disabled: false, ..all }, Paused),
            (Facts { error: true, ..running }, Degraded),
            (Facts { error: true, ..idle }, Stuck),
            (Facts::default(), Waiting),
            (Facts { open: 0, ..idle }, Complete),
            (Facts { failed: 1, ..running }, Degraded),
            (Facts { blocked: 1, ..running }, Degraded),
            (running, Progressing),
            (Facts { acted_on: 1, ..idle }, Progressing),
            (Facts { unknown: 1, blocked: 1, ..idle }, Unknown),
            (Facts { blocked: 1, ..idle }, Blocked),
            (idle, Waiting),
        ] {
            assert_eq!(facts.state(), state, "{facts:?}");
        }
    }
}
