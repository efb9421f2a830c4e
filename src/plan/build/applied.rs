//! Edits of objects that somebody else applies from a source of theirs.

use crate::cluster::Cluster;
use crate::cluster::applier::Applier;
use crate::plan::{Change, Plan, Step};

/// Says of every custom resource that the plan edits, deletes or lets go who sets that back, and where to change it instead.
pub fn warn(cluster: &Cluster, plan: &mut Plan) {
    let warnings: Vec<String> = plan.steps().filter_map(|s| warning(cluster, s)).collect();
    for warning in warnings {
        plan.consequences.warn(warning);
    }
}

fn warning(cluster: &Cluster, step: &Step) -> Option<String> {
    let generation = cluster.generation();
    if step.target.kind != generation.into() {
        return None;
    }
    let skyhook = cluster.skyhook(&step.target.name)?;
    let applier = Applier::of(&skyhook.metadata, generation.kind())?;
    let (what, then) = match step.change {
        Change::Spec(_) => ("the edit may not last", applier.on_edits()),
        Change::Finalizer { .. } | Change::Delete { .. } => {
            ("it may come back", applier.on_deletion())
        }
        _ => return None,
    };
    Some(format!(
        "{} is applied by {}, and {what}: {then}",
        skyhook.reference(),
        applier.name()
    ))
}
