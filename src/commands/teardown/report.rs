//! The removal of everything, laid out: before, and afterwards.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::blocker::Blocker;
use super::preflight::{Planned, SetsOff, TeardownPreview};
use super::remnant::Remnant;
use super::state::RemovalState;
use crate::plan::{Grade, Plan};
use crate::view::text::{self, Label, Line, Text};
use crate::view::{API_VERSION, Table, View, cells, count, plural};

/// How it has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum TeardownEnd {
    /// Nothing was done: this is what would come of it.
    Previewed,
    /// Everything that was to go is gone.
    Gone,
    /// What remains cannot go on by itself.
    Stalled,
    /// A deletion was turned down.
    NotDeleted,
    TimedOut,
    Interrupted,
}

/// What `teardown` answers.
pub struct TeardownReport<'a> {
    pub preflight: &'a TeardownPreview,
    pub plan: &'a Plan,
    pub ended: TeardownEnd,
    /// Of each object, once it has begun.
    pub standings: Vec<RemovalState>,
    pub left: Vec<Remnant>,
    pub unread: Vec<String>,
    /// What takes back what was done.
    pub journals: Vec<String>,
}

/// What a teardown deletes, what would hang and why, and how far it has got.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    api_version: String,
    /// Always `Teardown`.
    kind: String,
    ended: TeardownEnd,
    /// Whether the operator can be uninstalled: nothing is left that needs it, and everything could be read.
    safe: bool,
    grade: Grade,
    items: Vec<ItemDocument>,
    left: Vec<Remnant>,
    /// What could not be read, and why.
    unread: Vec<String>,
    journals: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ItemDocument {
    /// `kind/name`.
    object: String,
    api_version: String,
    /// What is in one wave goes together; a wave begins when what it waits for is gone.
    wave: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<i64>,
    /// The deletion was asked for before.
    was_deleting: bool,
    /// `planned`, or where it stands.
    standing: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    so_far: Option<String>,
    sets_off: SetsOff,
    /// What would hold it up, or does.
    hindrances: Vec<Blocker>,
}

impl TeardownReport<'_> {
    /// Whether nothing is left that would need the operator.
    pub fn safe(&self) -> bool {
        let gone = |s: &RemovalState| *s == RemovalState::Gone;
        let begun = self.ended == TeardownEnd::Gone || self.preflight.items.is_empty();
        begun
            && self.standings.iter().all(gone)
            && self.unread.is_empty()
            && self.left.iter().all(|l| !l.blocks)
    }

    /// What is to come; also what stands before the question.
    pub fn preview(&self) -> Text {
        let mut text = Text::new();
        let grade = self.plan.grade();
        let title = format!("teardown of {}", self.preflight.what());
        let meaning = if self.plan.is_empty() {
            "  (being deleted already)".to_owned()
        } else {
            format!("  ({grade}: {})", self.plan.consequences.at_worst(grade))
        };
        text.line(text::heading(title) + meaning);
        text.blank().table(self.planned());
        let hangs = self.preflight.items.iter().filter(|p| !p.hangs.is_empty());
        let hangs: Vec<&Planned> = hangs.collect();
        if !hangs.is_empty() {
            text.blank().line(text::warning(format!(
                "{} would hang",
                plural(hangs.len(), "object")
            )));
            let mut body = Text::new();
            for planned in hangs {
                for why in &planned.hangs {
                    let name = text::name(&planned.item.target);
                    body.item("- ", name + ": " + blocker(why));
                    if let Some(next) = &why.next {
                        let mut command = Text::new();
                        command.line(text::command(next));
                        body.indented(4, command);
                    }
                }
            }
            text.indented(2, body);
        }
        text.blank();
        if self.preflight.items.iter().any(|p| p.item.wave > 1) {
            text.item(
                "- ",
                "a wave begins once all that comes after it in order, and shares a node with it, is gone",
            );
        }
        text.item(
            "- ",
            "Ctrl-C ends it: what is not deleted yet is left unchanged; a requested deletion cannot be cancelled",
        );
        for warning in &self.plan.consequences.warnings {
            text.item("- ", text::warning("warning: ") + warning.as_str());
        }
        for lost in &self.plan.consequences.cannot_be_undone {
            text.item("- ", format!("cannot be undone: {lost}"));
        }
        for why in &self.unread {
            let warning = format!("{why}; other deletions may hang as well");
            text.item("- ", text::warning("warning: ") + warning);
        }
        text
    }

    fn planned(&self) -> Table {
        let mut table = Table::new(["wave", "object", "uninstalls", "interrupts", "would hang"]);
        for planned in &self.preflight.items {
            let off = &planned.sets_off;
            let uninstalls: Vec<String> = off
                .uninstalls
                .iter()
                .map(|(package, nodes)| format!("{package} on {}", plural(*nodes, "node")))
                .collect();
            let hang = match planned.hangs.first().map(|h| h.code.as_deref()) {
                None => text::plain("no"),
                Some(code) => Label::Warning.on(code.unwrap_or("yes")),
            };
            table.row(cells![
                planned.item.wave,
                text::name(&planned.item.target),
                uninstalls.join(", ").as_str(),
                interrupts(off).as_str(),
                hang
            ]);
        }
        table
    }

    fn outcome(&self) -> Text {
        let mut table = Table::new(["object", "result", "why", "next"]);
        for (planned, standing) in self.preflight.items.iter().zip(&self.standings) {
            let target = &planned.item.target;
            let (label, why, next) = match standing {
                RemovalState::Gone => (Label::Good, String::new(), None),
                RemovalState::Going(so_far) => (Label::Warning, so_far.clone(), None),
                RemovalState::NotBegun(first) => {
                    let more = match first.len().saturating_sub(1) {
                        0 => String::new(),
                        n => format!(" and {n} more"),
                    };
                    let first = first.first().map_or("", String::as_str);
                    let why = if first.is_empty() {
                        String::new()
                    } else {
                        format!("waits until {first}{more} is gone")
                    };
                    (Label::Warning, why, None)
                }
                RemovalState::Failed(why) | RemovalState::Unknown(why) => {
                    (Label::Error, why.clone(), None)
                }
                RemovalState::MadeAgain => (
                    Label::Error,
                    "it is being recreated, for example by a GitOps controller".to_owned(),
                    None,
                ),
                RemovalState::Stalled(all) => {
                    let first = all.first();
                    let why = first.map(Blocker::brief).unwrap_or_default();
                    let more = match all.len() {
                        0 | 1 => String::new(),
                        n => format!(" (and {} more)", n - 1),
                    };
                    (
                        Label::Error,
                        why + &more,
                        first.and_then(|h| h.next.clone()),
                    )
                }
            };
            table.row([
                text::name(target).into(),
                label.on(standing.word()).into(),
                why.as_str().into(),
                next.map_or(Line::from(""), |n| text::command(n).into()),
            ]);
        }
        Text::from(table)
    }

    fn left(&self) -> Text {
        let mut text = Text::new();
        for left in &self.left {
            let what: Line = if left.blocks {
                text::error("left: ") + left.what.as_str()
            } else {
                text::dim("left: ") + left.what.as_str()
            };
            text.item("- ", what);
            if let Some(next) = &left.next {
                let mut command = Text::new();
                command.line(text::command(next));
                text.indented(4, command);
            }
        }
        for why in &self.unread {
            text.item("- ", text::warning(why));
        }
        text
    }

    fn verdict(&self) -> Line {
        let gone = self.standings.iter().filter(|s| **s == RemovalState::Gone);
        let (gone, all) = (gone.count(), self.standings.len());
        let of = format!(": {} of {} gone", count(gone), count(all));
        if self.safe() {
            let nothing = match all {
                0 => "Nothing to remove: ",
                _ => "Everything is gone: ",
            };
            return text::good(nothing.to_owned() + "it is safe to uninstall the operator").into();
        }
        match self.ended {
            TeardownEnd::Stalled => text::error("Stalled") + of,
            TeardownEnd::NotDeleted => text::error("Not everything was deleted") + of,
            TeardownEnd::TimedOut => text::error("Timed out") + of,
            TeardownEnd::Interrupted => text::warning("Interrupted") + of,
            TeardownEnd::Gone | TeardownEnd::Previewed if self.left.iter().any(|l| l.blocks) => {
                text::error("Not safe to uninstall the operator yet") + ": something is left"
            }
            TeardownEnd::Gone | TeardownEnd::Previewed => {
                text::warning("Cannot tell whether it is safe to uninstall the operator")
                    + ": not everything could be read"
            }
        }
    }
}

/// `SKY109 deletion-blocked-while-paused: deletion of … is blocked`
fn blocker(why: &Blocker) -> Line {
    let subject = &why.subject;
    let on = match &subject.node {
        Some(node) => format!("{node}: "),
        None => String::new(),
    };
    match (&why.code, &why.name) {
        (Some(code), Some(name)) => {
            text::name(code) + " " + name.as_str() + ": " + on + why.message.as_str()
        }
        _ => Line::from(why.message.as_str()),
    }
}

fn interrupts(off: &SetsOff) -> String {
    let mut parts = Vec::new();
    for (nodes, what) in [
        (off.reboots, "rebooted"),
        (off.restarts, "with services restarted"),
    ] {
        if nodes > 0 {
            parts.push(format!("{} {what}", plural(nodes, "node")));
        }
    }
    if off.drains > 0 {
        parts.insert(0, format!("{} drained", plural(off.drains, "node")));
    }
    parts.join(", ")
}

impl View for TeardownReport<'_> {
    fn blocks(&self, _wide: bool) -> Text {
        let mut text = Text::new();
        if self.ended == TeardownEnd::Previewed && !self.preflight.items.is_empty() {
            return self.preview();
        }
        text.append(self.outcome());
        if !self.left.is_empty() || !self.unread.is_empty() {
            text.blank().append(self.left());
        }
        text.blank().line(self.verdict());
        text
    }

    fn names(&self) -> Vec<String> {
        let gone = |at: usize| self.standings.get(at) == Some(&RemovalState::Gone);
        let items = self.preflight.items.iter().enumerate();
        items
            .filter(|(at, _)| !gone(*at))
            .map(|(_, p)| p.item.target.to_string())
            .collect()
    }

    fn document(&self) -> Value {
        let items = self.preflight.items.iter().enumerate().map(|(at, p)| {
            let standing = self.standings.get(at);
            let (so_far, hindrances) = match standing {
                None => (None, p.hangs.clone()),
                Some(RemovalState::Stalled(why)) => (None, why.clone()),
                Some(RemovalState::Going(so_far)) => (Some(so_far.clone()), Vec::new()),
                Some(RemovalState::Failed(why) | RemovalState::Unknown(why)) => {
                    (Some(why.clone()), Vec::new())
                }
                Some(_) => (None, Vec::new()),
            };
            ItemDocument {
                object: p.item.target.to_string(),
                api_version: p.item.flavor.api_version(),
                wave: p.item.wave,
                priority: p.item.priority,
                was_deleting: p.deleting,
                standing: standing.map_or("planned", RemovalState::word).to_owned(),
                so_far,
                sets_off: p.sets_off.clone(),
                hindrances,
            }
        });
        let document = Document {
            api_version: API_VERSION.to_owned(),
            kind: "Teardown".to_owned(),
            ended: self.ended,
            safe: self.safe(),
            grade: self.plan.grade(),
            items: items.collect(),
            left: self.left.clone(),
            unread: self.unread.clone(),
            journals: self.journals.clone(),
        };
        serde_json::to_value(document).expect("a document is plain data")
    }
}
