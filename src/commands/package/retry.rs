//! `package retry`: reruns a stage that has failed permanently.

use std::collections::BTreeSet;

use crate::api::{Entry, Skyhook, Stage, State, Status};
use crate::args::nodes::OnlySkyhook;
use crate::args::safety::{Force, Safety};
use crate::cluster::{Cluster, Node, NodeRecord, PackageRun, PackageRuns, Source};
use crate::commands::shared::command::{Write, change, command};
use crate::commands::shared::scope;
use crate::commands::shared::scope::PackageNodes;
use crate::error::Result;
use crate::model::Model;
use crate::plan::planners::{self, batches, merge, node, pause_guard};
use crate::plan::{Change, Condition, Consequences, Kind, Plan, PlanStage, Refusal, Step, Target};
use crate::view::{NodeSet, plural};

/// Retry a package stage that has failed permanently
///
/// Deletes the Job that has failed, or the pod that has ended, at the package's current stage: the operator
/// creates a new one within seconds. The record of the package stays, so a failed uninstall runs again, too.
/// If the custom resource is being deleted, the node is also set to in_progress: the operator then works only
/// on nodes with that status. If the rollout has stopped because of failed nodes, its batches start again
/// afterwards. A stage that is still being retried is not changed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook package retry driver --skyhook gpu-tune --node gpu-0001
  kubectl skyhook package retry driver --skyhook gpu-tune --all-nodes --dry-run")]
pub struct Args {
    /// The package
    #[arg(value_name = "PACKAGE")]
    package: String,

    #[command(flatten)]
    of: OnlySkyhook,

    #[command(flatten)]
    on: PackageNodes,

    #[command(flatten)]
    force: Force,

    #[command(flatten)]
    safety: Safety,
}

/// Timeout in seconds for deleted Jobs and pods to disappear.
const GONE_AT_MOST: u64 = 90;

command! {
    "package retry": Args => async |ctx, args: &Args| {
        change(ctx, args, args.on.named_nodes(), &Source::OF_WORK, &args.safety).await
    },
    needs: Source::OF_ROLLOUTS,
    writes: &[Write::Nodes, Write::SkyhookStatus, Write::DeletePods, Write::DeleteJobs],
    plans: plan,
}

fn plan(cluster: &Cluster, args: &Args) -> Result<Plan> {
    let skyhook = scope::owner(cluster, args.of.skyhook.as_deref(), &args.package)?;
    pause_guard::refuse_held_by_command(cluster, skyhook)?;
    let nodes = args.on.nodes(cluster, None)?;
    planners::refuse_unreadable(cluster, skyhook.name(), &nodes)?;
    let package_runs = cluster.package_runs_for(skyhook.name());
    let model = Model::new(cluster);
    let stalled: Vec<Stalled<'_>> = nodes
        .iter()
        .filter_map(|node| Stalled::find(cluster, &model, &package_runs, skyhook, node, &args.package))
        .collect();
    if stalled.is_empty() {
        return nothing_given_up(cluster, &package_runs, skyhook, &nodes, &args.package);
    }
    let title = format!("retry {} of {} on {}", args.package, skyhook.name(), plural(stalled.len(), "node"));
    let mut plan = Plan {
        consequences: consequences(cluster, skyhook, &args.package, &stalled),
        ..Plan::new(title, skyhook.name())
    };
    let marks = stalled.iter().filter_map(|s| s.mark(cluster, skyhook));
    plan.stage(marks.collect());
    plan.stage(stalled.iter().flat_map(Stalled::deletions).collect());
    continue_rollout(cluster, &model, skyhook, &stalled, &mut plan);
    planners::refuse_held(cluster, &mut plan, args.force.force)?;
    Ok(plan)
}

/// A node on which the operator has stopped working on an unfinished package.
struct Stalled<'a> {
    node: &'a Node,
    on: &'a NodeRecord,
    entry: &'a Entry,
    /// Ended pods and Jobs that block a new run; only the operator's own are deleted.
    ended: Vec<Target>,
    /// The status to set so that the operator works on the node again.
    status: Option<Status>,
}

impl<'a> Stalled<'a> {
    fn find(
        cluster: &'a Cluster,
        model: &Model<'_>,
        package_runs: &PackageRuns<'a>,
        skyhook: &Skyhook,
        node: &'a Node,
        package: &str,
    ) -> Option<Stalled<'a>> {
        let on = cluster.on_node(node, skyhook.name())?;
        let mut stalled = on.entries_of(Some(skyhook), package).into_iter().map(|entry| {
            let here: Vec<&PackageRun<'_>> = package_runs
                .of_skyhook_on(skyhook.name(), &node.name)
                .filter(|run| run.carries_out(entry))
                .collect();
            let at_work = here.iter().any(|run| run.alive());
            let ended: Vec<Target> = here
                .iter()
                .filter(|run| !at_work && entry.state != State::Complete && run.given_up())
                .filter(|run| run.unproven(cluster).is_none())
                .flat_map(|run| objects(run))
                .collect();
            let status = if holds_deletion(skyhook, package, entry) {
                Some(Status::InProgress)
            } else {
                let counted = !ended.is_empty() && on.operator_status() == Status::Erroring;
                let stopped = counted && model.is_stopped(skyhook, node);
                stopped.then_some(Status::Waiting)
            };
            Stalled {
                node,
                on,
                entry,
                ended,
                status: status.filter(|status| *status != on.operator_status()),
            }
        });
        stalled.find(|one| one.status.is_some() || !one.ended.is_empty())
    }

    fn mark(&self, cluster: &Cluster, skyhook: &Skyhook) -> Option<Step> {
        let status = self.status.as_ref()?;
        let change = node::status(cluster.flavor(), skyhook.name(), self.on, status);
        let why = if *status == Status::InProgress {
            "during a deletion, the operator works only on nodes that are in progress"
        } else {
            "otherwise the operator would immediately count the node as failed again"
        };
        Some(Step::new(Target::of_node(self.node), Change::Metadata(change), why))
    }

    fn deletions(&self) -> impl Iterator<Item = Step> {
        let why = format!("stage {} has failed permanently; the operator starts it again", self.entry.stage);
        let delete = move |target: &Target| Step::new(target.clone(), Change::Delete { was: None }, &why);
        self.ended.iter().map(delete)
    }
}

/// Restarts the batches of the nodes' stopped compartments: otherwise nothing runs on these nodes. The failed
/// Jobs must be deleted first, because the operator would count their nodes as failed again and stop the
/// rollout.
fn continue_rollout(
    cluster: &Cluster,
    model: &Model<'_>,
    skyhook: &Skyhook,
    stalled: &[Stalled<'_>],
    plan: &mut Plan,
) {
    let nodes: Vec<&Node> = stalled.iter().map(|s| s.node).collect();
    let is_in =
        |name: &&str| nodes.iter().any(|n| model.compartment_of(skyhook, n).is_none_or(|own| own == *name));
    let stopped: BTreeSet<&str> = skyhook.stopped_compartments().filter(is_in).collect();
    if stopped.is_empty() {
        return;
    }
    let targets = stalled.iter().flat_map(|s| &s.ended);
    let gone = |target: &Target| PlanStage::default().awaiting(target.clone(), Condition::Gone, GONE_AT_MOST);
    plan.stages.extend(targets.map(gone));
    batches::add(cluster, skyhook, Some(&stopped), &nodes, plan);
    plan.consequences.warn(format!("the rollout of {skyhook} is stopped; this command restarts its batches, which also affects other nodes"));
}

/// Whether a deletion waits for the uninstall of the package with this entry. An unfinished installation has
/// to complete before the uninstall starts.
fn holds_deletion(skyhook: &Skyhook, package: &str, entry: &Entry) -> bool {
    let spec = skyhook.package(package);
    skyhook.deleting() && spec.is_some_and(|p| p.uninstall().enabled && p.version == entry.version)
}

/// The Job of a package run, or its bare pods.
fn objects(package_run: &PackageRun<'_>) -> Vec<Target> {
    match package_run.job {
        Some(job) => vec![Target::of(Kind::Job, &job.metadata)],
        None => package_run.pods.iter().map(|p| Target::of(Kind::Pod, &p.metadata)).collect(),
    }
}

fn consequences(
    cluster: &Cluster,
    skyhook: &Skyhook,
    package: &str,
    stalled: &[Stalled<'_>],
) -> Consequences {
    let installs = |s: &&Stalled<'_>| !s.entry.stage.is_uninstall() && !s.ended.is_empty();
    let mut consequences = Consequences::default();
    let nodes: Vec<&Node> = stalled.iter().filter(installs).map(|s| s.node).collect();
    merge::uninstalled_dependencies(cluster, skyhook, package, &nodes, &mut consequences);
    let from_apply = |s: &Stalled<'_>| {
        let bare = s.ended.iter().any(|t| t.kind == Kind::Pod);
        bare && s.entry.stage == Stage::PostInterrupt
    };
    if stalled.iter().any(from_apply) {
        consequences
            .warn("a package at stage post-interrupt starts again at apply, and its interrupt is repeated");
    }
    if stalled.iter().any(|s| !s.ended.is_empty()) {
        consequences.cannot_undo("the deletion of finished pods or jobs, with their logs");
    }
    consequences
}

/// The empty plan that explains why no node has a failed stage to retry.
///
/// # Errors
///
/// The package is unknown, or recorded on none of the nodes.
fn nothing_given_up(
    cluster: &Cluster,
    package_runs: &PackageRuns<'_>,
    skyhook: &Skyhook,
    nodes: &[&Node],
    package: &str,
) -> Result<Plan> {
    let recorded: Vec<&&Node> = nodes
        .iter()
        .filter(|node| {
            let on = cluster.on_node(node, skyhook.name());
            on.is_some_and(|on| !on.entries_of(Some(skyhook), package).is_empty())
        })
        .collect();
    if recorded.is_empty() {
        scope::package(skyhook, package)?;
        return Err(Refusal::NotRecorded { package: package.to_owned() }.into());
    }
    for node in &recorded {
        let mut all = package_runs.of_skyhook_on(skyhook.name(), &node.name);
        let foreign = all.find_map(|run| {
            let ended = run.package == package && run.given_up();
            Some((run, run.unproven(cluster).filter(|_| ended)?))
        });
        if let Some((package_run, why)) = foreign {
            return Err(Refusal::NotOfTheOperator {
                run: package_run.to_string(),
                verdict: why.verdict().to_string(),
                why: why.to_string(),
            }
            .into());
        }
    }
    let set = NodeSet::of(recorded.iter().map(|n| n.name.as_str())).limited(6);
    let why = format!("no stage of {package} has failed permanently on {set}");
    Ok(Plan::new(why, skyhook.name()))
}
