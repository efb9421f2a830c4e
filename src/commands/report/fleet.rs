//! The map of all nodes: one cell per node.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use maud::{Markup, html};

use crate::api::Skyhook;
use crate::cluster::Node;
use crate::commands::shared::status::StatusReport;
use crate::model::ProgressState;
use crate::outlook::action_in_progress;
use crate::view::text::Line;
use crate::view::{NodeSet, Table, cells, count, natural, plural, sanitize};

/// Maximum number of nodes for large cells.
const FEW: usize = 400;
/// Maximum number of headings of a map; with more groups of names there are none.
const GROUPS: usize = 12;
/// Maximum number of characters of a reason in a tooltip; the table has it in full.
const REASON: usize = 90;
/// Maximum number of node-name ranges in a row of the table.
const RUNS: usize = 12;

/// The worst state of a node over all custom resources that select it; `None` if none selects it.
type Worst = Option<ProgressState>;

/// The letter of a state in the map.
fn letter(state: Worst) -> &'static str {
    match state {
        None => "-",
        Some(ProgressState::Failed) => "F",
        Some(ProgressState::Blocked) => "B",
        Some(ProgressState::Suspended) => "S",
        Some(ProgressState::Running) => "R",
        Some(ProgressState::Waiting) => "W",
        Some(ProgressState::Complete) => "C",
        Some(_) => "U",
    }
}

/// The style class of a state.
pub fn class(state: Worst) -> &'static str {
    if state.is_none() { "N" } else { letter(state) }
}

/// The state in words.
pub fn word(state: Worst) -> String {
    state.map_or_else(|| "not selected".to_owned(), ProgressState::word)
}

/// A node with its status, and the custom resource and reason behind it.
struct Cell<'a> {
    name: &'a str,
    status: Worst,
    reason: String,
}

/// All nodes, in the natural order of their names.
pub struct Fleet<'a>(Vec<Cell<'a>>);

impl<'a> Fleet<'a> {
    pub fn of(status: &StatusReport<'a>) -> Fleet<'a> {
        let cluster = status.cluster;
        // Without the custom resources, it is unknown whether one selects the node.
        let otherwise = match cluster.skyhooks.ok() {
            Some(_) => None,
            None => Some(ProgressState::Unknown),
        };
        let cell = |node: &'a Node| Cell { name: &node.name, status: otherwise, reason: String::new() };
        let mut cells: Vec<Cell<'a>> = cluster.nodes.iter().map(cell).collect();
        let places: HashMap<&str, usize> =
            cells.iter().enumerate().map(|(at, cell)| (cell.name, at)).collect();
        for skyhook in &cluster.skyhooks {
            add(status, skyhook, &places, &mut cells);
        }
        cells.sort_by(|a, b| natural(a.name, b.name));
        Fleet(cells)
    }

    /// The number of nodes in each status that occurs, worst first.
    fn counts(&self) -> Vec<(Worst, usize)> {
        counted(self.0.iter().map(|cell| cell.status))
    }

    /// The number of nodes by status: `130 nodes: 3 failed, 127 complete`.
    pub fn summary(&self) -> String {
        let counts: Vec<String> =
            self.counts().into_iter().map(|(status, n)| format!("{} {}", count(n), word(status))).collect();
        match counts.len() {
            0 => "no nodes".to_owned(),
            _ => format!("{}: {}", plural(self.0.len(), "node"), counts.join(", ")),
        }
    }

    pub fn html(&self) -> Markup {
        let size = if self.0.len() <= FEW { "large" } else { "small" };
        html! {
            ul.legend {
                @for (status, nodes) in self.counts() {
                    li { i class=(class(status)) { (letter(status)) } " " (word(status)) " " b { (count(nodes)) } }
                }
            }
            search {
                label for="q" { "Find nodes by name, status or reason" }
                input #q type="search" autocomplete="off" placeholder="gpu-01, failed, driver apply …" aria-controls="map found";
            }
            div #found role="status" aria-live="polite" {}
            div #map class=(size) role="img" aria-label=(format!("Map of {}; the table below lists them", self.summary())) {
                @for (prefix, cells) in self.groups() {
                    @if !prefix.is_empty() {
                        h3 { (sanitize(prefix)) "… " span.dim { (count(cells.len())) } }
                    }
                    div {
                        @for cell in cells {
                            i class=(class(cell.status)) title=(hover(cell)) { (letter(cell.status)) }
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
        let mut rows: BTreeMap<(Reverse<Worst>, &str), Vec<&str>> = BTreeMap::new();
        for cell in &self.0 {
            let key = (Reverse(cell.status), cell.reason.as_str());
            rows.entry(key).or_default().push(cell.name);
        }
        let mut table = Table::new(["status", "count", "nodes", "reason"]);
        for ((status, reason), nodes) in rows {
            let reason = if reason.is_empty() { "-" } else { reason };
            table.row(cells![word(status.0), count(nodes.len()), NodeSet::of(&nodes).limited(RUNS), reason]);
        }
        table
    }
}

/// The number of nodes in each state that occurs, worst first.
pub fn counted(all: impl Iterator<Item = Worst>) -> Vec<(Worst, usize)> {
    let mut counts: BTreeMap<Reverse<Worst>, usize> = BTreeMap::new();
    for status in all {
        *counts.entry(Reverse(status)).or_default() += 1;
    }
    counts.into_iter().map(|(status, n)| (status.0, n)).collect()
}

/// Updates the cells with the state of a custom resource on its nodes.
fn add<'a>(
    status: &StatusReport<'a>,
    skyhook: &Skyhook,
    places: &HashMap<&str, usize>,
    cells: &mut [Cell<'a>],
) {
    let name = skyhook.name();
    for (node, on) in status.outlook.on_nodes(name) {
        let own = Some(on.counted());
        let Some(cell) = places.get(&*node.name).map(|at| &mut cells[*at]) else {
            continue;
        };
        if own <= cell.status {
            continue;
        }
        cell.status = own;
        let reason = match (own, on.held_up_by) {
            (Some(ProgressState::Complete), _) => String::new(),
            (Some(ProgressState::Running), _) => format!("{name}: {}", action_in_progress(&on.progress)),
            (_, Some(finding)) if own >= Some(ProgressState::Blocked) => {
                format!("{} {}", finding.rule.code, finding.message)
            }
            _ => format!("{name}: {}", on.progress.reason),
        };
        cell.reason = reason;
    }
}

/// The tooltip of a cell: `gpu-0001: failed; gpu-tune: driver apply`.
fn hover(cell: &Cell<'_>) -> String {
    let (name, word) = (sanitize(cell.name), word(cell.status));
    match cell.reason.as_str() {
        "" => format!("{name}: {word}"),
        reason => {
            let reason = Line::from(sanitize(reason).as_ref()).truncated(REASON);
            format!("{name}: {word}; {}", reason.plain())
        }
    }
}
