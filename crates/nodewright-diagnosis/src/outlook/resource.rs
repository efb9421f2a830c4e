//! A custom resource as a whole: one state, node counts, the causes that hold it up, and a message.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Decides, Facts, OnNode, Outlook, decides};
use crate::api::Skyhook;
use crate::cluster::{Certainty, Stop};
use crate::model::{NodeProgress, ProgressState, Remaining, WaitReason};
use crate::rules::support::blockers::CauseImpact;
use crate::rules::{Finding, Severity};
use crate::text::{Joined, ago, count, list, plural, time};

/// Number of selected nodes by state. Each node counts once: a node on which a stage fails counts only as failed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NodeStates {
    pub complete: usize,
    pub running: usize,
    pub waiting: usize,
    pub suspended: usize,
    pub blocked: usize,
    pub failed: usize,
    pub unknown: usize,
}

/// The state of a custom resource, and the values that it is based on.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// The overall state.
    #[serde(rename = "state")]
    pub assessment: ProgressState,
    /// Percentage of nodes that are complete, rounded down; absent without nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub complete_percent: Option<usize>,
    /// Number of selected nodes by state.
    #[serde(skip)]
    pub node_states: NodeStates,
    /// The codes of the causes that hold the custom resource up until someone intervenes, as in `diagnose stuck`.
    #[serde(rename = "causeCodes")]
    pub held_up_by: BTreeSet<&'static str>,
    /// The start of the oldest running stage; absent if none runs or the time is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running_since: Option<String>,
    /// The estimated remaining time: `~6m` or `5m to 20m`; null without an estimate.
    #[serde(rename = "eta")]
    pub remaining: Option<String>,
    /// Why a custom resource that makes progress has no estimate; absent for others.
    #[serde(rename = "etaUnknown", skip_serializing_if = "Option::is_none")]
    pub no_estimate: Option<String>,
    /// The remaining time in seconds, from the shortest to the longest; null without an estimate.
    #[serde(rename = "etaSeconds")]
    pub remaining_seconds: Option<RemainingSeconds>,
    /// The cause, the object that the custom resource waits for, or the running stages.
    pub message: String,
    #[serde(skip)]
    pub since: Option<Timestamp>,
    /// The state of each compartment with its nodes, from the same counts.
    #[serde(skip)]
    pub compartments: Vec<(String, ProgressState, NodeStates)>,
}

/// The estimated remaining time in seconds.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RemainingSeconds {
    /// The shortest time.
    min: u64,
    /// The longest time.
    max: u64,
}

impl From<Remaining> for RemainingSeconds {
    fn from(remaining: Remaining) -> RemainingSeconds {
        let [min, max] = remaining.range().map(|seconds| seconds.round() as u64);
        RemainingSeconds { min, max }
    }
}

impl NodeStates {
    pub fn all(&self) -> usize {
        let NodeStates { complete, running, waiting, suspended, blocked, failed, unknown } = self;
        complete + running + waiting + suspended + blocked + failed + unknown
    }

    fn add(&mut self, state: ProgressState) {
        *match state {
            ProgressState::Complete => &mut self.complete,
            ProgressState::Running => &mut self.running,
            ProgressState::Waiting => &mut self.waiting,
            ProgressState::Suspended => &mut self.suspended,
            ProgressState::Blocked => &mut self.blocked,
            ProgressState::Failed => &mut self.failed,
            _ => &mut self.unknown,
        } += 1;
    }
}

impl Summary {
    /// The share of complete nodes: `78% (31/40)`.
    pub fn complete(&self) -> String {
        let states = &self.node_states;
        match self.complete_percent {
            Some(percent) => format!("{percent}% ({}/{})", count(states.complete), count(states.all())),
            None => "-".to_owned(),
        }
    }
}

impl<'a> Outlook<'a> {
    /// The state of a custom resource, also of a deleted one with keys on nodes.
    pub fn resource(&self, name: &str) -> Summary {
        let skyhook = self.cluster.skyhook(name);
        let compartments = self.model.compartments(name);
        let members: HashMap<&str, usize> = compartments
            .iter()
            .enumerate()
            .flat_map(|(at, (_, nodes))| nodes.iter().map(move |n| (n.name.as_str(), at)))
            .collect();
        let mut parts: Vec<Tally> = compartments.iter().map(|_| Tally::default()).collect();
        let mut tally = Tally::default();
        for (node, on) in self.on_nodes(name) {
            tally.add(&on);
            if let Some(at) = members.get(node.name.as_str()) {
                parts[*at].add(&on);
            }
        }
        let (assessment, message) = self.assessed(name, &tally);
        let counts_decide = skyhook.filter(|s| !s.deleting() && !assessment.needs_someone());
        // A custom resource that makes no progress has no running compartment.
        let of_part = |part: &Tally| match counts_decide {
            Some(skyhook) => self.facts(skyhook, part, part.held_by_error).state(),
            None if part.open() == 0 => ProgressState::Complete,
            None => assessment,
        };
        let compartments = compartments
            .iter()
            .zip(&parts)
            .map(|((name, _), part)| ((*name).to_owned(), of_part(part), part.states));
        let states = tally.states;
        let known = self.cluster.nodes.ok().is_some() && states.all() > 0;
        let lasting = self.causes_of(name).filter(|cause| cause.lasts(&self.findings));
        let remaining = self.remaining(name, assessment);
        let may_finish = matches!(
            assessment,
            ProgressState::Progressing | ProgressState::Degraded | ProgressState::Deleting
        );
        Summary {
            no_estimate: (remaining.is_none() && may_finish).then(|| self.no_estimate(name)),
            assessment,
            complete_percent: known.then(|| states.complete * 100 / states.all()),
            node_states: states,
            held_up_by: lasting.map(|cause| self.findings[cause.cause.findings[0]].rule.code).collect(),
            running_since: tally.since.map(time),
            remaining: remaining.as_ref().map(ToString::to_string),
            remaining_seconds: remaining.map(RemainingSeconds::from),
            message,
            since: tally.since,
            compartments: compartments.collect(),
        }
    }

    /// The state of a custom resource, and the reason for it.
    fn assessed(&self, name: &str, tally: &Tally) -> (ProgressState, String) {
        // An error of the custom resource itself stays when those are repaired that others have.
        let is_own = |cause: &&CauseImpact<'_>| {
            let mut findings = cause.cause.findings.iter().map(|at| &self.findings[*at]);
            let is_own = |f: &Finding| f.subject.skyhook.as_deref().is_none_or(|skyhook| skyhook == name);
            findings.any(|finding| is_own(finding) || finding.blocks_reconcile_of(name))
        };
        let errors = || self.causes_of(name).filter(|cause| cause.severity() == Severity::Error);
        let error = errors().find(is_own).or_else(|| errors().next());
        let Some(skyhook) = self.cluster.skyhook(name) else {
            let state = match self.cluster.skyhooks_absence() {
                Certainty::Proven => ProgressState::Gone,
                _ => ProgressState::Unknown,
            };
            return (state, self.missing_resource(name));
        };
        if let Some(deletion) = self.deletion(skyhook) {
            let message = match (deletion.state, error) {
                (ProgressState::Deleting, _) => {
                    let since = skyhook.metadata.deletion_timestamp;
                    format!("deletion started {}", ago(since, self.cluster.taken_at))
                }
                (ProgressState::Stuck, Some(error)) => self.cause_message(name, error),
                _ => deletion.reason,
            };
            return (deletion.state, message);
        }
        let state = self.facts(skyhook, tally, error.is_some()).state();
        let mut lasting = self.causes_of(name).filter(|cause| cause.lasts(&self.findings));
        let blocked = state == ProgressState::Blocked;
        let mut blocking = self.causes_of(name);
        let blocking = blocking.find(|cause| {
            state == ProgressState::Waiting
                && cause.severity() > Severity::Info
                && cause.blocked.contains_key(name)
        });
        let first = error.or_else(|| lasting.next().filter(|_| blocked)).or(blocking);
        let message = match first {
            Some(_)
                if skyhook.stopped().is_none()
                    && let Some(waits) = self.waits_for_several(name) =>
            {
                waits
            }
            None => self.message(skyhook, state, tally),
            // A decision explains the state; an error remains to be fixed before it ends.
            Some(error) if skyhook.stopped().is_some() => {
                format!("{}; {}", self.message(skyhook, state, tally), self.cause_message(name, error))
            }
            Some(error) => self.cause_message(name, error),
        };
        (state, message)
    }

    /// The causes that concern a custom resource: findings about it, and those that block one of its nodes.
    pub fn causes_of(&self, name: &str) -> impl Iterator<Item = &CauseImpact<'a>> {
        self.impact.about(name).iter().map(|at| &self.impact.causes[*at])
    }

    fn facts(&self, skyhook: &Skyhook, tally: &Tally, error: bool) -> Facts {
        Facts {
            nodes_unread: self.cluster.nodes.ok().is_none(),
            disabled: skyhook.disabled(),
            paused: skyhook.paused(),
            error,
            nodes: tally.states.all(),
            open: tally.open(),
            failed: tally.states.failed,
            unknown: tally.states.unknown,
            ..tally.facts
        }
    }

    /// The estimated remaining time of a custom resource that makes progress, or waits for one that does.
    fn remaining(&self, name: &str, assessment: ProgressState) -> Option<Remaining> {
        let progresses = matches!(
            assessment,
            ProgressState::Progressing | ProgressState::Degraded | ProgressState::Waiting
        );
        let deleting = self.cluster.skyhook(name).is_some_and(Skyhook::deleting);
        let remaining = self.timeline.remaining(name)?;
        (progresses && self.delaying(name).is_none() && !deleting).then_some(remaining)
    }

    /// A cause that blocks a custom resource for an unknown time: an error, or a stage that starts again and again.
    fn delaying(&self, name: &str) -> Option<&CauseImpact<'a>> {
        let restarts = |cause: &CauseImpact<'_>| {
            let rules = cause.cause.findings.iter().map(|at| self.findings[*at].rule);
            cause.severity() == Severity::Warning && rules.into_iter().any(|rule| rule.retried)
        };
        self.causes_of(name).find(|cause| {
            (cause.severity() == Severity::Error || restarts(cause)) && cause.blocked.contains_key(name)
        })
    }

    /// Why a custom resource that makes progress has no estimate.
    fn no_estimate(&self, name: &str) -> String {
        if self.cluster.skyhook(name).is_some_and(Skyhook::deleting) {
            return "the durations of deletions are not predicted".to_owned();
        }
        let Some(cause) = self.delaying(name) else {
            return match (self.timeline.untimed, self.timeline.refused.get(name)) {
                (Some(untimed), _) => untimed.words(name),
                (None, Some(refused)) => refused.to_string(),
                (None, None) => "some nodes do not finish without intervention".to_owned(),
            };
        };
        let first = &self.findings[cause.cause.findings[0]];
        let subject = &first.subject;
        let [skyhook, node] =
            [&subject.skyhook, &subject.node].map(|name| name.as_deref().unwrap_or_default());
        let failed_here =
            self.cluster.skyhook(skyhook).zip(self.cluster.node(node)).is_some_and(|(skyhook, node)| {
                let runs = self.cluster.package_runs_for(skyhook.name());
                !runs.permanently_failed(self.cluster, skyhook, node).is_empty()
            });
        if first.rule.retried && !failed_here {
            "a stage fails and is retried".to_owned()
        } else {
            format!("{} {} must be resolved first", first.rule.code, first.rule.name)
        }
    }

    /// The code and the message of a cause, with the custom resource that it is about if that is another one:
    /// `waits for base: SKY201 package driver fails`.
    fn cause_message(&self, name: &str, cause: &CauseImpact<'_>) -> String {
        let mut findings = cause.cause.findings.iter().map(|at| &self.findings[*at]);
        let own = findings.clone().find(|finding| finding.subject.skyhook.as_deref() == Some(name));
        let first = own.or_else(|| findings.next()).expect("a cause has findings");
        let about = first.subject.skyhook.as_deref().filter(|_| !first.blocks_reconcile());
        let waits = match about {
            Some(other) if other != name => format!("waits for {other}: "),
            _ => String::new(),
        };
        format!("{waits}{} {}", first.rule.code, cause.message)
    }

    /// The other custom resources with causes that block this one, by the number of its nodes:
    /// `waits for io on 121 nodes, cpu on 6 and gpu on 4`. `None` unless there are several, and only such causes.
    fn waits_for_several(&self, name: &str) -> Option<String> {
        let mut nodes_by_other: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for cause in self.causes_of(name).filter(|cause| cause.severity() > Severity::Info) {
            let mut findings = cause.cause.findings.iter().map(|at| &self.findings[*at]);
            let first = findings.next().filter(|first| !first.blocks_reconcile())?;
            let other = first.subject.skyhook.as_deref().filter(|other| *other != name)?;
            // A cause of several custom resources does not show for which of them a node waits.
            if findings.any(|finding| finding.subject.skyhook.as_deref() != Some(other)) {
                return None;
            }
            nodes_by_other.entry(other).or_default().extend(cause.blocked.get(name).into_iter().flatten());
        }
        let mut others: Vec<(&str, usize)> =
            nodes_by_other.into_iter().map(|(other, nodes)| (other, nodes.len())).collect();
        others.sort_by_key(|(_, nodes)| Reverse(*nodes));
        let words = others.iter().enumerate().map(|(at, (other, nodes))| match at {
            0 => format!("{other} on {}", plural(*nodes, "node")),
            _ => format!("{other} on {}", count(*nodes)),
        });
        (others.len() > 1).then(|| format!("waits for {}", list(&words.collect::<Vec<_>>())))
    }

    fn message(&self, skyhook: &Skyhook, assessment: ProgressState, tally: &Tally) -> String {
        let now = self.cluster.taken_at;
        match assessment {
            ProgressState::Complete => String::new(),
            ProgressState::Paused | ProgressState::Disabled => {
                skyhook.stop().map_or_else(String::new, |stop| stop_text(&stop, now))
            }
            _ if self.cluster.nodes.ok().is_none() => "the nodes could not be read".to_owned(),
            _ if tally.states.all() == 0 => "selects no node".to_owned(),
            ProgressState::Progressing | ProgressState::Degraded => tally.running(),
            _ => tally.first_reason().unwrap_or_default(),
        }
    }

    fn missing_resource(&self, name: &str) -> String {
        let nodes = plural(self.cluster.tracked(name).count(), "node");
        match self.cluster.skyhooks.ok() {
            Some(_) if self.cluster.may_leave_out() => {
                format!("not in the capture, but may still exist; its annotations or labels are on {nodes}")
            }
            Some(_) => format!("gone, but its annotations or labels are still on {nodes}"),
            None => format!(
                "could not be read, but may still exist; its annotations or labels are on \
                {nodes}"
            ),
        }
    }
}

/// Counts over the nodes of a custom resource or a compartment.
#[derive(Default)]
struct Tally {
    states: NodeStates,
    /// The counts that the state depends on.
    facts: Facts,
    held_by_error: bool,
    since: Option<Timestamp>,
    /// Number of nodes by running stage or next action.
    running: BTreeMap<String, usize>,
    /// Number of nodes that do not run, by state and reason, worst state first.
    held: BTreeMap<(Reverse<ProgressState>, String), usize>,
    /// Earlier custom resources that this custom resource waits for.
    earlier: Vec<String>,
}

impl Tally {
    fn open(&self) -> usize {
        self.states.all() - self.states.complete
    }

    fn add(&mut self, on: &OnNode<'_, '_>) {
        let progress = &on.progress;
        self.states.add(on.counted());
        if on.is_clean {
            return;
        }
        let held = on.held_up_by.filter(|_| on.state == ProgressState::Blocked);
        self.held_by_error |= held.is_some_and(|finding| finding.severity == Severity::Error);
        let blocked = matches!(on.state, ProgressState::Blocked | ProgressState::Suspended);
        self.facts.blocked += usize::from(blocked);
        match on.state {
            ProgressState::Complete => {}
            ProgressState::Running => {
                self.facts.running += 1;
                self.facts.advancing += usize::from(!on.fails);
                self.since = self.since.into_iter().chain(progress.since).min();
                *self.running.entry(action_in_progress(progress)).or_default() += 1;
            }
            state => {
                let by_operator = decides(&progress.reason) == Decides::Findings;
                let waits = state == ProgressState::Waiting && by_operator;
                self.facts.advancing += usize::from(waits && !on.fails && on.held_up_by.is_none());
                let acts = match &progress.reason {
                    WaitReason::Batch { node: None, .. } => progress.queue.is_some_and(|q| q.batch > 0),
                    WaitReason::Drain(_) => true,
                    _ => false,
                };
                self.facts.acted_on += usize::from(waits && acts);
                if let WaitReason::Earlier { skyhook, .. } = &progress.reason
                    && !self.earlier.iter().any(|name| name == skyhook.name())
                {
                    self.earlier.push(skyhook.name().to_owned());
                }
                let reason = match (&progress.reason, on.held_up_by) {
                    (WaitReason::Nothing, Some(finding)) => finding.message.clone(),
                    (reason, _) => reason.to_string(),
                };
                *self.held.entry((Reverse(state), reason)).or_default() += 1;
            }
        }
    }

    /// The running stages with node counts: `driver apply on 3 nodes, net config`; without any, the first reason
    /// for a wait.
    fn running(&self) -> String {
        let mut running: Vec<(&String, &usize)> = self.running.iter().collect();
        running.sort_by_key(|(_, nodes)| Reverse(**nodes));
        let on = |(what, nodes): (&String, &usize)| format!("{what} on {}", plural(*nodes, "node"));
        match running.len() {
            0 => self.first_reason().unwrap_or_default(),
            _ => running.into_iter().map(on).joined(", "),
        }
    }

    fn first_reason(&self) -> Option<String> {
        let (reason, nodes) = self.held.iter().next()?;
        if !self.earlier.is_empty() && reason.0.0 == ProgressState::Waiting {
            return Some(format!("waits for {}", list(&self.earlier)));
        }
        let on = match self.open() {
            open if open == *nodes => String::new(),
            _ => format!(" ({})", plural(*nodes, "node")),
        };
        Some(format!("{}{on}", reason.1))
    }
}

/// Who paused or disabled a custom resource, when and why: `paused by kubectl-annotate 3h ago (new disks)`.
pub fn stop_text(stop: &Stop<'_>, now: Timestamp) -> String {
    let by = stop.by.as_ref().map_or(String::new(), |by| format!(" by {by}"));
    let since = stop.since.map_or(String::new(), |at| format!(" {}", ago(Some(at), now)));
    let reason = stop.reason.map_or(String::new(), |reason| format!(" ({reason})"));
    format!("{}{by}{since}{reason}", stop.how)
}

/// The running stage, such as `driver apply`, or the operator's next action.
pub fn action_in_progress(progress: &NodeProgress<'_>) -> String {
    match (&progress.reason, &progress.next_action) {
        (WaitReason::Stage { package, stage }, _) => format!("{package} {stage}"),
        (WaitReason::Kubelet(_), _) => "pod not started yet".to_owned(),
        (_, Some(action)) => match (action.package(), action.stage()) {
            (Some(package), Some(stage)) => format!("{package} {stage} next"),
            (Some(package), None) => format!("{package} {} next", action.kind().to_lowercase()),
            _ => format!("{} next", action.kind().to_lowercase()),
        },
        (reason, None) => reason.to_string(),
    }
}
