//! Selection: the nodes of a compartment that the operator works on in a reconcile.

use std::collections::HashSet;

use super::compartment::{Compartment, Counts};
use super::operator::Operator;
use super::place::{Place, Status};
use crate::api::skyhook::BatchState;

/// The nodes of a compartment that the operator works on, as indexes in the resource.
#[derive(Debug, Clone)]
pub(super) enum Selection {
    /// No nodes: failures have stopped the rollout, or there are no compartments.
    Stopped,
    /// The nodes of the incomplete batch.
    Current(Vec<u32>),
    /// A new batch of `size` nodes: the first candidates if the order is defined, otherwise any.
    New {
        candidates: Vec<u32>,
        size: usize,
        /// Nodes that the operator is currently adding to this batch: their stages exist, but the batch is
        /// not recorded yet.
        joining: Vec<u32>,
    },
}

/// Models operator `GetNodesForNextBatch`.
pub(super) fn select(operator: &Operator<'_>, compartment: &Compartment<'_>, places: &[Place]) -> Selection {
    let members = || compartment.members.iter().copied();
    let place = |at: &u32| &places[*at as usize];
    let counts = Counts::new(members().map(|at| &places[at as usize]));
    let state = compartment.evaluated(operator, counts);
    if state.should_stop && compartment.strategy.is_some() {
        return Selection::Stopped;
    }
    // Before v0.20 nodes that are ignored or not tolerated are chosen as well: they occupy slots, but no work
    // starts on them.
    let selectable = |at: &u32| operator.before(0, 20) || place(at).eligible();
    let in_progress: Vec<u32> = members()
        .filter(|at| place(at).status == Status::InProgress && selectable(at))
        .chain(members().filter(|at| place(at).keeps_slot()))
        .collect();
    let waits_in_batch = |at: &u32| {
        let place = place(at);
        place.in_recorded_batch && place.status != Status::Complete && place.status != Status::InProgress
    };
    let sticky: Vec<u32> = members().filter(waits_in_batch).filter(selectable).collect();
    let total = compartment.members.len() as i64;
    // Operator `createNewBatch`.
    let new_batch = |joining: Vec<u32>| {
        let size = compartment.batch_size(total, &state).saturating_sub(joining.len());
        Selection::New { candidates: candidates(operator, compartment, places, &joining), size, joining }
    };
    if let Some(joining) = joining(compartment, places, &state, total) {
        return new_batch(joining);
    }
    if !in_progress.is_empty() {
        // Since v0.20 the other nodes of the batch proceed at the same time, up to the batch size.
        if operator.before(0, 20) {
            return Selection::Current(in_progress);
        }
        let room = compartment.batch_size(total, &state).saturating_sub(in_progress.len());
        let mut nodes = in_progress;
        nodes.extend(sticky.into_iter().take(room));
        return Selection::Current(nodes);
    }
    if !sticky.is_empty() {
        return Selection::Current(sticky);
    }
    new_batch(Vec::new())
}

/// The nodes of a batch that the operator is creating: their stages exist, or they are in progress, but no
/// node of the compartment is recorded in the batch yet. `None` if there is no such batch.
fn joining(
    compartment: &Compartment<'_>,
    places: &[Place],
    state: &BatchState,
    total: i64,
) -> Option<Vec<u32>> {
    let mut joining = Vec::new();
    for at in &compartment.members {
        let place = &places[*at as usize];
        if place.complete {
            continue;
        }
        // The handlers have started work on this node outside of any batch.
        let begun = place.status == Status::InProgress && place.recorded != Status::InProgress;
        if place.in_recorded_batch || begun {
            return None;
        }
        // An ignored node leaves the batch, although its stage still runs.
        if place.eligible() && (place.at_work || place.recorded == Status::InProgress) {
            joining.push(*at);
        }
    }
    let fits = !joining.is_empty() && joining.len() <= compartment.batch_size(total, state);
    fits.then_some(joining)
}

/// The nodes that a new batch may take, in the order in which it takes them.
pub(super) fn candidates(
    operator: &Operator<'_>,
    compartment: &Compartment<'_>,
    places: &[Place],
    excluded: &[u32],
) -> Vec<u32> {
    let members = compartment.members.iter().copied();
    let excluded: HashSet<u32> = excluded.iter().copied().collect();
    let ranked = members.filter_map(|at| {
        let place = &places[at as usize];
        let open = !place.complete && !excluded.contains(&at);
        let selectable = operator.before(0, 20) || place.eligible();
        Some((place.status.rank()?, at)).filter(|_| open && selectable)
    });
    let mut ranked: Vec<(u8, u32)> = ranked.collect();
    // Indexes are in the operator's order of nodes.
    ranked.sort_unstable();
    ranked.into_iter().map(|(_, at)| at).collect()
}
