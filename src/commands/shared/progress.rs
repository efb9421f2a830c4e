//! `outlook::OnNode` as JSON fields and as text.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use crate::apply::StopReason;
use crate::cluster::{Cluster, Source};
use crate::ctx::Ctx;
use crate::error::{Error, Exit, Result};
use crate::model::{Action, NextNodes, ProgressState, QueuePosition};
use crate::outlook::{OnNode, Outlook};
use crate::rules::Finding;
use crate::view::{NodeSet, count, duration_text, time, to_json};

/// The progress of a custom resource on a node.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// The state of the progress.
    pub state: ProgressState,
    /// Why the custom resource is in this state.
    reason: Reason,
    /// The operator's next action on the node if nothing else changes in the cluster; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_action: Option<NextAction>,
    /// The finding that blocks the custom resource here, which may be about another node or custom resource; absent
    /// if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    held_up_by: Option<HeldUpBy>,
    /// The start of the running stage or of the drain; absent if neither is in progress or the time is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    /// The position among the nodes that wait for a batch; absent if the node does not wait for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<Queue>,
}

/// The reason for a state of progress.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Reason {
    /// The kind of the reason; `Nothing` if the custom resource is complete, or the operator acts in its next
    /// reconcile.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The object, package or compartment that the progress depends on; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<String>,
    /// The reason as a sentence.
    message: String,
}

/// The finding that blocks a custom resource on a node.
#[derive(Debug, Serialize, JsonSchema)]
struct HeldUpBy {
    /// The code of the rule.
    code: &'static str,
    /// The custom resource that the finding is about; absent if it is about none.
    #[serde(skip_serializing_if = "Option::is_none")]
    skyhook: Option<String>,
    /// The node that the finding is about; absent if it is about none.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    /// The observed problem.
    message: String,
}

impl From<&Finding> for HeldUpBy {
    fn from(finding: &Finding) -> HeldUpBy {
        let subject = &finding.subject;
        HeldUpBy {
            code: finding.rule.code,
            skyhook: subject.skyhook.clone(),
            node: subject.node.clone(),
            message: finding.message.clone(),
        }
    }
}

/// An action of the operator.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct NextAction {
    /// The kind of the action.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The package; absent if the action concerns none.
    #[serde(skip_serializing_if = "Option::is_none")]
    package: Option<String>,
    /// The stage; absent if the action concerns none.
    #[serde(skip_serializing_if = "Option::is_none")]
    stage: Option<String>,
    /// The action as a sentence.
    message: String,
}

/// A node's position among the nodes that wait for a batch.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Queue {
    /// The compartment of the node.
    compartment: String,
    /// The position, from 1; absent if the operator takes nodes in an arbitrary order.
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<usize>,
    /// Number of waiting nodes, this node included.
    waiting: usize,
    /// Number of nodes in the next batch.
    batch_size: usize,
    /// Number of nodes of the current batch that are not complete.
    in_progress: usize,
}

/// The progress of a custom resource on all its nodes.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceProgress {
    /// The progress on the node in `node`: a node in progress, or else the node that is furthest from
    /// complete.
    #[serde(flatten)]
    leading: Progress,
    /// The node whose progress is shown beside this field.
    node: String,
    /// The progress on all nodes, one entry for nodes that differ only in names, times and positions.
    nodes: Vec<NodesEntry>,
}

/// The progress of a custom resource on a node, or on several nodes with the same progress.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct NodesEntry {
    /// The node, or a folded set of nodes such as `gpu-[01-12]`; then `since` is the earliest time, and the position in
    /// the queue is absent.
    #[serde(rename = "name")]
    node: String,
    /// Number of these nodes.
    node_count: usize,
    #[serde(flatten)]
    progress: Progress,
}

/// Nodes with the same progress.
struct NodeGroup<'a> {
    nodes: Vec<&'a str>,
    /// The progress without what differs between the nodes.
    progress: Progress,
    since: Option<String>,
    position: Option<usize>,
    /// Whether each node is held up by its own finding.
    own: bool,
}

impl<'a> NodeGroup<'a> {
    fn of(node: &'a str, on: &OnNode<'_, '_>) -> NodeGroup<'a> {
        let mut progress = Progress::from(on);
        let since = progress.since.take();
        let position = progress.queue.as_mut().and_then(|queue| queue.position.take());
        let held = progress.held_up_by.as_mut();
        let own = held.and_then(|held| held.node.take_if(|of| of == node)).is_some();
        NodeGroup { nodes: vec![node], progress, since, position, own }
    }

    /// The groups, in the order of their first nodes.
    fn all(of: impl Iterator<Item = NodeGroup<'a>>) -> Vec<NodeGroup<'a>> {
        let mut groups: Vec<NodeGroup<'a>> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        for group in of {
            let key = format!("{} {}", group.own, to_json(&group.progress));
            match places.entry(key) {
                Entry::Occupied(place) => {
                    let known = &mut groups[*place.get()];
                    known.nodes.extend(group.nodes);
                    let both = known.since.take().into_iter().chain(group.since);
                    known.since = both.min();
                    known.position = None;
                }
                Entry::Vacant(place) => {
                    place.insert(groups.len());
                    groups.push(group);
                }
            }
        }
        groups
    }
}

impl From<NodeGroup<'_>> for NodesEntry {
    fn from(group: NodeGroup<'_>) -> NodesEntry {
        let NodeGroup { nodes, mut progress, since, position, own } = group;
        let node = NodeSet::of(&nodes).to_string();
        progress.since = since;
        if let Some(queue) = &mut progress.queue {
            queue.position = position;
        }
        if let Some(held) = progress.held_up_by.as_mut().filter(|_| own) {
            held.node = Some(node.clone());
        }
        NodesEntry { node, node_count: nodes.len(), progress }
    }
}

/// The nodes that the operator takes next in a compartment, after the current batch is complete.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Next {
    /// If `ordered`, the nodes of the next batch in the order in which the operator takes them; otherwise all
    /// candidates.
    nodes: Vec<String>,
    /// Whether the operator takes nodes in a defined order: by creation time and name, with a deployment
    /// policy.
    ordered: bool,
    /// Number of these nodes in the next batch.
    count: usize,
}

impl From<&OnNode<'_, '_>> for Progress {
    fn from(on: &OnNode<'_, '_>) -> Progress {
        let progress = &on.progress;
        Progress {
            state: on.state,
            held_up_by: on.held_up_by.map(HeldUpBy::from),
            reason: Reason {
                kind: progress.reason.code(),
                object: progress.reason.object(),
                message: progress.reason.to_string(),
            },
            next_action: progress.next_action.as_ref().map(NextAction::from),
            since: progress.since.map(time),
            queue: progress.queue.map(Queue::from),
        }
    }
}

impl From<&Action<'_>> for NextAction {
    fn from(action: &Action<'_>) -> NextAction {
        NextAction {
            kind: action.kind(),
            package: action.package().map(str::to_owned),
            stage: action.stage().map(|stage| stage.to_string()),
            message: format!("the operator {action}"),
        }
    }
}

impl From<QueuePosition<'_>> for Queue {
    fn from(queue: QueuePosition<'_>) -> Queue {
        Queue {
            compartment: queue.compartment.to_owned(),
            position: queue.number,
            waiting: queue.waiting,
            batch_size: queue.batch,
            in_progress: queue.working,
        }
    }
}

impl From<&NextNodes<'_>> for Next {
    fn from(next: &NextNodes<'_>) -> Next {
        Next {
            nodes: next.nodes.iter().map(|node| node.name.to_string()).collect(),
            ordered: next.ordered,
            count: next.count,
        }
    }
}

impl Next {
    /// The nodes as a set of at most this many ranges; `2 of 40` if their order is arbitrary, `-` without
    /// nodes.
    pub fn summary(&self, runs: usize) -> String {
        match self.nodes.len() {
            0 => "-".to_owned(),
            all if !self.ordered && self.count < all => {
                format!("{} of {}", count(self.count), count(all))
            }
            _ => NodeSet::of(&self.nodes).limited(runs),
        }
    }
}

impl ResourceProgress {
    /// The progress on all nodes; `None` if the custom resource selects no node.
    pub fn of(outlook: &Outlook<'_>, skyhook: &str) -> Option<ResourceProgress> {
        let all: Vec<_> = outlook.on_nodes(skyhook).collect();
        let running = all.iter().find(|(_, p)| p.state == ProgressState::Running);
        let (node, leading) = running.or_else(|| all.iter().max_by_key(|(_, p)| p.state))?;
        Some(ResourceProgress {
            leading: leading.into(),
            node: node.name.to_string(),
            nodes: NodeGroup::all(all.iter().map(|(node, on)| NodeGroup::of(&node.name, on)))
                .into_iter()
                .map(NodesEntry::from)
                .collect(),
        })
    }
}

/// Refuses `--watch` with files and with data formats; the hint names a command to use instead of a data format.
///
/// # Errors
///
/// The input is files, or the format is for programs.
pub fn refuse(ctx: &Ctx, hint: Option<&str>) -> Result<()> {
    let global = ctx.global();
    if !global.reading.from.is_empty() {
        return Err(Error::usage("--watch requires a cluster; --from is not supported"));
    }
    if global.output.format.is_data() {
        let error = Error::usage("--watch prints text; -o is not supported");
        return Err(match hint {
            Some(hint) => error.hint(hint),
            None => error,
        });
    }
    Ok(())
}

/// Loads the sources of a command that watches, within its `--timeout`; zero means no limit.
///
/// # Errors
///
/// The sources cannot be read; or not within that time, because the API server does not respond.
pub async fn load_within(ctx: &mut Ctx, needs: &[Source], limit: Duration) -> Result<Cluster> {
    if limit.is_zero() {
        return ctx.load(needs).await;
    }
    let loaded = tokio::time::timeout(limit, ctx.load(needs)).await;
    loaded.unwrap_or_else(|_| {
        let late =
            format!("the API server did not return the cluster's state within {}", duration_text(limit));
        Err(Error { exit: Exit::TimedOut, ..Error::failed(late) }.hint("kubectl skyhook diagnose check"))
    })
}

/// The exit code of a watch that has ended.
///
/// # Errors
///
/// The timeout has passed.
pub fn exit(ended: &StopReason, timeout: Duration) -> Result<Exit> {
    match ended {
        StopReason::Interrupted => Ok(Exit::Interrupted),
        StopReason::TimedOut { .. } => Err(Error {
            exit: Exit::TimedOut,
            ..Error::failed(format!("timed out after {}", duration_text(timeout)))
        }),
        _ => Ok(Exit::Done),
    }
}
