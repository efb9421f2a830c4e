//! The map of all nodes: one cell per node, or per set of nodes in a very large fleet.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use maud::{Markup, html};

use crate::api::Skyhook;
use crate::cluster::Node;
use crate::commands::shared::status::StatusReport;
use crate::commands::shared::status::assessment::{running, state_on_node};
use crate::model::ProgressState;
use crate::rules::Severity;
use crate::view::text::Line;
use crate::view::{NodeSet, Table, cells, count, natural, plural, sanitize};

/// Maximum number of cells of a map. In a larger fleet, a cell represents several nodes.
const CELLS: usize = 20_000;
/// Maximum number of nodes for large cells.
const FEW: usize = 400;
/// Maximum number of headings of a map; with more groups of names there are none.
const GROUPS: usize = 12;
/// Maximum number of characters of a reason.
const REASON: usize = 90;
/// Maximum number of node-name ranges in a row of the table.
const RUNS: usize = 12;

/// The worst state of a node over all custom resources that select it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeStatus {
    Unselected,
    Complete,
    Waiting,
    Running,
    Suspended,
    Unknown,
    Blocked,
    Failed,
}

impl NodeStatus {
    fn letter(self) -> &'static str {
        match self {
            NodeStatus::Failed => "F",
            NodeStatus::Blocked => "B",
            NodeStatus::Unknown => "U",
            NodeStatus::Suspended => "S",
            NodeStatus::Running => "R",
            NodeStatus::Waiting => "W",
            NodeStatus::Complete => "C",
            NodeStatus::Unselected => "-",
        }
    }

    pub fn class(self) -> &'static str {
        match self {
            NodeStatus::Unselected => "N",
            status => status.letter(),
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            NodeStatus::Failed => "failed",
            NodeStatus::Blocked => "blocked",
            NodeStatus::Unknown => "unknown",
            NodeStatus::Suspended => "suspended",
            NodeStatus::Running => "running",
            NodeStatus::Waiting => "waiting",
            NodeStatus::Complete => "complete",
            NodeStatus::Unselected => "not selected",
        }
    }

    fn of(state: ProgressState, failed: bool) -> NodeStatus {
        match state {
            _ if failed => NodeStatus::Failed,
            ProgressState::Complete => NodeStatus::Complete,
            ProgressState::Running => NodeStatus::Running,
            ProgressState::Waiting => NodeStatus::Waiting,
            ProgressState::Suspended => NodeStatus::Suspended,
            ProgressState::Unknown => NodeStatus::Unknown,
            ProgressState::Blocked => NodeStatus::Blocked,
        }
    }
}

/// A node with its status, and the custom resource and reason behind it.
struct Cell<'a> {
    name: &'a str,
    status: NodeStatus,
    reason: String,
}

/// All nodes, in the natural order of their names.
pub struct Fleet<'a>(Vec<Cell<'a>>);

impl<'a> Fleet<'a> {
    pub fn of(status: &StatusReport<'a>) -> Fleet<'a> {
        let cluster = status.cluster;
        // Without the custom resources, it is unknown whether one selects the node.
        let otherwise = match cluster.skyhooks.ok() {
            Some(_) => NodeStatus::Unselected,
            None => NodeStatus::Unknown,
        };
        let cell = |node: &'a Node| Cell { name: &node.name, status: otherwise, reason: String::new() };
        let mut cells: Vec<Cell<'a>> = cluster.nodes.items().iter().map(cell).collect();
        let places: HashMap<&str, usize> =
            cells.iter().enumerate().map(|(at, cell)| (cell.name, at)).collect();
        for skyhook in cluster.skyhooks.items() {
            add(status, skyhook, &places, &mut cells);
        }
        explain_failures(status, &places, &mut cells);
        cells.sort_by(|a, b| natural(a.name, b.name));
        Fleet(cells)
    }

    /// The number of nodes in each status that occurs, worst first.
    fn counts(&self) -> Vec<(NodeStatus, usize)> {
        counted(self.0.iter().map(|cell| cell.status))
    }

    /// The number of nodes by status: `130 nodes: 3 failed, 127 complete`.
    pub fn summary(&self) -> String {
        let counts = self.counts().into_iter();
        let counts = counts.map(|(status, n)| format!("{} {}", count(n), status.word()));
        let counts: Vec<String> = counts.collect();
        match counts.len() {
            0 => "no nodes".to_owned(),
            _ => format!("{}: {}", plural(self.0.len(), "node"), counts.join(", ")),
        }
    }

    pub fn html(&self) -> Markup {
        let nodes_per_cell = self.0.len().div_ceil(CELLS).max(1);
        let size = if self.0.len() <= FEW { "large" } else { "small" };
        html! {
            ul.legend {
                @for (status, nodes) in self.counts() {
                    li { i class=(status.class()) { (status.letter()) } " " (status.word()) " " b { (count(nodes)) } }
                }
            }
            search {
                label for="q" { "Find nodes by name, status or reason" }
                input #q type="search" autocomplete="off" placeholder="gpu-01, failed, driver apply …" aria-controls="map found";
            }
            div #found role="status" aria-live="polite" {}
            @if nodes_per_cell > 1 {
                p.dim { "A cell represents up to " (count(nodes_per_cell)) " nodes with the same status." }
            }
            div #map class=(size) role="img" aria-label=(format!("Map of {}; the table below lists them", self.summary())) {
                @for (prefix, cells) in self.groups() {
                    @if !prefix.is_empty() {
                        h3 { (sanitize(prefix)) "… " span.dim { (count(cells.len())) } }
                    }
                    div {
                        @for part in parts(cells, nodes_per_cell) {
                            i class=(part[0].status.class()) title=(hover(part)) { (part[0].status.letter()) }
                        }
                    }
                }
            }
            details open[self.0.len() <= FEW] {
                summary { "Nodes by status, as a table" }
                (self.table().html())
            }
        }
    }

    /// The nodes grouped by the prefix of their names; all under an empty heading if there is one group or
    /// too many.
    fn groups(&self) -> Vec<(&'a str, &[Cell<'a>])> {
        let prefix = |cell: &Cell<'a>| cell.name.trim_end_matches(|c: char| c.is_ascii_digit());
        let groups = self.0.chunk_by(|a, b| prefix(a) == prefix(b));
        let groups: Vec<_> = groups.map(|cells| (prefix(&cells[0]), cells)).collect();
        match groups.len() {
            2..=GROUPS => groups,
            _ => vec![("", &self.0)],
        }
    }

    /// A table with one row per status and reason.
    fn table(&self) -> Table {
        let mut rows: BTreeMap<(Reverse<NodeStatus>, &str), Vec<&str>> = BTreeMap::new();
        for cell in &self.0 {
            let key = (Reverse(cell.status), cell.reason.as_str());
            rows.entry(key).or_default().push(cell.name);
        }
        let mut table = Table::new(["status", "count", "nodes", "reason"]);
        for ((status, reason), nodes) in rows {
            let reason = if reason.is_empty() { "-" } else { reason };
            table.row(cells![status.0.word(), count(nodes.len()), NodeSet::of(&nodes).limited(RUNS), reason]);
        }
        table
    }
}

/// The number of a custom resource's nodes in each status, worst first.
pub fn nodes_by_status(status: &StatusReport<'_>, name: &str) -> Vec<(NodeStatus, usize)> {
    let deleting = status.cluster.skyhook(name).is_some_and(Skyhook::deleting);
    counted(status.model.all_progress(name).map(|(node, progress)| {
        let record = status.cluster.on_node(node, name);
        let (state, failed) = state_on_node(&progress, record, deleting);
        NodeStatus::of(state, failed)
    }))
}

fn counted(all: impl Iterator<Item = NodeStatus>) -> Vec<(NodeStatus, usize)> {
    let mut counts: BTreeMap<Reverse<NodeStatus>, usize> = BTreeMap::new();
    for status in all {
        *counts.entry(Reverse(status)).or_default() += 1;
    }
    counts.into_iter().map(|(status, n)| (status.0, n)).collect()
}

/// Updates the cells with the model's progress of a custom resource.
fn add<'a>(
    status: &StatusReport<'a>,
    skyhook: &Skyhook,
    places: &HashMap<&str, usize>,
    cells: &mut [Cell<'a>],
) {
    let name = skyhook.name();
    for (node, progress) in status.model.all_progress(name) {
        let record = status.cluster.on_node(node, name);
        let (state, failed) = state_on_node(&progress, record, skyhook.deleting());
        let own = NodeStatus::of(state, failed);
        let Some(cell) = places.get(&*node.name).map(|at| &mut cells[*at]) else {
            continue;
        };
        if own <= cell.status && cell.status != NodeStatus::Unselected {
            continue;
        }
        cell.status = own;
        cell.reason = match own {
            NodeStatus::Complete => String::new(),
            NodeStatus::Running => format!("{name}: {}", running(&progress)),
            _ => format!("{name}: {}", progress.reason),
        };
        let reason = Line::from(std::mem::take(&mut cell.reason));
        cell.reason = reason.truncated(REASON).plain();
    }
}

/// Sets the reason of failed and blocked nodes to the message of an error that `diagnose stuck` reports
/// there.
fn explain_failures(status: &StatusReport<'_>, places: &HashMap<&str, usize>, cells: &mut [Cell<'_>]) {
    let errors = status.findings.iter().rev();
    for error in errors.filter(|finding| finding.severity == Severity::Error) {
        let node = error.subject.node.as_deref();
        let Some(cell) = node.and_then(|node| places.get(node)).map(|at| &mut cells[*at]) else {
            continue;
        };
        if cell.status >= NodeStatus::Blocked {
            let reason = format!("{} {}", error.rule.code, error.message);
            cell.reason = Line::from(reason).truncated(REASON).plain();
        }
    }
}

/// Consecutive nodes of the same status, at most `most` per cell.
fn parts<'c, 'a>(cells: &'c [Cell<'a>], most: usize) -> impl Iterator<Item = &'c [Cell<'a>]> {
    let same = cells.chunk_by(|a, b| a.status == b.status);
    same.flat_map(move |cells| cells.chunks(most))
}

/// The tooltip of a cell: `gpu-0001: failed; gpu-tune: driver apply`.
fn hover(part: &[Cell<'_>]) -> String {
    let first = &part[0];
    let name = match part {
        [one] => sanitize(one.name).into_owned(),
        [first, .., last] => {
            format!("{} to {} ({})", sanitize(first.name), sanitize(last.name), part.len())
        }
        [] => String::new(),
    };
    let word = first.status.word();
    match first.reason.as_str() {
        "" => format!("{name}: {word}"),
        reason => format!("{name}: {word}; {}", sanitize(reason)),
    }
}
