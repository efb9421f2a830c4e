//! Events, in either of the two shapes that the API serves.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use serde::Deserialize;

use crate::api::{Meta, Object, UnknownFields};

#[derive(Debug, Clone, Deserialize)]
#[serde(from = "EventObject")]
pub struct Event {
    /// Namespace and name of the event itself.
    key: (Box<str>, Box<str>),
    /// The object that the event is about.
    pub kind: String,
    pub name: String,
    pub uid: String,
    pub reason: String,
    pub message: String,
    pub warning: bool,
    pub count: i64,
    pub first: Option<Timestamp>,
    pub last: Option<Timestamp>,
    unknown_fields: UnknownFields,
}

impl Event {
    /// The custom resource that an event of the operator is about: its messages contain `[skyhook:NAME]` or
    /// `[nodewright:NAME]`.
    pub fn tag(&self) -> Option<&str> {
        let after = ["[skyhook:", "[nodewright:"].into_iter().find_map(|tag| self.message.split_once(tag));
        after?.1.split_once(']').map(|(name, _)| name)
    }
}

impl Object for Event {
    fn key(&self) -> (&str, &str) {
        (&self.key.0, &self.key.1)
    }

    fn unknown_fields(&self) -> &UnknownFields {
        &self.unknown_fields
    }

    fn set_unknown_fields(&mut self, fields: UnknownFields) {
        self.unknown_fields = fields;
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct EventObject {
    metadata: Meta,
    #[serde(alias = "regarding")]
    involved_object: Involved,
    reason: String,
    #[serde(alias = "note")]
    message: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(alias = "deprecatedCount")]
    count: i64,
    #[serde(alias = "deprecatedFirstTimestamp")]
    first_timestamp: Option<Timestamp>,
    #[serde(alias = "deprecatedLastTimestamp")]
    last_timestamp: Option<Timestamp>,
    event_time: Option<Timestamp>,
    series: Option<Series>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Involved {
    kind: String,
    name: String,
    uid: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Series {
    count: i64,
    last_observed_time: Option<Timestamp>,
}

impl From<EventObject> for Event {
    fn from(o: EventObject) -> Event {
        let series = o.series.unwrap_or_default();
        let first = o.first_timestamp.or(o.event_time).or(o.metadata.creation_timestamp);
        Event {
            key: (o.metadata.namespace.unwrap_or_default().into(), o.metadata.name.into()),
            unknown_fields: UnknownFields::default(),
            kind: o.involved_object.kind,
            name: o.involved_object.name,
            uid: o.involved_object.uid,
            reason: o.reason,
            message: o.message,
            warning: o.kind == "Warning",
            count: o.count.max(series.count).max(1),
            first,
            last: series.last_observed_time.or(o.last_timestamp).or(first),
        }
    }
}

/// Positions in the list of events, by object and by mentioned custom resource.
#[derive(Debug, Default)]
pub(super) struct EventIndex {
    by_object: HashMap<String, Vec<usize>>,
    by_mention: HashMap<String, Vec<usize>>,
}

impl EventIndex {
    /// Indexes events for custom resources with these names. `is_of_operator`: whether package pods and Jobs may be in a
    /// namespace; their names begin with that of the custom resource.
    pub fn of<'a>(
        events: &[Event],
        skyhooks: impl Iterator<Item = &'a str>,
        is_of_operator: impl Fn(&str) -> bool,
    ) -> EventIndex {
        let names = Names::of(skyhooks);
        let mut index = EventIndex::default();
        for (at, event) in events.iter().enumerate() {
            index.by_object.entry(event.name.clone()).or_default().push(at);
            let own = names.all.get(event.name.as_str()).copied();
            let mentioned = match event.tag().and_then(|tag| names.all.get(tag)) {
                Some(tagged) => vec![*tagged],
                None => names.in_text(&event.message),
            };
            let works = matches!(event.kind.as_str(), "Pod" | "Job") && is_of_operator(&event.key.0);
            let object = if works { names.in_text(&event.name) } else { Vec::new() };
            let own_names = object.into_iter().filter(|name| event.name.starts_with(*name));
            // A name may begin with another: `gpu-tune` with `gpu`.
            let of_object = own_names.max_by_key(|name| name.len());
            for name in own.into_iter().chain(mentioned).chain(of_object) {
                let by_mention = index.by_mention.entry(name.to_owned()).or_default();
                if by_mention.last() != Some(&at) {
                    by_mention.push(at);
                }
            }
        }
        index
    }

    pub fn about(&self, name: &str) -> &[usize] {
        self.by_object.get(name).map_or(&[], Vec::as_slice)
    }

    pub fn mentioning(&self, skyhook: &str) -> &[usize] {
        self.by_mention.get(skyhook).map_or(&[], Vec::as_slice)
    }
}

/// Separators between the segments of a name.
const SEPARATORS: [char; 2] = ['-', '.'];

/// Names to search for in one pass.
struct Names<'a> {
    all: HashSet<&'a str>,
    first_segments: HashSet<&'a str>,
    /// Maximum number of separators in a name.
    separators: usize,
}

impl<'a> Names<'a> {
    fn of(names: impl Iterator<Item = &'a str>) -> Names<'a> {
        let all: HashSet<&str> = names.collect();
        let first = |name: &&'a str| name.split(SEPARATORS).next();
        let separators = |name: &&str| name.matches(SEPARATORS).count();
        Names {
            first_segments: all.iter().filter_map(first).collect(),
            separators: all.iter().map(separators).max().unwrap_or(0),
            all,
        }
    }

    /// The names in a text, each as a whole word or as whole segments of a longer name.
    fn in_text(&self, text: &str) -> Vec<&'a str> {
        let of_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || SEPARATORS.contains(&c);
        let words = text.split(|c: char| !of_name(c));
        let mut found = Vec::new();
        for word in words.filter(|word| !word.is_empty()) {
            let after = word.match_indices(SEPARATORS).map(|(at, _)| at + 1);
            for start in std::iter::once(0).chain(after) {
                let rest = &word[start..];
                let ends = rest.match_indices(SEPARATORS).map(|(at, _)| at);
                let mut ends = ends.chain([rest.len()]).take(self.separators + 1);
                let first = ends.clone().next().map(|end| &rest[..end]);
                if first.is_some_and(|first| self.first_segments.contains(first)) {
                    found.extend(ends.by_ref().filter_map(|end| self.all.get(&rest[..end])));
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_as_whole_segments() {
        let names = Names::of(["gpu", "gpu-tune", "net.v2", "a"].into_iter());
        for (text, expected) in [
            ("created pod gpu-tune-driver-x7 on node", vec!["gpu", "gpu-tune"]),
            ("stage [apply] of [skyhook:net.v2].", vec!["net.v2"]),
            ("my-gpu-tune", vec!["gpu", "gpu-tune"]),
            ("gputune tune-gpux GPU", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(names.in_text(text), expected, "{text}");
        }
    }
}
