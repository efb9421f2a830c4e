//! The assessment of a custom resource: one word, node counts, and a message.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::api::{Skyhook, Status};
use crate::cluster::{Certainty, Cluster, NodeRecord};
use crate::model::{Action, Model, NodeProgress, ProgressState, Timeline, WaitReason};
use crate::rules::support::impact::Impact;
use crate::rules::{Finding, Severity};
use crate::view::text::Label;
use crate::view::{ago, count, list, plural, time};

/// The overall state of a custom resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub enum Assessment {
    /// The custom resource is complete on all nodes.
    Complete,
    /// At least one node makes progress, and none fails or is blocked.
    Progressing,
    /// Some nodes make progress, others fail or are blocked.
    Degraded,
    /// Progress depends on an event that is expected to happen, or no node is selected.
    Waiting,
    /// The custom resource is paused.
    Paused,
    /// The custom resource is disabled.
    Disabled,
    /// The custom resource is being deleted.
    Deleting,
    /// No progress until someone intervenes, although there is no error.
    Blocked,
    /// No progress because of an error. A deletion with an error is always stuck.
    Stuck,
    /// A source that determines the assessment was not read.
    Unknown,
    /// The custom resource no longer exists, but nodes have its annotations or labels.
    Gone,
}

/// Number of selected nodes by the state of their progress, named as in `ProgressState`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NodeStates {
    pub complete: usize,
    pub running: usize,
    pub waiting: usize,
    pub suspended: usize,
    pub blocked: usize,
    pub unknown: usize,
}

/// The assessment of a custom resource, and the values that it is based on.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// The overall state.
    pub assessment: Assessment,
    /// Percentage of nodes that are complete, rounded down; null without nodes.
    pub complete_percent: Option<usize>,
    /// Number of selected nodes by the state of their progress.
    pub node_states: NodeStates,
    /// Number of nodes on which a stage fails or has failed permanently.
    pub failed_nodes: usize,
    /// The start of the oldest running stage; null if none runs or the time is unknown.
    pub running_since: Option<String>,
    /// The estimated remaining time: `~6m` or `5m to 20m`; null without an estimate.
    pub remaining: Option<String>,
    /// The cause, the object that the custom resource waits for, or the running stages.
    pub message: String,
    #[serde(skip)]
    pub since: Option<Timestamp>,
}

impl Assessment {
    pub fn label(self) -> Label {
        match self {
            Assessment::Complete => Label::Good,
            Assessment::Stuck => Label::Error,
            Assessment::Degraded | Assessment::Blocked | Assessment::Unknown | Assessment::Gone => {
                Label::Warning
            }
            _ => Label::Plain,
        }
    }
}

impl NodeStates {
    pub fn all(&self) -> usize {
        let NodeStates { complete, running, waiting, suspended, blocked, unknown } = self;
        complete + running + waiting + suspended + blocked + unknown
    }

    fn add(&mut self, state: ProgressState) {
        *match state {
            ProgressState::Complete => &mut self.complete,
            ProgressState::Running => &mut self.running,
            ProgressState::Waiting => &mut self.waiting,
            ProgressState::Suspended => &mut self.suspended,
            ProgressState::Blocked => &mut self.blocked,
            ProgressState::Unknown => &mut self.unknown,
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

/// Assesses custom resources of one cluster.
pub struct Assessor<'c, 'a> {
    pub cluster: &'a Cluster,
    pub model: &'c Model<'a>,
    pub findings: &'c [Finding],
    pub impact: &'c Impact<'a>,
    pub timeline: Timeline<'a>,
}

impl<'a> Assessor<'_, 'a> {
    pub fn summary(&self, name: &str) -> Summary {
        let skyhook = self.cluster.skyhook(name);
        let mut tally = Tally::default();
        for (node, progress) in self.model.all_progress(name) {
            let record = self.cluster.on_node(node, name);
            tally.add(&progress, record, skyhook.is_some_and(Skyhook::deleting));
        }
        let error = self.error(name);
        if error.as_ref().is_some_and(|error| error.stops_operator) {
            tally.advancing -= tally.due;
        }
        let assessment = match skyhook {
            None if self.cluster.skyhooks_absence() == Certainty::Proven => Assessment::Gone,
            None => Assessment::Unknown,
            Some(skyhook) => self.assessment(skyhook, &tally, error.is_some()),
        };
        let states = tally.states;
        let known = self.cluster.nodes.ok().is_some() && states.all() > 0;
        Summary {
            assessment,
            complete_percent: known.then(|| states.complete * 100 / states.all()),
            node_states: states,
            failed_nodes: tally.failed,
            running_since: tally.since.map(time),
            remaining: self.remaining(name, assessment),
            message: match (skyhook, error) {
                (Some(_), Some(error)) => error.message,
                (Some(skyhook), None) => self.message(skyhook, assessment, &tally),
                (None, _) => self.missing_resource(name),
            },
            since: tally.since,
        }
    }

    fn assessment(&self, skyhook: &Skyhook, tally: &Tally, stuck: bool) -> Assessment {
        let states = &tally.states;
        let open = states.all() - states.complete;
        if self.cluster.nodes.ok().is_none() {
            return Assessment::Unknown;
        }
        match () {
            () if skyhook.deleting() && stuck => Assessment::Stuck,
            () if skyhook.deleting() => Assessment::Deleting,
            () if skyhook.disabled() => Assessment::Disabled,
            () if skyhook.paused() => Assessment::Paused,
            () if stuck && tally.advancing > 0 => Assessment::Degraded,
            () if stuck => Assessment::Stuck,
            () if states.all() == 0 => Assessment::Waiting,
            () if open == 0 => Assessment::Complete,
            () if states.running > 0 && tally.failed + states.blocked > 0 => Assessment::Degraded,
            () if states.running > 0 => Assessment::Progressing,
            () if states.unknown > 0 => Assessment::Unknown,
            () if states.blocked > 0 => Assessment::Blocked,
            () => Assessment::Waiting,
        }
    }

    /// The estimated remaining time of a custom resource that makes progress, or waits for one that does.
    fn remaining(&self, name: &str, assessment: Assessment) -> Option<String> {
        let progresses =
            matches!(assessment, Assessment::Progressing | Assessment::Degraded | Assessment::Waiting);
        let blocked = self.impact.is_blocked(name);
        let remaining = self.timeline.remaining(name)?;
        (progresses && !blocked).then(|| remaining.to_string())
    }

    /// The most severe error about the custom resource, or about the whole operator:
    /// `SKY201 package driver fails`.
    fn error(&self, name: &str) -> Option<Trouble> {
        let mut causes = self.impact.about(name).iter().map(|at| &self.impact.causes[*at]);
        let cause = causes.find(|cause| cause.severity == Severity::Error)?;
        let first = &self.findings[cause.cause.findings[0]];
        Some(Trouble {
            message: format!("{} {}", first.rule.code, cause.message),
            stops_operator: first.blocks_reconcile(),
        })
    }

    fn message(&self, skyhook: &Skyhook, assessment: Assessment, tally: &Tally) -> String {
        match assessment {
            Assessment::Complete => String::new(),
            Assessment::Paused | Assessment::Disabled => stop_reason(skyhook).unwrap_or_default(),
            Assessment::Deleting => {
                let since = skyhook.metadata.deletion_timestamp;
                format!("deletion started {}", ago(since, self.cluster.taken_at))
            }
            _ if self.cluster.nodes.ok().is_none() => "the nodes could not be read".to_owned(),
            _ if tally.states.all() == 0 => "selects no node".to_owned(),
            Assessment::Progressing | Assessment::Degraded => tally.running(),
            _ => tally.first_reason().unwrap_or_default(),
        }
    }

    fn missing_resource(&self, name: &str) -> String {
        let nodes = plural(self.cluster.tracked(name).count(), "node");
        match self.cluster.skyhooks.ok() {
            Some(_) => format!("gone, but its annotations or labels are still on {nodes}"),
            None => format!("not read, may still exist; has annotations or labels on {nodes}"),
        }
    }
}

/// The recorded reason for which a custom resource is paused or disabled.
pub fn stop_reason(skyhook: &Skyhook) -> Option<String> {
    let (_, reason) = skyhook.annotated_reason(match skyhook.stopped()? {
        "paused" => "pause",
        _ => "disable",
    })?;
    Some(reason.to_owned())
}

/// An error that blocks a custom resource.
struct Trouble {
    message: String,
    /// Whether the error stops the operator for all custom resources; running stages still finish.
    stops_operator: bool,
}

/// Counts over the nodes of a custom resource.
#[derive(Default)]
struct Tally {
    states: NodeStates,
    failed: usize,
    /// Number of nodes that run and do not fail.
    advancing: usize,
    /// Number of advancing nodes on which the operator's next reconcile acts.
    due: usize,
    since: Option<Timestamp>,
    /// Number of nodes by running stage or next action.
    running: BTreeMap<String, usize>,
    /// Number of nodes that do not run, by state and reason, worst state first.
    held: BTreeMap<(std::cmp::Reverse<ProgressState>, String), usize>,
    /// Earlier custom resources that this custom resource waits for.
    earlier: Vec<String>,
}

impl Tally {
    fn add(&mut self, progress: &NodeProgress<'_>, record: Option<&NodeRecord>, deleting: bool) {
        let (state, failed) = state_on_node(progress, record, deleting);
        self.states.add(state);
        self.failed += usize::from(failed);
        let erroring = is_erroring(record);
        match state {
            ProgressState::Complete => {}
            ProgressState::Running => {
                let due = matches!(progress.reason, WaitReason::Nothing);
                self.advancing += usize::from(!erroring);
                self.due += usize::from(!erroring && due);
                if let Some(since) = progress.since {
                    self.since = Some(self.since.map_or(since, |first| first.min(since)));
                }
                *self.running.entry(running(progress)).or_default() += 1;
            }
            _ => {
                if let WaitReason::Earlier { skyhook, .. } = &progress.reason
                    && !self.earlier.iter().any(|name| name == skyhook.name())
                {
                    self.earlier.push(skyhook.name().to_owned());
                }
                let key = (std::cmp::Reverse(state), progress.reason.to_string());
                *self.held.entry(key).or_default() += 1;
            }
        }
    }

    /// The running stages with node counts: `driver apply on 3 nodes, net config`.
    fn running(&self) -> String {
        let mut running: Vec<(&String, &usize)> = self.running.iter().collect();
        running.sort_by_key(|(_, nodes)| std::cmp::Reverse(**nodes));
        let on = |(what, nodes): (&String, &usize)| format!("{what} on {}", plural(*nodes, "node"));
        running.into_iter().map(on).collect::<Vec<_>>().join(", ")
    }

    fn first_reason(&self) -> Option<String> {
        let (reason, nodes) = self.held.iter().next()?;
        if !self.earlier.is_empty() && reason.0.0 == ProgressState::Waiting {
            return Some(format!("waits for {}", list(&self.earlier)));
        }
        let on = match self.states.all() - self.states.complete {
            open if open == *nodes => String::new(),
            _ => format!(" ({})", plural(*nodes, "node")),
        };
        Some(format!("{}{on}", reason.1))
    }
}

/// The state of a custom resource on a node, and whether a stage is failing or has failed permanently there.
pub fn state_on_node(
    progress: &NodeProgress<'_>,
    record: Option<&NodeRecord>,
    deleting: bool,
) -> (ProgressState, bool) {
    let cleaned = matches!(progress.next_action, Some(Action::Finalize))
        || matches!(progress.reason, WaitReason::Deletion(_));
    let state = match progress.state {
        _ if deleting && cleaned => ProgressState::Complete,
        state => state,
    };
    let given_up = matches!(progress.reason, WaitReason::GivenUp { .. });
    let failed = state != ProgressState::Complete && (is_erroring(record) || given_up);
    (state, failed)
}

fn is_erroring(record: Option<&NodeRecord>) -> bool {
    record.is_some_and(|on| on.status == Some(Status::Erroring))
}

/// The running stage, such as `driver apply`, or the operator's next action.
pub fn running(progress: &NodeProgress<'_>) -> String {
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
