//! A custom resource in a reconcile: its nodes, their states, its compartments, and the dependencies of its packages.

use std::cell::OnceCell;
use std::collections::HashMap;

use super::compartment::{self, Compartment};
use super::operator::Operator;
use super::place::{NONE, Place, Status};
use super::profile::{Order, Profile, SpecPackage};
use super::runs::Runs;
use super::selection::{Selection, select};
use crate::api::{Skyhook, Stage, State};
use crate::cluster::{Cluster, Node, NodeRecord};

pub(super) struct Resource<'a> {
    pub skyhook: &'a Skyhook,
    pub packages: Vec<SpecPackage<'a>>,
    pub order: Order,
    pub profiles: Vec<Profile<'a>>,
    /// The selected nodes, in the operator's order: by creation, then by name.
    pub nodes: Vec<&'a Node>,
    /// Indexes of the nodes, sorted by name.
    pub names: OnceCell<Vec<u32>>,
    /// By index of the node.
    pub places: Vec<Place>,
    pub compartments: Vec<Compartment<'a>>,
    /// By index of the compartment.
    pub selections: Vec<Selection>,
    /// By index of the compartment: the number of nodes that wait for a batch, and the size of the next
    /// batch.
    pub queues: Vec<OnceCell<(usize, usize)>>,
    /// Whether batches take nodes in the order of `nodes`. This requires a deployment policy: operator
    /// `BuildState` sorts the nodes after it has filled the compartment of an `interruptionBudget`.
    pub ordered: bool,
    /// An earlier custom resource with `sequencing: all` and a node on which it is not complete.
    pub gate: Option<(&'a Skyhook, &'a Node)>,
    /// Whether the deployment policy is missing.
    pub policy_missing: bool,
    pub paused: bool,
    /// A disabled custom resource blocks no later one (operator `IsNodeReadyForSkyhook`).
    pub disabled: bool,
    pub deleting: bool,
    /// A node with a package that the finalizer waits for.
    pub pending: Option<&'a Node>,
    /// The first node whose state cannot be read.
    pub malformed: Option<&'a Node>,
}

impl<'a> Resource<'a> {
    pub fn profile(&self, place: &Place) -> &Profile<'a> {
        &self.profiles[place.profile as usize]
    }

    /// Whether the custom resource is unfinished on a node; during its deletion, whether an uninstall is pending there.
    pub fn is_open(&self, place: &Place) -> bool {
        if self.deleting { self.profile(place).pending } else { !place.complete }
    }

    /// Whether it is unknown which nodes join the nodes in progress: the operator has not recorded any batch.
    pub fn is_unrecorded(&self, selection: &Selection) -> bool {
        let Selection::New { joining, .. } = selection else {
            return false;
        };
        let in_progress = |at: &u32| self.places[*at as usize].recorded == Status::InProgress;
        self.skyhook.status.node_priority.is_empty() && joining.iter().any(in_progress)
    }

    /// Whether the operator starts new work for this custom resource.
    pub fn acts(&self) -> bool {
        !self.paused && !self.disabled && !self.policy_missing
    }

    /// Selects the nodes of each compartment, and numbers the waiting nodes.
    pub fn select(&mut self, operator: &Operator<'a>, unhindered: bool) {
        for place in &mut self.places {
            (place.selected_now, place.queued) = (false, NONE);
        }
        self.selections.clear();
        self.queues.clear();
        for at in 0..self.compartments.len() {
            let compartment = &self.compartments[at];
            let selection = select(operator, compartment, &self.places);
            let (chosen, waiting): (Vec<u32>, Vec<u32>) = match &selection {
                Selection::Stopped => (Vec::new(), Vec::new()),
                Selection::Current(batch) => {
                    let candidates = super::selection::candidates(operator, compartment, &self.places, batch);
                    let places = &self.places;
                    let outside = candidates.into_iter().filter(|at| !places[*at as usize].in_recorded_batch);
                    (batch.clone(), outside.collect())
                }
                Selection::New { candidates, size, joining } => {
                    let size = (*size).min(candidates.len());
                    // If the order is arbitrary, the nodes of a batch are known only if it contains all
                    // candidates.
                    let known = self.ordered || size == candidates.len();
                    let certain = known && !self.is_unrecorded(&selection);
                    let (taken, rest) = candidates.split_at(if certain { size } else { 0 });
                    ([taken, joining].concat(), rest.to_vec())
                }
            };
            for at in chosen {
                self.places[at as usize].selected_now = true;
            }
            for (number, at) in waiting.into_iter().enumerate() {
                self.places[at as usize].queued = number as u32;
            }
            self.selections.push(selection);
            self.queues.push(OnceCell::new());
        }
        if unhindered {
            // A node whose state cannot be read keeps no other node waiting.
            self.places.iter_mut().for_each(|place| place.selected_now = true);
        }
    }
}

/// Builds all custom resources, in the operator's order. `unhindered` as in [`super::Model::unhindered`].
pub(super) fn build<'a>(
    cluster: &'a Cluster,
    operator: Operator<'a>,
    runs: &Runs<'a>,
    skyhooks: Vec<&'a Skyhook>,
    unhindered: bool,
) -> Vec<Resource<'a>> {
    let mut earlier = vec![u16::MAX; cluster.nodes.items().len()];
    let mut gate = None;
    let mut resources = Vec::with_capacity(skyhooks.len());
    for (at, skyhook) in skyhooks.into_iter().enumerate() {
        let builder = Builder { cluster, operator, runs, skyhook, unhindered };
        let resource = builder.build(&mut earlier, at as u16, gate);
        if gate.is_none() && !unhindered && !resource.disabled && skyhook.blocks_all_nodes() {
            let open = resource.places.iter().position(|place| !place.complete);
            gate = open.map(|open| (skyhook, resource.nodes[open]));
        }
        resources.push(resource);
    }
    resources
}

struct Builder<'b, 'a> {
    cluster: &'a Cluster,
    operator: Operator<'a>,
    runs: &'b Runs<'a>,
    skyhook: &'a Skyhook,
    unhindered: bool,
}

impl<'a> Builder<'_, 'a> {
    fn build(&self, earlier: &mut [u16], index: u16, gate: Option<(&'a Skyhook, &'a Node)>) -> Resource<'a> {
        let skyhook = self.skyhook;
        let nodes = self.nodes();
        let mut packages: Vec<SpecPackage<'a>> =
            skyhook.packages().map(|(name, package)| SpecPackage::new(skyhook, name, package)).collect();
        let handled = skyhook.is_active() || self.unhindered;
        let (profile_of, mut profiles) = self.profiles(&nodes, &packages, handled);
        if handled {
            self.reconfigure(&nodes, &mut packages, &mut profiles);
        }
        let order = order(&packages);
        for profile in &mut profiles {
            profile.finish(&self.operator, &packages, &order);
        }
        let policy = self.cluster.policy(&skyhook.spec.deployment_policy);
        let without_policy = skyhook.spec.deployment_policy.is_empty() || self.unhindered && policy.is_none();
        let mut compartments = compartment::compartments(skyhook, policy, nodes.len(), without_policy);
        if self.unhindered {
            compartments.iter_mut().for_each(|c| c.strategy = None);
        }
        // Operator `HandleVersionChange`, in every reconcile. The API server sets a missing option of a policy to true.
        let options = &skyhook.spec.deployment_policy_options;
        let of_policy = || policy.map(|policy| policy.spec.reset_batch_state_on_completion.unwrap_or(true));
        let resets = options.reset_batch_state_on_completion.or_else(of_policy) == Some(true);
        if resets && profiles.iter().any(|profile| profile.changes_version) {
            compartments.iter_mut().for_each(|c| c.state = compartment::fresh());
        }
        let compartment_of = compartment::assign(&mut compartments, &nodes);
        let mut resource = Resource {
            skyhook,
            packages,
            order,
            profiles,
            places: Vec::with_capacity(nodes.len()),
            nodes,
            names: OnceCell::new(),
            compartments,
            selections: Vec::new(),
            queues: Vec::new(),
            ordered: !skyhook.spec.deployment_policy.is_empty(),
            gate,
            policy_missing: !self.unhindered && self.cluster.policy_missing(skyhook),
            paused: skyhook.paused() && !self.unhindered,
            disabled: skyhook.disabled() && !self.unhindered,
            deleting: skyhook.deleting(),
            pending: None,
            malformed: None,
        };
        for (at, compartment) in compartment_of.into_iter().enumerate() {
            let node = resource.nodes[at];
            let earlier = &mut earlier[self.cluster.node_index(node)];
            let place = self.place(&resource, node, profile_of[at], compartment, *earlier);
            let profile = resource.profile(&place);
            let pending = profile.pending && resource.deleting;
            let malformed = profile.record.is_some_and(NodeRecord::is_malformed);
            if pending {
                resource.pending.get_or_insert(node);
            }
            if malformed {
                resource.malformed.get_or_insert(node);
            }
            if !place.complete && !resource.disabled && !self.unhindered && *earlier == u16::MAX {
                *earlier = index;
            }
            resource.places.push(place);
        }
        resource.select(&self.operator, self.unhindered);
        resource
    }

    /// Moves all nodes back to stage config for each package whose configMap has changed and can be updated now
    /// (operator `HandleConfigUpdates`).
    ///
    /// It can be updated if the package is complete and idle on all nodes, or fails on a node at stage config or
    /// later. While a node uninstalls the package, it cannot.
    fn reconfigure(
        &self,
        nodes: &[&'a Node],
        packages: &mut [SpecPackage<'a>],
        profiles: &mut [Profile<'a>],
    ) {
        for at in 0..packages.len() {
            let name = packages[at].name;
            let Some(recorded) = self.cluster.config_map_of(self.skyhook, name, packages[at].package) else {
                continue;
            };
            let wanted = &packages[at].package.config_map;
            let new = |key: &&String| recorded.value(key) != wanted.get(*key).map(String::as_str);
            let changed: Vec<String> = wanted.keys().filter(new).cloned().collect();
            let removed = recorded.keys().any(|key| !wanted.contains_key(key));
            if changed.is_empty() && !removed {
                continue;
            }
            let slots = |profile: &Profile<'_>| profile.slots[at].clone();
            if profiles.iter().filter_map(slots).any(|s| s.stage.is_uninstall()) {
                continue;
            }
            let fails = profiles.iter().filter_map(slots).any(|slot| {
                let configured =
                    matches!(slot.stage, Stage::Config | Stage::Interrupt | Stage::PostInterrupt);
                configured && slot.state == State::Erroring
            });
            let busy = |node: &&Node| {
                let mut runs = self.runs.all.of_skyhook_on(self.skyhook.name(), &node.name);
                runs.any(|run| run.delays_config(name, packages[at].package))
            };
            let complete =
                profiles.iter().all(|profile| profile.package_complete(&self.operator, packages, at))
                    && !nodes.iter().any(busy);
            if !complete && !fails {
                continue;
            }
            let mut updates = changed;
            if !complete {
                updates.extend(self.skyhook.config_updates(name).iter().cloned());
            }
            packages[at].interrupt = packages[at].package.pending_interrupt(&updates);
            for profile in profiles.iter_mut() {
                profile.reconfigure(at);
            }
        }
    }

    /// The selected nodes, oldest first; nodes of the same second by name.
    fn nodes(&self) -> Vec<&'a Node> {
        let mut nodes: Vec<&Node> = if self.cluster.limited_to_named_nodes {
            self.cluster.nodes.iter().filter(|node| self.skyhook.selects(node)).collect()
        } else {
            self.cluster.selected(self.skyhook).collect()
        };
        // The sort is stable, and the nodes are already sorted by name.
        nodes.sort_by_key(|node| node.created);
        nodes
    }

    /// The index of each node's profile, and the distinct profiles. Records are compared by address, because
    /// nodes with equal keys share their records in memory. `handled` as in [`Profile::new`].
    fn profiles(
        &self,
        nodes: &[&'a Node],
        packages: &[SpecPackage<'a>],
        handled: bool,
    ) -> (Vec<u32>, Vec<Profile<'a>>) {
        let mut known: HashMap<Option<*const NodeRecord>, u32, foldhash::fast::RandomState> =
            HashMap::default();
        let mut profiles = Vec::new();
        let profile_of = nodes.iter().map(|node| {
            let record = self.cluster.on_node(node, self.skyhook.name());
            let key = record.map(std::ptr::from_ref);
            *known.entry(key).or_insert_with(|| {
                profiles.push(Profile::new(&self.operator, packages, record, handled));
                profiles.len() as u32 - 1
            })
        });
        (profile_of.collect(), profiles)
    }

    fn place(
        &self,
        resource: &Resource<'a>,
        node: &'a Node,
        profile: u32,
        compartment: u16,
        earlier: u16,
    ) -> Place {
        let skyhook = self.skyhook;
        let state = &resource.profiles[profile as usize];
        let mut place = Place {
            profile,
            compartment,
            earlier,
            status: Status::Unknown,
            recorded: Status::read(&self.cluster.status_on(skyhook, node)),
            complete: state.complete,
            ignored: node.ignored(self.cluster.flavor()) && !self.unhindered,
            tolerated: self.unhindered || self.cluster.untolerated_by(skyhook, node).is_empty(),
            in_recorded_batch: skyhook.status.node_priority.contains_key(&node.name),
            at_work: false,
            given_up: false,
            selected_now: false,
            queued: NONE,
        };
        for run in self.runs.all.of_skyhook_on(skyhook.name(), &node.name) {
            place.at_work |= run.alive() || resource.unrecorded(self.runs, state, run);
            place.given_up |= resource.gives_up(state, run) && !self.unhindered;
        }
        place.status = self.status(&place, state);
        place
    }

    /// The status that the operator gives the node in this reconcile (operator `IntrospectNode`, and the
    /// handlers).
    fn status(&self, place: &Place, state: &Profile<'a>) -> Status {
        if place.complete {
            Status::Complete
        } else if !place.eligible() && (!self.operator.before(0, 20) || place.recorded == Status::InProgress)
        {
            // Before v0.20, only nodes that the operator chooses become blocked, nodes in progress first. Since
            // then, blocked takes precedence over waiting, and ends as soon as its cause is removed.
            Status::Blocked
        } else if state.begins {
            Status::InProgress
        } else if place.earlier != u16::MAX {
            Status::Waiting
        } else {
            match place.recorded {
                Status::Unknown | Status::Complete => Status::Waiting,
                Status::Blocked if !self.operator.before(0, 20) => Status::Waiting,
                recorded => recorded,
            }
        }
    }
}

fn order(packages: &[SpecPackage<'_>]) -> Order {
    let depends_on = packages.iter().map(|package| {
        let depends_on = package.package.depends_on.iter();
        let found = depends_on.map(|(name, version)| {
            // Packages are sorted by name.
            let at = packages.binary_search_by(|p| p.name.cmp(name)).ok()?;
            (packages[at].package.version == *version).then_some(at)
        });
        found.collect()
    });
    Order { depends_on: depends_on.collect() }
}
