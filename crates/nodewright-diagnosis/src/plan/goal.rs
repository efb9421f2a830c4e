//! What a stage of a plan or a command waits for.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Target;
use super::edit::lookup;
use crate::api::ApiFlavor;

/// An awaited effect of the operator or the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Goal {
    /// The object whose state is awaited.
    pub target: Target,
    pub condition: Condition,
    /// Maximum wait in seconds; 0 means no limit.
    pub at_most: u64,
}

/// The awaited state of an object. `Complete`, `Erroring` and `Uninstalled` depend on the nodes: only [`Goal::reached`]
/// judges them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Condition {
    /// Every selected node is done with every package, and the operator reports complete.
    Complete,
    /// The operator reports the custom resource or one of its nodes as erroring.
    Erroring,
    /// The package is absent from all selected nodes and runs no uninstall on others, or is absent from all nodes once the
    /// custom resource is deleted.
    Uninstalled {
        /// `None` means all packages with a requested uninstall.
        package: Option<String>,
        /// The version of the request; `None` if someone else requests the uninstall.
        version: Option<String>,
    },
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
    /// The object is deleted, or has lost this finalizer.
    Released(String),
}

impl Goal {
    /// Rounds a limit up to whole seconds; 0 means no limit.
    pub fn seconds(limit: Duration) -> u64 {
        limit.as_secs() + u64::from(limit.subsec_nanos() > 0)
    }

    /// Whether the condition holds; null is no object.
    pub fn holds(&self, object: &Value) -> bool {
        match &self.condition {
            // A deleted custom resource counts as paused: the operator does not work on it either.
            Condition::Paused => {
                let status = lookup(object, "/status/status").and_then(Value::as_str);
                object.is_null() || matches!(status, Some("paused" | "disabled"))
            }
            Condition::Resumed => {
                let status = lookup(object, "/status/status").and_then(Value::as_str);
                !matches!(status, Some("paused" | "disabled")) || is_paused_or_disabled(object)
            }
            Condition::Seen => lookup(object, "/status/status").is_some(),
            Condition::Exists => !object.is_null(),
            // A recreated object with the same name is another object.
            Condition::Gone => {
                let uid = self.target.uid.as_deref();
                object.is_null() || uid.is_some_and(|uid| object["metadata"]["uid"] != uid)
            }
            Condition::Released(entry) => {
                let all = lookup(object, "/metadata/finalizers").and_then(Value::as_array);
                all.is_none_or(|all| all.iter().all(|f| f.as_str() != Some(entry)))
            }
            Condition::Complete | Condition::Erroring | Condition::Uninstalled { .. } => false,
        }
    }

    /// The condition to await before the first step of the stage.
    ///
    /// Otherwise the status of a pause that has just ended could be mistaken for the operator's reaction to
    /// the next pause.
    pub fn first(&self) -> Option<Goal> {
        (self.condition == Condition::Paused).then(|| Goal { condition: Condition::Resumed, ..self.clone() })
    }

    /// The condition in words that follow "waiting until".
    pub fn describe(&self) -> String {
        match &self.condition {
            Condition::Paused => format!("the operator has paused {}", self.target),
            Condition::Resumed => {
                format!("the operator has seen that {} is no longer paused", self.target)
            }
            Condition::Seen => format!("the operator has set the status of {}", self.target),
            Condition::Exists => format!("{} exists", self.target),
            Condition::Gone => format!("{} is gone", self.target),
            Condition::Uninstalled { package: Some(package), version } => {
                let version = version.as_deref().unwrap_or_default();
                format!("{package} {version} is gone from all nodes")
            }
            Condition::Released(entry) => {
                format!("finalizer {entry} is removed from {}", self.target)
            }
            condition => format!("{} is {condition}", self.target),
        }
    }
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Condition, String> {
        let (word, package) = match text.split_once('=') {
            Some((word, package)) => (word, Some(package.to_owned())),
            None => (text, None),
        };
        match (word.to_lowercase().as_str(), package) {
            // As in kubectl wait.
            ("condition", Some(condition)) if !condition.contains('=') => condition.parse(),
            ("complete", None) => Ok(Condition::Complete),
            ("uninstalled", package) if package.as_deref() != Some("") => {
                Ok(Condition::Uninstalled { package, version: None })
            }
            ("deleted" | "delete", None) => Ok(Condition::Gone),
            ("erroring", None) => Ok(Condition::Erroring),
            _ => Err("expected complete, uninstalled, uninstalled=PACKAGE, deleted or erroring".to_owned()),
        }
    }
}

/// Formats the condition as on the command line; the conditions of plans only with their names.
impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Condition::Complete => f.write_str("complete"),
            Condition::Erroring => f.write_str("erroring"),
            Condition::Uninstalled { package: None, .. } => f.write_str("uninstalled"),
            Condition::Uninstalled { package: Some(package), .. } => write!(f, "uninstalled={package}"),
            Condition::Gone => f.write_str("deleted"),
            other => write!(f, "{other:?}"),
        }
    }
}

/// Whether annotations pause or disable the custom resource.
fn is_paused_or_disabled(object: &Value) -> bool {
    lookup(object, "/metadata/annotations").and_then(Value::as_object).is_some_and(|all| {
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

    fn released() -> Goal {
        Goal {
            target: Target::skyhook(ApiFlavor::NodeWright, "gpu", None),
            condition: Condition::Released("ours".to_owned()),
            at_most: 1,
        }
    }

    #[test]
    fn conditions_of_kubectl_wait_are_read() {
        for text in ["condition=complete", "condition=Complete", "Complete"] {
            assert_eq!(text.parse(), Ok(Condition::Complete), "{text}");
        }
        assert!("condition=condition=complete".parse::<Condition>().is_err());
        assert!("condition=Ready".parse::<Condition>().is_err());
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

    /// Plans and journals of earlier versions contain these forms.
    #[test]
    fn saved_goals_stay_readable() {
        let uninstalled =
            Condition::Uninstalled { package: Some("driver".to_owned()), version: Some("1.0.0".to_owned()) };
        for (condition, saved) in [
            (Condition::Paused, json!("paused")),
            (Condition::Resumed, json!("resumed")),
            (Condition::Seen, json!("seen")),
            (Condition::Exists, json!("exists")),
            (Condition::Gone, json!("gone")),
            (Condition::Released("ours".to_owned()), json!({"released": "ours"})),
            (uninstalled, json!({"uninstalled": {"package": "driver", "version": "1.0.0"}})),
        ] {
            let goal = Goal { condition, ..released() };
            let target = json!({"kind": "NodeWright", "name": "gpu"});
            let saved = json!({"target": target, "condition": saved, "atMost": 1});
            assert_eq!(serde_json::to_value(&goal).expect("JSON"), saved);
            assert_eq!(serde_json::from_value::<Goal>(saved).expect("a goal"), goal);
        }
    }

    #[test]
    fn a_limit_is_rounded_up_because_zero_is_no_limit() {
        for (limit, seconds) in [(0, 0), (1, 1), (999, 1), (1000, 1), (1001, 2)] {
            assert_eq!(Goal::seconds(Duration::from_millis(limit)), seconds);
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
