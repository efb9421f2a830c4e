//! `deployment-policy reset`: the batches of a rollout start anew.

use crate::api::{Status, keys};
use crate::args::safety::Safety;
use crate::cluster::{Cluster, Source};
use crate::commands::migration::{self, Force};
use crate::ctx::{Ctx, Manner};
use crate::error::{Exit, Result};
use crate::plan::build::batches;
use crate::plan::{Change, Edit, Grade, Metadata, Pin, Plan, Stage, Step, Target};

/// Start the batches of rollouts anew
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    Reset(Args),
}

/// Start the batches of a custom resource's rollout anew
///
/// Every counter goes back to its start, the stop is lifted, and the order of nodes begins again. Nodes that
/// are erroring are set to waiting first: the operator would count them again at once, and stop again.
/// What is installed is not touched.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook deployment-policy reset gpu-tune")]
pub struct Args {
    /// The custom resource, not the policy
    #[arg(value_name = "NAME")]
    name: String,

    #[command(flatten)]
    force: Force,

    #[command(flatten)]
    safety: Safety,
}

pub const NEEDS: [Source; 4] = [
    Source::Skyhooks,
    Source::Legacy,
    Source::Nodes,
    Source::Operator,
];

pub async fn run(ctx: &mut Ctx, command: &Command) -> Result<Exit> {
    let Command::Reset(args) = command;
    let cluster = ctx.load(&NEEDS).await?;
    let plan = plan(&cluster, &args.name, args.force.force)?;
    ctx.carry_out(&plan, &args.safety, Manner::default()).await
}

fn plan(cluster: &Cluster, name: &str, force: bool) -> Result<Plan> {
    let skyhook = super::lifecycle::existing(cluster, name)?;
    let generation = cluster.generation();
    let key = keys::status(generation, name);
    let mut steps = Vec::new();
    for node in cluster.selected(skyhook) {
        let Some(on) = cluster.on_node(node, name) else {
            continue;
        };
        if on.status != Some(Status::Erroring) {
            continue;
        }
        let waiting = |from: &Status| {
            Edit::new(Some(from.as_str()), Some(Status::Waiting.as_str())).pin(Pin::Value)
        };
        let mut change = Metadata::default().annotation(&key, waiting(&Status::Erroring));
        if let Some(label) = &on.status_label {
            change = change.label(&key, waiting(label));
        }
        let target = Target::node(&node.name, node.uid.as_deref());
        let why = "the operator would count it as failed again at once";
        steps.push(Step::new(target, Change::Metadata(change), why));
    }
    let mut plan = Plan {
        title: format!("reset the batches of {name}"),
        subject: name.to_owned(),
        ..Plan::default()
    };
    plan.consequences.nodes = steps.len();
    // A rollout that had stopped goes on.
    plan.consequences.at_least(Grade::B2);
    if !steps.is_empty() {
        plan.stages.push(Stage::of(steps));
        plan.consequences.warn(
            "nodes that are erroring wait and may be chosen again; what fails there will fail again",
        );
    }
    let fields = batches::reset(skyhook).filter(|_| batches::begun(skyhook) || !plan.is_empty());
    if let Some(fields) = fields {
        let target = Target::skyhook(generation, name, skyhook.metadata.uid.as_deref());
        let step = Step::new(
            target,
            Change::Status(fields),
            "the rollout's batches start anew",
        );
        plan.stages.push(Stage::of(vec![step]));
    }
    if cluster.operator_before(0, 8) {
        let says = "the operator is older than v0.8.0, which knows no deployment policies: it may take no notice";
        plan.consequences.warn(says);
    }
    migration::refuse_held(cluster, &mut plan, force)?;
    Ok(plan)
}
