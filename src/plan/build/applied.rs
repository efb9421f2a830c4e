//! Edits of objects that somebody else applies from a source of theirs.

use crate::cluster::Cluster;
use crate::cluster::applier::Applier;
use crate::plan::{Change, Plan};

/// Says of every custom resource whose spec the plan edits who sets it back, and where to make the edit instead.
pub fn warn(cluster: &Cluster, plan: &mut Plan) {
    let edits = plan
        .steps()
        .filter(|step| matches!(step.change, Change::Spec(_)));
    let warnings: Vec<String> = edits
        .filter_map(|step| {
            let skyhook = cluster.skyhook(&step.target.name)?;
            let applier = Applier::of(&skyhook.metadata, cluster.generation().kind())?;
            Some(format!(
                "{} is applied by {}, and the edit may not last: {}",
                skyhook.reference(),
                applier.name(),
                applier.on_edits()
            ))
        })
        .collect();
    for warning in warnings {
        plan.consequences.warn(warning);
    }
}
