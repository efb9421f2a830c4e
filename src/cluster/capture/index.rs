//! The index of a capture: time, tool versions, and the result for each source.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cluster::hold::Holders;
use crate::cluster::read::{Read, Unread};

pub const API_VERSION: &str = "kubectl-skyhook/v1";
pub const KIND: &str = "Capture";
/// Its file.
pub const FILE: &str = "index.json";
/// The directory of the logs, below which each has one of its namespace and one of its pod; and how a log's file ends.
pub const LOGS: &str = "logs";
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
    /// The APIs of the operator that the cluster serves, by their groups.
    pub served: Vec<String>,
    /// The runs of this program that have paused custom resources, as these note them, and whether they ran on the
    /// machine that collected.
    #[serde(default, skip_serializing_if = "Holders::is_empty")]
    pub holders: Holders,
    pub sources: Vec<Source>,
    /// The files of objects; one that is not there was lost on the way.
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

/// One thing that was to be read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    pub name: String,
    pub outcome: ReadOutcome,
    /// How many there are, where they were read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<usize>,
    /// The server's answer, and why the source is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The result for a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ReadOutcome {
    /// All of it is here, though it may be none.
    Read,
    /// Items without a readable identity are missing; the others are here.
    Incomplete,
    /// The server would not give it.
    Refused,
    /// It could not be read for another reason.
    Failed,
    /// It was read, and it did not fit.
    LeftOut,
    /// Not requested: such a cluster does not have it.
    NotRequested,
}

/// The log of one container.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogEntry {
    pub namespace: String,
    pub pod: String,
    pub container: String,
    /// Of the run before the present one.
    #[serde(default)]
    pub previous: bool,
    pub outcome: ReadOutcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Where it is; nowhere if it was read and there was none.
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

    /// Notes that it did not fit.
    pub fn leave_out(&mut self, why: &str) {
        self.outcome = ReadOutcome::LeftOut;
        self.items = None;
        self.message = Some(why.to_owned());
    }
}

impl ReadOutcome {
    /// Whether the capture holds what was read, complete or not.
    pub fn has_items(self) -> bool {
        self.is_whole() || self == ReadOutcome::Incomplete
    }

    /// Whether the source is complete.
    pub fn is_whole(self) -> bool {
        matches!(self, ReadOutcome::Read | ReadOutcome::NotRequested)
    }
}

impl Index {
    /// Whether every requested source is complete.
    pub fn is_whole(&self) -> bool {
        let sources = self.sources.iter().map(|source| source.outcome);
        let mut all = sources.chain(self.logs.iter().map(|log| log.outcome));
        all.all(ReadOutcome::is_whole)
    }
}
