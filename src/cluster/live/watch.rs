//! Watches a list, and goes on through restarts of the server, expiry and cut connections.

use std::time::Duration;

use bytes::BytesMut;
use kube::client::Body;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::time::{sleep, timeout};

use super::decode;
use super::list::List;
use super::request::{Failure, JSON, chunk, open};

/// After so many seconds the server ends a watch, and it is begun again where it was.
const SECONDS: u64 = 60;
/// A server that has not ended it this much later is taken to be gone.
const GRACE: Duration = Duration::from_secs(10);
/// The wait before the first try after one that failed; it doubles.
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// The time between two reads of a list that may not be watched.
const INSTEAD: Duration = Duration::from_secs(2);

/// What a watch reports.
#[derive(Debug)]
pub(super) enum WatchEvent<T> {
    /// What was loaded is watched from then on, and is not listed again.
    Begun,
    /// All items: at the start, and whenever changes may have been missed.
    All(Vec<T>),
    /// An object is new, or has changed.
    Is(T),
    /// An object is gone; namespace and name.
    Gone(Id),
    /// The server gives nothing, and why; it is asked again.
    Failed(Failure),
}

/// Namespace and name.
pub(super) type Id = (String, String);

/// Reports what happens to a list until `send` returns false, as nobody receives it any more. Where the version at
/// which the list was loaded is known, it is not read again, but watched from there.
pub(super) async fn watch<T: DeserializeOwned + Send + 'static>(
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
            None => match list.read_at::<T>(&client).await {
                Ok((items, version)) => {
                    tries = 0;
                    if !send(WatchEvent::All(items)) {
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
                let Some(line) = WatchLine::<T>::parse(&line, list.singular()) else {
                    tries = pause(tries).await;
                    continue 'list;
                };
                received = true;
                version = line.version;
                if line.event.is_some_and(|event| !send(event)) {
                    return;
                }
            }
            // A stream that ends at once would otherwise be asked for again at once.
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

/// What a bookmark has, too.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    name: String,
    namespace: Option<String>,
    resource_version: Option<String>,
}

impl<T: DeserializeOwned> WatchLine<T> {
    /// Reads a line; `None` where it says that the watch is over, by expiry (410) or otherwise, or makes no sense:
    /// then the list is read anew, and says what is wrong if anything is.
    fn parse(line: &[u8], singular: &str) -> Option<WatchLine<T>> {
        let line: RawLine<'_> = serde_json::from_slice(line).ok()?;
        let ObjectHead { metadata } = serde_json::from_str(line.object.get()).ok()?;
        let event = match line.kind.as_str() {
            "ADDED" | "MODIFIED" => Some(WatchEvent::Is(decode::item(line.object, singular).ok()?)),
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
