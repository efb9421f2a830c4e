//! Watches a list, and goes on through restarts of the server, expiry and cut connections.

use std::time::Duration;

use bytes::BytesMut;
use kube::client::Body;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::time::{sleep, timeout};

use super::decode::Listed;
use super::list::List;
use super::request::{Failure, JSON, chunk, open};
use crate::api::Object;
use crate::cluster::lenient;

/// Seconds until the server ends a watch, which then continues at its version.
const SECONDS: u64 = 60;
/// A server that has not ended it this much later is taken to be gone.
const GRACE: Duration = Duration::from_secs(10);
/// The wait before the first try after one that failed; it doubles.
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// The time between two reads of a list that may not be watched.
const INSTEAD: Duration = Duration::from_secs(2);

/// An event of a watch.
#[derive(Debug)]
pub(super) enum WatchEvent<T> {
    /// The watch continues from the loaded version, without a list.
    Begun,
    /// All items: at the start, and whenever changes may have been missed.
    All(Listed<T>),
    /// An object is new, or has changed.
    Is(T),
    /// A deleted object: namespace and name.
    Gone(Id),
    /// The request failed, and is retried.
    Failed(Failure),
}

/// Namespace and name.
pub(super) type Id = (String, String);

/// Reports the events of a list until `send` returns false, when the receiver is dropped. A list with a known version
/// is not read again, but watched from it.
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
                Ok(body) => LineStream {
                    body,
                    rest: BytesMut::new(),
                },
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
                    // If the server has forgotten the version, the list is read again.
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
            // Pause before the next request, or a stream that ends immediately would loop.
            tries = if received { 0 } else { pause(tries).await };
        }
    }
}

/// Waits, the longer the more tries there were.
async fn pause(tries: u32) -> u32 {
    sleep((FIRST_WAIT * 2u32.saturating_pow(tries.min(8))).min(LONGEST_WAIT)).await;
    tries + 1
}

/// One line of a watch, decoded.
struct WatchLine<T> {
    version: String,
    /// Nothing for a bookmark.
    event: Option<WatchEvent<T>>,
}

#[derive(Deserialize)]
struct RawLine<'a> {
    #[serde(rename = "type")]
    kind: String,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct ObjectHead {
    metadata: Metadata,
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
    /// Parses a line; `None` if the watch ended, by expiry (410) or otherwise, or the line is malformed: the list is
    /// then read again, and reports any error.
    fn parse(line: &[u8]) -> Option<WatchLine<T>> {
        let line: RawLine<'_> = serde_json::from_slice(line).ok()?;
        let ObjectHead { metadata } = serde_json::from_str(line.object.get()).ok()?;
        let event = match line.kind.as_str() {
            "ADDED" | "MODIFIED" => {
                let object = lenient::decode_text(line.object.get().as_bytes());
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

/// The lines of a body.
struct LineStream {
    body: Body,
    rest: BytesMut,
}

impl LineStream {
    /// The next whole line; `None` once the server ends, breaks off or falls silent for too long.
    async fn line(&mut self) -> Option<BytesMut> {
        loop {
            if let Some(end) = self.rest.iter().position(|b| *b == b'\n') {
                return Some(self.rest.split_to(end + 1));
            }
            let patience = Duration::from_secs(SECONDS) + GRACE;
            let data = timeout(patience, chunk(&mut self.body))
                .await
                .ok()?
                .ok()??;
            self.rest.extend_from_slice(&data);
        }
    }
}
