//! `undelete`: restores a deleted custom resource.

use std::path::PathBuf;

use serde_json::Value;

use super::shared::admission;
use super::shared::command::{Write, command};
use crate::api::Skyhook;
use crate::apply::StepResult;
use crate::apply::journal::Record;
use crate::args::nodes;
use crate::args::safety::Safety;
use crate::cluster::{Cluster, Source};
use crate::ctx::Ctx;
use crate::dump;
use crate::error::{Error, Exit, Result};
use crate::plan::planners::node::Recreation;
use crate::plan::planners::{self, node, pause_guard};
use crate::plan::{Change, Field, Kind, Plan, Refusal, Step, Target};
use crate::view::ago;

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
    #[arg(value_name = "NAME", value_parser = nodes::skyhook)]
    name: String,

    /// Recreate the custom resource from this file instead of the journal
    #[arg(short = 'f', long = "filename", value_name = "FILE", conflicts_with = "journal")]
    file: Option<PathBuf>,

    /// Recreate the custom resource from this journal instead of the newest that contains it; see `journal
    /// list`
    #[arg(long, value_name = "ID", value_parser = nodes::journal)]
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
            let reference = skyhook.to_string();
            let title = format!("{reference} exists and is not being deleted");
            Plan::new(title, &args.name)
        }
        Some(skyhook) if !skyhook.deleting() => {
            let saved = find(ctx, &cluster, &args.name, args.journal.as_deref()).await;
            plan_held(&cluster, skyhook, saved.ok(), args)
        }
        Some(terminating) => plan_terminating(&cluster, terminating, args)?,
        None => {
            let saved = match &args.file {
                Some(file) => from_file(&cluster, file, &args.name)?,
                None => find(ctx, &cluster, &args.name, args.journal.as_deref()).await?,
            };
            plan_gone(&cluster, &saved, args)?
        }
    };
    node::warn(&cluster, &mut plan);
    ctx.execute(&cluster, plan, &args.safety).await
}

/// The custom resource, or `None` if it was deleted.
fn existing<'a>(cluster: &'a Cluster, args: &Args) -> Result<Option<&'a Skyhook>> {
    planners::refuse_unmigrated(cluster, &args.name)?;
    let Some(skyhook) = cluster.skyhook(&args.name) else {
        super::shared::scope::not_left_out(cluster, "")?;
        return Ok(None);
    };
    pause_guard::refuse_held_by_command(cluster, skyhook)?;
    Ok(Some(skyhook))
}

fn from_file(cluster: &Cluster, file: &PathBuf, name: &str) -> Result<SavedResource> {
    let held = dump::load(std::slice::from_ref(file), Some(cluster.flavor()))?;
    let known = || held.skyhooks.iter().map(|s| s.name());
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
    admission::refuse_unreachable(cluster, "CREATE", &again.skyhook, &mut again.consequences)?;
    again.restore(&saved.nodes);
    again.consequences.warnings.extend(saved.left_out.iter().cloned());
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
    pause_guard::end_what_is_left(cluster, plan, skyhook)
}

/// The plan that holds, releases and recreates the custom resource. It contains the whole object, so the
/// journal has the object before the deletion.
fn plan_terminating(cluster: &Cluster, skyhook: &Skyhook, args: &Args) -> Result<Plan> {
    let others = skyhook.third_party_finalizers();
    if !others.is_empty() {
        return Err(Refusal::FinalizersOfOthers {
            finalizers: others.join(", "),
            reference: skyhook.to_string(),
            resource: cluster.flavor().resource().to_owned(),
            name: args.name.clone(),
        }
        .into());
    }
    if let Some(definition) = cluster.deleted_definition() {
        let definition = definition.metadata.name.to_string();
        return Err(Refusal::DefinitionDeleted { definition, reference: skyhook.to_string() }.into());
    }
    if let Some(why) = cluster.installation.definitions.unread() {
        let (why, reference) = (why.to_string(), skyhook.to_string());
        return Err(Refusal::DefinitionUnread { why, reference }.into());
    }
    if args.safety.no_journal {
        return Err(Refusal::JournalRequired {}.into());
    }
    let mut again = Recreation::of(cluster, &skyhook.whole, args.reason.as_deref())?;
    for operation in ["UPDATE", "CREATE"] {
        admission::refuse_unreachable(cluster, operation, skyhook, &mut again.consequences)?;
    }
    again.let_go(skyhook, args.no_pause);
    again.clear_progress();
    again.make();
    Ok(again.plan(format!("restore {}, which is being deleted", args.name)))
}

/// A saved custom resource, and the steps that restore its removed keys on nodes.
pub struct SavedResource {
    pub object: Value,
    pub nodes: Vec<Step>,
    /// What these steps do not restore.
    pub left_out: Vec<String>,
    /// A description of the journal or file that contains it.
    pub origin: String,
}

/// Finds the custom resource in the named journal, or in the newest journal that contains it.
///
/// # Errors
///
/// No journal contains the custom resource; the error lists journals of others.
pub async fn find(ctx: &mut Ctx, cluster: &Cluster, name: &str, id: Option<&str>) -> Result<SavedResource> {
    let store = ctx.journals()?;
    store.trusted()?;
    let kind = Kind::from(cluster.flavor());
    let here = if cluster.from_files { None } else { Some(ctx.here().await?.origin) };
    let records = match id {
        Some(id) => vec![store.read(id)?],
        None => {
            let (mut records, complaints) = store.all()?;
            complaints.into_iter().for_each(|complaint| ctx.warn(complaint));
            // Skip custom resources of the same name from other clusters.
            let is_here =
                |record: &Record| here.as_ref().is_none_or(|here| record.begun.origin().is_taken_for(here));
            records.retain(is_here);
            records
        }
    };
    let mut known: Vec<String> = Vec::new();
    for record in records {
        if let Some(saved) = saved(&record, kind, name) {
            return of_this_cluster(ctx, cluster, &record, saved).await;
        }
        known.extend(names(&record, kind));
    }
    let what = format!("saved {}", cluster.flavor().kind());
    let known = known.iter().map(String::as_str);
    Err(Error::unknown(&what, name, known)
        .hint(format!("kubectl skyhook undelete {name} -f FILE"))
        .hint("kubectl skyhook journal list"))
}

/// The saved object, unless it is from another cluster.
///
/// # Errors
///
/// The journal is from another cluster; see [`Ctx::same_cluster`].
async fn of_this_cluster(
    ctx: &mut Ctx,
    cluster: &Cluster,
    record: &Record,
    saved: SavedResource,
) -> Result<SavedResource> {
    if !cluster.from_files {
        let what = format!("journal {}", record.begun.id);
        ctx.same_cluster(&what, Some(&record.begun.origin())).await?;
    }
    Ok(saved)
}

/// The object that a step deleted, or may have deleted.
fn deleted_object<'a>(step: &'a Step, result: &Option<StepResult>) -> Option<&'a Value> {
    let may = result.as_ref().is_none_or(StepResult::may_have_changed);
    match &step.change {
        Change::Finalizer { was, .. } | Change::Delete { was } if may => was.as_deref(),
        _ => None,
    }
}

fn steps(record: &Record) -> impl Iterator<Item = (&Step, &Option<StepResult>)> {
    record.begun.plan.steps().zip(record.results.iter().flatten())
}

fn names(record: &Record, kind: Kind) -> Vec<String> {
    steps(record)
        .filter(|(step, result)| step.target.kind == kind && deleted_object(step, result).is_some())
        .map(|(step, _)| step.target.name.clone())
        .collect()
}

fn saved(record: &Record, kind: Kind, name: &str) -> Option<SavedResource> {
    let (step, object) = steps(record).find_map(|(step, result)| {
        let meant = step.target.kind == kind && step.target.name == name;
        Some((step, deleted_object(step, result).filter(|_| meant)?))
    })?;
    let begun = &record.begun;
    // A strip of the finalizer also cleaned the nodes. After a deletion, the operator cleans them.
    let stripped = matches!(step.change, Change::Finalizer { .. });
    let (back, _) = record.undo();
    let nodes = back.steps().filter(|s| stripped && s.target.kind == Kind::Node);
    Some(SavedResource {
        object: object.clone(),
        nodes: nodes.cloned().collect(),
        left_out: back.consequences.warnings.clone(),
        origin: format!("journal {} ({})", begun.id, ago(Some(begun.at), crate::ctx::now())),
    })
}
