//! The condition that ends a stage.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Target;
use super::edit::lookup;
use crate::api::ApiFlavor;

/// An awaited effect of the operator or the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitFor {
    /// The object whose state is awaited.
    pub target: Target,
    pub condition: WaitCondition,
    /// Maximum wait in seconds; 0 means no limit.
    pub at_most: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WaitCondition {
    /// The operator has seen that the custom resource is paused or disabled, or the custom resource is
    /// deleted.
    Paused,
    /// The operator has seen that the custom resource is neither paused nor disabled any more, or the custom
    /// resource is paused or disabled again.
    Resumed,
    /// The operator has observed the custom resource and reported its status.
    Seen,
    /// The object exists.
    Exists,
    /// The object is deleted.
    Gone,
    /// The operator records a version of a package on no node any more; the object is the custom resource.
    Uninstalled { package: String, version: String },
    /// The object is deleted, or has lost this finalizer.
    Released(String),
}

impl WaitFor {
    /// Whether the condition holds; null is no object.
    pub fn holds(&self, object: &Value) -> bool {
        match &self.condition {
            // A deleted custom resource counts as paused: the operator does not work on it either.
            WaitCondition::Paused => {
                let status = lookup(object, "/status/status").and_then(Value::as_str);
                object.is_null() || matches!(status, Some("paused" | "disabled"))
            }
            WaitCondition::Resumed => {
                let status = lookup(object, "/status/status").and_then(Value::as_str);
                !matches!(status, Some("paused" | "disabled")) || is_paused_or_disabled(object)
            }
            WaitCondition::Seen => lookup(object, "/status/status").is_some(),
            WaitCondition::Exists => !object.is_null(),
            // A recreated object with the same name is another object.
            WaitCondition::Gone => {
                let uid = self.target.uid.as_deref();
                object.is_null() || uid.is_some_and(|uid| object["metadata"]["uid"] != uid)
            }
            // `status.nodeState` is the operator's copy of all node states; its webhook uses the copy as
            // well.
            WaitCondition::Uninstalled { package, version } => {
                let key = format!("{package}|{version}");
                let nodes = lookup(object, "/status/nodeState").and_then(Value::as_object);
                nodes.is_none_or(|nodes| nodes.values().all(|state| state.get(&key).is_none()))
            }
            WaitCondition::Released(entry) => {
                let all = lookup(object, "/metadata/finalizers").and_then(Value::as_array);
                all.is_none_or(|all| all.iter().all(|f| f.as_str() != Some(entry)))
            }
        }
    }

    /// The condition to await before the first step of the stage.
    ///
    /// Otherwise the status of a pause that has just ended could be mistaken for the operator's reaction to
    /// the next pause.
    pub fn first(&self) -> Option<WaitFor> {
        (self.condition == WaitCondition::Paused)
            .then(|| WaitFor { condition: WaitCondition::Resumed, ..self.clone() })
    }

    /// The condition in words that follow "waiting until".
    pub fn describe(&self) -> String {
        match &self.condition {
            WaitCondition::Paused => format!("the operator has paused {}", self.target),
            WaitCondition::Resumed => {
                format!("the operator has seen that {} is no longer paused", self.target)
            }
            WaitCondition::Seen => format!("the operator has set the status of {}", self.target),
            WaitCondition::Exists => format!("{} exists", self.target),
            WaitCondition::Gone => format!("{} is gone", self.target),
            WaitCondition::Uninstalled { package, version } => {
                format!("{package} {version} is gone from all nodes")
            }
            WaitCondition::Released(entry) => {
                format!("finalizer {} is removed from {}", entry, self.target)
            }
        }
    }
}

/// Whether annotations pause or disable the custom resource.
fn is_paused_or_disabled(object: &Value) -> bool {
    let annotations = lookup(object, "/metadata/annotations").and_then(Value::as_object);
    annotations.is_some_and(|all| {
        let is_true = |key: &String| all.get(key).is_some_and(|value| value == "true");
        ApiFlavor::ALL.iter().any(|flavor| is_true(&flavor.key("pause")) || is_true(&flavor.key("disable")))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::ApiFlavor;
    use crate::plan::{Change, Metadata, Plan, PlanStage, Step};

    fn released() -> WaitFor {
        WaitFor {
            target: Target::skyhook(ApiFlavor::NodeWright, "gpu", None),
            condition: WaitCondition::Released("ours".to_owned()),
            at_most: 1,
        }
    }

    #[test]
    fn an_object_is_released_once_the_finalizer_or_the_object_is_gone() {
        let held = |finalizers: Value| json!({"metadata": {"finalizers": finalizers}});
        for (object, holds) in [
            (held(json!(["other", "ours"])), false),
            (held(json!(["other"])), true),
            (json!({"metadata": {}}), true),
            (Value::Null, true),
        ] {
            assert_eq!(released().holds(&object), holds, "{object}");
        }
    }

    #[test]
    fn what_cannot_be_taken_back_is_not_waited_for_again() {
        let entry = "ours".to_owned();
        let strip = Change::Finalizer { entry, index: 0, was: None };
        let clean = Change::Metadata(Metadata { unschedulable: Some(false), ..Metadata::default() });
        let mut first = PlanStage::of(vec![Step::new(released().target, strip, "a test")]);
        first.until = Some(released());
        let node = Target::node("gpu-1", None);
        let plan = Plan {
            stages: vec![first, PlanStage::of(vec![Step::new(node, clean, "a test")])],
            ..Plan::default()
        };
        let (back, lost) = plan.inverse();
        assert_eq!((back.len(), lost.len()), (1, 1));
        assert_eq!(back[0].until, None);
    }
}
