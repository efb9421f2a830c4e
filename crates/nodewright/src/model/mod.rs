//! An executable model of the operator. Runs one reconcile over the data of a cluster, without side effects.
//!
//! [`Model::new`] runs the reconcile of the operator's version over all custom resources, in its order.
//! [`Model::progress`] returns the state of a custom resource on a node, with the operator's next action or
//! the object that the node waits for. [`Model::next_nodes`] returns the nodes that a compartment takes next.
//! [`Model::timeline`] simulates the operator's actions to the end of all rollouts, and [`effects()`]
//! compares a cluster with an edited one.
//!
//! | Question | File |
//! | --- | --- |
//! | in which order the operator takes nodes | `resource.rs` (by age, name), `place.rs`, `selection.rs` |
//! | to which compartment a node belongs, how large a batch is | `compartment.rs`; how many nodes are in progress at most: `next_nodes.rs` |
//! | what a node waits for: earlier custom resources, batches, drains | `on_nodes.rs` |
//! | which packages of a node run next | `profile.rs` |
//! | which stage follows | `operator.rs` |
//! | how edits of packages change node states | `profile.rs`, `resource.rs` |
//! | which conditions block a node | one file per gate in `gates/`, in the operator's order |
//! | how all rollouts proceed to their end | `advance.rs`, its result in `timeline.rs` |
//! | how long a stage takes | `pace.rs` |
//! | which effects an edit has | `effects.rs` |
//! | in which facts versions differ, for rules and planners | `profile.rs` |
//!
//! Differences between operator versions are checks such as `if operator.before(0, 20)` at the affected
//! statement, with the name of the operator's function. An unknown version counts as the newest known one of
//! the active API.

mod action;
mod advance;
mod compartment;
mod effects;
mod gates;
mod next_nodes;
mod on_nodes;
mod operator;
mod pace;
mod place;
pub mod profile;
mod reason;
mod resource;
mod runs;
mod selection;
pub mod spec_errors;
mod timeline;
mod work;

use std::cell::OnceCell;
use std::collections::HashMap;
use std::rc::Rc;

use jiff::Timestamp;

use crate::api::Skyhook;
use crate::cluster::drain::is_active;
use crate::cluster::{Cluster, Node, Pod};
pub use action::{Action, NodeProgress, ProgressState, QueuePosition};
pub use effects::{
    Effects, PackageChange, PackageDocument, RolloutDocument, Simulation, WorkByPlace, effects,
};
pub use gates::drain::{DrainRefusal, drain_state};
pub use next_nodes::{AtOnce, NextNodes};
pub use on_nodes::{Batch, DrainProgress, Predecessor, knows_workloads_on, waiting_for_drain};
use operator::Operator;
use place::{Place, Status};
pub use reason::WaitReason;
use resource::Resource;
use runs::Runs;
pub use timeline::{Happening, Moment, Remaining, Timeline, Untimed};

/// An action that the operator takes in its next reconcile.
#[derive(Debug)]
pub struct DueAction<'a> {
    pub node: &'a Node,
    pub action: Action<'a>,
    /// Whether the operator takes this node. Otherwise it takes this one or another candidate of a new batch.
    pub certain: bool,
}

/// One reconcile of the operator over a cluster.
pub struct Model<'a> {
    cluster: &'a Cluster,
    operator: Operator<'a>,
    runs: Rc<Runs<'a>>,
    /// The custom resources, in the operator's order.
    resources: Vec<Resource<'a>>,
    /// The reason why the operator works on no custom resource at all.
    halt: Option<WaitReason<'a>>,
    /// Whether the model is one of [`Model::unhindered`].
    unhindered: bool,
    /// Pods that are not package stages, by node.
    workloads: OnceCell<HashMap<&'a str, Vec<&'a Pod>>>,
}

impl<'a> Model<'a> {
    pub fn new(cluster: &'a Cluster) -> Model<'a> {
        let mut model = Model::reconcile(cluster, false);
        model.halt = gates::halt(&model);
        model
    }

    /// The model without pauses, disables, ignore labels, taints, stopped rollouts, missing policies, refused drains and
    /// earlier custom resources, and with a running operator.
    pub fn unhindered(cluster: &'a Cluster) -> Model<'a> {
        Model::reconcile(cluster, true)
    }

    fn reconcile(cluster: &'a Cluster, unhindered: bool) -> Model<'a> {
        let mut skyhooks: Vec<&'a Skyhook> = cluster.skyhooks.iter().collect();
        // Operator `BuildState`: by priority, then by name.
        skyhooks.sort_by_key(|s| s.order());
        Model::of(cluster, Operator::new(cluster), Rc::new(Runs::new(cluster)), skyhooks, unhindered)
    }

    fn of(
        cluster: &'a Cluster,
        operator: Operator<'a>,
        runs: Rc<Runs<'a>>,
        skyhooks: Vec<&'a Skyhook>,
        unhindered: bool,
    ) -> Model<'a> {
        let resources = resource::build(cluster, operator, &runs, skyhooks, unhindered);
        Model { cluster, operator, runs, resources, halt: None, unhindered, workloads: OnceCell::new() }
    }

    /// The progress of a custom resource on a node; `None` if the custom resource does not select the node.
    pub fn progress(&self, skyhook: &str, node: &str) -> Option<NodeProgress<'a>> {
        let resource = self.resource(skyhook)?;
        Some(work::progress(self, resource, resource.index(node)?))
    }

    /// The progress of a custom resource on each node that it selects, in the operator's order of nodes.
    pub fn all_progress(&self, skyhook: &str) -> impl Iterator<Item = (&'a Node, NodeProgress<'a>)> {
        let resource = self.resource(skyhook);
        resource.into_iter().flat_map(move |resource| {
            let nodes = resource.nodes.iter().enumerate();
            nodes.map(move |(at, node)| (*node, work::progress(self, resource, at)))
        })
    }

    /// Whether the next reconcile removes the custom resource: it is being deleted, and no uninstall is pending (operator
    /// `HandleFinalizer`).
    pub fn finalizes(&self, skyhook: &str) -> bool {
        let removable = self.resource(skyhook).filter(|resource| self.is_removable(resource));
        removable.is_some_and(|resource| resource.pending.is_none())
    }

    /// Whether the custom resource is being deleted, and gone once no uninstall is pending. Unknown uninstalls may be
    /// pending on nodes that were not read.
    fn is_removable(&self, resource: &Resource<'a>) -> bool {
        let finalizer = self.cluster.flavor().finalizer();
        resource.deleting
            && self.halt.is_none()
            && !self.cluster.limited_to_named_nodes
            && resource.skyhook.metadata.finalizers.iter().all(|entry| *entry == finalizer)
    }

    /// The operator's next actions on nodes where no stage of the custom resource runs.
    pub fn due_actions(&self, skyhook: &str) -> impl Iterator<Item = DueAction<'a>> {
        let resource = self.resource(skyhook);
        resource.into_iter().flat_map(move |resource| {
            let nodes = resource.nodes.iter().enumerate();
            nodes.filter_map(move |(at, node)| {
                let (action, certain) = work::due_action(self, resource, at)?;
                Some(DueAction { node, action, certain })
            })
        })
    }

    /// The nodes that each compartment of a custom resource takes next, by the name of the compartment.
    pub fn next_nodes(&self, skyhook: &str) -> Vec<(&'a str, NextNodes<'a>)> {
        let Some(resource) = self.resource(skyhook) else {
            return Vec::new();
        };
        let compartments = resource.compartments.iter().enumerate();
        compartments.map(|(at, c)| (c.name, next_nodes::of(self, resource, at))).collect()
    }

    /// The compartments of a custom resource with their nodes, in the operator's order.
    pub fn compartments(&self, skyhook: &str) -> Vec<(&'a str, Vec<&'a Node>)> {
        let Some(resource) = self.resource(skyhook) else {
            return Vec::new();
        };
        resource
            .compartments
            .iter()
            .map(|c| {
                let nodes = c.members.iter().map(|at| resource.nodes[*at as usize]).collect();
                (c.name, nodes)
            })
            .collect()
    }

    /// The nodes of this node's compartment on which the operator works before it chooses others: chosen
    /// nodes that are in progress or recorded in the batch. Includes nodes on which a deletion has already
    /// uninstalled all packages.
    pub fn chosen_beside(&self, skyhook: &str, node: &Node) -> Vec<&'a Node> {
        let Some((resource, index)) = self.at(skyhook, node) else {
            return Vec::new();
        };
        let own = resource.places[index].compartment;
        let works = |place: &Place| {
            let begun = place.in_recorded_batch || place.status == Status::InProgress;
            place.compartment == own && place.selected_now && begun
        };
        let chosen = resource.nodes.iter().zip(&resource.places).filter(|(_, place)| works(place));
        chosen.map(|(node, _)| *node).collect()
    }

    /// The maximum number of nodes of a compartment on which the operator works at the same time.
    pub fn nodes_at_once(&self, skyhook: &str, compartment: &str) -> AtOnce {
        let resource = self.resource(skyhook);
        resource.map_or(AtOnce::Unknown, |resource| AtOnce::of(resource, compartment))
    }

    /// Time at which a custom resource became complete on a node that it selects; `None` if unknown.
    pub fn completed_at(&self, skyhook: &str, node: &Node) -> Option<Timestamp> {
        let condition = self.cluster.flavor().key(&format!("{skyhook}/NotReady"));
        pace::completed(node, &condition)
    }

    fn resource(&self, skyhook: &str) -> Option<&Resource<'a>> {
        self.resources.iter().find(|resource| resource.skyhook.name() == skyhook)
    }

    /// Running and pending pods on a node that are not package stages.
    fn workloads_on(&self, node: &str) -> &[&'a Pod] {
        let by_node = self.workloads.get_or_init(|| {
            let mut by_node: HashMap<&str, Vec<&Pod>> = HashMap::new();
            for pod in self.cluster.workloads.iter().filter(|pod| is_active(pod)) {
                by_node.entry(&pod.spec.node_name).or_default().push(pod);
            }
            by_node
        });
        by_node.get(node).map_or(&[], Vec::as_slice)
    }
}
