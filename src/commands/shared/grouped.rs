//! Grouping of equal items, to show each group once.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::Hash;

use crate::view::text::{Line, Text};
use crate::view::{Columns, NodeSet, Table, count};

/// Groups items by key. Groups and items keep the order of first appearance.
pub fn grouped<K, V>(items: impl IntoIterator<Item = (K, V)>) -> Vec<(K, Vec<V>)>
where
    K: Clone + Eq + Hash,
{
    let mut groups: Vec<(K, Vec<V>)> = Vec::new();
    let mut places = HashMap::new();
    for (key, item) in items {
        let at = *places.entry(key.clone()).or_insert(groups.len());
        if at == groups.len() {
            groups.push((key, Vec::new()));
        }
        groups[at].1.push(item);
    }
    groups
}

/// Maximum number of rows before a table on a terminal is folded.
const ROWS: usize = 50;
/// Maximum number of node-name ranges before the rest is counted.
const RUNS: usize = 3;
/// The columns after the cells.
const END: [&str; 2] = ["count", "nodes"];

// No doc comment: clap would use it as the description of commands that have none.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct Expand {
    /// Show one row per node; by default a terminal folds tables of more than 50 rows
    #[arg(long, help_heading = "Output options")]
    expand: bool,
}

impl Expand {
    /// Whether to fold this many rows. In a pipe, or with `--expand`, each node has its own row.
    pub fn folds(self, rows: usize, terminal: bool) -> bool {
        terminal && !self.expand && rows > ROWS
    }
}

/// A table with one row per group of equal rows, with the number and the set of its nodes; largest groups
/// first.
pub fn table<R>(columns: &Columns<'_, R>, rows: &[R], node: impl Fn(&R) -> &str) -> Table {
    folded(columns, largest_first(columns, rows), node)
}

/// [`table`] with the rows in the order of first appearance.
pub fn in_order<R>(columns: &Columns<'_, R>, rows: &[R], node: impl Fn(&R) -> &str, wide: bool) -> Table {
    let table = empty(columns);
    let table = if wide { table } else { table.names(RUNS, "-o wide shows all nodes") };
    filled(table, groups(columns, rows), node)
}

fn empty<R>(columns: &Columns<'_, R>) -> Table {
    Table::new(columns.headings().iter().chain(&END))
}

/// Maximum number of notes below a table.
const NOTES: usize = 20;

/// [`table`], and below it the notes of the largest groups, each after the `title` of its group.
pub fn with_notes<R>(
    columns: &Columns<'_, R>,
    rows: &[R],
    node: impl Fn(&R) -> &str,
    title: impl Fn(&R) -> String,
    note: impl Fn(&R) -> &str,
) -> Text {
    let groups = largest_first(columns, rows);
    let of_group = |rows: &Vec<&R>| {
        let mut notes = rows.iter().map(|row| note(row)).filter(|note| !note.is_empty());
        let first = notes.next()?;
        let more = if notes.all(|note| note == first) { "" } else { "; on other nodes for other reasons" };
        Some(format!("{}: {first}{more}", title(rows[0])))
    };
    let notes: Vec<String> = groups.iter().filter_map(|(_, rows)| of_group(rows)).take(NOTES).collect();
    let mut text = Text::from(folded(columns, groups, node));
    notes.into_iter().for_each(|note| {
        text.summary(note);
    });
    text
}

fn largest_first<'a, R>(columns: &Columns<'_, R>, rows: &'a [R]) -> Vec<Group<'a, R>> {
    let mut groups = groups(columns, rows);
    groups.sort_by_key(|(_, rows)| Reverse(rows.len()));
    groups
}

fn folded<R>(columns: &Columns<'_, R>, groups: Vec<Group<'_, R>>, node: impl Fn(&R) -> &str) -> Table {
    filled(empty(columns).names(RUNS, "--expand shows a row for each node"), groups, node)
}

/// The cells that the rows share, and the rows.
type Group<'a, R> = (Vec<Line>, Vec<&'a R>);

fn groups<'a, R>(columns: &Columns<'_, R>, rows: &'a [R]) -> Vec<Group<'a, R>> {
    let rows = rows.iter().map(|row| {
        let cells = columns.cells(row);
        let key: Vec<String> = cells.iter().map(Line::plain).collect();
        (key, (cells, row))
    });
    let groups = grouped(rows).into_iter().map(|(_, mut rows)| {
        let all = rows.iter().map(|(_, row)| *row).collect();
        (rows.swap_remove(0).0, all)
    });
    groups.collect()
}

fn filled<R>(mut table: Table, groups: Vec<Group<'_, R>>, node: impl Fn(&R) -> &str) -> Table {
    for (cells, rows) in groups {
        let count = count(rows.len()).into();
        let nodes = NodeSet::of(rows.iter().map(|row| node(row)));
        table.row_of(cells.into_iter().chain::<[Line; 1]>([count]), nodes);
    }
    table
}
