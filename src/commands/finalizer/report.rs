//! The text of `finalizer status`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::deletion::Deletion;
use super::document::{Document, words};
use crate::cluster::Cluster;
use crate::commands::shared::grouped::grouped;
use crate::commands::shared::remedy::{remedy_grade, remedy_text};
use crate::commands::shared::rule::severity;
use crate::rules::Remedy;
use crate::view::shell_words;
use crate::view::text::{self, Line, Text};
use crate::view::{NodeSet, Table, View, ago, cells, document};

/// Maximum number of node-name ranges in a row.
const SHOWN: usize = 6;
/// Maximum number of nodes named in one command.
const NAMED: usize = 8;

/// The output of `finalizer status`.
pub struct FinalizerStatus<'a> {
    pub cluster: &'a Cluster,
    pub deletion: Deletion<'a>,
}

impl FinalizerStatus<'_> {
    fn title(&self) -> Line {
        let skyhook = self.deletion.skyhook;
        let (label, _, words) = words(self.deletion.state);
        let title = text::heading(skyhook.reference()) + ": " + label.span(words);
        match skyhook.metadata.deletion_timestamp {
            Some(at) => {
                let ago = ago(Some(at), self.cluster.taken_at);
                title + text::dim(format!("  requested {ago}"))
            }
            None => title,
        }
    }

    /// The pending uninstalls. Equal ones on several nodes share a row, unless `wide`.
    fn pending(&self, wide: bool) -> Table {
        let mut rows: BTreeMap<(String, String, String, String), Vec<&str>> = BTreeMap::new();
        for (at, p) in self.deletion.pending.iter().enumerate() {
            let alone = if wide { format!("{at:08}") } else { String::new() };
            let key = (
                p.entry.name.to_string(),
                p.entry.version.to_string(),
                format!("{}/{}", p.entry.stage, p.entry.state),
                alone,
            );
            rows.entry(key).or_default().push(&p.node.name);
        }
        let table = Table::new(["pending", "version", "stage", "count", "nodes"]);
        let mut table = table.names(SHOWN, "-o wide shows a row for each node");
        for ((package, version, at, _), nodes) in &rows {
            let set = NodeSet::of(nodes);
            table.row_of(cells![package.as_str(), version.as_str(), at.as_str(), set.len()], set);
        }
        table
    }

    fn findings(&self) -> Text {
        let mut text = Text::new();
        let all = self.deletion.findings.iter().enumerate();
        let alike = all.map(|(at, f)| {
            let node = f.subject.node.as_deref();
            let alone = node.is_none().then_some(at);
            ((f.rule.code, f.severity, &f.message, alone), node)
        });
        for ((code, grave, message, _), nodes) in grouped(alike) {
            let nodes = NodeSet::of(nodes.into_iter().flatten());
            let on = if nodes.is_empty() { String::new() } else { format!(" on {}", nodes.limited(SHOWN)) };
            let start = severity(grave) + " " + text::name(code) + on;
            text.item("- ", start + ": " + message.as_str());
        }
        text
    }

    /// The remedies with their nodes. Remedies that differ only in the node are merged.
    fn folded_ladder(&self) -> Vec<(Remedy, Vec<String>)> {
        let nodes = self.cluster.nodes.items().iter();
        let nodes: BTreeSet<&str> = nodes.map(|n| n.name.as_str()).collect();
        let blank = |remedy: &Remedy| {
            let mut shape = remedy.clone();
            let named = |word: &&mut String| nodes.contains(word.as_str());
            let named: Vec<String> = shape.argv.iter_mut().filter(named).map(std::mem::take).collect();
            (shape, named)
        };
        let mut folded: Vec<(Remedy, Remedy, Vec<String>)> = Vec::new();
        for remedy in self.deletion.remedies() {
            let (shape, named) = blank(&remedy);
            let same = folded.iter_mut().find(|(_, s, _)| *s == shape);
            match same.filter(|_| !named.is_empty()) {
                Some((_, _, all)) => all.extend(named),
                None => folded.push((remedy, shape, named)),
            }
        }
        folded.into_iter().map(|(r, _, all)| (r, all)).collect()
    }

    /// The command for all of these nodes, or for the first one if there are more than [`NAMED`].
    fn command(remedy: &Remedy, nodes: &[String]) -> Vec<String> {
        let all: Vec<&str> = nodes.iter().map(String::as_str).collect();
        let joined = match all.as_slice() {
            [first, _, ..] if all.len() <= NAMED && !remedy.runs("package logs") => {
                remedy.on_nodes(first, &all)
            }
            _ => None,
        };
        joined.unwrap_or_else(|| remedy.argv.clone())
    }

    /// The recommended remedy and its command.
    fn next(&self) -> Option<(Remedy, String)> {
        let next = self.deletion.recommended()?;
        let folded = self.folded_ladder();
        let own = folded.iter().find(|(remedy, _)| *remedy == next);
        let nodes = own.map_or(&[][..], |(_, nodes)| nodes);
        let command = shell_words(&Self::command(&next, nodes));
        Some((next, command))
    }

    /// The state, its reason, and the next command with its grade.
    pub fn summary(&self) -> Text {
        let mut body = Text::new();
        body.paragraph(self.deletion.reason.as_str());
        if self.deletion.skyhook.deleting()
            && let Some((remedy, command)) = self.next()
        {
            let grade = remedy_grade(&remedy);
            body.line(Line::from("now: ") + text::command(command) + "  (" + grade + ")");
        }
        let mut text = Text::new();
        text.line(self.title());
        text.indented(2, body);
        text
    }

    fn remedies(&self) -> Text {
        let mut text = Text::new();
        for (at, (remedy, nodes)) in self.folded_ladder().iter().enumerate() {
            let joins = remedy.own().is_some() && nodes.len() <= NAMED;
            let repeat = (nodes.len() > 1 && !joins)
                .then(|| format!("repeat for {}", NodeSet::of(&nodes[1..]).limited(SHOWN)));
            let mark = format!("{}. ", at + 1);
            let argv = Self::command(remedy, nodes);
            text.append(remedy_text(&mark, remedy, &argv, repeat));
        }
        text
    }
}

impl View for FinalizerStatus<'_> {
    fn blocks(&self, wide: bool) -> Text {
        let deletion = &self.deletion;
        let mut body = Text::new();
        body.paragraph(deletion.reason.as_str());
        body.line(text::dim(format!(
            "finalizers: {}",
            match deletion.skyhook.metadata.finalizers.as_slice() {
                [] => "none".to_owned(),
                all => all.join(", "),
            }
        )));
        let mut text = Text::new();
        text.line(self.title());
        text.indented(2, body);
        if deletion.state.is_none() {
            return text;
        }
        if !deletion.pending.is_empty() {
            text.blank().table(self.pending(wide));
        }
        if !deletion.findings.is_empty() {
            text.blank().line(text::dim("findings"));
            text.indented(2, self.findings());
        }
        let remedies = self.remedies();
        if !remedies.is_empty() {
            text.blank().line(text::dim("remedies, least disruptive first"));
            text.indented(2, remedies);
        }
        if let Some((_, command)) = self.next() {
            text.blank();
            text.line(Line::from("now: ") + text::command(command));
        }
        text
    }

    fn names(&self) -> Vec<String> {
        let deleting = self.deletion.skyhook.deleting();
        let pending = self.deletion.pending.iter().filter(|_| deleting);
        let mut names: Vec<String> = pending.map(|p| format!("node/{}", p.node.name)).collect();
        names.dedup();
        names
    }

    fn document(&self) -> Value {
        document("FinalizerStatus", &Document::of(self.cluster, &self.deletion))
    }
}
