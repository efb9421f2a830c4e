//! `package rerun`: runs one package again, from the start or from a stage on.

use std::collections::BTreeSet;

use crate::api::{Skyhook, Stage, State, keys};
use crate::args::nodes::OnlySkyhook;
use crate::args::safety::{Force, Safety};
use crate::cluster::{Cluster, Node, NodeRecord, Source};
use crate::commands::shared::command::{Write, change, command};
use crate::commands::shared::scope;
use crate::commands::shared::scope::PackageNodes;
use crate::error::{Error, Result};
use crate::plan::planners::{self, batches, merge, node, pause_guard, reset};
use crate::plan::{Change, Plan, Refusal, Step, Target};
use crate::view::{NodeSet, plural};

/// Rerun a package
///
/// Without --stage, the same as `reset NAME --package PACKAGE` on these nodes, for the version in the spec alone: see
/// `reset`. Packages that depend on it stay complete.
///
/// Stages other than apply, upgrade and config are refused, because the operator does not restart correctly
/// from them: it would interrupt the node before draining it, or run apply instead.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook package rerun driver --skyhook gpu-tune --node gpu-0001
  kubectl skyhook package rerun driver --skyhook gpu-tune -l pool=gpu --failed-only --stage config")]
pub struct Args {
    /// The package, at the version in the spec
    #[arg(value_name = "PACKAGE")]
    package: String,

    #[command(flatten)]
    of: OnlySkyhook,

    #[command(flatten)]
    on: PackageNodes,

    /// Only nodes where the package fails
    #[arg(long)]
    failed_only: bool,

    /// Start from this stage: apply, upgrade or config
    #[arg(long, value_name = "apply|upgrade|config")]
    stage: Option<String>,

    /// Do not pause the custom resource, even if the operator could write to the same nodes
    #[arg(long)]
    no_pause: bool,

    #[command(flatten)]
    force: Force,

    #[command(flatten)]
    safety: Safety,
}

command! {
    "package rerun": Args => async |ctx, args: &Args| {
        let named = args.on.named_nodes();
        change(ctx, args, named, &Source::REQUIRED_FOR_CHANGES, &args.safety).await
    },
    needs: Source::OF_ROLLOUTS,
    lists: planners::LISTS,
    writes: &[Write::Nodes, Write::Skyhooks, Write::DeletePods],
    plans: plan,
}

fn plan(cluster: &Cluster, args: &Args) -> Result<Plan> {
    let skyhook = scope::owner(cluster, args.of.skyhook.as_deref(), &args.package)?;
    let package = scope::package(skyhook, &args.package)?;
    let stage = stage(args)?;
    let key = package.entry_key(&args.package);
    let selected = args.on.nodes(cluster, Some(args.failed_only))?;
    planners::refuse_unreadable(cluster, skyhook.name(), &selected)?;
    let targets: Vec<(&Node, &NodeRecord)> = selected
        .into_iter()
        .filter_map(|node| Some((node, cluster.on_node(node, skyhook.name())?)))
        .filter(|(_, on)| on.entry(&key).is_some_and(|e| !args.failed_only || e.state == State::Erroring))
        .collect();
    refuse_uninstalls(skyhook, &args.package, &key, stage.as_ref(), &targets)?;
    reset::refuse_skipped(cluster, skyhook, &args.package, &targets)?;
    let mut steps = Vec::new();
    for (node, on) in &targets {
        let Some(state) = &on.state else {
            continue;
        };
        let entries = std::slice::from_ref(&key);
        let change = match &stage {
            None => node::remove_entries(state, entries),
            Some(stage) => node::moved(state, entries, stage, &State::InProgress),
        };
        steps.push(Step::new(Target::of_node(node), Change::Metadata(change), "the package runs again"));
    }
    let nodes: Vec<&Node> = targets.iter().map(|(node, _)| *node).collect();
    let mut plan = Plan {
        title: format!("rerun {} of {} on {}", args.package, skyhook.name(), plural(nodes.len(), "node")),
        subject: skyhook.name().to_owned(),
        erroring: Some(format!("{}=erroring", keys::status(cluster.flavor(), skyhook.name()))),
        ..Plan::default()
    };
    if steps.is_empty() {
        return Ok(pause_guard::end_what_is_left(cluster, plan, skyhook));
    }
    plan.stage(steps);
    if stage.is_none() {
        let package = BTreeSet::from([args.package.as_str()]);
        merge::bypassed_uninstalls(skyhook, &package, &mut plan.consequences);
    }
    merge::uninstalled_dependencies(cluster, skyhook, &args.package, &nodes, &mut plan.consequences);
    batches::warn_of_counters(cluster, skyhook, &nodes, &mut plan.consequences);
    merge::dependants_stay(skyhook, &args.package, &targets, &mut plan.consequences);
    if let Some(stage) = &stage {
        warn_of_running(cluster, skyhook, &args.package, stage, &nodes, &mut plan);
    }
    planners::refuse_held(cluster, &mut plan, args.force.force)?;
    pause_guard::end_failing(cluster, skyhook, &nodes, Some(&args.package), &mut plan);
    pause_guard::warn_of_halt(cluster, skyhook, &nodes, Some(&args.package), &mut plan);
    pause_guard::around_if_needed(cluster, plan, skyhook, &nodes, args.no_pause)
}

/// The stage to start from, limited to stages that the operator accepts as a start.
fn stage(args: &Args) -> Result<Option<Stage>> {
    let Some(text) = args.stage.as_deref().filter(|s| !s.is_empty()) else {
        return Ok(None);
    };
    match Stage::from(text) {
        stage @ (Stage::Apply | Stage::Upgrade | Stage::Config) => Ok(Some(stage)),
        Stage::Interrupt => Err(Refusal::RerunAtInterrupt {}.into()),
        Stage::PostInterrupt => Err(Refusal::RerunAtPostInterrupt {}.into()),
        Stage::Uninstall | Stage::UninstallInterrupt => Err(Refusal::RerunOfUninstall {}.into()),
        Stage::Other(_) => {
            Err(Error::usage(format!("invalid stage {text:?}: expected apply, upgrade or config")))
        }
    }
}

/// Refuses if a package would count as uninstalled instead of running again.
///
/// With an uninstall requested by the spec or by a deletion, the operator considers a package without an
/// entry uninstalled.
fn refuse_uninstalls(
    skyhook: &Skyhook,
    package: &str,
    key: &str,
    stage: Option<&Stage>,
    targets: &[(&Node, &NodeRecord)],
) -> Result<()> {
    let uninstalls = |on: &NodeRecord| on.entry(key).is_some_and(|e| e.stage.is_uninstall());
    let nodes: Vec<&str> =
        targets.iter().filter(|(_, on)| uninstalls(on)).map(|(node, _)| node.name.as_str()).collect();
    let leaves = skyhook.package(package).is_some_and(|p| skyhook.uninstalls(p));
    let (reference, package, skyhook_name) =
        (skyhook.to_string(), package.to_owned(), skyhook.name().to_owned());
    if let Some(node) = nodes.first() {
        let (node, nodes) = ((*node).to_owned(), NodeSet::of(&nodes).limited(6).to_string());
        return Err(Refusal::AtUninstall { package, nodes, skyhook: skyhook_name, node }.into());
    }
    let Some((node, _)) = targets.first().filter(|_| stage.is_none()) else {
        return Ok(());
    };
    if leaves {
        let node = node.name.to_string();
        return Err(Refusal::WouldCountAsUninstalled { package, skyhook: skyhook_name, node }.into());
    }
    if skyhook.deleting() {
        return Err(Refusal::NoRerunWhileDeleted { reference, package, skyhook: skyhook_name }.into());
    }
    Ok(())
}

/// Warns about pods that already run the requested stage: the operator keeps them, so the rerun would change
/// nothing.
fn warn_of_running(
    cluster: &Cluster,
    skyhook: &Skyhook,
    package: &str,
    stage: &Stage,
    nodes: &[&Node],
    plan: &mut Plan,
) {
    let package_runs = cluster.package_runs_for(skyhook.name());
    let mut running = Vec::new();
    for node in nodes {
        for package_run in package_runs.of_skyhook_on(skyhook.name(), &node.name) {
            let same = package_run.package == package && package_run.stage == *stage;
            if same && package_run.alive() {
                running.push(format!("{package_run} on {}", node.name));
            }
        }
    }
    if !running.is_empty() {
        plan.consequences.warn(format!(
            "this stage is already running and will not restart: {}; delete the pod to restart the stage",
            running.join(", ")
        ));
    }
}
