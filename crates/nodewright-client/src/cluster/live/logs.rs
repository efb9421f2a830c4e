//! Reads container logs, and chooses those that explain a failure: of failing or hanging containers, and of the operator.

use std::collections::VecDeque;

use bytes::{Buf, Bytes, BytesMut};
use futures::StreamExt;
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;

use super::list::{Recorder, encode};
use super::request::{Failure, chunk, open};
use super::sources::Reader;
use crate::cluster::attempts::ContainerLog;
use crate::cluster::capture::{LOG, LOGS, LogEntry, ReadOutcome, Source};
use crate::cluster::pod::ContainerStatus;
use crate::cluster::source::Read;
use crate::cluster::{Cluster, Pod};

/// Maximum number of package pods whose logs are read.
const MOST_PODS: usize = 200;
/// Maximum number of logs that are read concurrently.
const AT_ONCE: usize = 16;
/// The maximum time per log is the total time divided by this number: logs on nodes that are down never
/// arrive, and there may be many.
const SHARE: u32 = 6;
/// Maximum number of bytes kept per log.
const MOST_BYTES: usize = 1 << 20;
/// Maximum number of bytes read per log.
const MOST_READ: usize = 64 << 20;
/// Number of lines of the operator's log, as a multiple of the lines of other logs.
const OPERATORS: u64 = 10;
/// Maximum length of a name in the path of a log, in characters.
const NAME: usize = 60;

/// Reads the logs, beginning with the logs in `asked`. Returns the result for each log and for the source.
pub(super) async fn read(
    reader: &Reader<'_>,
    recorder: Recorder<'_>,
    cluster: &Cluster,
    lines: u64,
    asked: Vec<ContainerLog>,
) -> (Vec<LogEntry>, Source) {
    let mut wanted: Vec<Request> = Vec::new();
    for piece in asked {
        let request = Request { timestamps: true, tail: Some(lines), ..Request::from(&piece) };
        if !wanted.contains(&request) {
            wanted.push(request);
        }
    }
    for pod in &cluster.operator_pods {
        wanted.extend(of_operator(pod, lines * OPERATORS));
    }
    let mut pods: Vec<&Pod> = cluster.pods.iter().filter(|p| has_useful_logs(p)).collect();
    pods.sort_by_key(|pod| (pod.trouble().is_none(), pod.path()));
    let beyond = pods.len().saturating_sub(MOST_PODS);
    for pod in pods.into_iter().take(MOST_PODS) {
        let more: Vec<Request> = of_package(pod, lines).into_iter().filter(|r| !wanted.contains(r)).collect();
        wanted.extend(more);
    }
    let mut logs: Vec<LogEntry> = futures::stream::iter(wanted.into_iter().enumerate())
        .map(|(number, request)| one(reader.client, recorder, number, request))
        .buffered(AT_ONCE)
        .collect()
        .await;
    logs.sort_by(|a, b| a.file.cmp(&b.file));
    let mut noted = Source::of("logs", &Read::Ok(logs.iter().filter(|l| l.file.is_some()).count()));
    if beyond > 0 {
        noted.message = Some(format!("the logs of {beyond} more pods were not read"));
    }
    (logs, noted)
}

/// Whether the pod failed or is running.
fn has_useful_logs(pod: &Pod) -> bool {
    pod.trouble().is_some() || pod.status.phase == "Failed" || pod.running().is_some()
}

fn request(pod: &Pod, status: &ContainerStatus, lines: u64, previous: bool) -> Request {
    Request { previous, timestamps: true, tail: Some(lines), ..Request::from(&ContainerLog::of(pod, status)) }
}

fn of_operator(pod: &Pod, lines: u64) -> Vec<Request> {
    let mut requests = Vec::new();
    for status in &pod.status.container_statuses {
        requests.push(request(pod, status, lines, false));
        if status.last_state.terminated.is_some() {
            requests.push(request(pod, status, lines, true));
        }
    }
    requests
}

/// Requests for containers that are running or failed, and for their previous runs that failed.
fn of_package(pod: &Pod, lines: u64) -> Vec<Request> {
    let mut requests = Vec::new();
    let statuses = &pod.status.init_container_statuses;
    for status in statuses.iter().chain(&pod.status.container_statuses) {
        let failed = status.state.terminated.as_ref().is_some_and(|t| t.exit_code != 0);
        let at_work = status.state.running.is_some() && statuses.iter().any(|s| s.name == status.name);
        if failed || at_work {
            requests.push(request(pod, status, lines, false));
        }
        if status.last_state.terminated.as_ref().is_some_and(|t| t.exit_code != 0) {
            requests.push(request(pod, status, lines, true));
        }
    }
    requests
}

/// Reads and records one log. The entry has no file if no log exists.
async fn one(client: &Client, recorder: Recorder<'_>, number: usize, request: Request) -> LogEntry {
    let share = recorder.patience / SHARE;
    let log = tokio::time::timeout(share, text(client, &request));
    let log = tokio::time::timeout_at(recorder.deadline, log).await;
    let late = |_| LogError { code: None, why: format!("no response within {} s", share.as_secs_f32()) };
    let log = log.map(|log| log.map_err(late).flatten());
    let mut noted = LogEntry {
        outcome: ReadOutcome::Read,
        message: None,
        file: None,
        namespace: request.namespace,
        pod: request.pod,
        container: request.container,
        previous: request.previous,
    };
    let (outcome, message) = match log {
        Ok(Ok(text)) => {
            let file = file(number, &noted);
            if recorder.tape.keep_log(&file, &recorder.tape.masks.log(&text)) {
                noted.file = Some(file);
                return noted;
            }
            (ReadOutcome::LeftOut, "omitted: the capture reached its size limit".to_owned())
        }
        Ok(Err(error)) if error.nothing_there() => return noted,
        Ok(Err(error)) if error.code == Some(403) => (ReadOutcome::Refused, error.why),
        Ok(Err(error)) => (ReadOutcome::Failed, error.why),
        Err(_) => (ReadOutcome::Failed, recorder.too_late()),
    };
    noted.outcome = outcome;
    noted.message = Some(recorder.tape.masks.words(&message));
    noted
}

/// Reads the last lines of a log, limited to `MOST_BYTES`.
async fn text(client: &Client, request: &Request) -> Result<String, LogError> {
    let mut log = LogStream::open(client, request).await?;
    let (mut bytes, mut read) = (BytesMut::new(), 0);
    while read < MOST_READ
        && let Some(chunk) = log.chunk().await?
    {
        read += chunk.len();
        bytes.extend_from_slice(&chunk);
        let beyond = bytes.len().saturating_sub(MOST_BYTES);
        if beyond > 0 {
            // Drop the partial first line together with its timestamp.
            let rest = bytes[beyond..].iter().position(|b| *b == b'\n');
            bytes.advance(rest.map_or(beyond, |at| beyond + at + 1));
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn file(number: usize, log: &LogEntry) -> String {
    let cut = |name: &str| name.chars().take(NAME).collect::<String>();
    let previous = if log.previous { ".previous" } else { "" };
    format!(
        "{LOGS}/{}/{}/{number:03}-{}{previous}{LOG}",
        cut(&log.namespace),
        cut(&log.pod),
        cut(&log.container)
    )
}

/// Maximum length of a line in bytes. Longer lines are returned in pieces.
const LONGEST_LINE: usize = 1024 * 1024;

/// A request for a log, or a part of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Request {
    pub namespace: String,
    pub pod: String,
    pub container: String,
    /// Whether to read the log of the container's previous run.
    pub previous: bool,
    /// Whether to follow the log while it is written.
    pub follow: bool,
    /// Whether each line begins with its timestamp.
    pub timestamps: bool,
    /// Maximum number of lines, counted from the end of the log.
    pub tail: Option<u64>,
    pub since: Since,
}

/// Start of the requested part.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Since {
    #[default]
    Beginning,
    Seconds(u64),
    /// From this time on. The server counts whole seconds: lines of the same second are repeated.
    Time(Timestamp),
}

/// A log that is being read.
pub struct LogStream {
    body: Body,
    rest: BytesMut,
    ended: bool,
}

/// The reason why a log cannot be read.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{why}")]
pub struct LogError {
    /// The HTTP status; `None` without a response.
    pub code: Option<u16>,
    pub why: String,
}

impl LogError {
    /// Whether a retry may succeed: the server did not respond, or failed.
    pub fn passing(&self) -> bool {
        self.code.is_none_or(|code| code >= 500 || code == 429)
    }

    /// Whether no log exists: the pod is deleted, or the container has not run. Other errors with status 400
    /// or 404 mean that the kubelet is unreachable: its node is not registered, or a proxy refuses the
    /// request.
    pub fn nothing_there(&self) -> bool {
        match self.code {
            Some(400) => self.why.contains("container"),
            Some(404) => !self.why.contains("nodes \"") && !self.why.contains('<'),
            _ => false,
        }
    }
}

impl LogStream {
    /// Requests a log.
    ///
    /// # Errors
    ///
    /// Fails if the pod is deleted, the container has not run, or the server refuses or does not respond.
    pub async fn open(client: &Client, request: &Request) -> Result<LogStream, LogError> {
        let body = open(client, &request.path(), "*/*").await.map_err(error)?;
        Ok(LogStream { body, rest: BytesMut::new(), ended: false })
    }

    /// The next bytes as they are received; `None` at the end.
    ///
    /// # Errors
    ///
    /// Fails if the connection breaks.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, LogError> {
        chunk(&mut self.body).await.map_err(error)
    }

    /// The next line with its line end, which the last line may lack. `None` at the end.
    ///
    /// # Errors
    ///
    /// Fails if the connection breaks. A partial line is dropped.
    pub async fn line(&mut self) -> Result<Option<Bytes>, LogError> {
        loop {
            let end = self.rest.iter().position(|b| *b == b'\n').map(|at| at + 1);
            let end = end.or((self.rest.len() >= LONGEST_LINE).then_some(LONGEST_LINE));
            if let Some(end) = end {
                return Ok(Some(self.rest.split_to(end).freeze()));
            }
            if self.ended {
                let rest = self.rest.split().freeze();
                return Ok((!rest.is_empty()).then_some(rest));
            }
            match self.chunk().await? {
                Some(data) => self.rest.extend_from_slice(&data),
                None => self.ended = true,
            }
        }
    }
}

impl Request {
    fn path(&self) -> String {
        let mut query = format!("container={}", encode(&self.container));
        for (asked, flag) in
            [(self.previous, "previous"), (self.follow, "follow"), (self.timestamps, "timestamps")]
        {
            if asked {
                query += &format!("&{flag}=true");
            }
        }
        if let Some(lines) = self.tail {
            query += &format!("&tailLines={lines}");
        }
        match &self.since {
            Since::Beginning => {}
            Since::Seconds(seconds) => query += &format!("&sinceSeconds={seconds}"),
            Since::Time(time) => {
                let time = time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
                query += &format!("&sinceTime={}", encode(&time));
            }
        }
        format!("/api/v1/namespaces/{}/pods/{}/log?{query}", encode(&self.namespace), encode(&self.pod))
    }
}

fn error(failure: Failure) -> LogError {
    LogError { code: failure.code(), why: failure.short() }
}

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
    client: &Client,
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

async fn last_lines(client: &Client, piece: &ContainerLog, lines: usize) -> Result<Vec<String>, LogError> {
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
