//! Completion of nodes, and the start of work that waits for it.

use super::Advance;
use crate::model::place::Status;
use crate::model::timeline::Happening;

impl Advance<'_> {
    /// Marks a node as complete if no work remains, and lets waiting custom resources proceed.
    pub(super) fn complete(&mut self, number: usize, at: u32) {
        let work = self.works[number][at as usize];
        let resource = &mut self.model.resources[number];
        let profile = &resource.profiles[resource.places[at as usize].profile as usize];
        let uninstalled = resource.deleting && !profile.pending;
        if !profile.complete && !uninstalled || work.running != 0 {
            return;
        }
        let place = &mut resource.places[at as usize];
        let compartment = usize::from(place.compartment);
        if place.selected_now && !place.complete {
            let batch = self.batches[number].get_mut(compartment);
            batch.into_iter().for_each(|batch| batch.open -= 1);
        }
        self.open[number] -= usize::from(!place.complete);
        place.complete = true;
        place.selected_now = false;
        self.mark(number, at, Status::Complete);
        self.settle.insert((number, compartment));
        self.note(number, at, Happening::Complete);
        self.release(number, work.node as usize);
        if self.open[number] == 0 {
            self.open_gates(number);
        }
    }

    /// Lets the custom resources that wait for this one on a node proceed there.
    pub(super) fn release(&mut self, number: usize, node: usize) {
        let mut earlier = u16::MAX;
        for (later, at) in &self.nodes[node].resources {
            let resource = &mut self.model.resources[*later];
            let place = &mut resource.places[*at as usize];
            if *later > number && place.earlier != earlier {
                place.earlier = earlier;
                self.due.push((*later, *at));
            }
            if !place.complete && !resource.disabled && earlier == u16::MAX {
                earlier = *later as u16;
            }
        }
    }

    /// Lets later custom resources proceed after a custom resource with `sequencing: all` is complete on all
    /// nodes.
    pub(super) fn open_gates(&mut self, number: usize) {
        if !self.model.resources[number].skyhook.blocks_all_nodes() {
            return;
        }
        let mut gate = None;
        for (later, resource) in self.model.resources.iter_mut().enumerate() {
            if later > number {
                resource.gate = gate;
                self.due.extend((0..resource.nodes.len() as u32).map(|at| (later, at)));
            }
            if gate.is_none() && !resource.disabled && resource.skyhook.blocks_all_nodes() {
                let open = resource.places.iter().position(|place| !place.complete);
                gate = open.map(|open| (resource.skyhook, resource.nodes[open]));
            }
        }
    }

    /// Chooses the nodes of a compartment's next batch if the current batch is over.
    pub(super) fn select(&mut self, number: usize, compartment: usize) {
        let batch = self.batches[number].get(compartment);
        if batch.is_none_or(|batch| batch.open > 0 || batch.queue.is_empty()) {
            return;
        }
        let resource = &mut self.model.resources[number];
        let own = &mut resource.compartments[compartment];
        let counts = self.batches[number][compartment].counts;
        own.state = own.evaluated(&self.model.operator, counts);
        if own.state.should_stop && own.strategy.is_some() {
            return;
        }
        let size = own.batch_size(own.members.len() as i64, &own.state);
        self.choose(number, compartment, size);
    }

    /// Adds nodes to the batch of a compartment, in the operator's order.
    pub(super) fn choose(&mut self, number: usize, compartment: usize, size: usize) {
        let places = &mut self.model.resources[number].places;
        let batch = &mut self.batches[number][compartment];
        let mut chosen = Vec::with_capacity(size);
        while chosen.len() < size
            && let Some(at) = batch.queue.pop_front()
        {
            let place = &mut places[at as usize];
            if !place.complete && !place.selected_now {
                place.selected_now = true;
                chosen.push(at);
            }
        }
        batch.open += chosen.len();
        for (place, at) in chosen.iter().enumerate() {
            let work = &mut self.works[number][*at as usize];
            work.fresh = true;
            work.slower_than = (place as f32 + 0.5) / chosen.len() as f32;
            self.due.push((number, *at));
        }
    }

    /// Distributes the relative speeds evenly among the nodes at work in each batch.
    pub(super) fn spread(&mut self, number: usize) {
        let resource = &self.model.resources[number];
        for compartment in &resource.compartments {
            let place = |at: &u32| &resource.places[*at as usize];
            let at_work = |at: &&u32| place(at).selected_now && place(at).at_work;
            let batch: Vec<u32> = compartment.members.iter().filter(at_work).copied().collect();
            for (number_in_batch, at) in batch.iter().enumerate() {
                let slower_than = (number_in_batch as f64 + 0.5) / batch.len() as f64;
                self.works[number][*at as usize].slower_than = slower_than as f32;
            }
        }
    }
}
