//! Records lists while they are read, within a deadline.

use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};

use super::decode::Listed;
use super::list::List;
use super::request::Failure;
use crate::api::Object;
use crate::cluster::capture::Tape;

/// Records list responses for a capture, within an overall deadline.
#[derive(Clone, Copy)]
pub(super) struct Recorder<'a> {
    pub tape: &'a Tape,
    pub patience: Duration,
    pub deadline: Instant,
}

impl<'a> Recorder<'a> {
    pub fn new(tape: &'a Tape, patience: Duration) -> Recorder<'a> {
        Recorder { tape, patience, deadline: Instant::now() + patience }
    }

    /// Reads a list, and records the items that pass `keep`.
    pub async fn list<T: Object + DeserializeOwned>(
        &self,
        client: &kube::Client,
        list: &List,
        keep: &(dyn Fn(&T) -> bool + Sync),
    ) -> Result<Listed<T>, Failure> {
        self.within(list.record(client, self.tape, keep)).await
    }

    /// Runs a request until the deadline.
    pub async fn within<T>(&self, request: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        self.in_time(request).await?
    }

    /// Runs any future until the deadline.
    pub async fn in_time<T>(&self, request: impl Future<Output = T>) -> Result<T, Failure> {
        let late = |_| Failure::Malformed(self.too_late());
        timeout_at(self.deadline, request).await.map_err(late)
    }

    pub fn too_late(&self) -> String {
        format!("timed out after {} s", self.patience.as_secs_f32())
    }
}
