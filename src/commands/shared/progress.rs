//! `outlook::OnNode` as JSON fields and as text, and the progress of an uninstall.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use crate::apply::StopReason;
use crate::cluster::{Cluster, Node, Source};
use crate::commands::shared::diagnosis::Diagnosis;
use crate::commands::shared::grouped::grouped;
use crate::ctx::{Aim, AimProgress, Ctx};
use crate::error::{Error, Exit, Result};
use crate::model::{Action, NextNodes, ProgressState, QueuePosition, WaitReason};
use crate::outlook::{OnNode, Outlook};
use crate::plan::{Condition, Goal, Plan};
use crate::rules::Finding;
use crate::view::text::{self, Line, Text};
use crate::view::{Joined, NodeSet, Table, View, cells, count, duration_text, list, plural, time, to_json};
use crate::wait::uninstall::{Point, UninstallProgress};
use crate::wait::{BlockerCheck, Blockers, Wait};

/// The progress of a custom resource on a node.
#[derive(Debug, Clone, Serialize, JsonSchema)]
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
#[derive(Debug, Clone, Serialize, JsonSchema)]
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
#[derive(Debug, Clone, Serialize, JsonSchema)]
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
#[derive(Debug, Clone, Serialize, JsonSchema)]
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
#[derive(Debug, Clone, Serialize, JsonSchema)]
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
    node: String,
    /// Number of these nodes.
    node_count: usize,
    #[serde(flatten)]
    progress: Progress,
}

impl NodesEntry {
    /// One entry for nodes that differ only in names, times and positions, in the order of their first nodes.
    fn all(on_nodes: &[(&Node, OnNode<'_, '_>)]) -> Vec<NodesEntry> {
        let each = on_nodes.iter().map(|(node, on)| {
            let progress = Progress::from(on);
            let mut common = Progress { since: None, ..progress.clone() };
            if let Some(queue) = &mut common.queue {
                queue.position = None;
            }
            let held = common.held_up_by.as_mut();
            let own = held.and_then(|held| held.node.take_if(|of| node.name == *of)).is_some();
            ((own, to_json(&common).to_string()), (node.name.as_str(), progress))
        });
        let entry = |((own, _), members): ((bool, String), Vec<(&str, Progress)>)| {
            let node = NodeSet::of(members.iter().map(|(node, _)| *node)).to_string();
            let node_count = members.len();
            let since = members.iter().filter_map(|(_, progress)| progress.since.clone()).min();
            let first = members.into_iter().next().expect("a group has members").1;
            let mut progress = Progress { since, ..first };
            if let Some(queue) = progress.queue.as_mut().filter(|_| node_count > 1) {
                queue.position = None;
            }
            if let Some(held) = progress.held_up_by.as_mut().filter(|_| own) {
                held.node = Some(node.clone());
            }
            NodesEntry { node, node_count, progress }
        };
        grouped(each).into_iter().map(entry).collect()
    }
}

/// The nodes that the operator takes next in a compartment.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Next {
    /// If `ordered`, the nodes in the order in which the operator takes them; otherwise all candidates.
    nodes: Vec<String>,
    /// Whether the operator takes nodes in a defined order: by creation time and name, with a deployment
    /// policy.
    ordered: bool,
    /// Number of these nodes that the operator takes.
    count: usize,
    /// Whether they start only after the current batch; otherwise they belong to it, or start at once.
    after_batch: bool,
}

impl From<&OnNode<'_, '_>> for Progress {
    fn from(on: &OnNode<'_, '_>) -> Progress {
        let progress = &on.progress;
        let reason = progress.reason.describe();
        Progress {
            state: on.state,
            held_up_by: on.held_up_by.map(HeldUpBy::from),
            reason: Reason {
                kind: reason.code,
                object: reason.object,
                message: match &progress.reason {
                    WaitReason::Stage { package, stage } if on.state == ProgressState::Blocked => {
                        format!("stage {stage} of {package} does not finish")
                    }
                    _ => reason.text,
                },
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
            after_batch: next.after_batch,
        }
    }
}

impl Next {
    /// The nodes as a set of at most this many ranges; `2 of 40` if their order is arbitrary, `-` without
    /// nodes.
    pub fn summary(&self, runs: usize) -> String {
        let next = match self.nodes.len() {
            0 => return "-".to_owned(),
            all if !self.ordered && self.count < all => format!("{} of {}", count(self.count), count(all)),
            _ => NodeSet::of(&self.nodes).limited(runs),
        };
        if self.after_batch { format!("after the batch: {next}") } else { next }
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
            nodes: NodesEntry::all(&all),
        })
    }
}

/// Refuses `--watch` with files and with data formats; the hint names a command to use instead of a data format.
///
/// # Errors
///
/// The input is files, or the format is for programs.
pub fn refuse_watch(ctx: &Ctx, hint: Option<&str>) -> Result<()> {
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

/// The awaited uninstalls of a plan.
pub struct UninstallAim {
    /// The packages to wait for, in order.
    packages: Vec<Package>,
    /// The index of the current package.
    current: usize,
    /// Whether to wait for the operator's mirror of the node states, too: the operator's webhook checks the mirror
    /// before a package may be removed.
    mirror_too: bool,
    /// Whether the uninstall of the current package was requested when the wait last read the custom resource;
    /// `None` before the first read.
    requested: Option<bool>,
    blockers: Blockers,
}

impl UninstallAim {
    /// Starts the wait for the uninstalls of a plan from the current state; `None` if the plan waits for nothing, or
    /// for anything else.
    pub fn of(cluster: &Cluster, plan: &Plan, tolerate: Option<Duration>) -> Option<UninstallAim> {
        let goals = plan.stages.iter().filter_map(|stage| stage.until.as_ref());
        let packages: Vec<Package> = goals.map(|goal| Package::of(cluster, goal)).collect::<Option<_>>()?;
        let first = packages.first().and_then(|package| UninstallProgress::of(cluster, &package.goal).ok());
        let requested = first.map(|uninstall| uninstall.is_requested()).filter(|requested| *requested);
        (!packages.is_empty()).then(|| UninstallAim {
            packages,
            current: 0,
            // A stage without a goal removes a package from the spec.
            mirror_too: plan.stages.iter().any(|stage| stage.until.is_none()),
            requested,
            blockers: Blockers::new(cluster, tolerate),
        })
    }
}

impl Aim for UninstallAim {
    fn look(&mut self, cluster: &Cluster) -> AimProgress {
        let package = &mut self.packages[self.current];
        let goal = package.goal.clone();
        let uninstall = match UninstallProgress::of(cluster, &goal) {
            Ok(uninstall) => uninstall,
            Err(Wait::Pending(why)) => {
                let whole = format!("{why}; still waiting").as_str().into();
                return AimProgress { state: Wait::Pending(goal.describe()), whole, news: Vec::new() };
            }
            Err(state) => {
                self.requested = Some(false);
                return AimProgress { state, whole: Text::new(), news: Vec::new() };
            }
        };
        self.requested = Some(uninstall.is_requested());
        let news = package.update(&uninstall);
        let so_far = package.so_far();
        let line = |(point, nodes): (Point, Vec<String>)| {
            let set = NodeSet::of(&nodes).limited(4);
            Line::from(format!("{} on {set}: {}; {so_far}", package.name, point.words()))
        };
        let news = news.into_iter().map(line).collect();
        let whole = package.drawn();
        package.gone = package.unfinished_nodes().is_empty();
        let state = match uninstall.reached() {
            Wait::Met if self.mirror_too && uninstall.in_mirror() => Wait::Pending(format!(
                "the operator has removed {} from status.nodeState of {}",
                package.title, goal.target.name
            )),
            Wait::Pending(_) => Wait::Pending(goal.describe()),
            state => state,
        };
        AimProgress { state, whole, news }
    }

    fn blocked(&mut self, cluster: &Cluster) -> BlockerCheck {
        self.blockers.judge(cluster, std::slice::from_ref(&self.packages[self.current].goal))
    }

    /// Makes the package of the goal the current one: packages are uninstalled one after the other.
    fn begin(&mut self, goals: &[&Goal]) -> bool {
        let mut packages = self.packages.iter();
        self.current = packages.position(|p| goals.contains(&&p.goal)).unwrap_or(self.current);
        self.blockers.clear();
        // The custom resource from before the request would look like a canceled uninstall.
        true
    }

    fn found(&self) -> Option<Box<dyn View + '_>> {
        Some(Box::new(Diagnosis::of_blockers(&self.blockers)?))
    }

    fn summary(&self, finished: bool, begun: bool) -> Option<String> {
        let (gone, left): (Vec<&Package>, Vec<&Package>) = self.packages.iter().partition(|p| p.gone);
        let titles = |packages: &[&Package]| list(&Vec::from_iter(packages.iter().map(|p| &p.title)));
        let mut parts = Vec::new();
        if !gone.is_empty() {
            let verb = if gone.len() == 1 { "is" } else { "are" };
            parts.push(format!("{} {verb} gone from all nodes", titles(&gone)));
        }
        if finished {
            return (!parts.is_empty()).then(|| parts.join("; "));
        }
        let (current, later): (Vec<&Package>, Vec<&Package>) =
            left.into_iter().partition(|p| p.name == self.packages[self.current].name);
        for package in current {
            let left = package
                .unfinished_nodes()
                .into_iter()
                .map(|(point, nodes)| format!("{} on {}", point.words(), NodeSet::of(nodes).limited(4)))
                .joined(", ");
            parts.push(format!("{}: {}: {left}", package.title, package.so_far()));
            parts.push(if self.requested.unwrap_or(begun) {
                "the uninstall continues in the cluster unless it is blocked".to_owned()
            } else {
                "the spec does not request the uninstall".to_owned()
            });
        }
        if !later.is_empty() {
            parts.push(format!("{} not started", titles(&later)));
        }
        Some(parts.join("; "))
    }
}

/// One package, with its state on each node.
struct Package {
    goal: Goal,
    name: String,
    /// Name and version.
    title: String,
    /// The state on each selected node that has or had the package.
    at: BTreeMap<String, Point>,
    gone: bool,
}

impl Package {
    /// The package of a goal. Records the nodes that have it, so that its later absence counts as uninstalled.
    fn of(cluster: &Cluster, goal: &Goal) -> Option<Package> {
        let Condition::Uninstalled { package: Some(name), version: Some(version) } = &goal.condition else {
            return None;
        };
        let mut package = Package {
            goal: goal.clone(),
            name: name.clone(),
            title: format!("{name} {version}"),
            at: BTreeMap::new(),
            gone: false,
        };
        if let Ok(uninstall) = UninstallProgress::of(cluster, goal) {
            package.update(&uninstall);
        }
        Some(package)
    }

    /// Updates the state on each node; returns the changed nodes by state.
    fn update(&mut self, uninstall: &UninstallProgress<'_>) -> BTreeMap<Point, Vec<String>> {
        let mut news: BTreeMap<Point, Vec<String>> = BTreeMap::new();
        for (node, point) in &uninstall.nodes {
            let before = self.at.get(node.name.as_str());
            // A Job ends before the operator records the result: the stage does not start again in between.
            let ended = match (before, point) {
                (Some(Point::At(was)), Point::Due(stage)) => was.starts_with(stage.as_str()),
                _ => false,
            };
            if before == Some(point) || ended || (before.is_none() && *point == Point::Gone) {
                continue;
            }
            news.entry(point.clone()).or_default().push(node.name.to_string());
            self.at.insert(node.name.to_string(), point.clone());
        }
        // Do not wait for removed or deselected nodes.
        let names: BTreeSet<&str> = uninstall.nodes.iter().map(|(node, _)| node.name.as_str()).collect();
        self.at.retain(|name, _| names.contains(name.as_str()));
        news
    }

    /// Counts the finished nodes: `2 of 3 nodes done`.
    fn so_far(&self) -> String {
        let done = self.at.values().filter(|point| **point == Point::Gone).count();
        format!("{} of {} done", count(done), plural(self.at.len(), "node"))
    }

    /// The unfinished nodes by state.
    fn unfinished_nodes(&self) -> BTreeMap<&Point, Vec<&str>> {
        let mut left: BTreeMap<&Point, Vec<&str>> = BTreeMap::new();
        for (node, point) in &self.at {
            if *point != Point::Gone {
                left.entry(point).or_default().push(node);
            }
        }
        left
    }

    /// The whole progress, for a screen.
    fn drawn(&self) -> Text {
        let mut table = Table::new(["stage", "count", "nodes"]).wrap_last();
        for (point, nodes) in self.unfinished_nodes() {
            let set = NodeSet::of(&nodes);
            table.row(cells![point.words(), count(nodes.len()), set.limited(4)]);
        }
        let mut text = Text::new();
        text.line(text::heading(format!("{}: ", self.title)) + self.so_far());
        text.append(table);
        text
    }
}
