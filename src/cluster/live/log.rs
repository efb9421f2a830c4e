//! The log of a container, as it comes.

use bytes::{Bytes, BytesMut};
use jiff::Timestamp;
use kube::client::Body;

use super::list::encode;
use super::request::{Failure, chunk, open};

/// Longer lines are handed out in pieces.
const LONGEST_LINE: usize = 1024 * 1024;

/// Which log to read, and what part of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Request {
    pub namespace: String,
    pub pod: String,
    pub container: String,
    /// Of the run before the present one.
    pub previous: bool,
    /// Continue as the log is written.
    pub follow: bool,
    /// Each line behind the time it was written.
    pub timestamps: bool,
    /// The last lines only.
    pub tail: Option<u64>,
    pub since: Since,
}

/// From when on.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Since {
    #[default]
    Beginning,
    Seconds(u64),
    /// The server counts whole seconds, so lines of this second are repeated.
    Time(Timestamp),
}

/// A log that is being read.
pub struct LogStream {
    body: Body,
    rest: BytesMut,
    ended: bool,
}

/// Why a log cannot be read.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{why}")]
pub struct LogError {
    /// The HTTP status; `None` without a response.
    pub code: Option<u16>,
    pub why: String,
}

impl LogError {
    /// Whether it may work in a moment: the server did not answer, or failed.
    pub fn passing(&self) -> bool {
        self.code.is_none_or(|code| code >= 500 || code == 429)
    }

    /// Whether there is nothing to read: the pod is deleted, or the container has not run. Other answers mean that the
    /// kubelet is unreachable: its node is not registered, or a proxy refuses the request.
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
    /// The pod is deleted, the container has not run, or the server refuses or does not respond.
    pub async fn open(client: &kube::Client, request: &Request) -> Result<LogStream, LogError> {
        let body = open(client, &request.path(), "*/*").await.map_err(error)?;
        Ok(LogStream { body, rest: BytesMut::new(), ended: false })
    }

    /// The next bytes, as they come; `None` at the end.
    ///
    /// # Errors
    ///
    /// The connection broke off.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, LogError> {
        chunk(&mut self.body).await.map_err(error)
    }

    /// The next line with its line end; the last one may have none. `None` at the end.
    ///
    /// # Errors
    ///
    /// The connection broke; a partial line is dropped, and requested again.
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
