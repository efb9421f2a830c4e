//! `deployment-policy reset`: restarts the batches of a rollout.

use crate::api::Status;
use crate::args::named;
use crate::args::safety::Safety;
use crate::cluster::{Cluster, Node, Source};
use crate::commands::shared::command::{Write, command, group};
use crate::commands::shared::migration::{self, Force};
use crate::commands::shared::selection;
use crate::ctx::Ctx;
use crate::error::{Error, Exit, Result};
use crate::plan::build::{batches, node};
use crate::plan::{Change, Grade, Plan, Step, Target};

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
/// permanently failed remain erroring: if set to waiting, they would block their batch forever. Rerun their packages
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

pub const NEEDS: [Source; 7] = [
    Source::Skyhooks,
    Source::Legacy,
    Source::Policies,
    Source::Nodes,
    Source::Pods,
    Source::Jobs,
    Source::Operator,
];

command! {
    "deployment-policy reset": Args => run,
    needs: NEEDS,
    writes: &[Write::Nodes, Write::SkyhookStatus],
    plans: plan,
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let cluster = ctx.load_to_change(&NEEDS, &Source::DECIDING).await?;
    let plan = plan(&cluster, args)?;
    ctx.execute(&plan, &args.safety).await
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
    let within = |node: &Node| {
        compartment.is_none_or(|wanted| {
            let own = cluster.compartment_of(skyhook, node);
            own == Some(wanted)
        })
    };
    let package_runs = cluster.package_runs();
    let mut parked = 0;
    let flavor = cluster.flavor();
    let mut steps = Vec::new();
    for one in cluster.selected(skyhook).filter(|n| within(n)) {
        let Some(on) = cluster.on_node(one, name) else {
            continue;
        };
        if on.status != Some(Status::Erroring) {
            continue;
        }
        if !cluster.parked(&package_runs, skyhook, one).is_empty() {
            parked += 1;
            continue;
        }
        let change = node::status(flavor, name, on, &Status::Waiting);
        let why = "otherwise the operator would immediately count the node as failed again";
        let target = Target::of_node(one);
        steps.push(Step::new(target, Change::Metadata(change), why));
    }
    let title = match compartment {
        Some(compartment) => format!("reset the batches of {name} in compartment {compartment}"),
        None => format!("reset the batches of {name}"),
    };
    let mut plan = Plan::new(title, name);
    plan.consequences.nodes = steps.len();
    // A rollout that had stopped goes on.
    plan.consequences.at_least(Grade::B2);
    if !steps.is_empty() {
        plan.stage(steps);
        plan.consequences.warn(
            "erroring nodes are set to waiting and may be chosen again; if the cause remains, they will fail again",
        );
    }
    if parked > 0 {
        plan.consequences.warn(format!(
            "{parked} {} in status erroring because a job has failed permanently: first retry the package with `kubectl skyhook package retry`, or the \
             rollout stops again",
            if parked == 1 { "node stays" } else { "nodes stay" },
        ));
    }
    let fields = match compartment {
        Some(compartment) => {
            let nodes = cluster.selected(skyhook).filter(|n| within(n));
            let nodes: Vec<&str> = nodes.map(|n| n.name.as_str()).collect();
            batches::reset_compartment(skyhook, compartment, &nodes)
        }
        None => batches::reset(skyhook),
    };
    let fields = fields.filter(|_| batches::begun(skyhook) || !plan.is_empty());
    if let Some(fields) = fields {
        let target = Target::of_skyhook(flavor, skyhook);
        let step = Step::new(
            target,
            Change::Status(fields),
            "the rollout starts again from the first batch",
        );
        plan.stage(vec![step]);
    }
    if cluster.operator_before(0, 8) {
        let says = "the operator is older than v0.8.0 and does not support deployment policies: it may ignore the reset";
        plan.consequences.warn(says);
    }
    migration::refuse_held(cluster, &mut plan, args.force.force)?;
    Ok(plan)
}
