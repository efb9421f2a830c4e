//! `undelete`: restores a deleted custom resource.

use std::path::PathBuf;

use serde_json::Value;

use crate::api::Skyhook;
use crate::args::named;
use crate::args::safety::Safety;
use crate::cluster::admission::Operation;
use crate::cluster::{Cluster, Source};
use crate::commands::shared::command::{Write, command};
use crate::commands::shared::{admission, selection};
use crate::ctx::Ctx;
use crate::dump;
use crate::error::{Error, Exit, Result};
use crate::plan::planners::recreation::Recreation;
use crate::plan::planners::{applied, held, migration};
use crate::plan::{Change, Field, Plan, Step, Target};

mod saved;

use saved::SavedResource;

/// Restore a deleted custom resource without rerunning its packages
///
/// Kubernetes cannot cancel a deletion. A custom resource that is gone is recreated from the journal, as it
/// was when this plugin removed it, or from a file; the plugin's node changes are reverted before the
/// operator sees the object. A custom resource that is still being deleted is paused, saved, released and
/// recreated: only the operator's finalizer is removed.
///
/// A package whose uninstall has started or finished is installed again; the preview shows where. Running
/// pods and Jobs are deleted with the old object, and its status is lost. Nodes do not get the status in_progress
/// back: the operator would work on all of them at once, beyond the interruption budget.
///
/// If the command was interrupted, run it again.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # From the journal record of `finalizer strip`, or while the object is still being deleted
  kubectl skyhook undelete gpu-tune --dry-run
  kubectl skyhook undelete gpu-tune

  # From a file saved with `kubectl get -o yaml`
  kubectl skyhook undelete gpu-tune -f gpu-tune.yaml")]
pub struct Args {
    /// The custom resource
    #[arg(value_name = "NAME", value_parser = named::skyhook)]
    name: String,

    /// Recreate the custom resource from this file instead of the journal
    #[arg(short = 'f', long = "filename", value_name = "FILE", conflicts_with = "journal")]
    file: Option<PathBuf>,

    /// Recreate the custom resource from this journal instead of the newest that contains it; see `journal
    /// list`
    #[arg(long, value_name = "ID", value_parser = named::journal)]
    journal: Option<String>,

    /// Do not pause the operator while the old object is removed
    #[arg(long)]
    no_pause: bool,

    /// Reason, stored on the object
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    safety: Safety,
}

pub const NEEDS: [Source; 9] = [
    Source::Skyhooks,
    Source::Legacy,
    Source::Policies,
    Source::Nodes,
    Source::Operator,
    Source::Pods,
    Source::Jobs,
    Source::Webhooks,
    Source::Restrictions,
];

command! {
    "undelete": Args => run,
    needs: NEEDS,
    writes: &[
        Write::Nodes,
        Write::NodeConditions,
        Write::Skyhooks,
        Write::SkyhookStatus,
        Write::CreateSkyhooks,
    ],
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let cluster = ctx.load_to_change(&NEEDS, &Source::REQUIRED_FOR_CHANGES).await?;
    let mut plan = match existing(&cluster, args)? {
        Some(skyhook) if !skyhook.deleting() && !cluster.left_paused(skyhook) => {
            let reference = skyhook.reference();
            let title = format!("{reference} exists and is not being deleted");
            Plan::new(title, &args.name)
        }
        Some(skyhook) if !skyhook.deleting() => {
            let saved = saved::find(ctx, &cluster, &args.name, args.journal.as_deref()).await;
            plan_held(&cluster, skyhook, saved.ok(), args)
        }
        Some(terminating) => plan_terminating(&cluster, terminating, args)?,
        None => {
            let saved = match &args.file {
                Some(file) => from_file(&cluster, file, &args.name)?,
                None => saved::find(ctx, &cluster, &args.name, args.journal.as_deref()).await?,
            };
            plan_gone(&cluster, &saved, args)?
        }
    };
    applied::warn(&cluster, &mut plan);
    ctx.execute(&cluster, plan, &args.safety).await
}

/// The custom resource, or `None` if it was deleted.
fn existing<'a>(cluster: &'a Cluster, args: &Args) -> Result<Option<&'a Skyhook>> {
    migration::refuse_unmigrated(cluster, &args.name)?;
    let Some(skyhook) = cluster.skyhook(&args.name) else {
        selection::not_left_out(cluster, "")?;
        return Ok(None);
    };
    held::refuse(cluster, skyhook)?;
    Ok(Some(skyhook))
}

fn from_file(cluster: &Cluster, file: &PathBuf, name: &str) -> Result<SavedResource> {
    let held = dump::load(std::slice::from_ref(file), Some(cluster.flavor()))?;
    let known = || held.skyhooks.items().iter().map(|s| s.name());
    let what = format!("{} in {}", cluster.flavor().kind(), file.display());
    match held.skyhook(name) {
        Some(skyhook) => Ok(SavedResource {
            object: skyhook.whole.clone(),
            nodes: Vec::new(),
            left_out: Vec::new(),
            origin: file.display().to_string(),
        }),
        None => Err(Error::unknown(&what, name, known())),
    }
}

/// The plan that restores the keys removed from nodes, then recreates the custom resource.
fn plan_gone(cluster: &Cluster, saved: &SavedResource, args: &Args) -> Result<Plan> {
    let mut again = Recreation::of(cluster, &saved.object, args.reason.as_deref())?;
    let create = Operation::Create;
    admission::refuse_unreachable(cluster, create, &again.skyhook, &mut again.effects)?;
    again.restore(&saved.nodes);
    again.effects.warnings.extend(saved.left_out.iter().cloned());
    again.clear_progress();
    again.make();
    Ok(again.plan(format!("restore {} from {}", args.name, saved.origin)))
}

/// The plan for a custom resource that was recreated and is still held: restores `status.configUpdates` if it
/// is missing, then releases the custom resource.
fn plan_held(cluster: &Cluster, skyhook: &Skyhook, saved: Option<SavedResource>, args: &Args) -> Plan {
    let mut plan = Plan::new(format!("finish restoring {}", args.name), &args.name);
    let updates = |object: &Value| {
        let updates = &object["status"]["configUpdates"];
        updates.as_object().is_some_and(|u| !u.is_empty()).then(|| updates.clone())
    };
    let was = saved.and_then(|saved| updates(&saved.object));
    if let (Some(updates), None) = (was, updates(&skyhook.whole)) {
        let target = Target::of_skyhook(cluster.flavor(), skyhook);
        let field = Field::new(["status", "configUpdates"], None, Some(updates));
        let change = Change::Status(vec![field.with_any_old_value()]);
        let why = "otherwise packages whose configuration has changed would run their interrupts again";
        plan.stage(vec![Step::new(target, change, why)]);
    }
    held::end_what_is_left(cluster, plan, skyhook)
}

/// The plan that holds, releases and recreates the custom resource. It contains the whole object, so the
/// journal has the object before the deletion.
fn plan_terminating(cluster: &Cluster, skyhook: &Skyhook, args: &Args) -> Result<Plan> {
    let others = skyhook.third_party_finalizers();
    if !others.is_empty() {
        let name = &args.name;
        let resource = cluster.flavor().resource();
        return Err(Error::unchanged(format!(
            "third-party finalizers ({}) block the deletion of {}, which cannot be recreated until it is gone",
            others.join(", "),
            skyhook.reference()
        ))
        .hint(format!("kubectl get {resource} {name} -o yaml > {name}.yaml"))
        .hint(format!("once the object is gone: kubectl skyhook undelete {name} -f {name}.yaml")));
    }
    if let Some(definition) = cluster.deleted_definition() {
        return Err(Error::unchanged(format!(
            "the CRD {} is being deleted, so {} cannot be recreated",
            definition.metadata.name,
            skyhook.reference()
        )));
    }
    if args.safety.no_journal {
        return Err(Error::unchanged(
            "--no-journal cannot be used: between deletion and recreation, only the journal contains the object",
        ));
    }
    let mut again = Recreation::of(cluster, &skyhook.whole, args.reason.as_deref())?;
    for operation in [Operation::Update, Operation::Create] {
        admission::refuse_unreachable(cluster, operation, skyhook, &mut again.effects)?;
    }
    again.let_go(skyhook, args.no_pause);
    again.clear_progress();
    again.make();
    Ok(again.plan(format!("restore {}, which is being deleted", args.name)))
}
