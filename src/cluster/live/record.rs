//! Lists that are recorded while they are read, until a deadline.

use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};

use super::decode::Listed;
use super::list::List;
use super::request::Failure;
use crate::api::{ApiFlavor, Object, State, Status};
use crate::cluster::Node;
use crate::cluster::capture::{Keep, Tape};

/// The tape of a recording, and its deadline.
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

    /// Reads a list, of whose items these are kept.
    pub async fn list<T: Object + DeserializeOwned>(
        &self,
        client: &kube::Client,
        list: &List,
        keep: &(dyn Fn(&T) -> bool + Sync),
    ) -> Result<Listed<T>, Failure> {
        let keep = |item: &T| if keep(item) { Keep::Whole } else { Keep::Not };
        self.within(list.record(client, self.tape, &keep, || {})).await
    }

    /// Reads the nodes. Notable ones are kept whole, the others as requested.
    pub async fn nodes(&self, client: &kube::Client, list: &List) -> Result<Listed<Node>, Failure> {
        let keep = |node: &Node| self.tape.node(is_notable(node));
        let as_new = || self.tape.recount_nodes();
        self.within(list.record(client, self.tape, &keep, as_new)).await
    }

    /// A request, until the deadline.
    pub async fn within<T>(&self, request: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        self.in_time(request).await?
    }

    /// Anything, until the deadline.
    pub async fn in_time<T>(&self, request: impl Future<Output = T>) -> Result<T, Failure> {
        let late = |_| Failure::Malformed(self.too_late());
        timeout_at(self.deadline, request).await.map_err(late)
    }

    pub fn too_late(&self) -> String {
        format!("timed out after {} s", self.patience.as_secs_f32())
    }
}

/// Whether the operator has work or trouble on a node, or it is not ready for pods.
fn is_notable(node: &Node) -> bool {
    let done = |state: &State| matches!(state, State::Complete | State::Skipped);
    let quiet = |flavor: &ApiFlavor| {
        let keys = node.keys(*flavor);
        keys.auto_taints.is_empty()
            && !keys.runtime_required_cordon
            && keys.ignore.is_none()
            && keys.skyhooks.values().all(|on| {
                !on.is_malformed()
                    && !on.cordon
                    && on.drain_start.is_none()
                    && on.drain_blocked.is_none()
                    && on.status.as_ref().is_none_or(|s| *s == Status::Complete)
                    && on.entries().iter().all(|e| done(&e.state))
            })
    };
    node.cordoned() != Some(false) || node.ready() != Some(true) || !ApiFlavor::ALL.iter().all(quiet)
}
