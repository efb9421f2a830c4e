//! The restart of a rollout's batches.

use std::collections::BTreeSet;

use super::{batches, node};
use crate::api::{Skyhook, Status};
use crate::cluster::{Cluster, Node};
use crate::model::Model;
use crate::plan::{Change, Field, Plan, Step, Target};

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
        if !cluster.permanently_failed(&package_runs, skyhook, one).is_empty() {
            permanently_failed += 1;
            continue;
        }
        let change = node::status(cluster.flavor(), skyhook.name(), on, &Status::Waiting);
        let why = "otherwise the operator would immediately count the node as failed again";
        steps.push(Step::new(Target::of_node(one), Change::Metadata(change), why));
    }
    if !steps.is_empty() {
        plan.stage(steps);
        plan.consequences.warn(
            "erroring nodes are set to waiting and may be chosen again; if the cause remains, they will fail again",
        );
    }
    if permanently_failed > 0 {
        plan.consequences.warn(format!(
            "{permanently_failed} {} in status erroring because a job has failed permanently: first retry the package with `kubectl skyhook package \
             retry`; otherwise the rollout may stop again",
            if permanently_failed == 1 { "node stays" } else { "nodes stay" },
        ));
    }
    let fields = match compartments {
        Some(compartments) => of_compartments(skyhook, compartments, &nodes),
        None => batches::reset(skyhook),
    };
    if let Some(fields) = fields.filter(|_| batches::rollout_started(skyhook) || !plan.is_empty()) {
        let target = Target::of_skyhook(cluster.flavor(), skyhook);
        let why = "the rollout starts again from the first batch";
        plan.stage(vec![Step::new(target, Change::Status(fields), why)]);
    }
}

fn of_compartments(skyhook: &Skyhook, compartments: &BTreeSet<&str>, nodes: &[&Node]) -> Option<Vec<Field>> {
    let mut fields = Vec::new();
    for compartment in compartments {
        fields.extend(batches::reset_compartment(skyhook, compartment)?);
    }
    fields.extend(batches::leave(skyhook, nodes.iter().map(|n| n.name.as_str())));
    Some(fields)
}
