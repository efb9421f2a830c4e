//! `finalizer`: deletions that do not finish.

use std::collections::BTreeSet;

use super::shared::command::{Write, command, group};
use super::shared::deletion::Deletion;
use super::shared::{admission, scope};
use crate::api::{Executor, Skyhook};
use crate::args::safety::Safety;
use crate::cluster::hold::{REASON, STRIPPED_REASON};
use crate::cluster::{Certainty, Cluster, Node, Source};
use crate::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::model::Model;
use crate::outlook::Outlook;
use crate::plan::planners::{self, node};
use crate::plan::{
    Change, Condition, Consequences, Edit, Kind, Metadata, Plan, PlanStage, Refusal, Step, Target,
};
use crate::rules::{Scope, diagnose};
use crate::view::{Joined, NodeSet, plural, shell_words};

group! {
    /// Force a deletion that does not finish
    Command {
        Strip(Args),
    }
}

/// Force-remove the operator's finalizer, and clean up nodes
///
/// Removes the operator's finalizer, and no other, from a custom resource that is being deleted. Then every node with
/// its annotations or labels is cleaned, whether selected or not: status, drain and cordon annotations, the label
/// and the node conditions. A node with no other cordon is uncordoned, and its runtime-required taint is removed where
/// no other custom resource still needs it.
///
/// This is the last resort: uninstall.sh does not run on any node, and changes made by packages stay on the hosts.
/// Refuses while a less disruptive remedy exists or the deletion is progressing, and names the command to use instead,
/// unless no operator is installed. If the operator is installed but not running, start it instead: it then runs uninstall.sh.
/// Also refuses if an unreachable webhook would reject the change, and names the
/// command that unblocks it.
///
/// If other finalizers exist, the custom resource stays and the operator would rerun its packages: this is refused as
/// well, and with --force the custom resource is paused first.
///
/// The custom resource is kept in the journal; `undelete` brings it back.
///
/// If the command was interrupted, run it again.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # What blocks the deletion, and less disruptive remedies
  kubectl skyhook status gpu-tune

  kubectl skyhook finalizer strip gpu-tune --dry-run
  kubectl skyhook finalizer strip gpu-tune --force")]
pub struct Args {
    /// The custom resource
    #[arg(value_name = "NAME", value_parser = crate::args::nodes::skyhook)]
    name: String,

    /// Proceed even if a less disruptive remedy exists
    #[arg(long)]
    force: bool,

    /// Also remove the record of what is installed
    ///
    /// Without this flag, a node state that contains packages is kept, because it shows which files may still be on
    /// the host; the operator keeps it, too.
    #[arg(long)]
    purge_state: bool,

    #[command(flatten)]
    safety: Safety,
}

/// Timeout in seconds for the server to remove the custom resource.
const AT_MOST: u64 = 30;

command! {
    "finalizer strip": Args => run,
    needs: Scope::default().needs(),
    writes: &[Write::Nodes, Write::NodeConditions, Write::Skyhooks],
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let cluster = ctx.load_to_change(&Scope::default().needs(), &Source::REQUIRED_FOR_CHANGES).await?;
    let before = match cluster.skyhook(&args.name) {
        None => before(ctx, &cluster, &args.name).await?,
        Some(_) => None,
    };
    if let Some(id) = &before {
        ctx.note(format!("{} is gone: its finalizer was removed earlier (journal {id})", args.name));
    }
    let plan = plan(&cluster, args, before.is_some())?;
    ctx.execute(&cluster, plan, &args.safety).await
}

/// The id of the journal of an earlier strip of this custom resource on this cluster.
async fn before(ctx: &mut Ctx, cluster: &Cluster, name: &str) -> Result<Option<String>> {
    if cluster.from_files {
        return Ok(None);
    }
    let here = ctx.here().await?.origin;
    let kind = Kind::from(cluster.flavor());
    let stripped = ctx.journals().and_then(|store| {
        let (records, _) = store.all()?;
        let mut here = records.iter().filter(|r| r.begun.origin().is_taken_for(&here));
        Ok(here.find(|record| record.stripped(kind, name).is_some()).map(|record| record.begun.id.clone()))
    });
    // Without a directory for journals, there is no earlier strip.
    Ok(stripped.unwrap_or_default())
}

fn plan(cluster: &Cluster, args: &Args, before: bool) -> Result<Plan> {
    planners::refuse_unmigrated(cluster, &args.name)?;
    let skyhook = cluster.skyhook(&args.name);
    if skyhook.is_none() {
        scope::not_left_out(cluster, "")?;
    }
    let mut consequences = Consequences::default();
    if let Some(skyhook) = skyhook {
        refuse_strip(cluster, skyhook, args, &mut consequences)?;
    }
    let cleanups = cleanups(cluster, args);
    let nodes: Vec<&Node> = cleanups.iter().map(|(node, _)| *node).collect();
    if skyhook.is_none() && nodes.is_empty() && !before {
        scope::known_skyhook(cluster, &args.name)?;
    }
    let title = format!("strip the finalizer of {}", args.name);
    let mut plan = Plan::new(title, &args.name);
    if let Some(skyhook) = skyhook {
        let pause = pause(cluster, skyhook, &mut consequences);
        plan.stages.extend(pause);
        plan.stages.extend(release(cluster, skyhook));
    }
    plan.consequences = consequences;
    plan.stage(cleanups.into_iter().flat_map(|(_, steps)| steps).collect());
    if !plan.is_empty() {
        state_consequences(cluster, args, &nodes, &mut plan.consequences);
    }
    node::warn(cluster, &mut plan);
    Ok(plan)
}

/// Refuses to strip without a requested deletion, and, unless forced, if a less disruptive remedy exists or the
/// deletion may still finish.
fn refuse_strip(
    cluster: &Cluster,
    skyhook: &Skyhook,
    args: &Args,
    consequences: &mut Consequences,
) -> Result<()> {
    let outlook = Outlook::new(cluster, diagnose(cluster, &Scope::default()).findings);
    let Some(deletion) = Deletion::of(&outlook, skyhook) else {
        let (reference, name) = (skyhook.to_string(), args.name.clone());
        return Err(Refusal::NotDeleted { reference, name }.into());
    };
    if skyhook.has_finalizer() {
        admission::refuse_unreachable(cluster, "UPDATE", skyhook, consequences)?;
    }
    if cluster.operator().is_down() {
        consequences.warn(if cluster.operator().is_absent() {
            "no deployment of the operator was found; to run uninstall.sh, reinstall the operator instead: it then \
             finishes the deletion"
        } else {
            "no replica of the operator is at work; when a replica is available again, the operator continues the deletion"
        });
    }
    let Some(objection) = deletion.objection() else {
        return Ok(());
    };
    let command = shell_words(&objection.instead);
    if args.force {
        consequences.warn(format!("{} (`{command}`)", objection.why));
        return Ok(());
    }
    Err(Refusal::MilderThanStrip { why: objection.why, instead: command, name: args.name.clone() }.into())
}

/// The stage that pauses a custom resource with third-party finalizers: otherwise the operator would run its packages
/// again within seconds.
fn pause(cluster: &Cluster, skyhook: &Skyhook, consequences: &mut Consequences) -> Option<PlanStage> {
    let flavor = cluster.flavor();
    let stays = !skyhook.third_party_finalizers().is_empty();
    if !stays || !skyhook.is_active() || cluster.operator().is_absent() {
        return None;
    }
    let annotations = &skyhook.metadata.annotations;
    let mut change = Metadata { no_annotations: annotations.is_empty(), ..Metadata::default() };
    let key = flavor.key("pause");
    for (key, to) in [(key.as_str(), "true"), (REASON, STRIPPED_REASON)] {
        let from = annotations.get(key).map(String::as_str);
        change = change.annotation(key, Edit::new(from, Some(to)));
    }
    let target = Target::of_skyhook(flavor, skyhook);
    consequences.warn(format!("this command pauses {skyhook} and leaves it paused, so that its packages do not run again; the operator may still write \
         the status of the custom resource to nodes until the custom resource is gone"));
    let why = "so that the operator does not rerun the packages of the custom resource";
    Some(PlanStage {
        steps: vec![Step::new(target, Change::Metadata(change), why)],
        // The operator does not report the pause of a custom resource that is being deleted.
        until: None,
        ..PlanStage::default()
    })
}

/// The stage that removes the operator's finalizer; all later stages rely on it.
fn release(cluster: &Cluster, skyhook: &Skyhook) -> Option<PlanStage> {
    let flavor = cluster.flavor();
    let entry = flavor.finalizer();
    let index = skyhook.metadata.finalizers.iter().position(|f| *f == entry)?;
    let target = Target::of_skyhook(flavor, skyhook);
    let change = Change::Finalizer { entry: entry.clone(), index, was: None };
    let why = "the operator's finalizer blocks the deletion";
    let removal = PlanStage::of(vec![Step::new(target.clone(), change, why)]);
    Some(removal.awaiting(target, Condition::Released(entry), AT_MOST))
}

/// The nodes with leftovers, selected or not, and the steps that clean them as the operator would.
fn cleanups<'a>(cluster: &'a Cluster, args: &Args) -> Vec<(&'a Node, Vec<Step>)> {
    let (owners, model) = (node::owned(cluster, &args.name), Model::new(cluster));
    let steps = |one: &'a Node| {
        let mut steps = Vec::new();
        let mut step = |change, why| steps.push(Step::new(Target::of_node(one), change, why));
        let keys = node::clean(cluster, one, &owners, args.purge_state);
        if !keys.is_empty() {
            step(Change::Metadata(keys), "cleanup that the operator would have done");
        }
        if let Some(conditions) = node::without_conditions(one, &owners) {
            step(conditions, "cleanup that the operator would have done");
        }
        if needs_no_taint(cluster, &model, one, &args.name)
            && let Some(taint) = node::without_taint(cluster, one)
        {
            step(taint, "no other custom resource needs the taint");
        }
        (!steps.is_empty()).then_some((one, steps))
    };
    cluster.nodes.iter().filter_map(steps).collect()
}

/// Maximum number of node-name ranges in a warning.
const SHOWN: usize = 6;

/// Whether the node has the runtime-required taint for this custom resource and for no other.
///
/// The operator removes the taint once every custom resource that requires it is complete on the node; without such a
/// custom resource, it would never remove it.
fn needs_no_taint(cluster: &Cluster, model: &Model<'_>, node: &Node, name: &str) -> bool {
    cluster.runtime_required().on(node).is_some()
        && cluster.skyhook(name).is_some_and(|s| s.spec.runtime_required && s.selects(node))
        && model.taint_kept_by(node).iter().all(|s| s.name() == name)
}

/// Adds the consequences of the strip, including those that no API can undo.
fn state_consequences(cluster: &Cluster, args: &Args, nodes: &[&Node], consequences: &mut Consequences) {
    let name = args.name.as_str();
    if let Some(skyhook) = cluster.skyhook(name) {
        let others = skyhook.third_party_finalizers();
        if others.is_empty() {
            consequences.warn(format!("{skyhook} will be deleted; restore it with `kubectl skyhook undelete {name}` (it is saved in the journal)"));
        } else {
            consequences.warn(format!("third-party finalizers stay, and block the deletion of {skyhook} until their owners remove them: {}", others.join(", ")));
        }
    }
    hosts(cluster, args, consequences);
    warn_of_running_pods(cluster, name, consequences);
    warn_of_unschedulable_nodes(cluster, name, nodes, consequences);
    if cluster.nodes.absence() == Certainty::Presumed {
        consequences.warn(format!(
            "the capture has no {}, so the cleanup of the nodes and its effects are not shown",
            Source::Nodes
        ));
    }
}

fn folded<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> String {
    let set = NodeSet::of(nodes.into_iter().map(|n| n.name.as_str()));
    let names = set.limited(SHOWN);
    match set.len() {
        1 => names,
        n => format!("{} ({names})", plural(n, "node")),
    }
}

/// Warns about remaining changes on hosts, and about the loss of their record.
fn hosts(cluster: &Cluster, args: &Args, consequences: &mut Consequences) {
    let name = args.name.as_str();
    let recorded: Vec<_> = cluster.tracked(name).filter(|(_, on)| node::is_recorded(on)).collect();
    if !recorded.is_empty() {
        let all = recorded.iter().flat_map(|(_, on)| on.entries());
        let packages: BTreeSet<String> = all.map(|e| format!("{} {}", e.name, e.version)).collect();
        let packages = packages.into_iter().joined(", ");
        let on = folded(recorded.iter().map(|(n, _)| *n));
        consequences.cannot_be_undone.push(format!(
            "uninstall.sh does not run; changes made by {packages} stay on the hosts of {on}, as do /var/lib/skyhook/{name} \
             and /var/log/skyhook/{name}; no API can remove them"
        ));
        consequences.warn(if args.purge_state {
            format!("the only record of what is installed on {on} is removed")
        } else {
            format!(
                "the record of what is installed stays on {on}: files may still be on the hosts; \
                 --purge-state removes the record"
            )
        });
    }
    let malformed: Vec<&Node> =
        cluster.tracked(name).filter(|(_, on)| on.is_malformed()).map(|(n, _)| n).collect();
    if !malformed.is_empty() {
        consequences.warn(format!(
            "the node state on {} cannot be read: it is unknown what is installed there, and the record \
             is removed",
            folded(malformed)
        ));
    }
}

/// Warns about running package pods.
fn warn_of_running_pods(cluster: &Cluster, name: &str, consequences: &mut Consequences) {
    let package_runs = cluster.package_runs();
    let alive = package_runs.all().iter().filter(|run| run.skyhook == name && run.alive());
    let on: BTreeSet<&str> = alive.map(|run| run.node).collect();
    let Some(skyhook) = cluster.skyhook(name).filter(|_| !on.is_empty()) else {
        return;
    };
    let on = NodeSet::of(on).limited(SHOWN);
    // The pods are garbage-collected with the custom resource, not earlier.
    consequences.warn(if skyhook.third_party_finalizers().is_empty() {
        format!("package pods that are running on {on} are killed while they modify the hosts")
    } else {
        format!(
            "package pods that are running on {on} may continue until {skyhook} is gone, and are then killed"
        )
    });
    // The operator's pod controller ignores pauses and deleted custom resources.
    if cluster.flavor().executor() == Executor::Pod && cluster.operator().may_write() {
        consequences.warn(format!(
            "the operator may still record the progress of package pods on {on}: once these pods are gone, run `kubectl skyhook leftovers`"
        ));
    }
}

/// Warns about everything else that keeps pods off the nodes afterwards.
fn warn_of_unschedulable_nodes(
    cluster: &Cluster,
    name: &str,
    nodes: &[&Node],
    consequences: &mut Consequences,
) {
    let flavor = cluster.flavor();
    let ours = |n: &&Node| cluster.on_node(n, name).is_some_and(|on| on.cordon);
    for one in nodes.iter().copied().filter(ours) {
        let others = cluster.other_cordons(one, &[(flavor, name)]);
        if one.cordoned() == Some(true) && !others.is_empty() {
            let others = others.join(", ");
            consequences.warn(format!("{} stays cordoned by {others}", one.name));
        }
    }
    let tainted = |n: &&Node| cluster.runtime_required().on(n).is_some();
    let required = cluster.skyhook(name).filter(|s| s.spec.runtime_required);
    let Some(skyhook) = required else {
        return;
    };
    let model = Model::new(cluster);
    let selected = cluster.nodes.iter().filter(tainted).filter(|n| skyhook.selects(n));
    let (free, needed): (Vec<&Node>, Vec<&Node>) =
        selected.partition(|n| needs_no_taint(cluster, &model, n, name));
    if !needed.is_empty() {
        consequences.warn(format!(
            "the runtime-required taint stays on {}: other custom resources still need it",
            folded(needed)
        ));
    }
    let unfinished: Vec<&Node> = free.into_iter().filter(|n| !model.is_done_on(skyhook, n)).collect();
    if !unfinished.is_empty() {
        consequences.warn(format!(
            "workloads may be scheduled on {}, where the custom resource has not finished: the runtime-required taint is removed",
            folded(unfinished)
        ));
    }
}
