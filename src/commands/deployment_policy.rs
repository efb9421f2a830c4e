//! `deployment-policy reset`: restarts the batches of a rollout.

use std::collections::{BTreeMap, BTreeSet};

use super::shared::scope;
use crate::api::{Skyhook, Status};
use crate::args::nodes::OnNodes;
use crate::args::safety::{Force, Safety};
use crate::cluster::{Cluster, Node, Source};
use crate::commands::shared::command::{Write, change, command, group};
use crate::error::{Error, Result};
use crate::plan::planners::{self, batches};
use crate::plan::{Change, Plan, Step, Target};
use crate::view::{NodeSet, plural};

group! {
    /// Reset the batch state of rollouts
    Command {
        Reset(Args),
    }
}

/// Reset the batch state of a rollout
///
/// Resets all batch counters and the order of nodes, and lets a stopped rollout continue. Nodes that are erroring are
/// set to waiting first: otherwise the operator would count them again and stop at once. Nodes on which a Job has
/// permanently failed remain erroring: if set to waiting, they would block their batch forever. Retry their packages
/// first. Installed packages are not touched.
///
/// If nodes are selected, they leave the current batch instead, and nothing else changes. The operator completes all
/// nodes of a batch before it forms the next one, so the next batch can form sooner. The nodes may be chosen again
/// later.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook deployment-policy reset gpu-tune
  kubectl skyhook deployment-policy reset gpu-tune --compartment canary

  # Let a failing node leave its batch
  kubectl skyhook deployment-policy reset gpu-tune --node gpu-0001")]
pub struct Args {
    /// The custom resource, not the policy
    #[arg(value_name = "NAME", value_parser = crate::args::nodes::skyhook)]
    name: String,

    /// Reset only the batches of this compartment of the policy
    #[arg(long, value_name = "COMPARTMENT", conflicts_with_all = ["node", "pattern", "selector"])]
    compartment: Option<String>,

    #[command(flatten)]
    on: OnNodes,

    #[command(flatten)]
    force: Force,

    #[command(flatten)]
    safety: Safety,
}

command! {
    "deployment-policy reset": Args => async |ctx, args: &Args| {
        change(ctx, args, None, &Source::REQUIRED_FOR_CHANGES, &args.safety).await
    },
    needs: Source::OF_ROLLOUTS,
    lists: planners::LISTS,
    writes: &[Write::Nodes, Write::SkyhookStatus],
    plans: plan,
}

fn plan(cluster: &Cluster, args: &Args) -> Result<Plan> {
    let name = args.name.as_str();
    let skyhook = scope::existing(cluster, name)?;
    if !args.on.query().is_empty() {
        return leave(cluster, skyhook, &scope::selected(cluster, args.on.query())?, args.force.force);
    }
    let compartment = args.compartment.as_deref();
    let known = &skyhook.status.compartment_statuses;
    if let Some(unknown) = compartment.filter(|name| !known.contains_key(*name)) {
        let known = known.keys().map(String::as_str);
        return Err(Error::unknown_among("compartment", unknown, known));
    }
    let title = match compartment {
        Some(compartment) => format!("reset the batches of {name} in compartment {compartment}"),
        None => format!("reset the batches of {name}"),
    };
    let mut plan = Plan::new(title, name);
    let compartments = compartment.map(|name| BTreeSet::from([name]));
    batches::add(cluster, skyhook, compartments.as_ref(), &[], &mut plan);
    if !crate::model::profile::knows_policies(cluster) {
        let advice = "the operator is older than v0.8.0 and does not support deployment policies: it may ignore the reset";
        plan.consequences.warn(advice);
    }
    planners::refuse_held(cluster, &mut plan, args.force.force)?;
    Ok(plan)
}

/// Maximum number of node-name ranges in a warning.
const SHOWN: usize = 6;

/// Removes nodes from the current batch.
fn leave(cluster: &Cluster, skyhook: &Skyhook, nodes: &[&Node], force: bool) -> Result<Plan> {
    let fields = batches::leave(skyhook, nodes.iter().map(|node| node.name.as_str()));
    let title =
        format!("remove {} from the current batch of {}", plural(fields.len(), "node"), skyhook.name());
    let mut plan = Plan::new(title, skyhook.name());
    if fields.is_empty() {
        return Ok(plan);
    }
    let leaving = |node: &&&Node| skyhook.status.node_priority.contains_key(node.name.as_str());
    let (kept, free): (Vec<&Node>, Vec<&Node>) =
        nodes.iter().filter(leaving).partition(|node| batches::keeps_place(cluster, skyhook, node));
    let mut by_status: BTreeMap<Status, Vec<&str>> = BTreeMap::new();
    for node in kept {
        by_status.entry(cluster.status_on(skyhook, node)).or_default().push(&node.name);
    }
    for (status, names) in by_status {
        let again = if names.len() == 1 { "it" } else { "them" };
        plan.consequences.warn(format!(
            "{}: status {status}; the operator chooses such nodes first, so the next batch includes {again} again",
            NodeSet::of(names).limited(SHOWN)
        ));
    }
    if skyhook.is_active() && !free.is_empty() {
        plan.consequences.warn("the next batch may start immediately; the nodes may be chosen again later");
    }
    let why = "the next batch is formed without these nodes";
    let target = Target::of_skyhook(cluster.flavor(), skyhook);
    plan.stage(vec![Step::new(target, Change::Status(fields), why)]);
    planners::refuse_held(cluster, &mut plan, force)?;
    Ok(plan)
}
