//! Changes of objects, and the watches that receive them.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures::Stream;
use http_body::Frame;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::FakeApi;
use super::answer::Problem;
use super::route::Route;
use super::select::Selector;

/// All changes since the server started, or since [`History::forget`].
#[derive(Default)]
pub struct History {
    changes: Vec<Change>,
    /// A watch from a version before this one gets 410 Expired.
    oldest: u64,
    /// The number of disconnections so far; a watch that began before the last one ends.
    disconnections: u64,
    news: watch::Sender<()>,
}

struct Change {
    version: u64,
    kind: &'static str,
    resource: String,
    object: Value,
}

/// A watch request.
pub struct Watching {
    resource: String,
    namespace: String,
    labels: Selector,
    fields: Selector,
    from: u64,
    disconnections: u64,
    news: watch::Receiver<()>,
}

impl History {
    pub fn note(&mut self, version: u64, kind: &'static str, resource: &str, object: &Value) {
        let mut object = object.clone();
        object["metadata"]["resourceVersion"] = version.to_string().into();
        let resource = resource.to_owned();
        self.changes.push(Change { version, kind, resource, object });
        self.news.send_replace(());
    }

    /// Ends all watches, like a server that restarts.
    pub fn disconnect(&mut self) {
        self.disconnections += 1;
        self.news.send_replace(());
    }

    /// Forgets all changes: a watch from an earlier version gets 410 Expired.
    pub fn forget(&mut self) {
        self.oldest = self.changes.last().map_or(0, |c| c.version + 1);
        self.changes.clear();
    }

    pub fn begin(&self, route: &Route, query: &BTreeMap<String, String>) -> Result<Watching, Problem> {
        let text = |key: &str| query.get(key).map_or("", String::as_str);
        let from = text("resourceVersion").parse();
        let from: u64 = from.map_err(|_| Problem::bad_request("resourceVersion is no number"))?;
        if from < self.oldest {
            return Err(Problem::expired());
        }
        Ok(Watching {
            resource: route.kind.resource(),
            namespace: route.namespace.clone(),
            labels: Selector::labels(text("labelSelector"))?,
            fields: Selector::fields(text("fieldSelector"), &route.kind)?,
            from,
            disconnections: self.disconnections,
            news: self.news.subscribe(),
        })
    }
}

impl Watching {
    fn includes(&self, change: &Change) -> bool {
        let namespace = change.object["metadata"]["namespace"].as_str();
        change.version > self.from
            && change.resource == self.resource
            && (self.namespace.is_empty() || namespace == Some(&self.namespace))
            && self.labels.matches_labels(&change.object)
            && self.fields.matches_fields(&change.object)
    }
}

/// Streams changes as JSON lines until the watch is cut.
pub fn changes(fake: FakeApi, watching: Watching) -> impl Stream<Item = std::io::Result<Frame<Bytes>>> {
    futures::stream::unfold((fake, watching), |(fake, mut watching)| async move {
        loop {
            watching.news.borrow_and_update();
            let mut lines = String::new();
            {
                let state = fake.state();
                let history = &state.store.history;
                if history.disconnections > watching.disconnections {
                    return None;
                }
                for change in history.changes.iter().filter(|c| watching.includes(c)) {
                    lines += &json!({"type": change.kind, "object": change.object}).to_string();
                    lines += "\n";
                }
                let newest = history.changes.last().map_or(0, |c| c.version);
                watching.from = watching.from.max(newest);
            }
            if !lines.is_empty() {
                let data = Ok(Frame::data(Bytes::from(lines)));
                return Some((data, (fake, watching)));
            }
            if watching.news.changed().await.is_err() {
                return None;
            }
        }
    })
}
