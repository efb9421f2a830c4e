//! The changes of a list as the server tells them: kept on through restarts, expiry and cut connections.

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
/// A server that has not ended it so much later is not there any more.
const GRACE: Duration = Duration::from_secs(10);
/// The wait before the first try after one that failed; it doubles.
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// How often the list is read where it may not be watched.
const INSTEAD: Duration = Duration::from_secs(2);

/// What a watch tells.
#[derive(Debug)]
pub(super) enum WatchEvent<T> {
    /// What was loaded is watched from then on, and is not listed again.
    Begun,
    /// All there is: at the start, and whenever what happened in between cannot be told.
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

/// Tells of a list until nobody listens: `tell` says whether anybody does. Where the version at which it was loaded is
/// known, it is not read again, but watched from there.
pub(super) async fn watch<T: DeserializeOwned + Send + 'static>(
    client: kube::Client,
    list: List,
    mut loaded: Option<String>,
    mut tell: impl FnMut(WatchEvent<T>) -> bool,
) {
    let mut tries = 0;
    'list: loop {
        let mut begins = loaded.is_some();
        let mut version = match loaded.take() {
            Some(version) => version,
            None => match list.read_at::<T>(&client).await {
                Ok((items, version)) => {
                    tries = 0;
                    if !tell(WatchEvent::All(items)) {
                        return;
                    }
                    version
                }
                Err(failure) => {
                    if !tell(WatchEvent::Failed(failure)) {
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
                    if !expired && !tell(WatchEvent::Failed(failure)) {
                        return;
                    }
                    tries = pause(tries).await;
                    // A list says also what came of a server that has forgotten where it was.
                    continue 'list;
                }
            };
            if std::mem::take(&mut begins) && !tell(WatchEvent::Begun) {
                return;
            }
            let mut heard = false;
            while let Some(line) = stream.line().await {
                let Some(event) = WatchLine::<T>::parse(&line, list.singular()) else {
                    tries = pause(tries).await;
                    continue 'list;
                };
                heard = true;
                version = event.version;
                if event.told.is_some_and(|told| !tell(told)) {
                    return;
                }
            }
            // A stream that ends at once would otherwise be asked for again at once.
            tries = if heard { 0 } else { pause(tries).await };
        }
    }
}

/// Waits, the longer the more tries there were.
async fn pause(tries: u32) -> u32 {
    sleep((FIRST_WAIT * 2u32.saturating_pow(tries.min(8))).min(LONGEST_WAIT)).await;
    tries + 1
}

/// One line of a watch, understood.
struct WatchLine<T> {
    version: String,
    /// Nothing for a bookmark.
    told: Option<WatchEvent<T>>,
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
        let told = match line.kind.as_str() {
            "ADDED" | "MODIFIED" => Some(WatchEvent::Is(decode::item(line.object, singular).ok()?)),
            "DELETED" => {
                let namespace = metadata.namespace.unwrap_or_default();
                Some(WatchEvent::Gone((namespace, metadata.name)))
            }
            "BOOKMARK" => None,
            _ => return None,
        };
        let version = metadata.resource_version?;
        Some(WatchLine { version, told })
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
