//! The unfinished nodes of a custom resource as a tree: compartment, node set, package and stage, pod or job.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;

use crate::api::State;
use crate::api::skyhook::compartment_title;
use crate::cluster::{Cluster, Node, PackageRun, PackageRuns};
use crate::model::ProgressState;
use crate::outlook::{OnNode, Outlook};
use crate::rules::Finding;
use crate::view::text::{self, Label, Line, Text};
use crate::view::{NodeSet, age, count, plural};

/// Maximum number of node-name ranges before the rest is counted.
const RUNS: usize = 3;

/// The grouping key of nodes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    rank: u8,
    /// `running`, or `waiting: …` with the reason.
    state: String,
    /// The active stages, such as `driver 2.0.1 apply in_progress`, each with whether it fails.
    stages: Vec<(String, bool)>,
}

/// Nodes of one compartment with equal keys.
#[derive(Default)]
struct Group<'a> {
    nodes: Vec<&'a str>,
    /// Start time of the oldest running stage.
    since: Option<Timestamp>,
    /// The active pods or jobs, each with `false` if it fails, so that failing ones are sorted first.
    runs: Vec<(bool, String)>,
}

/// The tree, in at most `lines` lines; without a limit, with all nodes.
pub fn text<'a>(outlook: &Outlook<'a>, name: &str, lines: usize) -> Text {
    let cluster = outlook.cluster;
    let runs = cluster.package_runs_for(name);
    let on_nodes: HashMap<&str, OnNode<'_, 'a>> =
        outlook.on_nodes(name).map(|(node, on)| (node.name.as_str(), on)).collect();
    let mut all = Vec::new();
    for (compartment, nodes) in outlook.model.compartments(name) {
        let mut groups: BTreeMap<Key, Group<'a>> = BTreeMap::new();
        for node in nodes {
            let Some(on) = on_nodes.get(node.name.as_str()) else {
                continue;
            };
            if on.state != ProgressState::Complete {
                add(&mut groups, cluster, &runs, name, node, on);
            }
        }
        if !groups.is_empty() {
            all.push(Line::from(text::heading(compartment_title(compartment))));
            let ranges = if lines == usize::MAX { lines } else { RUNS };
            all.extend(branches(cluster, groups, ranges));
        }
    }
    let shown = if all.len() > lines { lines.saturating_sub(1) } else { all.len() };
    let hidden = all.len() - shown;
    let mut text = Text::new();
    for line in all.into_iter().take(shown) {
        text.summary(line);
    }
    if hidden > 0 {
        let more = plural(hidden, "more line");
        text.line(text::dim(format!("{more}; -o wide shows all")));
    }
    text
}

fn add<'a>(
    groups: &mut BTreeMap<Key, Group<'a>>,
    cluster: &'a Cluster,
    runs: &PackageRuns<'a>,
    name: &str,
    node: &'a Node,
    on: &OnNode<'_, 'a>,
) {
    let progress = &on.progress;
    let record = cluster.on_node(node, name);
    let entries = record.map_or(&[][..], |record| record.entries());
    let stages: Vec<(String, bool)> = entries
        .iter()
        .filter(|e| matches!(e.state, State::InProgress | State::Erroring))
        .map(|entry| {
            let (package, version) = entry.identity();
            let stage = format!("{package} {version} {} {}", entry.stage, entry.state);
            (stage, entry.state == State::Erroring)
        })
        .collect();
    let fails = stages.iter().any(|(_, fails)| *fails);
    // A wait on another node is explained by its cause, and so is a failure here.
    let explains = |finding: &&Finding| {
        on.state > progress.state || fails && finding.subject.node.as_deref() == Some(&*node.name)
    };
    let reason = match on.held_up_by.filter(explains) {
        Some(finding) => held_up(name, node, finding),
        None => progress.reason.to_string(),
    };
    let (rank, state) = match (on.state, on.next_action()) {
        (ProgressState::Running, Some(action)) if stages.is_empty() => {
            (2, format!("the operator {action} next"))
        }
        (ProgressState::Blocked, _) if fails => (0, format!("failing: {reason}")),
        (ProgressState::Running, _) if fails => (0, "failing, retried".to_owned()),
        (ProgressState::Running, _) => (2, "running".to_owned()),
        (ProgressState::Blocked, _) => (1, format!("blocked: {reason}")),
        (ProgressState::Suspended, _) => (3, format!("starts nothing new: {reason}")),
        (ProgressState::Unknown, _) => (1, format!("unknown: {reason}")),
        _ if fails => (1, format!("failing: {reason}")),
        _ => (4, format!("waiting: {reason}")),
    };
    let key = Key { rank, state, stages };
    let group = groups.entry(key).or_default();
    group.nodes.push(&node.name);
    group.since = group.since.into_iter().chain(progress.since).min();
    let alive = runs.of_skyhook_on(name, &node.name).filter(|run| run.alive());
    group.runs.extend(alive.map(|run| run_without_trouble(cluster, run)));
}

/// The code of a finding, with the node or the custom resource that it is about if that is another one.
fn held_up(name: &str, node: &Node, finding: &Finding) -> String {
    let subject = &finding.subject;
    let skyhook = subject.skyhook.as_deref().filter(|skyhook| *skyhook != name);
    let on = subject.node.as_deref().filter(|on| node.name != *on);
    let skyhook = skyhook.map_or_else(String::new, |skyhook| format!(" {skyhook}"));
    let on = on.map_or_else(String::new, |on| format!(" on {on}"));
    format!("{} {}{skyhook}{on}", finding.rule.code, finding.rule.name)
}

/// Whether a run has no trouble, and its text such as `pod/skyhook/driver-apply-x: CrashLoopBackOff, 5
/// restarts (12m)`.
fn run_without_trouble(cluster: &Cluster, run: &PackageRun<'_>) -> (bool, String) {
    let trouble = run.trouble().map(|(_, trouble)| trouble);
    let fails = trouble.as_ref().map_or(String::new(), |trouble| {
        let restarts = match trouble.restarts {
            0 => String::new(),
            n => format!(", {}", plural(n as usize, "restart")),
        };
        format!(": {}{restarts}", trouble.reason)
    });
    let age = age(run.created(), cluster.taken_at);
    (trouble.is_none(), format!("{run}{fails} ({age})"))
}

/// The groups of a compartment as lines of a tree, each with at most `ranges` ranges of nodes.
fn branches(cluster: &Cluster, groups: BTreeMap<Key, Group<'_>>, ranges: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    let last = groups.len() - 1;
    for (at, (key, mut group)) in groups.into_iter().enumerate() {
        let (branch, below) = if at == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        let set = NodeSet::of(&group.nodes);
        let set = match set.len() {
            1 => set.to_string(),
            n => format!("{}: {}", plural(n, "node"), set.limited(ranges)),
        };
        let since = match (group.since, key.stages.is_empty()) {
            (Some(since), true) => format!(" ({})", age(Some(since), cluster.taken_at)),
            _ => String::new(),
        };
        let label = match key.rank {
            0 => Label::Error,
            1 => Label::Warning,
            2 => Label::Plain,
            _ => Label::Dim,
        };
        let head = branch + text::name(set) + "  ";
        lines.push(head + label.span(key.state) + text::dim(since));
        group.runs.sort();
        let run = group.runs.first().map(|(_, run)| match group.runs.len() {
            1 => run.clone(),
            n => format!("{run}, and {} more", count(n - 1)),
        });
        let stages = key.stages.len();
        for (at, (stage, fails)) in key.stages.into_iter().enumerate() {
            let (branch, below_stage) =
                if at + 1 == stages { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            let label = if fails { Label::Error } else { Label::Plain };
            let since = group
                .since
                .map_or(String::new(), |since| format!(" ({})", age(Some(since), cluster.taken_at)));
            lines.push(below + label.span(format!("{branch}{stage}")) + text::dim(since));
            if let Some(run) = run.as_ref().filter(|_| at + 1 == stages) {
                lines.push(text::dim(format!("{below}{below_stage}└─ {run}")).into());
            }
        }
        if let Some(run) = run.filter(|_| stages == 0) {
            lines.push(text::dim(format!("{below}└─ {run}")).into());
        }
    }
    lines
}
