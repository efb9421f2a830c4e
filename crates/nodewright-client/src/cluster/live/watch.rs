//! Watches a list, and continues after restarts of the server, expired versions and broken connections.
//!
//! `kube_runtime::watcher` (5.0) lists only in JSON, and not from a loaded version. Its first state of 15,000 nodes
//! takes 3.8 s and 314 MB, in types with few fields; `status` takes 1.7 s and 52 MB (`docs/performance.md`).

use std::time::Duration;

use bytes::BytesMut;
use kube::client::Body;
use memchr::memchr;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::time::{sleep, timeout};

use super::decode::{self, Listed};
use super::list::List;
use super::request::{Failure, JSON, chunk, open};
use crate::api::Object;
use crate::cluster::lenient;

/// Duration of a watch in seconds. The server then ends the watch, and the next watch continues from its
/// version.
const SECONDS: u64 = 60;
/// Time after which a server that has not ended an expired watch counts as unreachable.
const GRACE: Duration = Duration::from_secs(10);
/// Wait before the first retry; doubles with each retry.
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// Number of bytes at the start of a line that contain the type of the event and the key `object`.
const TYPE_PREFIX: usize = 30;
/// Interval between two reads of a list that the user may not watch.
const INSTEAD: Duration = Duration::from_secs(2);

/// An event of a watch.
#[derive(Debug)]
pub(super) enum WatchEvent<T> {
    /// The watch continues from the loaded version, without reading the list.
    Begun,
    /// All items: at the start, whenever changes may have been missed, and regularly if the user may not
    /// watch.
    All(Listed<T>),
    /// A new or changed object.
    Is(T),
    /// A deleted object: namespace and name.
    Gone(Id),
    /// The request failed, and is retried.
    Failed(Failure),
}

/// Namespace and name.
pub(super) type Id = (String, String);

/// Reports the events of a list until `send` returns false, when the receiver is dropped. A list with a
/// loaded version is watched from this version, without being read again.
pub(super) async fn watch<T: Object + DeserializeOwned + Send + 'static>(
    client: kube::Client,
    list: List,
    mut loaded: Option<String>,
    mut send: impl FnMut(WatchEvent<T>) -> bool,
) {
    let mut tries = 0;
    'list: loop {
        let mut begins = loaded.is_some();
        let mut version = match loaded.take() {
            Some(version) => version,
            None => match list.read::<T>(&client).await {
                Ok(listed) => {
                    tries = 0;
                    let version = listed.version.clone();
                    if !send(WatchEvent::All(listed)) {
                        return;
                    }
                    version
                }
                Err(failure) => {
                    if !send(WatchEvent::Failed(failure)) {
                        return;
                    }
                    tries = pause(tries).await;
                    continue;
                }
            },
        };
        loop {
            let changes = list.changes(&version, SECONDS);
            let mut stream = match open(&client, &changes, JSON).await {
                Ok(body) => LineStream { body, rest: BytesMut::new(), scanned: 0 },
                Err(failure) if matches!(failure.code(), Some(403 | 405)) => {
                    if !begins {
                        sleep(INSTEAD).await;
                    }
                    continue 'list;
                }
                Err(failure) => {
                    let expired = failure.code() == Some(410);
                    if !expired && !send(WatchEvent::Failed(failure)) {
                        return;
                    }
                    tries = pause(tries).await;
                    // Read the list again: the server may have dropped the version.
                    continue 'list;
                }
            };
            if std::mem::take(&mut begins) && !send(WatchEvent::Begun) {
                return;
            }
            let mut received = false;
            while let Some(line) = stream.line().await {
                let Some(line) = WatchLine::<T>::parse(&line) else {
                    tries = pause(tries).await;
                    continue 'list;
                };
                received = true;
                version = line.version;
                if line.event.is_some_and(|event| !send(event)) {
                    return;
                }
            }
            // Pause before the next request: a stream that ends immediately would cause a busy loop.
            tries = if received { 0 } else { pause(tries).await };
        }
    }
}

/// Waits before a retry, exponentially longer with `tries`; returns the new number of tries.
async fn pause(tries: u32) -> u32 {
    sleep((FIRST_WAIT * 2u32.saturating_pow(tries.min(8))).min(LONGEST_WAIT)).await;
    tries + 1
}

/// A decoded line of a watch.
struct WatchLine<T> {
    version: String,
    /// `None` for a bookmark.
    event: Option<WatchEvent<T>>,
}

#[derive(Deserialize)]
struct RawLine<'a> {
    #[serde(rename = "type")]
    kind: String,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// The common part of objects and bookmarks.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    name: String,
    namespace: Option<String>,
    resource_version: Option<String>,
}

impl<T: Object + DeserializeOwned> WatchLine<T> {
    /// Parses a line; `None` if the watch ended, by expiry (410) or otherwise, or if the line is malformed:
    /// the list is read again then, which reports any error.
    fn parse(line: &[u8]) -> Option<WatchLine<T>> {
        let (kind, object) = split(line)?;
        let metadata: Metadata = decode::metadata(object)?;
        let event = match kind.as_str() {
            "ADDED" | "MODIFIED" => {
                let object = lenient::decode_text(object);
                Some(WatchEvent::Is(object.ok()?.ok()?))
            }
            "DELETED" => {
                let namespace = metadata.namespace.unwrap_or_default();
                Some(WatchEvent::Gone((namespace, metadata.name)))
            }
            "BOOKMARK" => None,
            _ => return None,
        };
        let version = metadata.resource_version?;
        Some(WatchLine { version, event })
    }
}

/// Splits a line into type and object. Fast path for lines as API servers write them: the object is not
/// scanned.
fn split(line: &[u8]) -> Option<(String, &[u8])> {
    let spelled = || {
        let line = std::str::from_utf8(line.get(..TYPE_PREFIX.min(line.len()))?);
        line.ok()?.strip_prefix(r#"{"type":""#)?.split_once(r#"","object":"#).map(|(kind, _)| kind)
    };
    if let Some(kind) = spelled() {
        let begin = r#"{"type":"","object":"#.len() + kind.len();
        let object = line[begin..].trim_ascii_end().strip_suffix(b"}");
        return object.map(|object| (kind.to_owned(), object));
    }
    let line: RawLine<'_> = serde_json::from_slice(line).ok()?;
    Some((line.kind, line.object.get().as_bytes()))
}

/// The lines of a body.
struct LineStream {
    body: Body,
    rest: BytesMut,
    /// Number of bytes at the start of `rest` that contain no line end.
    scanned: usize,
}

impl LineStream {
    /// The next whole line; `None` if the server ends the response, the connection breaks, or nothing arrives
    /// for too long.
    async fn line(&mut self) -> Option<BytesMut> {
        loop {
            if let Some(end) = memchr(b'\n', &self.rest[self.scanned..]) {
                let line = self.rest.split_to(self.scanned + end + 1);
                self.scanned = 0;
                return Some(line);
            }
            self.scanned = self.rest.len();
            let patience = Duration::from_secs(SECONDS) + GRACE;
            let data = timeout(patience, chunk(&mut self.body)).await.ok()?.ok()??;
            self.rest.extend_from_slice(&data);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Node;

    /// Kind of the event, name and version of the object.
    fn parsed(line: &str) -> Option<(&'static str, String, String)> {
        let WatchLine { version, event } = WatchLine::<Node>::parse(line.as_bytes())?;
        let (kind, name) = match event {
            Some(WatchEvent::Is(node)) => ("is", node.name.to_string()),
            Some(WatchEvent::Gone((_, name))) => ("gone", name),
            None => ("bookmark", String::new()),
            other => panic!("{other:?}"),
        };
        Some((kind, name, version))
    }

    #[test]
    fn lines_are_read_in_any_spelling() {
        let read = |kind, name: &str| Some((kind, name.to_owned(), "7".to_owned()));
        for (line, expected) in [
            (
                r#"{"type":"MODIFIED","object":{"kind":"Node","metadata":{"name":"n","resourceVersion":"7"},"spec":{}}}"#,
                read("is", "n"),
            ),
            // Keys in another order, and an annotation with the name of a field.
            (
                r#" { "object" : {"spec":{},"metadata":{"annotations":{"resourceVersion":"1"},"resourceVersion":"7","name":"n"}},
                     "type" : "ADDED" }"#,
                read("is", "n"),
            ),
            (
                r#"{"type":"DELETED","object":{"metadata":{"name":"ü","resourceVersion":"7"}}}"#,
                read("gone", "ü"),
            ),
            (r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7"}}}"#, read("bookmark", "")),
            (r#"{"type":"ERROR","object":{"code":410,"metadata":{}}}"#, None),
            (r#"{"type":"MODIFIED","object":{"kind":"Node"}}"#, None),
            (r#"{"type":"MODIFIED","object":{"metadata":{"name":"n","resourceVersion":"7"},"spec":"#, None),
            ("{", None),
        ] {
            assert_eq!(parsed(line), expected, "{line}");
            assert_eq!(parsed(&format!("{line}\n")), expected, "{line}");
        }
    }
}
