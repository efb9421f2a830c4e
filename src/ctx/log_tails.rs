//! The last lines of logs, for a report that does not wait for them.

use std::time::Duration;

use futures::StreamExt;
use tokio::time::{Instant, timeout_at};

use super::Ctx;
use crate::cluster::Cluster;
use crate::cluster::attempts::ContainerLog;
use crate::cluster::live::tail::tail;

/// The time that all of them together may take.
const TIME_LIMIT: Duration = Duration::from_secs(1);
/// Logs that are read at once.
const AT_ONCE: usize = 16;

/// The result of a log request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tail {
    /// Which of the logs to try it is, and its last lines.
    Lines(usize, Vec<String>),
    /// There is no log any more, or nothing in it.
    Nothing,
    /// Why it could not be read.
    Unread(String),
    /// It was not here in time.
    Late,
}

impl From<Result<Option<(usize, Vec<String>)>, String>> for Tail {
    fn from(read: Result<Option<(usize, Vec<String>)>, String>) -> Tail {
        match read {
            Ok(Some((at, lines))) => Tail::Lines(at, lines),
            Ok(None) => Tail::Nothing,
            Err(reason) => Tail::Unread(reason),
        }
    }
}

impl Ctx {
    /// The last lines of logs, read side by side, each the first of several that holds any. After a second those that
    /// are not here are given up. Of a capture those that it holds; none where other files are read.
    pub async fn tails(&self, cluster: &Cluster, wanted: &[Vec<ContainerLog>], lines: usize) -> Vec<Tail> {
        if let Some(kept) = &cluster.kept_logs {
            let tails = wanted.iter().map(|pieces| kept.tail(pieces, lines));
            return tails.map(Tail::from).collect();
        }
        let Some(client) = self.client() else {
            return Vec::new();
        };
        let until = Instant::now() + TIME_LIMIT;
        let read = |pieces| {
            let client = client.clone();
            async move {
                match timeout_at(until, tail(&client, pieces, lines)).await {
                    Ok(read) => Tail::from(read.map_err(|error| error.to_string())),
                    Err(_) => Tail::Late,
                }
            }
        };
        futures::stream::iter(wanted).map(|pieces| read(pieces.as_slice())).buffered(AT_ONCE).collect().await
    }
}
