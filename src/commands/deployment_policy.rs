//! `deployment-policy reset`: restarts the batches of a rollout.

use std::collections::BTreeSet;

use crate::args::named;
use crate::args::safety::{Force, Safety};
use crate::cluster::{Cluster, Source};
use crate::commands::shared::command::{Write, command, group};
use crate::commands::shared::selection;
use crate::ctx::Ctx;
use crate::error::{Error, Exit, Result};
use crate::model::behavior;
use crate::plan::Plan;
use crate::plan::planners::{self, batch_restart, migration};

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
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook deployment-policy reset gpu-tune
  kubectl skyhook deployment-policy reset gpu-tune --compartment canary")]
pub struct Args {
    /// The custom resource, not the policy
    #[arg(value_name = "NAME", value_parser = named::skyhook)]
    name: String,

    /// Reset only the batches of this compartment of the policy
    #[arg(long, value_name = "COMPARTMENT")]
    compartment: Option<String>,

    #[command(flatten)]
    force: Force,

    #[command(flatten)]
    safety: Safety,
}

command! {
    "deployment-policy reset": Args => run,
    needs: Source::OF_ROLLOUTS,
    lists: planners::LISTS,
    writes: &[Write::Nodes, Write::SkyhookStatus],
    plans: plan,
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let cluster = ctx.load_to_change(&Source::OF_ROLLOUTS, &Source::REQUIRED_FOR_CHANGES).await?;
    let plan = plan(&cluster, args)?;
    ctx.execute(&cluster, plan, &args.safety).await
}

fn plan(cluster: &Cluster, args: &Args) -> Result<Plan> {
    let name = args.name.as_str();
    let skyhook = selection::existing(cluster, name)?;
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
    batch_restart::add(cluster, skyhook, compartments.as_ref(), &[], &mut plan);
    if !behavior::knows_policies(cluster) {
        let advice = "the operator is older than v0.8.0 and does not support deployment policies: it may ignore the reset";
        plan.consequences.warn(advice);
    }
    migration::refuse_held(cluster, &mut plan, args.force.force)?;
    Ok(plan)
}
