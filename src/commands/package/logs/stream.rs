//! Follows one log to its end, and reconnects if the connection breaks.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::Sender;

use crate::cluster::attempts::ContainerLog;
use crate::cluster::kept_logs::split_timestamp;
use crate::cluster::live::log::{LogError, LogStream, Request, Since};

/// Maximum number of consecutive reconnects without a new line.
const RETRIES: u32 = 6;
/// Delay before the first reconnect; doubles with each further reconnect without a new line.
const FIRST_WAIT: Duration = Duration::from_millis(200);

/// One run of one container.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    pub node: String,
    pub namespace: String,
    pub pod: String,
    pub uid: String,
    pub container: String,
    pub run: i64,
}

/// How much of a log was read: the time of the last line, and the number of lines with exactly that time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogPosition {
    at: Option<Timestamp>,
    lines: usize,
}

/// A line of a log, or its end.
pub enum LogEvent {
    Line { key: Key, line: Vec<u8> },
    End { key: Key, reached: LogPosition, error: Option<LogError> },
}

/// Reads a log to its end. Reconnects after a broken connection, and continues after the last line.
pub async fn stream(
    client: kube::Client,
    request: Request,
    key: Key,
    mut reached: LogPosition,
    with_times: bool,
    slots: Arc<Semaphore>,
    events: Sender<LogEvent>,
) {
    let _slot = slots.acquire().await;
    let mut failures = 0;
    let error = loop {
        let before = reached;
        match once(&client, &request, &key, &mut reached, with_times, &events).await {
            Ok(()) => break None,
            Err(error) if !error.passing() => break Some(error),
            Err(error) => {
                failures = if reached == before { failures + 1 } else { 1 };
                if failures > RETRIES {
                    break Some(error);
                }
                tokio::time::sleep(FIRST_WAIT * 2_u32.pow(failures - 1)).await;
            }
        }
    };
    // Without a receiver, the command has ended.
    let _ = events.send(LogEvent::End { key, reached, error }).await;
}

async fn once(
    client: &kube::Client,
    request: &Request,
    key: &Key,
    reached: &mut LogPosition,
    with_times: bool,
    events: &Sender<LogEvent>,
) -> Result<(), LogError> {
    let mut request = Request { timestamps: true, ..request.clone() };
    if let Some(at) = reached.at {
        request.tail = None;
        request.since = Since::Time(at);
    }
    let mut log = LogStream::open(client, &request).await?;
    let mut again = RepeatFilter::from(*reached);
    while let Some(line) = log.line().await? {
        let (at, bare) = split_timestamp(&line);
        if at.is_some_and(|at| again.seen(at)) {
            continue;
        }
        reached.pass(at);
        let line = if with_times { line.to_vec() } else { bare.to_vec() };
        let key = key.clone();
        if events.send(LogEvent::Line { key, line }).await.is_err() {
            return Ok(());
        }
    }
    Ok(())
}

impl LogPosition {
    fn pass(&mut self, at: Option<Timestamp>) {
        match at {
            Some(at) if self.at == Some(at) => self.lines += 1,
            Some(at) => (self.at, self.lines) = (Some(at), 1),
            None => {}
        }
    }
}

/// Drops lines that are repeated after a reconnect.
struct RepeatFilter {
    until: LogPosition,
    same: usize,
}

impl From<LogPosition> for RepeatFilter {
    fn from(until: LogPosition) -> RepeatFilter {
        RepeatFilter { until, same: 0 }
    }
}

impl RepeatFilter {
    fn seen(&mut self, at: Timestamp) -> bool {
        let Some(until) = self.until.at else {
            return false;
        };
        self.same += usize::from(at == until);
        at < until || (at == until && self.same <= self.until.lines)
    }
}

impl From<&ContainerLog> for Key {
    fn from(log: &ContainerLog) -> Key {
        Key {
            node: log.node.clone(),
            namespace: log.namespace.clone(),
            pod: log.pod.clone(),
            uid: log.uid.clone(),
            container: log.container.clone(),
            run: log.run,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_last_moment_are_counted() {
        let time = |text: &str| text.parse::<Timestamp>().expect("a time");
        let (a, b, c) =
            (time("2026-11-20T12:00:00.1Z"), time("2026-11-20T12:00:00.2Z"), time("2026-11-20T12:00:00.3Z"));
        let mut reached = LogPosition::default();
        for at in [a, b, b] {
            reached.pass(Some(at));
        }
        let mut again = RepeatFilter::from(reached);
        let seen = [a, b, b, b, c].map(|at| again.seen(at));
        assert_eq!(seen, [true, true, true, false, false]);
    }
}
