//! The custom resource specs on which a plan is based.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Change, Plan, Target};
use crate::api::Skyhook;
use crate::cluster::Cluster;

/// A custom resource whose spec determines the side effects of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReadSpec {
    /// The custom resource.
    pub target: Target,
    /// The `metadata.generation` that the plan was made for; the server increments it with each change of the
    /// spec.
    pub generation: i64,
}

impl ReadSpec {
    /// The specs of all custom resources of the active API.
    pub fn all(cluster: &Cluster) -> Vec<ReadSpec> {
        let read = |skyhook: &Skyhook| ReadSpec {
            target: Target::of_skyhook(cluster.flavor(), skyhook),
            generation: skyhook.metadata.generation,
        };
        cluster.skyhooks.items().iter().map(read).collect()
    }

    /// The specs that the plan depends on: those of the custom resources that its steps name, or all if a step names
    /// none.
    ///
    /// Specs that the plan itself changes are excluded: the plan may be applied a second time to finish, and
    /// its steps are guarded.
    pub fn of_plan(mut all: Vec<ReadSpec>, plan: &Plan) -> Vec<ReadSpec> {
        if let Some(names) = plan.custom_resources() {
            all.retain(|read| names.contains(read.target.name.as_str()));
        }
        let changes_spec = |change: &Change| {
            matches!(change, Change::Spec(_) | Change::Finalizer { .. } | Change::Delete { .. })
        };
        all.retain(|read| {
            let mut steps = plan.steps();
            !steps.any(|s| s.target.same_object_name(&read.target) && changes_spec(&s.change))
        });
        all
    }

    /// Describes the change since this spec was read; `None` if the spec is the same in `now`. `edits`: whether edits
    /// of the spec count, not only a deletion.
    pub fn changed(&self, now: &[ReadSpec], edits: bool) -> Option<String> {
        let target = &self.target;
        let Some(read) = now.iter().find(|r| r.target.same_object_name(target)) else {
            return Some(format!("{target} has been deleted"));
        };
        if read.target.uid != target.uid {
            Some(format!("{target} has been deleted and recreated"))
        } else if edits && read.generation != self.generation {
            Some(format!(
                "the spec of {target} has been changed (generation {}, now {})",
                self.generation, read.generation
            ))
        } else {
            None
        }
    }
}
