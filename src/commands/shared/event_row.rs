//! Events of custom resources, their pods, jobs and nodes. Messages that differ only in the node or pod share
//! a row.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cluster::{Cluster, Event};
use crate::view::text::{self, Label, Line};
use crate::view::{Columns, NodeSet, Table, age, count, time};

/// Maximum number of node-name ranges in a message.
const RUNS: usize = 3;
/// The placeholder for node names in a message.
const NODES: &str = "\0";

/// Events with the same reason and message.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventRow {
    /// `Normal` or `Warning`.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The reason of the events.
    reason: String,
    /// The message; with several nodes, it names all of them.
    message: String,
    /// The message with a few of the nodes.
    #[serde(skip)]
    brief: String,
    /// The message with a placeholder for the nodes.
    #[serde(skip)]
    key: String,
    /// The objects of the events, as `kind/name`.
    objects: Vec<String>,
    /// Number of occurrences.
    pub count: i64,
    /// The time of the first occurrence; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<String>,
    /// The time of the last occurrence; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<String>,
    #[serde(skip)]
    pub at: Option<Timestamp>,
    /// The custom resources concerned.
    skyhooks: Vec<String>,
}

/// Events that share a row.
#[derive(Default)]
struct EventGroup<'a> {
    first: Option<Timestamp>,
    last: Option<Timestamp>,
    count: i64,
    warning: bool,
    objects: BTreeSet<(&'a str, &'a str)>,
    /// The nodes named by the messages.
    nodes: BTreeSet<&'a str>,
    skyhooks: BTreeSet<&'a str>,
}

impl<'a> EventGroup<'a> {
    fn add(&mut self, event: &'a Event) {
        self.first = self.first.into_iter().chain(event.first).min();
        self.last = self.last.max(event.last);
        self.count += event.count;
        self.warning |= event.warning;
        self.objects.insert((&event.kind, &event.name));
    }
}

/// The rows of events about these custom resources, their pods, jobs and nodes, oldest first.
pub fn rows(cluster: &Cluster, names: &[&str]) -> Vec<EventRow> {
    let mut groups: BTreeMap<(&str, String), EventGroup<'_>> = BTreeMap::new();
    // Count an event once, even if it mentions several custom resources.
    let mut counted: BTreeSet<*const Event> = BTreeSet::new();
    for name in names {
        let nodes = cluster.skyhook(name).into_iter().flat_map(|skyhook| cluster.selected(skyhook));
        let of_nodes = nodes.flat_map(|node| cluster.events_about("Node", &node.name));
        for event in cluster.events_mentioning(name).chain(of_nodes) {
            let (message, node) = common(event);
            let group = groups.entry((&event.reason, message)).or_default();
            group.skyhooks.insert(name);
            group.nodes.extend(node);
            if counted.insert(std::ptr::from_ref(event)) {
                group.add(event);
            }
        }
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by(|(a_key, a), (b_key, b)| (a.last, a.warning, a_key).cmp(&(b.last, b.warning, b_key)));
    let row = |((reason, message), group): ((&str, String), EventGroup<'_>)| EventRow {
        kind: if group.warning { "Warning" } else { "Normal" },
        reason: reason.to_owned(),
        message: message.replace(NODES, &NodeSet::of(&group.nodes).to_string()),
        brief: message.replace(NODES, &NodeSet::of(&group.nodes).limited(RUNS)),
        key: message,
        objects: group.objects.iter().map(|(kind, name)| format!("{}/{name}", kind.to_lowercase())).collect(),
        count: group.count,
        first: group.first.map(time),
        last: group.last.map(time),
        at: group.last,
        skyhooks: group.skyhooks.iter().map(ToString::to_string).collect(),
    };
    groups.into_iter().map(row).collect()
}

/// The message with a placeholder for the node, and that node. The operator writes `to node [NAME]`; the
/// kubelet ends with `in pod NAME_NAMESPACE(UID)`, which is removed.
fn common(event: &Event) -> (String, Option<&str>) {
    let message = event.message.as_str();
    let pod = format!(" in pod {}_", event.name);
    let of_pod = message.split_once(&pod);
    let ends = |(_, rest): &(&str, &str)| {
        event.kind == "Pod" && rest.split_once(')').is_some_and(|(_, after)| after.is_empty())
    };
    if let Some((message, _)) = of_pod.filter(ends) {
        return (message.to_owned(), None);
    }
    let node = message.split_once("node [").and_then(|(start, rest)| {
        let (name, end) = rest.split_once(']')?;
        Some((format!("{start}node [{NODES}]{end}"), name))
    });
    match node {
        Some((message, name)) => (message, Some(name)),
        None if event.kind == "Node" && message.contains(&event.name) => {
            (message.replacen(&event.name, NODES, 1), Some(&event.name))
        }
        None => (message.to_owned(), None),
    }
}

/// A table of the rows, with their ages at `now`.
pub fn table(rows: &[EventRow], now: Timestamp) -> Table {
    let columns = Columns::new()
        .with("last", |row: &&EventRow| age(row.at, now).into())
        .with("count", |row| count(row.count).into())
        .with("reason", |row| row.label().span(&row.reason).into())
        .with("event", |row| format!("{}{}", row.subject(), row.brief).into());
    columns.table(rows).truncate_last()
}

impl EventRow {
    /// The common reason and message of the events.
    pub fn key(&self) -> (String, String) {
        (self.reason.clone(), self.key.clone())
    }

    /// The row as a line: `10:00:05 3 Failed node/gpu-1: …`.
    pub fn line(&self) -> Line {
        let time = self.at.map_or_else(String::new, |at| at.strftime("%H:%M:%S").to_string());
        let start = text::dim(format!("{time} ")) + count(self.count) + " ";
        start + self.label().span(&self.reason) + " " + self.subject() + self.brief.as_str()
    }

    fn label(&self) -> Label {
        match self.kind {
            "Warning" => Label::Warning,
            _ => Label::Plain,
        }
    }

    /// The objects, each as `kind/name`.
    pub fn objects(&self) -> impl Iterator<Item = &str> {
        self.objects.iter().map(String::as_str)
    }

    /// The objects as a prefix of the message: `node/gpu-[1-3]: ` or `pod/apply-1 and 2 more: `; empty if the
    /// message names the object.
    fn subject(&self) -> String {
        let Some((first, name)) = self.objects.first().and_then(|first| first.split_once('/')) else {
            return String::new();
        };
        if self.objects.len() == 1 && self.message.contains(name) {
            return String::new();
        }
        let names = self.objects().map(|object| {
            let (kind, name) = object.split_once('/')?;
            (kind == first).then_some(name)
        });
        match names.collect::<Option<Vec<_>>>() {
            Some(names) => format!("{first}/{}: ", NodeSet::of(names).limited(1)),
            None => format!("{first}/{name} and {} more: ", count(self.objects.len() - 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pod_reference_at_the_end_of_a_message_is_removed() {
        for (message, common_message) in [
            ("Back-off restarting apply in pod driver-1_skyhook(0a1b)", "Back-off restarting apply"),
            ("Back-off in pod driver-1_skyhook(0a1b) again", "Back-off in pod driver-1_skyhook(0a1b) again"),
            ("Back-off in pod driver-1_", "Back-off in pod driver-1_"),
        ] {
            let pod = json!({"kind": "Pod", "name": "driver-1"});
            let event = json!({"metadata": {}, "involvedObject": pod, "message": message});
            let event: Event = serde_json::from_value(event).expect("an event");
            assert_eq!(common(&event), (common_message.to_owned(), None));
        }
    }
}
