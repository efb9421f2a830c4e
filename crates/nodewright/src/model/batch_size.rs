//! The counters of a compartment, and the size of its next batch.

use super::compartment::Compartment;
use super::operator::Operator;
use super::place::{Place, Status};
use crate::api::skyhook::BatchState;

/// Number of nodes of a compartment, by the status that the operator gives them in this reconcile.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    total: i64,
    complete: i64,
    failed: i64,
    blocked: i64,
    in_progress: i64,
}

impl Counts {
    pub fn new<'p>(places: impl Iterator<Item = &'p Place>) -> Counts {
        let mut counts = Counts::default();
        for place in places {
            counts.total += 1;
            counts.add(place.status, 1);
        }
        counts
    }

    /// Moves a node from one status to another.
    pub fn change(&mut self, from: Status, to: Status) {
        self.add(from, -1);
        self.add(to, 1);
    }

    fn add(&mut self, status: Status, nodes: i64) {
        match status {
            Status::Complete => self.complete += nodes,
            Status::Erroring => self.failed += nodes,
            Status::Blocked => self.blocked += nodes,
            Status::InProgress => self.in_progress += nodes,
            Status::Waiting | Status::Unknown => {}
        }
    }

    /// The counts once the nodes of the batch are complete.
    pub fn after_batch(self, batch: usize) -> Counts {
        Counts { complete: self.complete + batch as i64, in_progress: 0, ..self }
    }
}

impl Compartment<'_> {
    /// Maximum number of nodes in a batch (operator `batchSize`).
    pub fn batch_size(&self, total: i64, state: &BatchState) -> usize {
        let size = match &self.strategy {
            Some(strategy) => strategy.batch_size(total, state),
            None => self.ceiling(total),
        };
        usize::try_from(size).unwrap_or(0)
    }

    /// The counters after the operator has evaluated the current batch, if the batch is over (operator
    /// `EvaluateCurrentBatch` and `evaluateCompletedBatches`).
    pub fn evaluated(&self, operator: &Operator<'_>, counts: Counts) -> BatchState {
        let mut state = self.state.clone();
        if counts.in_progress > 0 {
            return state;
        }
        if state.current_batch == 0 {
            state.current_batch = 1;
            return state;
        }
        let mut completed = counts.complete - state.completed_nodes;
        let mut failed = counts.failed - state.failed_nodes;
        if completed < 0 || failed < 0 {
            // Since v0.20 the operator keeps the progress of the counter that did not decrease (upstream
            // 588).
            if operator.before(0, 20) {
                state.completed_nodes = counts.complete;
                state.failed_nodes = counts.failed;
                return state;
            }
            (completed, failed) = (completed.max(0), failed.max(0));
            state.completed_nodes = state.completed_nodes.min(counts.complete);
            state.failed_nodes = state.failed_nodes.min(counts.failed);
            if completed == 0 && failed == 0 {
                return state;
            }
        }
        if completed == 0 && failed == 0 && counts.blocked == 0 {
            return state;
        }
        (state.completed_nodes, state.failed_nodes) = (counts.complete, counts.failed);
        let mut size = completed + failed;
        if size == 0 {
            // Blocked nodes alone neither fail a batch nor advance it.
            if counts.blocked == counts.total {
                return state;
            }
            size = counts.blocked;
        }
        if completed == 0 && failed == 0 && counts.blocked == size {
            return state;
        }
        match &self.strategy {
            Some(strategy) => strategy.evaluate(&mut state, size, completed, counts.total),
            None => {
                state.current_batch += 1;
                state.last_batch_size = size;
            }
        }
        state
    }
}
