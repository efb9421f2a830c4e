//! The fields of the newer operator's Jobs that we use.

use jiff::Timestamp;
use serde::Deserialize;

use super::pod::PodSpec;
use crate::api::{Condition, Meta, UnknownFields, WithoutManagers, objects_with_metadata};

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Job {
    #[serde(with = "WithoutManagers")]
    pub metadata: Meta,
    pub spec: JobSpec,
    pub status: JobStatus,
    #[serde(skip)]
    pub unknown_fields: UnknownFields,
}

objects_with_metadata!(Job);

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JobSpec {
    pub suspend: bool,
    /// Number of retries after failed attempts before the Job fails.
    pub backoff_limit: Option<i64>,
    /// Maximum duration of the Job in seconds, regardless of its attempts.
    pub active_deadline_seconds: Option<i64>,
    pub template: PodTemplate,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct PodTemplate {
    pub spec: PodSpec,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JobStatus {
    pub start_time: Option<Timestamp>,
    pub completion_time: Option<Timestamp>,
    pub active: i64,
    pub succeeded: i64,
    pub failed: i64,
    pub conditions: Vec<Condition>,
}

impl Job {
    /// The condition that ended the Job: `Complete` or `Failed`.
    pub fn finished(&self) -> Option<&Condition> {
        self.status
            .conditions
            .iter()
            .find(|c| c.is_true() && matches!(c.kind.as_str(), "Complete" | "Failed"))
    }

    /// Maximum duration of the stage in seconds, for each attempt or for all attempts together.
    pub fn timeout(&self) -> Option<i64> {
        let attempt = self.spec.template.spec.active_deadline_seconds;
        attempt.or(self.spec.active_deadline_seconds)
    }

    /// Whether the Job restarts its container in place until its deadline instead of counting failed attempts.
    pub fn restarts_in_place(&self) -> bool {
        self.spec.backoff_limit.is_some_and(|limit| limit > 1 << 20)
    }

    /// Whether the Job failed because its own deadline expired.
    pub fn deadline_exceeded(&self) -> bool {
        self.failed().is_some_and(|condition| condition.reason == "DeadlineExceeded")
    }

    /// The condition of a Job that has failed permanently.
    pub fn failed(&self) -> Option<&Condition> {
        self.finished().filter(|c| c.kind == "Failed")
    }
}
