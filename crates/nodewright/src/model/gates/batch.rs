//! The operator works only on the nodes of the batch.

use super::{At, NodeProgress, WaitReason};
use crate::cluster::Source;
use crate::model::action::QueuePosition;
use crate::model::next_nodes;
use crate::model::place::NONE;
use crate::model::selection::Selection;

/// Models operator `GetNodesForNextBatch`.
pub fn check<'a>(at: &At<'_, 'a>) -> Option<NodeProgress<'a>> {
    if at.model.cluster.limited_to_named_nodes {
        return Some(WaitReason::Unread(Source::Nodes).into());
    }
    let index = usize::from(at.place.compartment);
    let Some(compartment) = at.resource.compartments.get(index) else {
        return Some(WaitReason::Unread(Source::Policies).into());
    };
    if at.place.selected_now {
        return None;
    }
    let places = &at.resource.places;
    let selection = &at.resource.selections[index];
    let batch = match selection {
        Selection::Stopped => return Some(WaitReason::RolloutStopped(compartment.name).into()),
        Selection::Current(batch) => batch.as_slice(),
        Selection::New { joining, .. } => joining,
    };
    // If all candidates fit into the unrecorded batch, no candidate waits.
    let fits = matches!(selection, Selection::New { candidates, size, .. } if *size >= candidates.len());
    let node = batch
        .first()
        .filter(|_| !fits || !at.resource.is_unrecorded(selection))
        .map(|at_work| at.resource.nodes[*at_work as usize]);
    if at.place.in_recorded_batch
        && let Some(node) = node
    {
        return Some(WaitReason::BatchSibling(node).into());
    }
    let (waiting, next) = *at.resource.queues[index].get_or_init(|| {
        let members = compartment.members.iter().map(|m| &places[*m as usize]);
        let waiting = members.filter(|place| place.queued != NONE).count();
        (waiting, next_nodes::of(at.model, at.resource, index).count)
    });
    let queue = QueuePosition {
        compartment: compartment.name,
        number: (at.resource.ordered && at.place.queued != NONE).then(|| at.place.queued as usize + 1),
        waiting,
        batch: next,
        working: batch.len(),
    };
    let reason = WaitReason::Batch { compartment: compartment.name, node };
    Some(NodeProgress { queue: Some(queue), ..reason.into() })
}
