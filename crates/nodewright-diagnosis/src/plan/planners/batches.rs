//! Resets the batch state of a rollout.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::node;
use crate::api::skyhook::{BatchState, CompartmentStatus};
use crate::api::{Skyhook, Status};
use crate::cluster::{Cluster, Node};
use crate::model::Model;
use crate::plan::{Change, Consequences, Field, Plan, Step, Target, some_nodes};
use crate::text::plural;

/// The status fields that restart a rollout, with explicit zeros.
///
/// The operator omits zeros, and a patch without them changes nothing: `shouldStop` would stay. `None` if the
/// operator has not written a status yet.
pub fn reset(skyhook: &Skyhook) -> Option<Vec<Field>> {
    skyhook.status.status.as_ref()?;
    let mut fields = Vec::new();
    for (name, compartment) in &skyhook.status.compartment_statuses {
        counters(&mut fields, name, compartment);
    }
    let offset = Some(skyhook.status.node_order_offset).filter(|n| *n != 0);
    fields.push(
        Field::new(["status", "nodeOrderOffset"], offset.map(Value::from), Some(json!(0)))
            .with_any_old_value(),
    );
    let priority = &skyhook.status.node_priority;
    if !priority.is_empty() {
        let now: Map<String, Value> = priority
            .iter()
            .map(|(node, since)| (node.to_string(), json!(since.map(|s| s.to_string()))))
            .collect();
        let field = Field::new(["status", "nodePriority"], Some(now.into()), None);
        fields.push(field.with_any_old_value());
    }
    Some(fields)
}

/// The status fields that remove nodes from their batch slots; none for nodes without a slot.
pub fn leave<'a>(skyhook: &Skyhook, nodes: impl Iterator<Item = &'a str>) -> Vec<Field> {
    let place = |node: &'a str| {
        let since = skyhook.status.node_priority.get(node)?;
        let path = ["status", "nodePriority", node];
        let now = json!(since.map(|s| s.to_string()));
        Some(Field::new(path, Some(now), None).with_any_old_value())
    };
    nodes.filter_map(place).collect()
}

/// Whether a node keeps its batch slot even if the status field is removed: the operator chooses nodes in
/// progress first, and with a policy the first waiting node. An ignored node in progress becomes blocked.
pub fn keeps_place(cluster: &Cluster, skyhook: &Skyhook, node: &Node) -> bool {
    match cluster.status_on(skyhook, node) {
        Status::InProgress => !node.ignored(cluster.flavor()),
        Status::Waiting => !skyhook.spec.deployment_policy.is_empty(),
        _ => false,
    }
}

/// Whether ignoring the node may let other nodes start although no batch is recorded: the node is at work, and which
/// nodes follow it is unknown.
pub fn may_free_others(cluster: &Cluster, skyhook: &Skyhook, node: &Node) -> bool {
    let status = |node: &Node| cluster.status_on(skyhook, node);
    let waits = |other: &Node| {
        other.name != node.name
            && !other.ignored(cluster.flavor())
            && skyhook.selects(other)
            && status(other) != Status::Complete
    };
    skyhook.is_active()
        && skyhook.status.node_priority.is_empty()
        && matches!(status(node), Status::InProgress | Status::Erroring)
        && cluster.nodes.iter().any(waits)
}

/// Adds the fields that reset the counters of one compartment.
fn counters(fields: &mut Vec<Field>, name: &str, compartment: &CompartmentStatus) {
    let path = |field: &str| {
        ["status", "compartmentStatuses", name, "batchState", field].map(str::to_owned).into_iter()
    };
    let fresh = json!(BatchState { current_batch: 1, ..BatchState::default() });
    let Some(batch) = &compartment.batch_state else {
        let path = path("").take(4);
        fields.push(Field::new(path, None, Some(fresh)).with_any_old_value());
        return;
    };
    let batch = json!(batch);
    for (field, fresh) in fresh.as_object().into_iter().flatten() {
        let now = Some(batch[field].clone()).filter(|now| *now != json!(0) && *now != json!(false));
        fields.push(Field::new(path(field), now, Some(fresh.clone())).with_any_old_value());
    }
}

/// Whether a rollout is past its initial state.
pub fn rollout_started(skyhook: &Skyhook) -> bool {
    let status = &skyhook.status;
    let moved = |batch: &BatchState| {
        let first = BatchState { current_batch: batch.current_batch.min(1), ..BatchState::default() };
        json!(batch) != json!(first)
    };
    let mut batches = status.compartment_statuses.values().filter_map(|c| c.batch_state.as_ref());
    !status.node_priority.is_empty() || status.node_order_offset != 0 || batches.any(moved)
}

/// Warns that the batch counters still include nodes whose packages will run again. An operator that does not
/// correct the counters puts fewer nodes into a batch, and evaluates no batch, until the counters are no
/// higher than the number of nodes.
pub fn warn_of_counters(
    cluster: &Cluster,
    skyhook: &Skyhook,
    nodes: &[&Node],
    consequences: &mut Consequences,
) {
    if skyhook.status.compartment_statuses.is_empty() || !crate::model::profile::keeps_batch_counters(cluster)
    {
        return;
    }
    let model = Model::new(cluster);
    let counted = |node: &&&Node| {
        let own = model.compartment_of(skyhook, node);
        let all = skyhook.status.compartment_statuses.iter();
        let of = all.filter(|(name, _)| own.is_none_or(|own| own == name.as_str()));
        let batches = of.filter_map(|(_, compartment)| compartment.batch_state.as_ref());
        // A stopped rollout has its own warning.
        let mut batches = batches.filter(|batch| !batch.should_stop);
        let status = cluster.status_on(skyhook, node);
        // Without a policy, the failure counter has no effect, and erroring nodes keep their batch slots.
        let limited = !skyhook.spec.deployment_policy.is_empty();
        skyhook.selects(node)
            && batches.any(|batch| match status {
                Status::Complete => batch.completed_nodes > 0,
                Status::Erroring => limited && batch.failed_nodes > 0,
                _ => false,
            })
    };
    let nodes = some_nodes(nodes.iter().filter(counted).map(|node| &*node.name));
    if !nodes.is_empty() {
        consequences.warn(format!("the batch counters of {skyhook} still count {nodes} as complete or failed; with them, this operator version \
             might work on only one node at a time, and might not stop the rollout after failures; to restart \
             the batches, run `kubectl skyhook deployment-policy reset {}`", skyhook.name()));
    }
}

fn nodes_in<'a>(
    cluster: &'a Cluster,
    skyhook: &'a Skyhook,
    compartments: Option<&BTreeSet<&str>>,
) -> Vec<&'a Node> {
    let wanted = compartments.map(|wanted| (wanted, Model::new(cluster)));
    let within = |node: &&Node| {
        wanted.as_ref().is_none_or(|(wanted, model)| {
            model.compartment_of(skyhook, node).is_some_and(|own| wanted.contains(own))
        })
    };
    cluster.selected(skyhook).filter(within).collect()
}

/// Adds the restart of the batches of these compartments, or of all, to a plan.
///
/// Erroring nodes are set to waiting first: otherwise the operator counts them as failed again and stops the
/// rollout. A node on which a Job has failed permanently stays erroring: as a waiting node, it would hold its
/// batch forever. The status of the nodes in `handled` is changed by the rest of the plan.
pub fn add(
    cluster: &Cluster,
    skyhook: &Skyhook,
    compartments: Option<&BTreeSet<&str>>,
    handled: &[&Node],
    plan: &mut Plan,
) {
    let nodes = nodes_in(cluster, skyhook, compartments);
    let package_runs = cluster.package_runs();
    let mut permanently_failed = 0;
    let mut steps = Vec::new();
    for one in &nodes {
        let Some(on) = cluster.on_node(one, skyhook.name()) else {
            continue;
        };
        let is_handled = handled.iter().any(|node| node.name == one.name);
        if is_handled || on.status != Some(Status::Erroring) {
            continue;
        }
        if !package_runs.permanently_failed(cluster, skyhook, one).is_empty() {
            permanently_failed += 1;
            continue;
        }
        let change = node::status(cluster.flavor(), skyhook.name(), on, &Status::Waiting);
        let why = "otherwise the operator would immediately count the node as failed again";
        steps.push(Step::new(Target::of_node(one), Change::Metadata(change), why));
    }
    if !steps.is_empty() {
        plan.stage(steps);
        plan.consequences.warn("erroring nodes are set to waiting and may be chosen again");
    }
    if permanently_failed > 0 {
        plan.consequences.warn(format!(
            "the status erroring stays on {} because a job has failed permanently: first retry the package with `kubectl skyhook \
             package retry`; otherwise the rollout may stop again",
            plural(permanently_failed, "node")
        ));
    }
    let fields = match compartments {
        Some(compartments) => of_compartments(skyhook, compartments, &nodes),
        None => reset(skyhook),
    };
    if let Some(fields) = fields.filter(|_| rollout_started(skyhook) || !plan.is_empty()) {
        let target = Target::of_skyhook(cluster.flavor(), skyhook);
        let why = "the rollout starts again from the first batch";
        plan.stage(vec![Step::new(target, Change::Status(fields), why)]);
    }
}

/// [`reset`] for the counters of these compartments only. `None` also if the status lacks one of them.
fn of_compartments(skyhook: &Skyhook, compartments: &BTreeSet<&str>, nodes: &[&Node]) -> Option<Vec<Field>> {
    skyhook.status.status.as_ref()?;
    let mut fields = Vec::new();
    for name in compartments {
        counters(&mut fields, name, skyhook.status.compartment_statuses.get(*name)?);
    }
    fields.extend(leave(skyhook, nodes.iter().map(|n| n.name.as_str())));
    Some(fields)
}
