//! Streams the log of a container.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use jiff::Timestamp;
use kube::client::Body;

use super::list::encode;
use super::request::{Failure, chunk, open};
use crate::cluster::attempts::ContainerLog;

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
    pub async fn open(client: &kube::Client, request: &Request) -> Result<LogStream, LogError> {
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
