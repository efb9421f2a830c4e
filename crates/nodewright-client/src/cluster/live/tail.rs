//! Reads the last lines of a log.

use std::collections::VecDeque;

use super::log::{LogError, LogStream, Request};
use crate::cluster::attempts::ContainerLog;

/// Maximum number of bytes read from one log. If the requested lines are longer, the last of them are not
/// read.
const MOST: usize = 1024 * 1024;

/// The request for the whole log.
impl From<&ContainerLog> for Request {
    fn from(log: &ContainerLog) -> Request {
        Request {
            namespace: log.namespace.clone(),
            pod: log.pod.clone(),
            container: log.container.clone(),
            previous: log.previous,
            ..Request::default()
        }
    }
}

/// Reads the last lines of the first log that is not empty; also returns the index of this log.
///
/// # Errors
///
/// The error of the first log that could not be read. A deleted pod is not an error.
pub async fn tail(
    client: &kube::Client,
    pieces: &[ContainerLog],
    lines: usize,
) -> Result<Option<(usize, Vec<String>)>, LogError> {
    let mut failed = None;
    for (at, piece) in pieces.iter().enumerate() {
        match last_lines(client, piece, lines).await {
            Ok(found) if found.is_empty() => {}
            Ok(found) => return Ok(Some((at, found))),
            Err(error) if error.nothing_there() => {}
            Err(error) => {
                failed.get_or_insert(error);
            }
        }
    }
    failed.map_or(Ok(None), Err)
}

async fn last_lines(
    client: &kube::Client,
    piece: &ContainerLog,
    lines: usize,
) -> Result<Vec<String>, LogError> {
    let request = Request { tail: u64::try_from(lines).ok(), ..Request::from(piece) };
    let mut log = LogStream::open(client, &request).await?;
    let mut last = VecDeque::new();
    let mut read = 0;
    while let Some(line) = log.line().await? {
        read += line.len();
        last.push_back(String::from_utf8_lossy(&line).into_owned());
        if last.len() > lines {
            last.pop_front();
        }
        if read > MOST {
            break;
        }
    }
    Ok(last.into())
}
