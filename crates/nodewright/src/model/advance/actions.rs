//! Actions of the operator on one node, and the ends of stages.

use super::{Advance, Drain, End};
use crate::api::{Stage, State};
use crate::cluster::Node;
use crate::model::gates::{At, drain};
use crate::model::place::Status;
use crate::model::stage::{Slot, Step};
use crate::model::timeline::{Happening, Moment, Untimed};

impl<'a> Advance<'a> {
    /// Performs one action of the operator for a custom resource on a node; returns whether another action
    /// may follow immediately.
    pub(super) fn step(&mut self, number: usize, at: u32) -> bool {
        let resource = &self.model.resources[number];
        let place = &resource.places[at as usize];
        let held = resource.gate.is_some() || place.earlier != u16::MAX || !place.selected_now;
        // In these cases nothing new starts. Running stages still end.
        if !resource.acts() || place.given_up || place.complete && !resource.deleting {
            return false;
        }
        // Without a package to uninstall, the operator removes the finalizer instead (`HandleFinalizer`).
        if resource.deleting && resource.pending.is_none() {
            return false;
        }
        if held || !place.eligible() {
            return false;
        }
        let profile = resource.profile(place);
        if let Some(package) = profile.removes {
            self.change(number, at, package, None);
            return true;
        }
        let work = self.works[number][at as usize];
        let free = |package: usize| work.running & bit(package) == 0;
        // A stage of a package that interrupts the node may have begun without a drain, as an interrupt does
        // that was added to a complete package. The next reconcile cordons and drains the node while the stage
        // runs (operator `ProcessInterrupt`: a running stage counts as apply).
        let undrained = |package: usize| !free(package) && resource.packages[package].interrupts();
        if work.drain == Drain::Open && profile.due.iter().any(|(package, _)| undrained(*package)) {
            let cordoned = profile.record.is_some_and(|record| record.cordon)
                && resource.nodes[at as usize].cordoned() == Some(true);
            if !cordoned {
                self.drain(number, at);
            }
            // The stage does not wait for the evictions.
            let drain = &mut self.works[number][at as usize].drain;
            *drain = if *drain == Drain::Forbidden { Drain::Forbidden } else { Drain::Done };
            return true;
        }
        let here = &mut self.nodes[work.node as usize];
        let mut waits = false;
        let step = profile.due.iter().find_map(|(package, step)| match step {
            _ if !free(*package) => None,
            Step::Wait => None,
            Step::Start { drains: true, .. } if work.drain == Drain::Forbidden => None,
            Step::Interrupt if here.running > 0 => {
                waits = true;
                None
            }
            step => Some((*package, step.clone())),
        });
        let Some((package, step)) = step else {
            if waits && !here.interrupts.contains(&(number, at)) {
                here.interrupts.push((number, at));
            }
            return false;
        };
        match step {
            Step::Start { drains: true, .. } if work.drain == Drain::Open => self.drain(number, at),
            Step::Start { stage, .. } => self.start(number, at, package, &stage, 0.0),
            Step::Interrupt => {
                let slot = profile.slots[package].as_ref();
                let uninstalls = slot.is_some_and(|slot| slot.stage.is_uninstall());
                let stage = if uninstalls { Stage::UninstallInterrupt } else { Stage::Interrupt };
                self.start(number, at, package, &stage, 0.0);
            }
            Step::Skip => self.change(number, at, package, Some(Slot::new(Stage::Interrupt, State::Skipped))),
            Step::Promote => {
                self.change(number, at, package, Some(Slot::new(Stage::Interrupt, State::Complete)))
            }
            Step::Wait => return false,
        }
        true
    }

    /// Cordons the node, and evicts its pods unless one of them forbids the interrupt.
    pub(super) fn drain(&mut self, number: usize, at: u32) {
        let resource = &self.model.resources[number];
        let pods = drain::pods(&At::new(&self.model, resource, at as usize));
        let drain = match pods {
            None => Drain::Forbidden,
            Some(0) => Drain::Done,
            Some(_) => Drain::Evicts,
        };
        self.works[number][at as usize].drain = drain;
        self.note(number, at, Happening::Cordon { pods: pods.unwrap_or(0) });
    }

    /// Starts a stage, or continues one that has already run for `elapsed` seconds.
    pub(super) fn start(&mut self, number: usize, at: u32, package: usize, stage: &Stage, elapsed: f64) {
        let slot = Slot::new(stage.clone(), State::InProgress);
        self.change(number, at, package, Some(slot));
        let lasts = self.pace.of(number, package, stage);
        if lasts.is_none() {
            let name = self.model.resources[number].packages[package].name;
            self.untimed.get_or_insert(Untimed::NoStageEnded(name));
        }
        let work = &mut self.works[number][at as usize];
        let slower_than = f64::from(work.slower_than);
        let evicts = work.drain == Drain::Evicts;
        let starts = elapsed == 0.0 && (work.fresh || evicts);
        let pause = starts.then(|| self.pace.pause(number, slower_than, evicts));
        let lasts = lasts.unwrap_or_default() * self.pace.factor(slower_than);
        work.running |= bit(package);
        work.fresh = false;
        work.drain = if evicts { Drain::Done } else { work.drain };
        self.nodes[work.node as usize].running += 1;
        self.mark(number, at, Status::InProgress);
        if elapsed == 0.0 {
            let package = self.model.resources[number].packages[package].name;
            let stage = stage.clone();
            self.note(number, at, Happening::Start { package, stage });
        }
        let seconds = pause.unwrap_or_default() + (lasts - elapsed).max(0.0);
        let end = self.now + (seconds * 1000.0).round() as u64;
        let ends = self.ends.entry(end).or_default();
        ends.push(End { resource: number, at, package });
    }

    pub(super) fn end(&mut self, end: End) {
        let (number, at) = (end.resource, end.at);
        self.due.push((number, at));
        let work = &mut self.works[number][at as usize];
        let package = end.package;
        work.running &= !bit(package);
        let node = &mut self.nodes[work.node as usize];
        node.running -= 1;
        if node.running == 0 {
            self.due.append(&mut node.interrupts);
        }
        let resource = &self.model.resources[number];
        let profile = resource.profile(&resource.places[at as usize]);
        let stage = profile.slots[package].as_ref().map(|slot| slot.stage.clone());
        let slot = match stage {
            Some(Stage::Uninstall) if resource.packages[package].interrupts() => {
                Some(Slot::new(Stage::UninstallInterrupt, State::InProgress))
            }
            Some(Stage::Uninstall | Stage::UninstallInterrupt) | None => None,
            // A requested uninstall starts at the next stage that is complete (`HandleUninstallRequests`).
            Some(_)
                if resource.packages[package].uninstalls
                    && resource.acts()
                    && !self.model.operator.before(0, 16) =>
            {
                Some(Slot::new(Stage::Uninstall, State::InProgress))
            }
            Some(stage) => Some(Slot::new(stage, State::Complete)),
        };
        self.change(number, at, package, slot);
        self.complete(number, at);
    }

    /// Sets the status of a node.
    pub(super) fn mark(&mut self, number: usize, at: u32, status: Status) {
        let place = &mut self.model.resources[number].places[at as usize];
        // A custom resource without its policy has no compartments.
        if let Some(batch) = self.batches[number].get_mut(usize::from(place.compartment)) {
            batch.counts.change(place.status, status);
        }
        place.status = status;
        place.recorded = status;
        place.in_recorded_batch = status == Status::InProgress;
    }

    /// Moves a package on a node to another slot.
    pub(super) fn change(&mut self, number: usize, at: u32, package: usize, slot: Option<Slot>) {
        let resource = &mut self.model.resources[number];
        let from = resource.places[at as usize].profile;
        let key = (number, from, package, slot);
        let known = self.changes.get(&key).copied();
        let to = known.unwrap_or_else(|| {
            let profile = resource.profiles[from as usize].with_slot(
                &self.model.operator,
                &resource.packages,
                &resource.order,
                package,
                key.3.clone(),
            );
            resource.profiles.push(profile);
            let to = resource.profiles.len() as u32 - 1;
            self.changes.insert(key, to);
            to
        });
        resource.places[at as usize].profile = to;
    }

    pub(super) fn node(&self, number: usize, at: u32) -> &'a Node {
        self.model.resources[number].nodes[at as usize]
    }

    pub(super) fn note(&mut self, number: usize, at: u32, what: Happening<'a>) {
        self.last[number] = Some(self.now);
        let resource = &self.model.resources[number];
        let (skyhook, seconds) = (resource.skyhook.name(), super::seconds(self.now));
        if what == Happening::Complete {
            self.completions.push((skyhook, seconds));
        }
        if let Some(moments) = &mut self.moments {
            let (node, at_once) = (resource.nodes[at as usize], !self.ended);
            moments.push(Moment { seconds, at_once, skyhook, node, what });
        }
    }
}

fn bit(package: usize) -> u64 {
    // Packages with the same number modulo 64 share a bit. This is inexact, but acceptable.
    1 << (package % 64)
}
