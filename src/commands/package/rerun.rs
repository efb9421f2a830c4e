//! `package rerun`: one package again, from the start or from a stage on.

use std::collections::BTreeSet;

use crate::api::{Skyhook, Stage, State, keys};
use crate::args::safety::Safety;
use crate::args::selection::{OfSkyhook, selector as labels};
use crate::cluster::{Cluster, Node, OnNode, Source};
use crate::commands::migration::{self, Force};
use crate::commands::node::selection;
use crate::commands::{lifecycle, reset};
use crate::ctx::{Ctx, Manner};
use crate::error::{Error, Exit, Result};
use crate::plan::build::{effects, hold, node};
use crate::plan::{Change, Grade, Plan, Stage as PlanStage, Step, Target};
use crate::view::{NodeSet, plural};

/// Run a package again
///
/// Without a stage its entry is removed, and it runs from apply on. Packages that depend on it stay complete.
///
/// Stages other than apply, upgrade and config are refused: an operator that finds them as a start does not
/// do what they say. It would interrupt the node before it is drained, or run apply after all.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook package rerun driver --skyhook gpu-tune --node gpu-0001
  kubectl skyhook package rerun driver --skyhook gpu-tune -l pool=gpu --failed-only --stage config")]
pub struct Args {
    /// The package, at the version in the spec
    #[arg(value_name = "PACKAGE")]
    package: String,

    #[command(flatten)]
    of: OfSkyhook,

    /// A node, or a regular expression over whole names; may be repeated
    #[arg(long, value_name = "NODE", action = clap::ArgAction::Append)]
    node: Vec<String>,

    /// Nodes with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = labels, overrides_with = "selector")]
    selector: Option<crate::api::LabelSelector>,

    /// All nodes of the custom resource
    #[arg(long, conflicts_with_all = ["node", "selector"])]
    all_nodes: bool,

    /// Only nodes where the package fails
    #[arg(long)]
    failed_only: bool,

    /// Start from this stage: apply, upgrade or config
    #[arg(long, value_name = "STAGE", overrides_with = "stage")]
    stage: Option<String>,

    /// Do not pause the operator, even where it could write to the same nodes
    #[arg(long)]
    no_pause: bool,

    #[command(flatten)]
    force: Force,

    #[command(flatten)]
    safety: Safety,
}

pub async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let cluster = ctx.load(&reset::NEEDS).await?;
    let plan = plan(&cluster, args)?;
    ctx.carry_out(&plan, &args.safety, Manner::default()).await
}

fn plan(cluster: &Cluster, args: &Args) -> Result<Plan> {
    let skyhook = lifecycle::existing(cluster, &args.of.skyhook)?;
    let Some(package) = skyhook.package(&args.package) else {
        let known = skyhook.packages().map(|(name, _)| name);
        return Err(Error::unknown_among("package", &args.package, known));
    };
    let stage = stage(args)?;
    let key = package.entry_key(&args.package);
    let targets: Vec<(&Node, &OnNode)> = chosen(cluster, args)?
        .into_iter()
        .filter_map(|node| Some((node, cluster.on_node(node, skyhook.name())?)))
        .filter(|(_, on)| {
            on.entry(&key)
                .is_some_and(|e| !args.failed_only || e.state == State::Erroring)
        })
        .collect();
    refuse_stranding(cluster, skyhook, &args.package, &targets)?;
    let mut reruns = effects::Reruns::default();
    let mut steps = Vec::new();
    for (node, on) in &targets {
        let Some(state) = &on.state else {
            continue;
        };
        let entries = std::slice::from_ref(&key);
        let change = match &stage {
            None => node::without(state, entries),
            Some(stage) => node::moved(state, entries, stage, &State::InProgress),
        };
        reruns.add(node, &args.package);
        let target = Target::node(&node.name, node.uid.as_deref());
        steps.push(Step::new(
            target,
            Change::Metadata(change),
            "the package runs again",
        ));
    }
    let nodes: Vec<&Node> = targets.iter().map(|(node, _)| *node).collect();
    let mut plan = Plan {
        title: format!(
            "rerun {} of {} on {}",
            args.package,
            args.of.skyhook,
            plural(nodes.len(), "node")
        ),
        subject: args.of.skyhook.clone(),
        erroring: Some(format!(
            "{}=erroring",
            keys::status(cluster.generation(), skyhook.name())
        )),
        consequences: reruns.consequences(cluster, Some(skyhook)),
        stages: Vec::new(),
    };
    if steps.is_empty() {
        return Ok(plan);
    }
    plan.stages.push(PlanStage::of(steps));
    if stage.is_none() {
        let one = BTreeSet::from([args.package.as_str()]);
        let bypassed = effects::bypassed_uninstalls(skyhook, &one, &mut plan.consequences);
        if bypassed && (skyhook.deleting() || !skyhook.runs()) {
            // Nothing writes the record again.
            plan.consequences.at_least(Grade::B4);
        }
    }
    warn_of_dependants(skyhook, &args.package, &mut plan);
    warn_of_running(
        cluster,
        skyhook,
        &args.package,
        stage.as_ref(),
        &nodes,
        &mut plan,
    );
    migration::refuse_held(cluster, &mut plan, args.force.force)?;
    Ok(
        match !args.no_pause && hold::is_needed(cluster, skyhook, &nodes) {
            true => hold::around(plan, skyhook),
            false => plan,
        },
    )
}

fn chosen<'a>(cluster: &'a Cluster, args: &Args) -> Result<Vec<&'a Node>> {
    selection::readable(cluster, Source::Nodes)?;
    if args.node.is_empty() && args.selector.is_none() && !args.all_nodes {
        return Err(Error::usage(
            "which nodes? Name them with --node or -l, or say --all-nodes",
        ));
    }
    let mut nodes = selection::nodes(cluster, &args.node)?;
    if let Some(selector) = &args.selector {
        nodes.retain(|n| selector.matches(&n.labels));
    }
    Ok(nodes)
}

/// The stage to start from; only those that the operator takes up as a start.
fn stage(args: &Args) -> Result<Option<Stage>> {
    let Some(text) = args.stage.as_deref().filter(|s| !s.is_empty()) else {
        return Ok(None);
    };
    match Stage::from(text) {
        stage @ (Stage::Apply | Stage::Upgrade | Stage::Config) => Ok(Some(stage)),
        Stage::Interrupt => Err(refused(
            "from the stage interrupt the operator interrupts the node before it is cordoned and drained",
        )),
        Stage::PostInterrupt => Err(refused(
            "from the stage post-interrupt the operator runs apply again",
        )),
        Stage::Uninstall | Stage::UninstallInterrupt => {
            Err(refused("a rerun does not uninstall").hint("kubectl skyhook uninstall --help"))
        }
        Stage::Other(_) => Err(Error::usage(format!(
            "invalid stage {text:?}: expected apply, upgrade or config"
        ))),
    }
}

fn refused(message: &str) -> Error {
    Error {
        exit: Exit::Refused,
        ..Error::failed(format!("{message}; nothing was changed"))
    }
}

/// Refuses where the operator would never come back to the package.
///
/// Before v0.19 it offers packages without dependencies only while no more packages are complete
/// than there are such packages (operator-contract: the gap in its order of packages, upstream #387).
///
/// # Errors
///
/// There is such a node.
pub fn refuse_stranding(
    cluster: &Cluster,
    skyhook: &Skyhook,
    package: &str,
    targets: &[(&Node, &OnNode)],
) -> Result<()> {
    let free = skyhook
        .packages()
        .filter(|(_, p)| p.depends_on.is_empty())
        .count();
    let is_free = skyhook
        .package(package)
        .is_some_and(|p| p.depends_on.is_empty());
    if !is_free || cluster.operator_since(0, 19) {
        return Ok(());
    }
    let others = |on: &OnNode| {
        let done = |(name, p): (&str, &crate::api::Package)| {
            let entry = on.entry(&p.entry_key(name));
            name != package && entry.is_some_and(|e| skyhook.is_package_complete(name, e))
        };
        skyhook.packages().filter(|both| done(*both)).count()
    };
    let stranded: Vec<&str> = targets
        .iter()
        .filter(|(_, on)| others(on) > free)
        .map(|(node, _)| node.name.as_str())
        .collect();
    if stranded.is_empty() {
        return Ok(());
    }
    let nodes = NodeSet::of(stranded.iter().copied());
    Err(refused(&format!(
        "this operator would never run {package} again on {}: more packages are complete there than there are \
         packages without dependencies",
        nodes.limited(6)
    ))
    .hint(format!("kubectl skyhook reset {} --node {}", skyhook.name(), stranded[0])))
}

fn warn_of_dependants(skyhook: &Skyhook, package: &str, plan: &mut Plan) {
    let dependants: Vec<&str> = skyhook
        .packages()
        .filter(|(_, p)| p.depends_on.contains_key(package))
        .map(|(name, _)| name)
        .collect();
    if !dependants.is_empty() {
        plan.consequences.warn(format!(
            "what depends on {package} does not run again: {}",
            dependants.join(", ")
        ));
    }
}

/// A pod that runs the stage already is left alone by the operator: the rerun would change nothing.
fn warn_of_running(
    cluster: &Cluster,
    skyhook: &Skyhook,
    package: &str,
    stage: Option<&Stage>,
    nodes: &[&Node],
    plan: &mut Plan,
) {
    let executions = cluster.executions();
    let mut running = Vec::new();
    for node in nodes {
        for execution in executions.on(skyhook.name(), &node.name) {
            let same = execution.package == package && stage.is_none_or(|s| *s == execution.stage);
            if same && execution.alive() {
                running.push(format!("{} on {}", execution.reference(), node.name));
            }
        }
    }
    if !running.is_empty() && stage.is_some() {
        plan.consequences.warn(format!(
            "this stage runs there already and goes on as it is: {}; delete the pod for a fresh start",
            running.join(", ")
        ));
    }
}
