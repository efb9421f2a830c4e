//! Simulates the operator's actions, with their times and order, until no action remains.

mod actions;
mod release;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use super::Model;
use super::batch_size::Counts;
use super::compartment::Compartment;
use super::pace::Pace;
use super::place::Place;
use super::profile::SpecPackage;
use super::resource::Resource;
use super::selection::{self, Selection};
use super::stage::Slot;
use super::timeline::{Moment, Remaining, Timeline, Untimed};
use crate::cluster::Node;

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
    /// The moments of the timeline; `None` if only estimates are needed.
    moments: Option<Vec<Moment<'a>>>,
    completions: Vec<(&'a str, f64)>,
    /// The time of the last action, by custom resource.
    last: Vec<Option<u64>>,
    /// Whether durations are unknown: no stage has finished anywhere, or there are too many nodes.
    untimed: Option<Untimed<'a>>,
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
        let open = |r: &Resource<'_>| r.places.iter().filter(|place| !place.complete).count();
        let open = model.resources.iter().map(open).collect();
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
            moments,
            completions: Vec::new(),
            last,
            untimed: None,
        };
        advance.begin();
        advance
    }

    fn run(mut self) -> Timeline<'a> {
        let too_many = self.moments.is_none() && self.open.iter().sum::<usize>() > MOST;
        self.untimed = self.untimed.or(too_many.then_some(Untimed::TooManyNodes));
        if self.model.halt.is_none() && !too_many {
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
        let open = |resource: &&Resource<'a>| {
            let mut places = resource.places.iter();
            let pending = |place: &Place| resource.profile(place).pending;
            places.any(|place| if resource.deleting { pending(place) } else { !place.complete })
        };
        let stuck = self.model.resources.iter().filter(open);
        let stuck = stuck.map(|resource| resource.skyhook.name()).collect();
        let names = self.model.resources.iter().map(|r| r.skyhook.name());
        let ends = names.zip(&self.last).enumerate();
        let ends = ends.filter_map(|(resource, (name, last))| {
            let seconds = seconds((*last)?);
            Some((name, Remaining { seconds, uncertainty: self.pace.uncertainty(resource, seconds) }))
        });
        Timeline {
            ends: ends.collect(),
            moments: self.moments.unwrap_or_default(),
            completions: self.completions,
            stuck,
            untimed: self.untimed,
        }
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
        }
    };
    resource.compartments.iter().map(of).collect()
}
