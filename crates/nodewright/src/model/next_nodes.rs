//! The nodes that a compartment takes next.

use std::collections::HashSet;

use super::Model;
use super::compartment::Counts;
use super::place::{Place, Status};
use super::resource::Resource;
use super::selection::{Selection, candidates};
use crate::cluster::Node;

/// The nodes that the operator takes next: the nodes of the current batch that have not started, or the nodes
/// of the next batch.
#[derive(Debug, Clone, Default)]
pub struct NextNodes<'a> {
    /// The nodes in the operator's order if the order is defined; otherwise all candidates.
    pub nodes: Vec<&'a Node>,
    /// Whether the order is defined. A deployment policy defines it: by status, then by age, then by name. An
    /// `interruptionBudget` alone does not.
    pub ordered: bool,
    /// Number of these nodes that the operator takes.
    pub count: usize,
    /// Whether they start only after the current batch.
    pub after_batch: bool,
}

pub(super) fn of<'a>(model: &Model<'a>, resource: &Resource<'a>, index: usize) -> NextNodes<'a> {
    let compartment = &resource.compartments[index];
    let none = NextNodes { ordered: resource.ordered, ..NextNodes::default() };
    if model.halt.is_some() || !resource.acts() {
        return none;
    }
    let operator = &model.operator;
    let place = |at: &u32| &resource.places[*at as usize];
    let names = |nodes: Vec<u32>, count: usize| {
        let eligible = nodes.into_iter().filter(|at| place(at).eligible());
        let nodes: Vec<&Node> = eligible.map(|at| resource.nodes[at as usize]).collect();
        NextNodes { count: count.min(nodes.len()), ordered: resource.ordered, nodes, after_batch: false }
    };
    let take = |mut candidates: Vec<u32>, size: usize| {
        if resource.ordered {
            candidates.truncate(size);
        }
        names(candidates, size)
    };
    // A new version, a new configuration and an uninstall start on all nodes, regardless of the batch.
    let members = compartment.members.iter().copied();
    let begins = |place: &Place| resource.profile(place).begins && place.recorded != Status::InProgress;
    let begin: Vec<u32> = members.filter(|at| begins(place(at))).collect();
    if !begin.is_empty() {
        let count = begin.len();
        return names(begin, count);
    }
    let begun = |at: &u32| place(at).recorded == Status::InProgress || place(at).status == Status::Erroring;
    let batch = match &resource.selections[index] {
        Selection::Stopped => return none,
        Selection::New { candidates, size, joining } => {
            let mut nodes: Vec<u32> = joining.iter().copied().filter(|at| !begun(at)).collect();
            let size = nodes.len() + (*size).min(candidates.len());
            nodes.extend(candidates);
            if size > 0 {
                return take(nodes, size);
            }
            joining
        }
        Selection::Current(batch) => batch,
    };
    let rest: Vec<u32> = batch.iter().copied().filter(|at| !begun(at)).collect();
    if !rest.is_empty() {
        let count = rest.len();
        return names(rest, count);
    }
    // Before v0.20, the other nodes of the batch start once the nodes in progress are complete.
    let siblings = compartment.members.iter().copied();
    let waits =
        |at: &u32| place(at).in_recorded_batch && place(at).eligible() && !place(at).complete && !begun(at);
    let siblings: Vec<u32> = siblings.filter(waits).collect();
    if !siblings.is_empty() {
        let count = siblings.len();
        return names(siblings, count);
    }
    // A permanently failed node keeps its slot, so that the batch never ends.
    let recorded = compartment.members.iter().filter(|at| place(at).in_recorded_batch);
    let batch_of = |at: &u32| !place(at).complete;
    if recorded.chain(batch).any(|at| batch_of(at) && place(at).given_up) {
        return none;
    }
    let members = compartment.members.iter();
    let current: HashSet<u32> = batch.iter().copied().collect();
    let in_batch = |at: &&u32| current.contains(at) || place(at).in_recorded_batch && !place(at).complete;
    let in_batch: Vec<u32> = members.filter(in_batch).copied().collect();
    let counts = Counts::new(compartment.members.iter().map(place));
    let state = compartment.evaluated(operator, counts.after_batch(in_batch.len()));
    let size = compartment.batch_size(compartment.members.len() as i64, &state);
    let next = take(candidates(operator, compartment, &resource.places, &in_batch), size);
    NextNodes { after_batch: !in_batch.is_empty(), ..next }
}

/// The maximum number of nodes of a compartment on which the operator works at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtOnce {
    /// At most this many nodes.
    UpTo(i64),
    /// The batch size changes: a linear or exponential strategy increases it, and reduces it after failures.
    Varies,
    Unknown,
}

impl AtOnce {
    /// The maximum number of nodes, if it is known.
    pub fn limit(self) -> Option<i64> {
        match self {
            AtOnce::UpTo(nodes) => Some(nodes),
            AtOnce::Varies | AtOnce::Unknown => None,
        }
    }

    /// The limit for a compartment. The batch size follows from the strategy, not from the budget (operator
    /// `createNewBatch`). The reported `ceiling` is the budget, and limits a batch only without a strategy.
    /// The size of a running linear or exponential batch is unknown: if no node is in progress during a
    /// reconcile, the operator counts a part of the batch as a whole batch, and records the size of that
    /// part.
    pub(super) fn of(resource: &Resource<'_>, name: &str) -> AtOnce {
        let compartment = resource.compartments.iter().find(|compartment| compartment.name == name);
        let statuses = &resource.skyhook.status.compartment_statuses;
        let (Some(compartment), Some(status)) = (compartment, statuses.get(name)) else {
            return AtOnce::Unknown;
        };
        let limit = match &compartment.strategy {
            // Use only the strategy of a deployment policy. Without one, the model derives a strategy from
            // the budget.
            Some(strategy) if resource.ordered => match strategy.fixed_size() {
                Some(size) => size,
                None => return AtOnce::Varies,
            },
            _ => status.ceiling,
        };
        // More nodes than the limit may be in progress: a new version, a new configuration and an uninstall
        // start on all nodes, outside of batches.
        if limit < 1 || status.in_progress > limit {
            return AtOnce::Unknown;
        }
        AtOnce::UpTo(limit)
    }
}
