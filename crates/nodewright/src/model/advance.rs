//! Simulates the operator's actions, with their times and order, until no action remains.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use super::compartment::{Compartment, Counts};
use super::gates::drain::{DrainRefusal, drain_state};
use super::gates::{At, drain};
use super::operator::{Slot, Step};
use super::pace::Pace;
use super::place::{Place, Status};
use super::profile::{SpecPackage, obstacles_end_turn};
use super::resource::Resource;
use super::selection::Selection;
use super::timeline::{Happening, Moment, RefusedDrain, Remaining, Stuck, Timeline, Untimed};
use super::work::{first_obstacle, progress};
use super::{Model, WaitReason, selection};
use crate::api::{Stage, State};
use crate::cluster::drain::{self as drains, ObstacleReader};
use crate::cluster::{Node, NodeRecord};

/// A simulated rollout of all custom resources. Times are milliseconds from the time of the cluster.
///
/// Every stage is assumed to succeed. Permanently failed stages, and everything that waits for human
/// intervention, stay unchanged.
pub(super) struct Advance<'a> {
    model: Model<'a>,
    pace: Pace,
    now: u64,
    /// Whether a stage has ended.
    ended: bool,
    /// Ends of running stages, by time.
    ends: BTreeMap<u64, Vec<End>>,
    /// By index of the custom resource and of its node.
    works: Vec<Vec<Work>>,
    /// By the index of the node in the cluster.
    nodes: Vec<Here>,
    /// Cache of profiles by the change that leads to them.
    changes: HashMap<Change, u32, foldhash::fast::RandomState>,
    /// Custom resources and nodes on which an action may be due.
    due: Vec<(usize, u32)>,
    /// Compartments whose batch may be complete.
    settle: BTreeSet<(usize, usize)>,
    /// By index of the custom resource and of its compartment.
    batches: Vec<Vec<Batch>>,
    /// Number of incomplete nodes, by custom resource.
    open: Vec<usize>,
    /// Number of nodes on which the deletion of a custom resource waits for an uninstall, by custom resource.
    pending: Vec<usize>,
    /// By custom resource: whether it has been removed.
    removed: Vec<bool>,
    /// The moments of the timeline; `None` if only estimates are needed.
    moments: Option<Vec<Moment<'a>>>,
    completions: Vec<(&'a str, f64)>,
    /// The time of the last action, by custom resource.
    last: Vec<Option<u64>>,
    /// Whether durations are unknown: no stage has finished anywhere, or there are too many nodes.
    untimed: Option<Untimed<'a>>,
    obstacles: OnceCell<ObstacleReader<'a>>,
    refused: BTreeMap<&'a str, RefusedDrain<'a>>,
}

/// Maximum number of incomplete nodes, summed over all custom resources, for which estimates are computed.
/// The computation then takes a second or two.
const MOST: usize = 500_000;

/// Indexes of a custom resource, of the profile before the change, and of a package, and the package's new
/// slot.
type Change = (usize, u32, usize, Option<Slot>);

/// The batch of a compartment.
struct Batch {
    /// Number of nodes by status, over the whole compartment.
    counts: Counts,
    /// Number of incomplete nodes in the batch.
    open: usize,
    /// The nodes for later batches, in the operator's order.
    queue: VecDeque<u32>,
    /// Whether later batches begin only once someone has intervened in a refused drain.
    assumed: bool,
}

/// A custom resource on a node.
#[derive(Debug, Clone, Copy, Default)]
struct Work {
    /// The index of the node in the cluster.
    node: u32,
    /// One bit per running package.
    running: u64,
    drain: Drain,
    /// The fraction of nodes that are faster than this node, from 0 to 1.
    slower_than: f32,
    /// Whether the node is new in its batch: its first stage starts after the pause between two batches.
    fresh: bool,
    /// Whether its work starts only once someone has intervened in a refused drain.
    assumed: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Drain {
    #[default]
    Open,
    /// A pod on the node forbids the interrupt, and may run indefinitely.
    Forbidden,
    /// Pods are being evicted. The first stage starts once they are gone.
    Evicts,
    Done,
}

/// A node, with its custom resources and running stages.
#[derive(Debug, Clone, Default)]
struct Here {
    /// Custom resources in the operator's order, and the index of the node in each.
    resources: Vec<(usize, u32)>,
    /// Number of running stages.
    running: u32,
    /// The custom resources whose interrupt waits for the running stages.
    interrupts: Vec<(usize, u32)>,
}

/// The end of a stage.
#[derive(Debug, Clone, Copy)]
struct End {
    resource: usize,
    at: u32,
    package: usize,
}

impl<'a> Model<'a> {
    /// The rollouts of all custom resources from now to their end, if nobody intervenes.
    pub fn timeline(self) -> Timeline<'a> {
        Advance::new(self, Some(Vec::new())).run()
    }

    /// The timeline without its moments, of which there may be millions.
    pub fn estimates(self) -> Timeline<'a> {
        Advance::new(self, None).run()
    }
}

impl<'a> Advance<'a> {
    fn new(model: Model<'a>, moments: Option<Vec<Moment<'a>>>) -> Advance<'a> {
        let pace = Pace::measure(model.cluster, &model.runs, &model.resources);
        let mut nodes = vec![Here::default(); model.cluster.nodes.items().len()];
        let works = model.resources.iter().enumerate().map(|(number, resource)| {
            let work = |(at, node): (usize, &&'a Node)| {
                let index = model.cluster.node_index(node);
                nodes[index].resources.push((number, at as u32));
                Work { node: index as u32, slower_than: 0.5, ..Work::default() }
            };
            resource.nodes.iter().enumerate().map(work).collect()
        });
        let works = works.collect();
        let batches = model.resources.iter().map(|r| batches(&model, r)).collect();
        let count = |is: fn(&Resource<'_>, &Place) -> bool| {
            model
                .resources
                .iter()
                .map(move |r| r.places.iter().filter(|place| is(r, place)).count())
                .collect()
        };
        let open = count(|_, place| !place.complete);
        let pending = count(|resource, place| resource.deleting && resource.is_open(place));
        let last = vec![None; model.resources.len()];
        let mut advance = Advance {
            model,
            pace,
            now: 0,
            ended: false,
            ends: BTreeMap::new(),
            works,
            nodes,
            changes: HashMap::default(),
            due: Vec::new(),
            settle: BTreeSet::new(),
            batches,
            open,
            removed: vec![false; pending.len()],
            pending,
            moments,
            completions: Vec::new(),
            last,
            untimed: None,
            obstacles: OnceCell::new(),
            refused: BTreeMap::new(),
        };
        advance.begin();
        advance
    }

    fn run(mut self) -> Timeline<'a> {
        let too_many = self.moments.is_none() && self.open.iter().sum::<usize>() > MOST;
        self.untimed = self.untimed.or(too_many.then_some(Untimed::TooManyNodes));
        if self.model.halt.is_none() && !too_many {
            (0..self.model.resources.len()).for_each(|number| self.finalize(number));
            self.act();
            while let Some((at, ends)) = self.ends.pop_first() {
                self.now = at;
                self.ended = true;
                for end in ends {
                    self.end(end);
                }
                self.act();
            }
        }
        if self.moments.is_some() {
            // The batches of the end, not those of the start.
            let Model { operator, resources, unhindered, .. } = &mut self.model;
            resources.iter_mut().for_each(|resource| resource.select(operator, *unhindered));
        }
        let ends = self.model.resources.iter().enumerate().map(|(number, resource)| {
            let places = resource.places.iter().enumerate();
            let open = places.filter(|(_, place)| resource.is_open(place)).map(|(at, _)| at);
            let obstacle = self.moments.as_ref().and_then(|_| self.obstacle(number, open.clone()));
            (resource.skyhook.name(), Stuck { open: open.count(), obstacle })
        });
        let stuck = ends.filter(|(name, end)| end.open > 0 || self.refused.contains_key(name)).collect();
        let ends = self.model.resources.iter().map(|r| r.skyhook.name()).zip(&self.last).enumerate();
        let ends = ends.filter_map(|(resource, (name, last))| {
            let seconds = seconds((*last)?);
            Some((name, Remaining { seconds, uncertainty: self.pace.uncertainty(resource, seconds) }))
        });
        Timeline {
            ends: ends.collect(),
            moments: self.moments.unwrap_or_default(),
            completions: self.completions,
            stuck,
            refused: self.refused,
            untimed: self.untimed,
        }
    }

    /// The first obstacle on these nodes at the end of the simulation.
    fn obstacle(
        &self,
        number: usize,
        open: impl Iterator<Item = usize>,
    ) -> Option<(WaitReason<'a>, &'a Node)> {
        let resource = &self.model.resources[number];
        let progress = open.map(|at| {
            let node = resource.nodes[at];
            let drain = self.works[number][at].drain;
            let mut protected = self.model.protected_pods(resource.skyhook, node);
            let protected = protected.next().filter(|_| drain == Drain::Forbidden);
            let waits = protected.map(|pod| WaitReason::ProtectedPod(pod).into());
            (node, waits.unwrap_or_else(|| progress(&self.model, resource, at)))
        });
        first_obstacle(&self.model, resource, progress)
    }

    /// Starts the simulation with the running stages, and marks all nodes as due.
    fn begin(&mut self) {
        let taken_at = self.model.cluster.taken_at;
        for number in 0..self.model.resources.len() {
            self.spread(number);
            for compartment in 0..self.model.resources[number].compartments.len() {
                // If the order of nodes is arbitrary, the reconcile chooses only a batch of all candidates.
                // Otherwise choose some for the simulation.
                let resource = &self.model.resources[number];
                if let Selection::New { size, .. } = &resource.selections[compartment]
                    && !resource.ordered
                {
                    self.choose(number, compartment, *size);
                }
                self.settle.insert((number, compartment));
            }
            for at in 0..self.model.resources[number].nodes.len() as u32 {
                let node = self.node(number, at);
                let skyhook = self.model.resources[number].skyhook.name();
                let runs = self.model.runs.all.of_skyhook_on(skyhook, &node.name);
                let suspended = |job: &crate::cluster::Job| job.spec.suspend;
                let runs = runs.filter(|run| !run.job.is_some_and(suspended));
                let resource = &self.model.resources[number];
                let profile = resource.profile(&resource.places[at as usize]);
                let running = runs.filter_map(|run| {
                    let unrecorded = resource.unrecorded(&self.model.runs, profile, run);
                    if !unrecorded
                        && (!run.alive()
                            || resource.acts() && self.model.runs.outdated(run, resource.skyhook))
                    {
                        return None;
                    }
                    let own = |p: &SpecPackage<'_>| p.name == run.package;
                    let package = resource.packages.iter().position(own)?;
                    let elapsed = run.created().map(|at| taken_at.duration_since(at).as_secs_f64());
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

    /// Performs all due actions, until only running stages and drains are left.
    fn act(&mut self) {
        loop {
            while let Some((number, at)) = self.due.pop() {
                while self.step(number, at) {}
            }
            let Some((number, compartment)) = self.settle.pop_first() else {
                return;
            };
            self.select(number, compartment);
        }
    }
}

/// Converts milliseconds to seconds.
fn seconds(time: u64) -> f64 {
    time as f64 / 1000.0
}

fn batches(model: &Model<'_>, resource: &Resource<'_>) -> Vec<Batch> {
    let of = |compartment: &Compartment<'_>| {
        let places = &resource.places;
        let chosen = |at: &&u32| places[**at as usize].selected_now && !places[**at as usize].complete;
        let mut queue = selection::candidates(&model.operator, compartment, places, &[]);
        queue.retain(|at| !places[*at as usize].selected_now);
        Batch {
            counts: Counts::new(compartment.members.iter().map(|at| &places[*at as usize])),
            open: compartment.members.iter().filter(chosen).count(),
            queue: queue.into(),
            assumed: false,
        }
    };
    resource.compartments.iter().map(of).collect()
}

impl<'a> Advance<'a> {
    /// Performs one action of the operator for a custom resource on a node; returns whether another action
    /// may follow immediately.
    fn step(&mut self, number: usize, at: u32) -> bool {
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
            self.complete(number, at);
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
            Step::Start { drains: true, .. } if work.drain == Drain::Open => {
                self.drain(number, at);
                if self.works[number][at as usize].drain == Drain::Evicts && self.add_refusal(number, at) {
                    self.works[number][at as usize].assumed = true;
                }
            }
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
    fn drain(&mut self, number: usize, at: u32) {
        let resource = &self.model.resources[number];
        let place = At::new(&self.model, resource, at as usize);
        let pods = drain::pods(&place);
        // Without a refusal, older operators do not wait for the end of the evicted pods.
        let waits = !self.model.operator.before(0, 19);
        let held = drain::remaining(&place).into_iter().find(|pod| pod.is_held());
        if let (Some(pod), Some(1..), true) = (held, pods, waits) {
            self.untimed.get_or_insert(Untimed::Finalizer { node: &place.node.name, pod: pod.name() });
        }
        let drain = match pods {
            None => Drain::Forbidden,
            Some(0) => Drain::Done,
            Some(_) => Drain::Evicts,
        };
        self.works[number][at as usize].drain = drain;
        self.note(number, at, Happening::Cordon { pods: pods.unwrap_or(0) });
    }

    /// Records that the drain of a node is refused, or timed out, until someone intervenes, if so, for the custom resources that do
    /// not complete until then. The simulation goes on as if someone did. Returns whether it is refused.
    fn add_refusal(&mut self, number: usize, at: u32) -> bool {
        let (cluster, node) = (self.model.cluster, self.node(number, at));
        let skyhook = self.model.resources[number].skyhook;
        if self.model.unhindered {
            return false;
        }
        let begun = cluster.is_taken_up(skyhook, node);
        let drain = drains::Drain { skyhook, node, package: "", begun, ignored: false };
        let obstacles = self.obstacles.get_or_init(|| ObstacleReader::new(cluster)).of(&drain);
        let over = cluster.on_node(node, skyhook.name()).is_some_and(NodeRecord::drain_timed_out);
        let state = drain_state(cluster, &drain, &obstacles);
        if !over && !matches!(state, Some(DrainRefusal::Blocked | DrainRefusal::Ahead)) {
            return false;
        }
        let ends_turn = obstacles_end_turn(cluster, &obstacles);
        let own = &self.model.resources[number];
        let held = || {
            let places = own.nodes.iter().zip(&own.places);
            places.filter(|(on, place)| on.name == node.name || ends_turn && !place.complete)
        };
        let here = |resource: &Resource<'a>| {
            let mut places = held().filter_map(|(on, _)| resource.index(&on.name));
            places.any(|at| !resource.places[at].complete)
        };
        let waits = |(other, resource): &(usize, &Resource<'a>)| {
            *other == number || *other > number && (skyhook.blocks_all_nodes() || here(resource))
        };
        let waiting = self.model.resources.iter().enumerate().filter(waits);
        let waiting: Vec<&str> = waiting.map(|(_, resource)| resource.skyhook.name()).collect();
        let why = if over {
            "timed out, and is not tried again".to_owned()
        } else {
            format!("is refused: {}", obstacles.cause().0)
        };
        for name in waiting {
            self.refused.entry(name).or_insert_with(|| RefusedDrain {
                skyhook: skyhook.name(),
                node,
                why: why.clone(),
            });
        }
        let compartment = usize::from(self.model.resources[number].places[at as usize].compartment);
        for (of, batch) in self.batches[number].iter_mut().enumerate() {
            batch.assumed |= ends_turn || of == compartment;
        }
        true
    }

    /// Starts a stage, or continues one that has already run for `elapsed` seconds.
    fn start(&mut self, number: usize, at: u32, package: usize, stage: &Stage, elapsed: f64) {
        let slot = Slot::new(stage.clone(), State::InProgress);
        self.change(number, at, package, Some(slot));
        let lasts = self.pace.of(number, package, stage);
        if lasts.is_none() {
            let resource = &self.model.resources[number];
            let (skyhook, package) = (resource.skyhook.name(), resource.packages[package].name);
            self.untimed.get_or_insert(Untimed::UnknownDuration { skyhook, package });
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
        self.ends.entry(end).or_default().push(End { resource: number, at, package });
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
    fn mark(&mut self, number: usize, at: u32, status: Status) {
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
        let resource = &mut self.model.resources[number];
        let [was, is] = [from, to].map(|at| resource.profiles[at as usize].pending && resource.deleting);
        self.pending[number] = self.pending[number] + usize::from(is) - usize::from(was);
        resource.places[at as usize].profile = to;
    }

    fn node(&self, number: usize, at: u32) -> &'a Node {
        self.model.resources[number].nodes[at as usize]
    }

    fn note(&mut self, number: usize, at: u32, what: Happening<'a>) {
        self.last[number] = Some(self.now);
        let resource = &self.model.resources[number];
        let (skyhook, seconds) = (resource.skyhook.name(), seconds(self.now));
        if what == Happening::Complete {
            self.completions.push((skyhook, seconds));
        }
        if let Some(moments) = &mut self.moments {
            let (node, at_once) = (resource.nodes[at as usize], !self.ended);
            let assumed = self.works[number][at as usize].assumed;
            moments.push(Moment { seconds, at_once, assumed, skyhook, node, what });
        }
    }
}

fn bit(package: usize) -> u64 {
    // Packages with the same number modulo 64 share a bit. This is inexact, but acceptable.
    1 << (package % 64)
}

impl Advance<'_> {
    /// Marks a node as complete if no work remains, and lets waiting custom resources proceed.
    fn complete(&mut self, number: usize, at: u32) {
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
        self.finalize(number);
    }

    /// Removes a custom resource from all nodes, once no uninstall keeps it from being deleted.
    fn finalize(&mut self, number: usize) {
        let resource = &self.model.resources[number];
        if self.removed[number] || self.pending[number] > 0 || !self.model.is_removable(resource) {
            return;
        }
        self.removed[number] = true;
        let works = &mut self.works[number];
        let assumed = works.iter().any(|work| work.assumed);
        works.iter_mut().for_each(|work| work.assumed = assumed);
        self.model.resources[number].places.iter_mut().for_each(|place| place.complete = true);
        self.open[number] = 0;
        for at in 0..self.works[number].len() {
            self.release(number, self.works[number][at].node as usize);
        }
        self.open_gates(number);
    }

    /// Lets the custom resources that wait for this one on a node proceed there.
    fn release(&mut self, number: usize, node: usize) {
        let mut earlier = u16::MAX;
        let mut assumed = false;
        for (later, at) in &self.nodes[node].resources {
            let resource = &mut self.model.resources[*later];
            let place = &mut resource.places[*at as usize];
            let work = &mut self.works[*later][*at as usize];
            assumed |= *later == number && work.assumed;
            if *later > number && place.earlier != earlier {
                place.earlier = earlier;
                work.assumed |= assumed;
                self.due.push((*later, *at));
            }
            if !place.complete && !resource.disabled && earlier == u16::MAX {
                earlier = *later as u16;
            }
        }
    }

    /// Lets later custom resources proceed after a custom resource with `sequencing: all` is complete on all
    /// nodes.
    fn open_gates(&mut self, number: usize) {
        if !self.model.resources[number].skyhook.blocks_all_nodes() {
            return;
        }
        let mut gate = None;
        let assumed = self.refused.contains_key(self.model.resources[number].skyhook.name());
        for (later, resource) in self.model.resources.iter_mut().enumerate() {
            if later > number {
                resource.gate = gate;
                self.works[later].iter_mut().for_each(|work| work.assumed |= assumed);
                self.due.extend((0..resource.nodes.len() as u32).map(|at| (later, at)));
            }
            if gate.is_none() && !resource.disabled && resource.skyhook.blocks_all_nodes() {
                let open = resource.places.iter().position(|place| !place.complete);
                gate = open.map(|open| (resource.skyhook, resource.nodes[open]));
            }
        }
    }

    /// Chooses the nodes of a compartment's next batch if the current batch is over.
    fn select(&mut self, number: usize, compartment: usize) {
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
    fn choose(&mut self, number: usize, compartment: usize, size: usize) {
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
            work.assumed |= batch.assumed;
            work.slower_than = (place as f32 + 0.5) / chosen.len() as f32;
            self.due.push((number, *at));
        }
    }

    /// Distributes the relative speeds evenly among the nodes at work in each batch.
    fn spread(&mut self, number: usize) {
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
