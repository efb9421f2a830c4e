//! The index of a capture: time, tool versions, and the result for each source.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cluster::hold::HolderLiveness;
use crate::cluster::read::{Read, Unread};

pub const API_VERSION: &str = "kubectl-skyhook/v1";
pub const KIND: &str = "Capture";
/// Name of the index file.
pub const FILE: &str = "index.json";
/// Directory of the logs, with subdirectories by namespace and pod.
pub const LOGS: &str = "logs";
/// Suffix of the log files.
pub const LOG: &str = ".log";

/// Metadata of a capture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Index {
    pub api_version: String,
    pub kind: String,
    /// When the cluster was read.
    pub taken_at: Timestamp,
    pub versions: ToolVersions,
    /// APIs of the operator that the cluster serves, by group.
    pub served: Vec<String>,
    /// Runs of this program that paused custom resources, by their identity, and whether each was running on
    /// the machine that collected the capture.
    #[serde(default, skip_serializing_if = "HolderLiveness::is_empty")]
    pub holders: HolderLiveness,
    pub sources: Vec<Source>,
    /// Files of objects. A listed file that is missing was lost after the capture was written.
    pub files: Vec<String>,
    #[serde(default)]
    pub logs: Vec<LogEntry>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolVersions {
    pub tool: String,
    pub server: Option<String>,
    pub operator: Option<String>,
}

/// A source of the capture, and the result of reading it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    pub name: String,
    pub outcome: ReadOutcome,
    /// Number of items, if they were read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<usize>,
    /// HTTP status of the error, and the reason why the source is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The result of reading a source or a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ReadOutcome {
    /// All items were read; there may be none.
    Read,
    /// Items whose identity could not be read are missing.
    Incomplete,
    /// The server refused the request.
    Refused,
    /// The source could not be read for another reason.
    Failed,
    /// The items were dropped to stay within the size limit of the capture.
    LeftOut,
    /// Not requested, because the cluster's API does not have the source.
    NotRequested,
}

/// The result of reading the log of one container.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogEntry {
    pub namespace: String,
    pub pod: String,
    pub container: String,
    /// Whether the log is of the container's previous run.
    #[serde(default)]
    pub previous: bool,
    pub outcome: ReadOutcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Path of the log; `None` if the log was read and is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

impl Source {
    pub fn of(name: &str, read: &Read<usize>) -> Source {
        let (outcome, items, why) = match read {
            Read::Ok(items) => (ReadOutcome::Read, Some(*items), None),
            Read::Incomplete(items, why) => (ReadOutcome::Incomplete, Some(*items), Some(why)),
            Read::Unreadable(why) if why.is_forbidden() => (ReadOutcome::Refused, None, Some(why)),
            Read::Unreadable(why) => (ReadOutcome::Failed, None, Some(why)),
            Read::NotRequested => (ReadOutcome::NotRequested, None, None),
        };
        Source {
            name: name.to_owned(),
            outcome,
            items,
            status: why.and_then(|why| why.status),
            message: why.map(|why| why.message.clone()),
        }
    }

    /// The result of the original read.
    pub fn read(&self) -> Read<()> {
        let why = || Unread { status: self.status, message: self.message.clone().unwrap_or_default() };
        match self.outcome {
            ReadOutcome::Read => Read::Ok(()),
            ReadOutcome::Incomplete => Read::Incomplete((), why()),
            ReadOutcome::NotRequested => Read::NotRequested,
            ReadOutcome::Refused | ReadOutcome::Failed | ReadOutcome::LeftOut => Read::Unreadable(why()),
        }
    }

    /// Marks the source as omitted because it did not fit.
    pub fn leave_out(&mut self, why: &str) {
        self.outcome = ReadOutcome::LeftOut;
        self.items = None;
        self.message = Some(why.to_owned());
    }
}

impl ReadOutcome {
    /// Whether the capture contains all items that could be read. `true` for sources that were not requested.
    pub fn has_items(self) -> bool {
        self.is_whole() || self == ReadOutcome::Incomplete
    }

    /// Whether nothing is missing: the source was read completely, or was not requested.
    pub fn is_whole(self) -> bool {
        matches!(self, ReadOutcome::Read | ReadOutcome::NotRequested)
    }
}

impl Index {
    /// Whether every requested source and every requested log is complete.
    pub fn is_whole(&self) -> bool {
        let sources = self.sources.iter().map(|source| source.outcome);
        let mut all = sources.chain(self.logs.iter().map(|log| log.outcome));
        all.all(ReadOutcome::is_whole)
    }
}
