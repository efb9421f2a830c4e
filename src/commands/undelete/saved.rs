//! Custom resources saved in journals.

use serde_json::Value;

use crate::apply::StepResult;
use crate::apply::journal::{Record, Store};
use crate::cluster::Cluster;
use crate::ctx::Ctx;
use crate::error::{Error, Result};
use crate::plan::{Change, Kind, Step};
use crate::view::ago;

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
    let store = Store::of(crate::ctx::variable)?;
    store.trusted()?;
    let kind = Kind::from(cluster.flavor());
    let here = if cluster.from_files { None } else { Some(ctx.here().await?.origin) };
    let mut known: Vec<String> = Vec::new();
    if let Some(id) = id {
        let record = store.read(id)?;
        if let Some(saved) = saved(&record, kind, name) {
            return of_this_cluster(ctx, cluster, &record, saved).await;
        }
        known.extend(names(&record, kind));
    } else {
        let (records, complaints) = store.all()?;
        complaints.into_iter().for_each(|complaint| ctx.warn(complaint));
        for record in records {
            // Skip custom resources of the same name from other clusters.
            let origin = record.begun.origin();
            if here.as_ref().is_some_and(|here| !origin.is_taken_for(here)) {
                continue;
            }
            if let Some(saved) = saved(&record, kind, name) {
                return of_this_cluster(ctx, cluster, &record, saved).await;
            }
            known.extend(names(&record, kind));
        }
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
