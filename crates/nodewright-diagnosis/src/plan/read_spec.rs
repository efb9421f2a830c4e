//! The custom resource specs on which a plan is based.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Change, Grade, Plan, Target};
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
    /// Whether the custom resource was being deleted; absent if not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deleting: bool,
}

impl ReadSpec {
    /// The specs of all custom resources of the active API.
    pub fn all(cluster: &Cluster) -> Vec<ReadSpec> {
        let read = |skyhook: &Skyhook| ReadSpec {
            target: Target::of_skyhook(cluster.flavor(), skyhook),
            generation: skyhook.metadata.generation,
            deleting: skyhook.deleting(),
        };
        cluster.skyhooks.items().iter().map(read).collect()
    }

    /// The specs that the plan depends on: those of the custom resources that its steps name, or all if a step names
    /// none, and those with effects. Without custom resources that the plan deletes: it may be applied a second time to
    /// finish.
    pub fn of_plan(mut all: Vec<ReadSpec>, plan: &Plan) -> Vec<ReadSpec> {
        let names = plan.custom_resources();
        let concerned = |read: &ReadSpec| {
            let name = read.target.name.as_str();
            names.as_ref().is_none_or(|names| names.contains(name))
                || plan.consequences.rollouts.iter().any(|rollout| rollout.skyhook == name)
        };
        all.retain(concerned);
        let deletes = |change: &Change| matches!(change, Change::Finalizer { .. } | Change::Delete { .. });
        all.retain(|read| !read.is_changed_by(plan, deletes));
        all
    }

    fn is_changed_by(&self, plan: &Plan, such: impl Fn(&Change) -> bool) -> bool {
        plan.steps().any(|step| step.target.same_object_name(&self.target) && such(&step.change))
    }

    /// Describes the change since the plan was made for this spec; `None` if the spec is the same in `now`. Edits count
    /// if the plan runs something, as they may have effects that the model does not know, and if it does not itself edit
    /// the spec.
    pub fn changed(&self, now: &[ReadSpec], plan: &Plan) -> Option<String> {
        let target = &self.target;
        let edits = plan.grade() > Grade::B1 && !self.is_changed_by(plan, |c| matches!(c, Change::Spec(_)));
        let Some(read) = now.iter().find(|r| r.target.same_object_name(target)) else {
            return Some(format!("{target} has been deleted"));
        };
        if read.target.uid != target.uid {
            Some(format!("{target} has been deleted and recreated"))
        } else if read.deleting && !self.deleting {
            Some(format!("the deletion of {target} has been requested"))
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
