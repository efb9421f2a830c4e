//! Warnings about changes of objects that a GitOps tool applies.

use serde_json::Value;

use crate::api::Meta;
use crate::cluster::Cluster;
use crate::cluster::applier::Applier;
use crate::plan::{Change, Plan, Step, Target};

/// Warns about custom resources whose change a GitOps tool would revert, and names the source to edit
/// instead. Such a change edits the spec, or deletes, releases or recreates the custom resource.
pub fn warn(cluster: &Cluster, plan: &mut Plan) {
    let flavor = cluster.flavor();
    warn_by(plan, |target| {
        let ours = target.kind == flavor.into();
        let skyhook = cluster.skyhook(&target.name).filter(|_| ours)?;
        Some(skyhook.metadata.clone())
    });
}

/// [`warn`], from the metadata of the objects themselves.
pub fn warn_of(plan: &mut Plan, objects: &[(Target, Value)]) {
    warn_by(plan, |target| {
        let mut objects = objects.iter();
        let (_, metadata) = objects.find(|(of, _)| of.same_object_name(target))?;
        serde_json::from_value(metadata.clone()).ok()
    });
}

fn warn_by(plan: &mut Plan, metadata: impl Fn(&Target) -> Option<Meta>) {
    let steps = plan.steps().filter(|step| step.target.kind.is_custom());
    let warnings: Vec<String> = steps.filter_map(|step| warning(plan, step, &metadata)).collect();
    for warning in warnings {
        plan.consequences.warn(warning);
    }
}

fn warning(plan: &Plan, step: &Step, metadata: &impl Fn(&Target) -> Option<Meta>) -> Option<String> {
    let made = |target: &Target| {
        let made = |step: &Step| matches!(step.change, Change::Create(_));
        plan.steps().any(|step| made(step) && step.target.same_object_name(target))
    };
    let meta = match &step.change {
        Change::Create(object) => serde_json::from_value(object["metadata"].clone()).ok()?,
        // The plan recreates the object.
        Change::Finalizer { .. } | Change::Delete { .. } if made(&step.target) => return None,
        Change::Spec(_) | Change::Finalizer { .. } | Change::Delete { .. } => metadata(&step.target)?,
        _ => return None,
    };
    let applier = Applier::of(&meta, step.target.kind.kind())?;
    let (what, then) = match step.change {
        Change::Spec(_) => ("the edit may not last", applier.on_edits()),
        Change::Create(_) => ("the object may be removed", applier.on_creation()),
        _ => ("the object may be recreated", applier.on_deletion()),
    };
    Some(format!("{} is applied by {}, so {what}: {then}", step.target, applier.name()))
}
