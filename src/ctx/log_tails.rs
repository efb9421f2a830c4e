//! The last lines of logs, for reports that do not wait long for them.

use std::time::Duration;

use futures::StreamExt;
use tokio::time::{Instant, timeout_at};

use super::Ctx;
use crate::cluster::Cluster;
use crate::cluster::attempts::ContainerLog;
use crate::cluster::live::tail::tail;

/// Time limit for all logs together.
const TIME_LIMIT: Duration = Duration::from_secs(1);
/// Maximum number of logs read at once.
const AT_ONCE: usize = 16;

/// The result of a log request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tail {
    /// The index of the candidate with lines, and its last lines.
    Lines(usize, Vec<String>),
    /// The log no longer exists, or is empty.
    Nothing,
    /// Why the log could not be read.
    Unread(String),
    /// The log was not read within the time limit.
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
    /// The last lines of each log, read concurrently. Each log has several candidates, and the first one with lines
    /// counts. Logs that are not read within `TIME_LIMIT` are given up. A capture returns its recorded logs; other
    /// files return none.
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
