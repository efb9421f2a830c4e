//! The text of a teardown, before and after it.

use serde_json::Value;

use super::blocker::Blocker;
use super::state::{Planned, RemovalState, Teardown};
use crate::view::text::{self, Label, Line, Text};
use crate::view::{Table, View, cells, count, document, plural};

/// The objects of a teardown, their blockers, and the leftovers.
pub struct TeardownReport<'a> {
    pub teardown: &'a Teardown,
    /// Whether the teardown has not started yet.
    pub before: bool,
}

impl Teardown {
    fn planned(&self) -> Text {
        let mut table = Table::new(["wave", "object", "uninstalls", "interrupts", "would hang"]);
        for planned in &self.items {
            let hang = match planned.blockers.first().map(|b| b.code.as_deref()) {
                None => text::plain("no"),
                Some(code) => Label::Warning.span(code.unwrap_or("yes")),
            };
            table.row(cells![
                planned.item.wave,
                text::name(&planned.item.target),
                planned.effects.uninstalls_in_words().as_str(),
                planned.effects.interrupts_in_words().as_str(),
                hang
            ]);
        }
        let mut text = Text::from(table);
        let items = self.items.iter();
        let hang: Vec<&Planned> = items.filter(|p| !p.blockers.is_empty()).collect();
        if !hang.is_empty() {
            let title = format!("{} would hang", plural(hang.len(), "object"));
            text.blank().line(text::warning(title));
        }
        for planned in hang {
            for blocker in &planned.blockers {
                let name = text::name(&planned.item.target);
                item(&mut text, name + ": " + line(blocker), &blocker.remedy);
            }
        }
        if !self.foreseen.is_empty() {
            text.blank().line(text::warning("would be left"));
        }
        for left in &self.foreseen {
            item(&mut text, line(left), &left.remedy);
        }
        text
    }

    /// The unfinished deletions, at most `most`.
    pub fn under_way(&self, most: usize) -> Text {
        let mut table = Table::new(["object", "state", "reason", "next"]);
        let mut more = 0;
        for planned in &self.items {
            let (label, state) = match planned.state {
                RemovalState::NotStarted | RemovalState::Gone => continue,
                _ if table.len() == most => {
                    more += 1;
                    continue;
                }
                RemovalState::InProgress => (Label::Warning, "in progress"),
                RemovalState::Blocked => (Label::Error, "blocked"),
            };
            let first = planned.blockers.first().filter(|_| state == "blocked");
            let why = match (first, planned.blockers.len()) {
                (None, _) => planned.progress.clone(),
                (Some(first), 1) => first.brief(),
                (Some(first), n) => format!("{} (and {} more)", first.brief(), n - 1),
            };
            let next = first.and_then(|b| b.remedy.as_ref());
            table.row([
                text::name(&planned.item.target).into(),
                label.span(state).into(),
                why.as_str().into(),
                next.map_or(Line::from(""), |n| text::command(n).into()),
            ]);
        }
        let mut text = Text::from(table);
        if more > 0 {
            text.line(text::dim(format!("and {} more", count(more))));
        }
        text
    }

    fn leftover_lines(&self) -> Text {
        let mut text = Text::new();
        for (label, all) in [(Label::Error, &self.remaining), (Label::Dim, &self.leftovers)] {
            for left in all {
                item(&mut text, label.span("left: ") + line(left), &left.remedy);
            }
        }
        text
    }
}

/// Adds an item with the command that follows from it.
fn item(text: &mut Text, what: Line, next: &Option<String>) {
    text.item("- ", what);
    if let Some(next) = next {
        let mut command = Text::new();
        command.line(text::command(next));
        text.indented(4, command);
    }
}

/// A blocker as a line: `SKY109 deletion-blocked-while-paused: deletion of … is blocked`.
fn line(blocker: &Blocker) -> Line {
    let on = match blocker.node_set() {
        Some(node) => format!("{node}: "),
        None => String::new(),
    };
    match (&blocker.code, &blocker.name) {
        (Some(code), Some(name)) => {
            text::name(code) + " " + name.as_str() + ": " + on + blocker.message.as_str()
        }
        _ => Line::from(blocker.message.as_str()),
    }
}

impl View for TeardownReport<'_> {
    fn blocks(&self, _wide: bool) -> Text {
        if self.before && !self.teardown.items.is_empty() {
            return self.teardown.planned();
        }
        let mut text = self.teardown.under_way(usize::MAX);
        text.append(self.teardown.leftover_lines());
        if self.before {
            text.blank().line(self.teardown.verdict());
        }
        text
    }

    fn names(&self) -> Vec<String> {
        let left = self.teardown.items.iter();
        let left = left.filter(|p| p.state != RemovalState::Gone);
        left.map(|p| p.item.target.to_string()).collect()
    }

    fn document(&self) -> Value {
        document("Teardown", self.teardown)
    }
}
