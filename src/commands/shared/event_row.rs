//! Events about custom resources, their pods, jobs and nodes; those with the same message share a row.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cluster::{Cluster, Event};
use crate::view::text::{self, Label, Line};
use crate::view::{Table, age, cells};

/// Events of one reason and message.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventRow {
    /// `Normal` or `Warning`.
    #[serde(rename = "type")]
    kind: &'static str,
    reason: String,
    message: String,
    /// The objects, as `kind/name`.
    objects: Vec<String>,
    pub count: i64,
    first: Option<String>,
    pub last: Option<String>,
    #[serde(skip)]
    pub at: Option<Timestamp>,
    /// The custom resources that they are about.
    skyhooks: Vec<String>,
}

/// Events that share a row.
#[derive(Default)]
struct Alike<'a> {
    first: Option<Timestamp>,
    last: Option<Timestamp>,
    count: i64,
    warning: bool,
    objects: BTreeSet<(&'a str, &'a str)>,
    skyhooks: BTreeSet<&'a str>,
}

impl<'a> Alike<'a> {
    fn add(&mut self, event: &'a Event) {
        self.first = self.first.into_iter().chain(event.first).min();
        self.last = self.last.max(event.last);
        self.count += event.count;
        self.warning |= event.warning;
        self.objects.insert((&event.kind, &event.name));
    }
}

/// The events about these custom resources, their pods, jobs and nodes, oldest first.
pub fn rows(cluster: &Cluster, names: &[&str]) -> Vec<EventRow> {
    let mut alike: BTreeMap<(&str, &str), Alike<'_>> = BTreeMap::new();
    // An event may mention several custom resources.
    let mut counted: BTreeSet<*const Event> = BTreeSet::new();
    for name in names {
        for event in cluster.events_mentioning(name) {
            let key = (event.reason.as_str(), event.message.as_str());
            let alike = alike.entry(key).or_default();
            alike.skyhooks.insert(name);
            if counted.insert(std::ptr::from_ref(event)) {
                alike.add(event);
            }
        }
    }
    let mut alike: Vec<_> = alike.into_iter().collect();
    alike.sort_by_key(|(key, alike)| (alike.last, alike.warning, *key));
    let row = |((reason, message), alike): ((&str, &str), Alike<'_>)| EventRow {
        kind: if alike.warning { "Warning" } else { "Normal" },
        reason: reason.to_owned(),
        message: message.to_owned(),
        objects: alike
            .objects
            .iter()
            .map(|(kind, name)| format!("{}/{name}", kind.to_lowercase()))
            .collect(),
        count: alike.count,
        first: alike.first.map(|at| at.to_string()),
        last: alike.last.map(|at| at.to_string()),
        at: alike.last,
        skyhooks: alike.skyhooks.iter().map(ToString::to_string).collect(),
    };
    alike.into_iter().map(row).collect()
}

/// The rows with their age at a time.
pub fn table(rows: &[EventRow], now: Timestamp) -> Table {
    let mut table = Table::new(["last", "count", "reason", "event"]).cut();
    for row in rows {
        table.row(cells![
            age(row.at, now),
            row.count,
            row.label().on(&row.reason),
            format!("{}{}", row.subject(), row.message)
        ]);
    }
    table
}

impl EventRow {
    /// What its events have in common: reason and message.
    pub fn key(&self) -> (String, String) {
        (self.reason.clone(), self.message.clone())
    }

    /// `10:00:05 3 Failed node/gpu-1: …`
    pub fn line(&self) -> Line {
        let time = self
            .at
            .map_or_else(String::new, |at| at.strftime("%H:%M:%S").to_string());
        let start = text::dim(format!("{time} ")) + self.count.to_string() + " ";
        start + self.label().on(&self.reason) + " " + self.subject() + self.message.as_str()
    }

    fn label(&self) -> Label {
        match self.kind {
            "Warning" => Label::Warning,
            _ => Label::Plain,
        }
    }

    /// The objects, as `kind/name`.
    pub fn objects(&self) -> impl Iterator<Item = &str> {
        self.objects.iter().map(String::as_str)
    }

    /// `node/gpu-1 and 2 more: `; nothing if the message names the object.
    fn subject(&self) -> String {
        let Some(first) = self.objects.first() else {
            return String::new();
        };
        let name = first.split_once('/').map_or("", |(_, name)| name);
        match self.objects.len() {
            1 if self.message.contains(name) => String::new(),
            1 => format!("{first}: "),
            n => format!("{first} and {} more: ", n - 1),
        }
    }
}
