//! Events, in either of the two shapes that the API serves.

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
