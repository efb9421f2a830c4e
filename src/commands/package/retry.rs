//! `package retry`: runs a stage again that has failed permanently.

use crate::api::{Entry, Skyhook, Stage, State, Status};
use crate::args::safety::Safety;
use crate::args::selection::OfSkyhook;
use crate::cluster::{Cluster, Node, NodeRecord, PackageRun, PackageRuns, Source};
use crate::commands::shared::command::{Write, command};
use crate::commands::shared::migration::{self, Force};
use crate::commands::shared::which_nodes::WhichNodes;
use crate::commands::shared::{reset, selection};
use crate::ctx::Ctx;
use crate::error::{Error, Exit, Result};
use crate::plan::build::effects;
use crate::plan::build::node;
use crate::plan::build::uninstalls::{self, Uninstalls};
use crate::plan::{Change, Grade, Kind, Plan, Step, Target};
use crate::view::{NodeSet, list, plural};

/// Retry a package stage that has failed permanently
///
/// Deletes the Job that has failed, or the pod that has ended, at the package's current stage: the operator
/// creates a new one within seconds. The record of the package stays, so a failed uninstall runs again, too.
/// If the custom resource is being deleted, the node is also set to in_progress: the operator then works only on nodes
/// with that status. A stage that is still being retried is not changed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook package retry driver --skyhook gpu-tune --node gpu-0001
  kubectl skyhook package retry driver --skyhook gpu-tune --all-nodes --dry-run")]
pub struct Args {
    /// The package
    #[arg(value_name = "PACKAGE")]
    package: String,

    #[command(flatten)]
    of: OfSkyhook,

    #[command(flatten)]
    on: WhichNodes,

    #[command(flatten)]
    force: Force,

    #[command(flatten)]
    safety: Safety,
}

command! {
    "package retry": Args => run,
    needs: reset::NEEDS,
    writes: &[Write::Nodes, Write::DeletePods, Write::DeleteJobs],
    plans: plan,
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let cluster = ctx
        .only(args.on.only())
        .load_to_change(&reset::NEEDS, &Source::OF_WORK)
        .await?;
    let plan = plan(&cluster, args)?;
    ctx.execute(&plan, &args.safety).await
}

fn plan(cluster: &Cluster, args: &Args) -> Result<Plan> {
    let skyhook = selection::existing(cluster, &args.of.skyhook)?;
    let nodes = args.on.nodes(cluster)?;
    let package_runs = cluster.package_runs();
    let stalled: Vec<Stalled<'_>> = nodes
        .iter()
        .filter_map(|node| Stalled::on(cluster, &package_runs, skyhook, node, &args.package))
        .collect();
    if stalled.is_empty() {
        return Err(nothing_given_up(
            cluster,
            &package_runs,
            skyhook,
            &nodes,
            &args.package,
        ));
    }
    let title = format!(
        "retry {} of {} on {}",
        args.package,
        skyhook.name(),
        plural(stalled.len(), "node")
    );
    let mut plan = Plan {
        consequences: consequences(cluster, skyhook, &args.package, &stalled),
        ..Plan::new(title, skyhook.name())
    };
    let marks = stalled.iter().filter_map(|s| s.mark(cluster, skyhook));
    plan.stage(marks.collect());
    plan.stage(stalled.iter().flat_map(Stalled::deletions).collect());
    migration::refuse_held(cluster, &mut plan, args.force.force)?;
    Ok(plan)
}

/// A node on which the operator does nothing more for a package that is not done.
struct Stalled<'a> {
    node: &'a Node,
    on: &'a NodeRecord,
    entry: &'a Entry,
    /// What has ended, and keeps the operator from starting it again.
    ended: Vec<Target>,
    /// The operator has to be told to work on the node.
    marked: bool,
}

impl<'a> Stalled<'a> {
    fn on(
        cluster: &'a Cluster,
        package_runs: &PackageRuns<'a>,
        skyhook: &Skyhook,
        node: &'a Node,
        package: &str,
    ) -> Option<Stalled<'a>> {
        let on = cluster.on_node(node, skyhook.name())?;
        let entry = on.entries().iter().find(|e| e.name == package)?;
        let here: Vec<&PackageRun<'_>> = package_runs
            .on(skyhook.name(), &node.name)
            .filter(|e| is_of(e, entry))
            .collect();
        let at_work = here.iter().any(|e| e.alive());
        let ended: Vec<Target> = here
            .iter()
            .filter(|e| !at_work && entry.state != State::Complete && e.given_up())
            .flat_map(|e| objects(e))
            .collect();
        let marked = skyhook.deleting() && on.operator_status() != Status::InProgress;
        let stalled = marked || !ended.is_empty();
        stalled.then_some(Stalled {
            node,
            on,
            entry,
            ended,
            marked,
        })
    }

    fn mark(&self, cluster: &Cluster, skyhook: &Skyhook) -> Option<Step> {
        let change = node::status(
            cluster.flavor(),
            skyhook.name(),
            self.on,
            &Status::InProgress,
        );
        let why = "during a deletion, the operator works only on nodes that are in progress";
        self.marked
            .then(|| Step::new(Target::of_node(self.node), Change::Metadata(change), why))
    }

    fn deletions(&self) -> impl Iterator<Item = Step> {
        let why = format!(
            "stage {} has failed permanently; the operator starts it again",
            self.entry.stage
        );
        let delete =
            move |target: &Target| Step::new(target.clone(), Change::Delete { was: None }, &why);
        self.ended.iter().map(delete)
    }
}

/// Whether an execution is of the stage at which the entry stands. An interrupt may be of several packages.
fn is_of(package_run: &PackageRun<'_>, entry: &Entry) -> bool {
    let interrupts = package_run.interrupt && entry.stage.is_interrupt();
    interrupts
        || (package_run.package == entry.name
            && package_run.version == entry.version
            && package_run.stage == entry.stage)
}

/// The Job, or the bare pods, of an execution.
fn objects(package_run: &PackageRun<'_>) -> Vec<Target> {
    match package_run.job {
        Some(job) => vec![Target::of(Kind::Job, &job.metadata)],
        None => package_run
            .pods
            .iter()
            .map(|p| Target::of(Kind::Pod, &p.metadata))
            .collect(),
    }
}

fn consequences(
    cluster: &Cluster,
    skyhook: &Skyhook,
    package: &str,
    stalled: &[Stalled<'_>],
) -> crate::plan::Consequences {
    let installs = |s: &&Stalled<'_>| !s.entry.stage.is_uninstall() && !s.ended.is_empty();
    let mut reruns = effects::Reruns::default();
    for one in stalled.iter().filter(installs) {
        reruns.add(one.node, package);
    }
    let mut effects = reruns.consequences(cluster, Some(skyhook));
    let leaving = stalled.iter().filter(|s| !installs(s));
    let (unfinished, uninstalls): (Vec<_>, Vec<_>) =
        leaving.partition(|s| !s.entry.stage.is_uninstall() && s.entry.state != State::Complete);
    for (some, when) in [
        (uninstalls, Uninstalls::Now),
        (unfinished, Uninstalls::OnceInstalled),
    ] {
        if !some.is_empty() {
            let nodes: Vec<&Node> = some.iter().map(|s| s.node).collect();
            uninstalls::uninstalls(cluster, skyhook, package, &nodes, when, &mut effects);
        }
    }
    effects.nodes = stalled.len();
    effects.gpus = stalled.iter().map(|s| s.node.gpus).sum();
    effects.at_least(Grade::B2);
    let from_apply = |s: &Stalled<'_>| {
        let bare = s.ended.iter().any(|t| t.kind == Kind::Pod);
        bare && s.entry.stage == Stage::PostInterrupt
    };
    if stalled.iter().any(from_apply) {
        effects.warn(
            "a package at stage post-interrupt starts again at apply, and its interrupt is repeated",
        );
    }
    if stalled.iter().any(|s| !s.ended.is_empty()) {
        effects
            .cannot_be_undone
            .push("the deletion of finished pods or jobs, with their logs".to_owned());
    }
    effects
}

/// Why there is nothing to retry on any of the nodes.
fn nothing_given_up(
    cluster: &Cluster,
    package_runs: &PackageRuns<'_>,
    skyhook: &Skyhook,
    nodes: &[&Node],
    package: &str,
) -> Error {
    let recorded: Vec<&&Node> = nodes
        .iter()
        .filter(|node| {
            let on = cluster.on_node(node, skyhook.name());
            on.is_some_and(|on| on.entries().iter().any(|e| e.name == package))
        })
        .collect();
    if recorded.is_empty() {
        return match selection::package(skyhook, package) {
            Err(unknown) => unknown,
            Ok(_) => Error::unchanged(format!("{package} is not recorded on any of these nodes")),
        };
    }
    let mut running = Vec::new();
    for node in &recorded {
        let all = package_runs.on(skyhook.name(), &node.name);
        running.extend(
            all.filter(|e| e.package == package && e.alive())
                .map(|e| e.reference()),
        );
    }
    let set = NodeSet::of(recorded.iter().map(|n| n.name.as_str())).limited(6);
    running.truncate(3);
    let still: Vec<&str> = running.iter().map(String::as_str).collect();
    Error::unchanged(if still.is_empty() {
        format!("no stage of {package} has failed permanently on {set}")
    } else {
        format!(
            "no stage of {package} has failed permanently on {set}; still running: {}",
            list(&still)
        )
    })
    .hint(format!(
        "kubectl skyhook package status {package} --skyhook {}",
        skyhook.name()
    ))
}
