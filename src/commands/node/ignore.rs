//! `node ignore` and `node unignore`: one label, which concerns every custom resource.

use crate::api::ApiFlavor;
use crate::args::named;
use crate::args::safety::Safety;
use crate::cluster::{Cluster, Node, Source};
use crate::commands::shared::command::{Write, command};
use crate::commands::shared::selection;
use crate::ctx::{CommandOptions, Ctx};
use crate::error::{Exit, Result};
use crate::plan::build::effects;
use crate::plan::{Change, Edit, Metadata, Plan, PlanStage, Step, Target};
use crate::view::{NodeSet, plural};

/// Make the operator ignore nodes
///
/// Concerns every custom resource. Nothing new is started on the nodes; what runs goes on to the end of its stage.
/// With an operator before v0.20, an ignored node that is part of a batch at work holds that batch up.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook node ignore gpu-0001 gpu-0002")]
pub struct Ignore {
    #[command(flatten)]
    with: IgnoreArgs,
}

/// Make the operator work on ignored nodes again
///
/// Also removes the label of the older API, which the operator might adopt again, and values that
/// mean nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook node unignore gpu-0001")]
pub struct Unignore {
    #[command(flatten)]
    with: IgnoreArgs,
}

#[derive(Debug, clap::Args)]
struct IgnoreArgs {
    /// Names of nodes, or regular expressions over whole names
    #[arg(value_name = "NODE", value_parser = named::node, required = true)]
    nodes: Vec<String>,

    #[command(flatten)]
    safety: Safety,
}

pub const NEEDS: [Source; 3] = [Source::Nodes, Source::Skyhooks, Source::Operator];

command! {
    "node ignore": Ignore => ignore,
    needs: NEEDS,
    writes: &[Write::Nodes],
}

command! {
    "node unignore": Unignore => unignore,
    needs: NEEDS,
    writes: &[Write::Nodes],
}

async fn ignore(ctx: &mut Ctx, args: &Ignore) -> Result<Exit> {
    run(ctx, &args.with, true).await
}

async fn unignore(ctx: &mut Ctx, args: &Unignore) -> Result<Exit> {
    run(ctx, &args.with, false).await
}

async fn run(ctx: &mut Ctx, args: &IgnoreArgs, ignore: bool) -> Result<Exit> {
    // To keep the operator off does not wait for a look at what it does; to let it in shows what begins then.
    let required: &[Source] = if ignore {
        &[Source::Nodes]
    } else {
        &Source::DECIDING
    };
    let cluster = ctx
        .only(selection::only(&args.nodes, None, None))
        .load_to_change(&NEEDS, required)
        .await?;
    let nodes = selection::nodes(&cluster, &args.nodes)?;
    let plan = plan(&cluster, &nodes, ignore);
    ctx.execute(&plan, &args.safety, CommandOptions::default())
        .await
}

fn plan(cluster: &Cluster, nodes: &[&Node], ignore: bool) -> Plan {
    let mut steps = Vec::new();
    for node in nodes {
        let change = change(cluster.flavor(), node, ignore);
        if !change.is_empty() {
            let target = Target::node(&node.name, node.uid.as_deref());
            let why = if ignore {
                "the operator starts nothing new here"
            } else {
                "the operator works here again"
            };
            steps.push(Step::new(target, Change::Metadata(change), why));
        }
    }
    let verb = if ignore { "ignore" } else { "unignore" };
    let mut plan = Plan {
        title: format!("{verb} {}", plural(steps.len(), "node")),
        subject: verb.to_owned(),
        ..Plan::default()
    };
    plan.consequences.nodes = steps.len();
    plan.consequences.gpus = nodes.iter().map(|n| n.gpus).sum();
    if ignore && !steps.is_empty() {
        plan.consequences
            .warn("it applies to every custom resource");
        warn_of_batches(cluster, nodes, &mut plan);
    }
    for skyhook in cluster
        .skyhooks
        .items()
        .iter()
        .filter(|s| !ignore && s.runs())
    {
        let freed: Vec<&Node> = nodes
            .iter()
            .filter(|n| steps.iter().any(|s| s.target.name == n.name))
            .copied()
            .collect();
        effects::begins(cluster, skyhook, &freed, false, &mut plan.consequences);
    }
    if !steps.is_empty() {
        plan.stages.push(PlanStage::of(steps));
    }
    plan
}

fn change(flavor: ApiFlavor, node: &Node, ignore: bool) -> Metadata {
    let mut change = Metadata {
        no_labels: node.labels.is_empty(),
        ..Metadata::default()
    };
    let flavors: &[ApiFlavor] = match (ignore, flavor) {
        (false, ApiFlavor::NodeWright) => &ApiFlavor::ALL,
        _ => &[flavor],
    };
    for flavor in flavors {
        let from = node.keys(*flavor).ignore.as_deref();
        let to = ignore.then_some("true");
        if from != to {
            change = change.label(flavor.key("ignore"), Edit::new(from, to));
        }
    }
    change
}

/// Before v0.20 the operator waits for a node of the batch even where it is ignored.
fn warn_of_batches(cluster: &Cluster, nodes: &[&Node], plan: &mut Plan) {
    if cluster.operator_since(0, 20) {
        return;
    }
    for skyhook in cluster.skyhooks.items() {
        let in_batch = |n: &&&Node| {
            skyhook.status.node_priority.contains_key(&n.name)
                && !cluster.is_complete_on(skyhook, n)
        };
        let held: Vec<&str> = nodes
            .iter()
            .filter(in_batch)
            .map(|n| n.name.as_str())
            .collect();
        if let Some(first) = held.first() {
            let (set, more) = (
                NodeSet::of(held.iter().copied()),
                match held.len() {
                    1 => "",
                    _ => ", and the same for the others",
                },
            );
            plan.consequences.warn(format!(
                "{} of the batch that {} works on: it holds the batch up until `kubectl skyhook node unignore \
                 {first}`{more}",
                set.limited(6),
                skyhook.reference()
            ));
        }
    }
}
