//! A custom resource on its nodes, for rules, planners and commands: predecessors, compartments and batches.

use std::collections::BTreeMap;
use std::rc::Rc;

use jiff::Timestamp;

use super::Model;
use super::gates::{At, drain};
use super::operator::Step;
use super::place::Place;
use super::profile::SpecPackage;
use super::resource::Resource;
use super::selection::Selection;
use crate::api::Skyhook;
use crate::cluster::drain::Drain;
use crate::cluster::history::Changes;
use crate::cluster::{Certainty, Cluster, Node, Pod, Read, Source};

/// An earlier custom resource that must finish first.
#[derive(Debug, Clone, Copy)]
pub struct Predecessor<'a> {
    pub skyhook: &'a Skyhook,
    /// A node on which the custom resource is not complete.
    pub node: &'a Node,
}

/// The incomplete nodes of a compartment whose rollout has not stopped, sorted by name.
#[derive(Debug, Default)]
pub struct Batch<'a> {
    pub compartment: &'a str,
    /// Nodes in the recorded batch.
    pub chosen: Vec<&'a Node>,
    /// Nodes outside of the batch.
    pub others: Vec<&'a Node>,
    /// The names of `others` that only the batch blocks.
    pub waiting: Vec<&'a str>,
    /// Nodes of `chosen` that the operator skips although nothing blocks them; see
    /// [`super::WaitReason::BatchSibling`].
    pub passed_over: Vec<&'a Node>,
}

impl<'a> Batch<'a> {
    pub fn incomplete(&self) -> impl Iterator<Item = &'a Node> {
        self.chosen.iter().chain(&self.others).copied()
    }
}

impl<'a> Model<'a> {
    /// The first earlier custom resource with `sequencing: all` that is not complete on all of its nodes.
    pub fn predecessor_everywhere(&self, skyhook: &Skyhook) -> Option<Predecessor<'a>> {
        let (skyhook, node) = self.resource(skyhook.name())?.gate?;
        Some(Predecessor { skyhook, node })
    }

    /// The first custom resource that is not complete on the node, if it is an earlier one.
    pub fn predecessor_on(&self, skyhook: &Skyhook, node: &Node) -> Option<Predecessor<'a>> {
        let (resource, index) = self.at(skyhook.name(), node)?;
        let earlier = self.resources.get(usize::from(resource.places[index].earlier))?;
        Some(Predecessor { skyhook: earlier.skyhook, node: resource.nodes[index] })
    }

    /// Whether no work is left for a custom resource on a node that it selects. A requested uninstall is work, even while a
    /// pause keeps the operator from starting it.
    pub fn is_done_on(&self, skyhook: &Skyhook, node: &Node) -> bool {
        let here = self.at(skyhook.name(), node);
        here.is_some_and(|(resource, index)| resource.is_done(&resource.places[index]))
    }

    /// The selected nodes with work left, sorted by name.
    pub fn unfinished(&self, skyhook: &Skyhook) -> impl Iterator<Item = &'a Node> {
        let resource = self.resource(skyhook.name());
        resource.into_iter().flat_map(|resource| {
            resource
                .by_name()
                .filter(|(_, place)| !resource.is_done(place))
                .map(|(index, _)| resource.nodes[index])
        })
    }

    /// The packages that the operator never starts or continues on the node, although they wait for no other: more packages
    /// are complete there than have no dependencies (up to v0.17, upstream issue 387).
    pub fn overlooked(&self, skyhook: &Skyhook, node: &Node) -> Vec<&'a str> {
        let Some((resource, index)) = self.at(skyhook.name(), node) else {
            return Vec::new();
        };
        let overlooked = resource.profile(&resource.places[index]).overlooked.iter();
        overlooked.map(|at| resource.packages[*at].name).collect()
    }

    /// Whether the operator would overlook a package on the node once its record is removed, see [`Model::overlooked`].
    pub fn would_overlook(&self, skyhook: &Skyhook, node: &Node, package: &str) -> bool {
        self.at(skyhook.name(), node).is_some_and(|(resource, index)| {
            let Resource { packages, order, .. } = resource;
            let profile = resource.profile(&resource.places[index]);
            packages.iter().position(|p| p.name == package).is_some_and(|at| {
                profile.with_slot(&self.operator, packages, order, at, None).overlooked.contains(&at)
            })
        })
    }

    /// Custom resources that keep the runtime-required taint on the node: they have `runtimeRequired`, select the node, and
    /// are not complete there (operator `HandleRuntimeRequired`). A pause or disable of a complete one does not matter.
    pub fn taint_kept_by(&self, node: &Node) -> Vec<&'a Skyhook> {
        if self.cluster.runtime_required().on(node).is_none() {
            return Vec::new();
        }
        let keepers = self.cluster.skyhooks.iter().filter(|s| s.spec.runtime_required).filter(|s| {
            let here = self.at(s.name(), node);
            let open = |place: &Place| s.deleting() || !place.complete;
            here.is_some_and(|(resource, index)| open(&resource.places[index]))
        });
        keepers.collect()
    }

    /// The custom resources that keep the runtime-required taint on the node although the operator does not work on them: all
    /// that keep it are paused, disabled or being deleted, or there is none, because none with `runtimeRequired` selects the
    /// node. `None` if the operator removes the taint, or works on one that keeps it.
    pub fn taint_left_by(&self, node: &Node) -> Option<Vec<&'a Skyhook>> {
        self.cluster.runtime_required().on(node)?;
        let keepers = self.taint_kept_by(node);
        let lifts = match keepers.as_slice() {
            [] => self.cluster.skyhooks.iter().any(|s| s.spec.runtime_required && s.selects(node)),
            keepers => keepers.iter().any(|s| s.is_active() && !s.deleting()),
        };
        (!lifts).then_some(keepers)
    }

    /// The compartment of a node; `None` if it depends on a policy that was not read.
    pub fn compartment_of(&self, skyhook: &Skyhook, node: &Node) -> Option<&'a str> {
        let (resource, index) = self.at(skyhook.name(), node)?;
        resource.compartment(&resource.places[index])
    }

    /// Whether the rollout has stopped in the node's compartment, or may have stopped if the compartment is
    /// unknown.
    pub fn is_stopped(&self, skyhook: &Skyhook, node: &Node) -> bool {
        let here = self.at(skyhook.name(), node);
        here.is_some_and(|(resource, index)| resource.is_stopped(&resource.places[index]))
    }

    /// Incomplete nodes on which nothing but the batch keeps the operator from working, sorted by name.
    pub fn actionable_nodes(&self, skyhook: &Skyhook) -> Vec<&'a Node> {
        let Some(resource) = self.resource(skyhook.name()) else {
            return Vec::new();
        };
        let places = resource.by_name();
        places
            .filter(|(_, place)| resource.is_unblocked(place) && !place.ignored)
            .map(|(index, _)| resource.nodes[index])
            .collect()
    }

    /// The batch of each compartment with incomplete nodes, without compartments whose rollout has stopped.
    pub fn batches(&self, skyhook: &Skyhook) -> Vec<Batch<'a>> {
        let Some(resource) = self.resource(skyhook.name()) else {
            return Vec::new();
        };
        let mut batches: BTreeMap<&str, Batch<'a>> = BTreeMap::new();
        let places = resource.by_name();
        for (index, place) in places.filter(|(_, place)| !place.complete && !resource.is_stopped(place)) {
            let Some(compartment) = resource.compartment(place) else {
                continue;
            };
            let batch = batches.entry(compartment);
            let batch = batch.or_insert_with(|| Batch { compartment, ..Batch::default() });
            let node = resource.nodes[index];
            let open = resource.is_unblocked(place) && !place.ignored;
            if place.in_recorded_batch {
                batch.chosen.push(node);
                batch.passed_over.extend((open && !place.selected_now).then_some(node));
            } else {
                batch.others.push(node);
                batch.waiting.extend(open.then_some(node.name.as_str()));
            }
        }
        batches.into_values().collect()
    }

    /// Whether a custom resource waits for the operator.
    pub fn is_operator_needed(&self) -> bool {
        self.cluster.skyhooks.iter().any(|skyhook| {
            skyhook.deleting() && skyhook.has_finalizer()
                || skyhook.is_active() && self.unfinished(skyhook).next().is_some()
        })
    }

    /// Whether the operator may be late: a node with unfinished work has no running stage, and its latest recorded
    /// change is not recent. Nodes that wait for others count as well.
    pub fn may_be_late(&self) -> bool {
        let cluster = self.cluster;
        let package_runs = &self.runs.all;
        let changes = Changes::new(cluster, Rc::clone(package_runs));
        cluster.skyhooks.iter().any(|skyhook| {
            let due_since = changes.due_since(skyhook);
            self.actionable_nodes(skyhook).into_iter().any(|node| {
                !package_runs.any_alive_on(skyhook.name(), &node.name) && cluster.is_late(due_since(node))
            })
        })
    }

    /// The custom resource, and the node's index in it; `None` if the custom resource does not select the node.
    pub(super) fn at(&self, skyhook: &str, node: &Node) -> Option<(&Resource<'a>, usize)> {
        let resource = self.resource(skyhook)?;
        Some((resource, resource.index(&node.name)?))
    }
}

impl<'a> Resource<'a> {
    /// Indexes of the nodes, sorted by name.
    fn order_of_names(&self) -> &[u32] {
        self.names.get_or_init(|| {
            let mut order: Vec<u32> = (0..self.nodes.len() as u32).collect();
            // The nodes of a cluster are one list, sorted by name.
            order.sort_unstable_by_key(|index| std::ptr::from_ref(self.nodes[*index as usize]));
            order
        })
    }

    /// The places with their indexes, sorted by name of the node.
    pub fn by_name(&self) -> impl Iterator<Item = (usize, &Place)> {
        self.order_of_names().iter().map(|index| (*index as usize, &self.places[*index as usize]))
    }

    /// The index of a node.
    pub fn index(&self, node: &str) -> Option<usize> {
        let order = self.order_of_names();
        let found = order.binary_search_by(|index| (*self.nodes[*index as usize].name).cmp(node));
        Some(order[found.ok()?] as usize)
    }

    /// The name of a place's compartment. Without its policy, a custom resource with one recorded compartment has only
    /// that one.
    fn compartment(&self, place: &Place) -> Option<&'a str> {
        match self.compartments.get(usize::from(place.compartment)) {
            Some(compartment) => Some(compartment.name),
            None => {
                let mut recorded = self.skyhook.status.compartment_statuses.keys();
                recorded.next().map(String::as_str).filter(|_| recorded.next().is_none())
            }
        }
    }

    /// Whether the rollout has stopped in the place's compartment. Without its policy, the recorded counters count, of
    /// any compartment if the place's is unknown.
    fn is_stopped(&self, place: &Place) -> bool {
        match self.selections.get(usize::from(place.compartment)) {
            Some(selection) => matches!(selection, Selection::Stopped),
            None => {
                let own = self.compartment(place);
                self.skyhook.stopped_compartments().any(|stopped| own.is_none_or(|own| own == stopped))
            }
        }
    }

    fn is_done(&self, place: &Place) -> bool {
        place.complete && !self.profile(place).leaves
    }

    /// Whether nothing but the batch or the ignore label keeps the operator from working on an incomplete node.
    pub fn is_unblocked(&self, place: &Place) -> bool {
        self.acts()
            && self.gate.is_none()
            && !place.complete
            && place.tolerated
            && place.earlier == u16::MAX
            && !self.is_stopped(place)
    }
}

/// A drain that the operator has begun.
#[derive(Debug)]
pub struct DrainProgress<'a> {
    /// Start of the drain; operators before v0.18 do not record it.
    pub since: Option<Timestamp>,
    /// Pods that are not evicted or have not ended yet; `None` if pods were not read.
    pub pods: Option<Vec<&'a Pod>>,
    /// Whether the API server refuses evictions, according to the operator's record or the budgets.
    pub refused: bool,
}

/// Sorted names of the nodes that wait for a drain: for an interrupt, or because they are being deleted.
pub fn waiting_for_drain(cluster: &Cluster) -> Vec<&str> {
    let interrupts = |skyhook: &Skyhook| {
        skyhook.packages().any(|(name, package)| skyhook.pending_interrupt(name, package).is_some())
    };
    let mut names: Vec<&str> =
        cluster.nodes.iter().filter(|node| node.deletion.is_some()).map(|node| node.name.as_str()).collect();
    // If only named nodes were read, nothing shows which nodes are chosen.
    if !cluster.limited_to_named_nodes && cluster.skyhooks.iter().any(interrupts) {
        let drains = Model::new(cluster).drains();
        names.extend(drains.iter().map(|drain| drain.node.name.as_str()));
    }
    names.sort_unstable();
    names.dedup();
    names
}

/// Whether the workload pods on these nodes were read. A load reads them only on nodes that wait for a drain.
pub fn knows_workloads_on(cluster: &Cluster, nodes: &[&Node]) -> bool {
    let all_read = || {
        let waiting = waiting_for_drain(cluster);
        let waits = |node: &Node| waiting.binary_search(&node.name.as_str()).is_ok();
        nodes.iter().all(|node| cluster.workloads_on.contains(&*node.name) || waits(node))
    };
    let read = || matches!(cluster.source(Source::Workloads), Read::Ok(_));
    nodes.is_empty() || read() && (cluster.may_leave_out() || all_read())
}

impl<'a> Model<'a> {
    /// Drains that interrupts need now or later, on nodes on which nothing else comes first. Includes ignored nodes.
    ///
    /// The operator cordons the node, waits for protected workloads and drains the node before it runs a package with an
    /// interrupt, and again for each stage up to `config`.
    pub fn drains(&self) -> Vec<Drain<'a>> {
        let mut drains = Vec::new();
        let cluster = self.cluster;
        let resources = cluster.skyhooks.iter().filter_map(|s| self.resource(s.name()));
        for resource in resources.filter(|r| r.packages.iter().any(SpecPackage::interrupts)) {
            let skyhook = resource.skyhook;
            let idle = cluster.is_idle(skyhook);
            for (index, place) in resource.by_name().filter(|(_, place)| resource.is_unblocked(place)) {
                let node = resource.nodes[index];
                let begun = !place.ignored && (idle || cluster.is_taken_up(skyhook, node));
                let at = At::new(self, resource, index);
                drains.extend(due(&at).map(|package| Drain {
                    skyhook,
                    node,
                    package,
                    begun,
                    ignored: place.ignored,
                }));
            }
        }
        drains
    }

    /// The drain of a node that is in progress for a custom resource, if any.
    pub fn drain_progress(&self, skyhook: &str, node: &Node) -> Option<DrainProgress<'a>> {
        let (resource, index) = self.at(skyhook, node)?;
        let at = At::new(self, resource, index);
        let record = at.profile.record?;
        let recorded = record.drain_start.is_some() || record.drain_blocked.is_some();
        let begun = recorded || record.cordon && self.operator.before(0, 18);
        let over = record.drain_timed_out() || at.runs().any(|run| run.alive());
        if !begun || over || !resource.skyhook.is_active() || due(&at).next().is_none() {
            return None;
        }
        let pods = self.cluster.source(Source::Workloads).ok().is_some().then(|| drain::remaining(&at));
        // Without a record, only remaining pods prove that the drain is in progress.
        let empty = pods.as_ref().is_none_or(Vec::is_empty);
        if !recorded && (empty || self.cluster.certainty_of_no_package_run() == Certainty::Unknown) {
            return None;
        }
        let evictions = self.cluster.evictions();
        let refused = evictions.refuses(resource.skyhook, node, pods.as_deref().unwrap_or_default());
        Some(DrainProgress { since: record.draining_since(), pods, refused })
    }
}

/// The packages on a node whose next stage starts with a drain, without running ones.
fn due<'m, 'a>(at: &At<'m, 'a>) -> impl Iterator<Item = &'a str> {
    at.profile
        .due
        .iter()
        .filter(|(_, step)| matches!(step, Step::Start { drains: true, .. }))
        .map(|(package, _)| at.resource.packages[*package].name)
        .filter(|name| !at.runs().any(|run| run.alive() && (run.package == *name || run.interrupt)))
}
