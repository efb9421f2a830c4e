//! One request of a plan: its object, its change, and what must still be so.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Change, Guard, Permission, Rebased, Request, Target, Verb, recreate};

/// One request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    pub target: Target,
    /// What is written, in the form that `apply-plan` and `undo` read.
    #[schemars(with = "Value")]
    pub change: Change,
    /// Values that must stand on the object, by JSON pointer; null says that there must be none.
    #[serde(default)]
    #[schemars(with = "std::collections::BTreeMap<String, Value>")]
    pub guard: Guard,
    /// What it is for.
    pub reason: String,
    /// Where the object is gone by then, nothing is left to do.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_be_gone: bool,
}

impl Step {
    pub fn new(target: Target, change: Change, reason: impl Into<String>) -> Step {
        Step {
            target,
            change,
            guard: Guard::none(),
            reason: reason.into(),
            may_be_gone: false,
        }
    }

    /// A step that has no purpose any more where the object is gone by then.
    pub fn may_be_gone(mut self) -> Step {
        self.may_be_gone = true;
        self
    }

    pub fn guard(mut self, guard: Guard) -> Step {
        self.guard = guard;
        self
    }

    /// What goes to the server.
    pub fn request(&self) -> Request {
        self.change.request(&self.target, &self.guard)
    }

    /// The URL path that it goes to.
    pub fn path(&self) -> String {
        match self.change.endpoint() {
            (Verb::Create, _) => self.target.collection(),
            (_, Some(subresource)) => format!("{}/{subresource}", self.target.path()),
            (_, None) => self.target.path(),
        }
    }

    /// Reading is needed to tell a conflict from a refusal.
    pub(super) fn permissions(&self) -> [Permission; 2] {
        let (group, _, resource) = self.target.kind.resource();
        let (verb, subresource) = self.change.endpoint();
        let permission = |verb, subresource: Option<&'static str>| Permission {
            verb,
            group,
            resource,
            subresource,
            namespace: self.target.namespace.clone(),
        };
        let verb = match verb {
            Verb::Create => "create",
            Verb::Delete => "delete",
            Verb::Patch => "patch",
        };
        [permission("get", None), permission(verb, subresource)]
    }

    /// What the server will do to the object; null is no object.
    ///
    /// # Errors
    ///
    /// What differs about the first value that is not as expected. The object is untouched then.
    pub fn apply_to(&self, object: &mut Value) -> Result<(), String> {
        self.identity().check(object)?;
        self.guard.check(object)?;
        self.change.apply_to(object)
    }

    /// The same step on the object as it is now; null is no object.
    pub fn rebase(&self, object: &Value) -> Rebased<Step> {
        if !object.is_null() {
            let same = self.identity().check(object);
            if same.is_err() {
                return match self.change {
                    Change::Delete { .. } | Change::Finalizer { .. } => Rebased::Done,
                    _ => Rebased::Moved("the object was recreated (its uid changed)".to_owned()),
                };
            }
        }
        match self.change.rebase(object) {
            Rebased::Same(Change::Delete { was: Some(was) })
                if self.target.uid.is_none() && !recreate::is_as_made(object, &was) =>
            {
                Rebased::Moved("it was changed after it was created".to_owned())
            }
            Rebased::Same(change) => match self.guard.check(object) {
                Ok(()) => Rebased::Same(Step {
                    target: self.meant(object),
                    change: self.with_what_goes(change, object),
                    ..self.clone()
                }),
                Err(reason) => Rebased::Moved(reason),
            },
            Rebased::Done => Rebased::Done,
            Rebased::Moved(reason) => Rebased::Moved(reason),
        }
    }

    /// Whether the step has no purpose any more on the object as it is now: it is gone, or one of the same name was made
    /// later. Null is no object.
    pub fn is_needless(&self, object: &Value) -> bool {
        let uid = self.target.uid.as_deref();
        let is_another = uid.is_some() && uid != object["metadata"]["uid"].as_str();
        self.may_be_gone && (object.is_null() || is_another)
    }

    /// This step together with an earlier form of it that may have been carried out.
    pub fn and_sent(&self, sent: &Step) -> Step {
        Step {
            change: self.change.and_sent(&sent.change),
            ..self.clone()
        }
    }

    /// The step that takes this one back.
    pub fn inverse(&self) -> Option<Step> {
        Some(Step {
            target: match self.change {
                // What is made again gets another uid.
                Change::Delete { .. } | Change::Finalizer { .. } => Target {
                    uid: None,
                    ..self.target.clone()
                },
                _ => self.target.clone(),
            },
            change: self.change.inverse()?,
            guard: Guard::none(),
            reason: "restores the previous state".to_owned(),
            may_be_gone: self.may_be_gone,
        })
    }

    /// Whether it can be taken back once it is done; what a deletion takes away is only noted then.
    pub(super) fn comes_back(&self) -> bool {
        let noted = matches!(self.change, Change::Delete { .. }) && self.target.kind.comes_back();
        noted || self.inverse().is_some()
    }

    /// A deletion with the object that it deletes, to be made again on undo.
    fn with_what_goes(&self, change: Change, object: &Value) -> Change {
        match change {
            Change::Delete { .. } if self.target.kind.comes_back() => Change::Delete {
                was: Some(Box::new(recreate::remade(object))),
            },
            change => change,
        }
    }

    /// The target; of a deletion the very object that was looked at, so that a second try spares one made since.
    fn meant(&self, object: &Value) -> Target {
        let mut target = self.target.clone();
        if matches!(self.change, Change::Delete { .. }) && target.uid.is_none() {
            target.uid = object["metadata"]["uid"].as_str().map(str::to_owned);
        }
        target
    }

    fn identity(&self) -> Guard {
        match (&self.target.uid, &self.change) {
            (Some(uid), change) if !matches!(change, Change::Create(_)) => {
                Guard::none().value("/metadata/uid", Value::from(uid.as_str()))
            }
            _ => Guard::none(),
        }
    }
}
