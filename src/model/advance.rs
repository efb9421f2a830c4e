//! Repeats the operator's actions until none is left: what happens, when, and in which order.

use std::collections::{BTreeMap, HashMap};

use super::Model;
use super::gates::{At, drain};
use super::pace::Pace;
use super::place::Status;
use super::profile::SpecPackage;
use super::resource::Resource;
use super::selection::{Selection, select};
use super::stage::{Slot, Step};
use super::timeline::{Happening, Moment, Timeline};
use crate::api::{Stage, State};
use crate::cluster::Node;

/// A simulated rollout of all custom resources. Times are milliseconds from the time of the cluster.
///
/// Every stage succeeds. Stages that have failed for good stay as they are, and so does everything that waits for a person.
pub(super) struct Advance<'a> {
    model: Model<'a>,
    pace: Pace,
    now: u64,
    /// Stages and drains that are under way, by their end.
    ends: BTreeMap<u64, Vec<End>>,
    /// By custom resource and node of it.
    works: Vec<Vec<Work>>,
    /// By the index of the node in the cluster.
    nodes: Vec<Here>,
    /// Profiles by the change that led to them.
    changes: HashMap<Change, u32, foldhash::fast::RandomState>,
    /// Nodes on which something may be due.
    due: Vec<(usize, u32)>,
    /// Compartments whose batch may be over.
    settle: Vec<(usize, u16)>,
    moments: Vec<Moment<'a>>,
    /// No stage has finished anywhere, so durations are unknown.
    untimed: bool,
}

/// A custom resource, one of its distinct node states, a package and its new slot.
type Change = (usize, u32, usize, Option<Slot>);

/// A custom resource on a node.
#[derive(Debug, Clone, Copy, Default)]
struct Work {
    /// The node in the cluster.
    node: u32,
    /// A bit for each package that runs.
    running: u64,
    drain: Drain,
    /// The part of the nodes that are faster.
    slower_than: f32,
    /// The node starts a batch, after the pause between two.
    fresh: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Drain {
    #[default]
    Open,
    /// A pod that forbids the interrupt may run for good.
    Forbidden,
    /// The first stage starts once the pods are gone.
    Evicts,
    Done,
}

/// A node with all that the custom resources do there.
#[derive(Debug, Clone, Default)]
struct Here {
    /// Custom resources in the operator's order, and the index of the node in each.
    resources: Vec<(usize, u32)>,
    /// Stages at work.
    running: u32,
}

/// The end of a stage.
#[derive(Debug, Clone, Copy)]
struct End {
    resource: usize,
    at: u32,
    package: usize,
}

impl<'a> Model<'a> {
    /// The rollouts of all custom resources from now to their end, as long as nobody intervenes.
    pub fn timeline(self) -> Timeline<'a> {
        Advance::new(self).run()
    }
}

impl<'a> Advance<'a> {
    fn new(model: Model<'a>) -> Advance<'a> {
        let pace = Pace::measure(model.cluster, &model.runs, &model.resources);
        let mut nodes = vec![Here::default(); model.cluster.nodes.items().len()];
        let works = model
            .resources
            .iter()
            .enumerate()
            .map(|(number, resource)| {
                let work = |(at, node): (usize, &&'a Node)| {
                    let index = model.cluster.node_index(node);
                    nodes[index].resources.push((number, at as u32));
                    Work {
                        node: index as u32,
                        slower_than: 0.5,
                        ..Work::default()
                    }
                };
                resource.nodes.iter().enumerate().map(work).collect()
            });
        let works = works.collect();
        let mut advance = Advance {
            model,
            pace,
            now: 0,
            ends: BTreeMap::new(),
            works,
            nodes,
            changes: HashMap::default(),
            due: Vec::new(),
            settle: Vec::new(),
            moments: Vec::new(),
            untimed: false,
        };
        advance.begin();
        advance
    }

    fn run(mut self) -> Timeline<'a> {
        if self.model.halt.is_none() {
            self.act();
            while let Some((at, ends)) = self.ends.pop_first() {
                self.now = at;
                for end in ends {
                    self.end(end);
                }
                self.act();
            }
        }
        let open = |resource: &Resource<'a>| match resource.skyhook.deleting() {
            true => resource
                .places
                .iter()
                .any(|place| resource.profile(place).pending),
            false => resource.places.iter().any(|place| !place.complete),
        };
        let stuck = self
            .model
            .resources
            .iter()
            .filter(|resource| open(resource));
        let stuck = stuck.map(|resource| resource.skyhook.name()).collect();
        Timeline {
            moments: self.moments,
            stuck,
            untimed: self.untimed,
            uncertainty: self.pace.uncertainty(),
        }
    }

    /// Takes over what runs now, and all nodes on which something may be due.
    fn begin(&mut self) {
        let taken_at = self.model.cluster.taken_at;
        for number in 0..self.model.resources.len() {
            self.spread(number);
            let compartments = 0..self.model.resources[number].compartments.len() as u16;
            self.settle.extend(compartments.map(|at| (number, at)));
            for at in 0..self.model.resources[number].nodes.len() as u32 {
                let node = self.node(number, at);
                let skyhook = self.model.resources[number].skyhook.name();
                let runs = self.model.runs.of(skyhook, &node.name);
                let suspended = |job: &crate::cluster::Job| job.spec.suspend;
                let runs = runs.filter(|run| !run.job.is_some_and(suspended));
                let resource = &self.model.resources[number];
                let profile = resource.profile(&resource.places[at as usize]);
                let running = runs.filter_map(|run| {
                    let unrecorded = resource.unrecorded(&self.model.runs, profile, run);
                    if !run.alive() && !unrecorded {
                        return None;
                    }
                    let own = |p: &SpecPackage<'_>| p.name == run.package;
                    let package = resource.packages.iter().position(own)?;
                    let elapsed = run
                        .created()
                        .map(|at| taken_at.duration_since(at).as_secs_f64());
                    let elapsed = elapsed.filter(|_| !unrecorded).unwrap_or(f64::INFINITY);
                    Some((package, run.stage.clone(), elapsed.max(0.0)))
                });
                for (package, stage, elapsed) in running.collect::<Vec<_>>() {
                    self.start(number, at, package, &stage, elapsed);
                }
                self.due.push((number, at));
            }
        }
    }

    /// Acts until only stages and drains that run are left.
    fn act(&mut self) {
        loop {
            while let Some((number, at)) = self.due.pop() {
                while self.step(number, at) {}
            }
            let Some((number, compartment)) = self.settle.pop() else {
                return;
            };
            self.select(number, compartment);
        }
    }

    /// One action of the operator for a custom resource on a node. Returns whether another one may follow at once.
    fn step(&mut self, number: usize, at: u32) -> bool {
        let resource = &self.model.resources[number];
        let place = &resource.places[at as usize];
        let deleting = resource.skyhook.deleting();
        let held = resource.gate.is_some() || place.earlier != u16::MAX || !place.chosen;
        // Stages that run end also where nothing new starts.
        if !resource.acts() || place.given_up || place.complete && !deleting {
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
        let step = profile.due.iter().find_map(|(package, step)| match step {
            _ if !free(*package) => None,
            Step::Wait => None,
            Step::Start { drains: true, .. } if work.drain == Drain::Forbidden => None,
            Step::Interrupt if self.nodes[work.node as usize].running > 0 => None,
            step => Some((*package, step.clone())),
        });
        let Some((package, step)) = step else {
            return false;
        };
        match step {
            Step::Start { drains: true, .. } if work.drain == Drain::Open => self.drain(number, at),
            Step::Start { stage, .. } => self.start(number, at, package, &stage, 0.0),
            Step::Interrupt => {
                let slot = profile.slots[package].as_ref();
                let uninstalls = slot.is_some_and(|slot| slot.stage.is_uninstall());
                let stage = if uninstalls {
                    Stage::UninstallInterrupt
                } else {
                    Stage::Interrupt
                };
                self.start(number, at, package, &stage, 0.0);
            }
            Step::Skip => self.change(
                number,
                at,
                package,
                Some(Slot::new(Stage::Interrupt, State::Skipped)),
            ),
            Step::Promote => self.change(
                number,
                at,
                package,
                Some(Slot::new(Stage::Interrupt, State::Complete)),
            ),
            Step::Wait => return false,
        }
        true
    }

    /// Cordons the node, and evicts its pods.
    fn drain(&mut self, number: usize, at: u32) {
        let resource = &self.model.resources[number];
        let pods = drain::pods(&At::new(&self.model, resource, at as usize));
        let drain = match pods {
            None => Drain::Forbidden,
            Some(0) => Drain::Done,
            Some(_) => Drain::Evicts,
        };
        self.works[number][at as usize].drain = drain;
        if let Some(pods) = pods {
            self.note(number, at, Happening::Cordon { pods });
        }
    }

    /// Starts a stage, or takes over one that has run for some seconds.
    fn start(&mut self, number: usize, at: u32, package: usize, stage: &Stage, elapsed: f64) {
        let slot = Slot::new(stage.clone(), State::InProgress);
        self.change(number, at, package, Some(slot));
        let lasts = self.pace.of(number, package, stage);
        self.untimed |= lasts.is_none();
        let work = &mut self.works[number][at as usize];
        let slower_than = f64::from(work.slower_than);
        let evicts = work.drain == Drain::Evicts;
        let pause = match elapsed == 0.0 && (work.fresh || evicts) {
            true => self.pace.pause(number, slower_than, evicts),
            false => 0.0,
        };
        let lasts = lasts.unwrap_or_default() * self.pace.factor(slower_than);
        work.running |= bit(package);
        work.fresh = false;
        work.drain = if evicts { Drain::Done } else { work.drain };
        self.nodes[work.node as usize].running += 1;
        let place = &mut self.model.resources[number].places[at as usize];
        place.status = Status::InProgress;
        place.recorded = Status::InProgress;
        place.picked = true;
        if elapsed == 0.0 {
            let package = self.model.resources[number].packages[package].name;
            let stage = stage.clone();
            self.note(number, at, Happening::Start { package, stage });
        }
        let seconds = pause + (lasts - elapsed).max(0.0);
        let end = self.now + (seconds * 1000.0).round() as u64;
        let ends = self.ends.entry(end).or_default();
        ends.push(End {
            resource: number,
            at,
            package,
        });
    }

    fn end(&mut self, end: End) {
        let (number, at) = (end.resource, end.at);
        self.due.push((number, at));
        let work = &mut self.works[number][at as usize];
        let package = end.package;
        work.running &= !bit(package);
        let node = &mut self.nodes[work.node as usize];
        node.running -= 1;
        if node.running == 0 {
            // Interrupts of others wait for it.
            self.due.extend(&node.resources);
        }
        let resource = &self.model.resources[number];
        let profile = resource.profile(&resource.places[at as usize]);
        let stage = profile.slots[package]
            .as_ref()
            .map(|slot| slot.stage.clone());
        let slot = match stage {
            Some(Stage::Uninstall) if resource.packages[package].interrupts() => {
                Some(Slot::new(Stage::UninstallInterrupt, State::InProgress))
            }
            Some(Stage::Uninstall | Stage::UninstallInterrupt) | None => None,
            Some(stage) => Some(Slot::new(stage, State::Complete)),
        };
        self.change(number, at, package, slot);
        self.complete(number, at);
    }

    /// Marks a node on which nothing is left to do, and lets others proceed.
    fn complete(&mut self, number: usize, at: u32) {
        let work = self.works[number][at as usize];
        let resource = &mut self.model.resources[number];
        let profile = &resource.profiles[resource.places[at as usize].profile as usize];
        let uninstalled = resource.skyhook.deleting() && !profile.pending;
        if !profile.complete && !uninstalled || work.running != 0 {
            return;
        }
        let place = &mut resource.places[at as usize];
        place.complete = true;
        place.status = Status::Complete;
        place.recorded = Status::Complete;
        place.picked = false;
        place.chosen = false;
        self.settle.push((number, place.compartment));
        self.note(number, at, Happening::Complete);
        self.release(number, work.node as usize);
        self.open_gates(number);
    }

    /// Lets the custom resources proceed that wait for this one on a node.
    fn release(&mut self, number: usize, node: usize) {
        let mut earlier = u16::MAX;
        for (later, at) in &self.nodes[node].resources {
            let resource = &mut self.model.resources[*later];
            let place = &mut resource.places[*at as usize];
            if *later > number && place.earlier != earlier {
                place.earlier = earlier;
                self.settle.push((*later, place.compartment));
                self.due.push((*later, *at));
            }
            if !place.complete && !resource.skyhook.disabled() && earlier == u16::MAX {
                earlier = *later as u16;
            }
        }
    }

    /// A custom resource with `sequencing: all` that is complete everywhere lets the later ones proceed.
    fn open_gates(&mut self, number: usize) {
        let resource = &self.model.resources[number];
        if !resource.skyhook.gates_everywhere() || resource.places.iter().any(|p| !p.complete) {
            return;
        }
        let mut gate = None;
        for (later, resource) in self.model.resources.iter_mut().enumerate() {
            if later > number {
                resource.gate = gate;
                let compartments = 0..resource.compartments.len() as u16;
                self.settle.extend(compartments.map(|at| (later, at)));
                self.due
                    .extend((0..resource.nodes.len() as u32).map(|at| (later, at)));
            }
            if gate.is_none() && !resource.skyhook.disabled() && resource.skyhook.gates_everywhere()
            {
                let open = resource.places.iter().position(|place| !place.complete);
                gate = open.map(|open| (resource.skyhook, resource.nodes[open]));
            }
        }
    }

    /// Chooses the nodes of the next batch of a compartment once its batch is over.
    fn select(&mut self, number: usize, compartment: u16) {
        let resource = &mut self.model.resources[number];
        let Some(own) = resource.compartments.get(usize::from(compartment)) else {
            return;
        };
        let in_progress = |at: &u32| resource.places[*at as usize].status == Status::InProgress;
        // Before v0.20, and as long as the batch is at work, nothing joins it.
        if own.members.iter().any(in_progress) {
            return;
        }
        let counts =
            super::batch::Counts::new(own.members.iter().map(|at| &resource.places[*at as usize]));
        let state = own.evaluated(&self.model.operator, counts);
        resource.compartments[usize::from(compartment)].state = state;
        let own = &resource.compartments[usize::from(compartment)];
        let chosen = match select(&self.model.operator, own, &resource.places) {
            Selection::Stopped => Vec::new(),
            Selection::Current(batch) => batch,
            Selection::New {
                mut candidates,
                size,
                joining,
            } => {
                candidates.truncate(size);
                candidates.extend(joining);
                candidates
            }
        };
        let size = chosen.len() as f64;
        for (place, at) in chosen.into_iter().enumerate() {
            resource.places[at as usize].chosen = true;
            let work = &mut self.works[number][at as usize];
            work.fresh = true;
            work.slower_than = ((place as f64 + 0.5) / size) as f32;
            self.due.push((number, at));
        }
    }

    /// Gives the nodes that are at work the speeds of those that are not complete in such a batch.
    fn spread(&mut self, number: usize) {
        let resource = &self.model.resources[number];
        for compartment in &resource.compartments {
            let place = |at: &u32| &resource.places[*at as usize];
            let at_work = |at: &&u32| place(at).chosen && place(at).at_work;
            let batch: Vec<u32> = compartment
                .members
                .iter()
                .filter(at_work)
                .copied()
                .collect();
            for (number_in_batch, at) in batch.iter().enumerate() {
                let slower_than = (number_in_batch as f64 + 0.5) / batch.len() as f64;
                self.works[number][*at as usize].slower_than = slower_than as f32;
            }
        }
    }

    /// Puts a package of a node to another slot.
    fn change(&mut self, number: usize, at: u32, package: usize, slot: Option<Slot>) {
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

    fn node(&self, number: usize, at: u32) -> &'a Node {
        self.model.resources[number].nodes[at as usize]
    }

    fn note(&mut self, number: usize, at: u32, what: Happening<'a>) {
        let resource = &self.model.resources[number];
        self.moments.push(Moment {
            seconds: self.now as f64 / 1000.0,
            skyhook: resource.skyhook.name(),
            node: resource.nodes[at as usize],
            what,
        });
    }
}

fn bit(package: usize) -> u64 {
    // A node with more than 64 packages is not worth exactness.
    1 << (package % 64)
}
