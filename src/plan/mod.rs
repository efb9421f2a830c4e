//! A mutation as data: what is written where, guarded by what, in which order, and why.
//!
//! Everything here is pure: no client, no clock, no files. A plan is shown before it is carried
//! out, and each change in it can say how it is taken back.

pub mod build;
mod change;
mod consequences;
mod edit;
mod fields;
mod grade;
mod guard;
mod hold;
mod metadata;
mod pointer;
pub mod remake;
mod saved;
mod taints;
mod target;
mod until;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use change::{Change, Request, Verb};
pub use consequences::Consequences;
pub use edit::{At, Edit, Move, Pin, Rebased};
pub use fields::Field;
pub use grade::Grade;
pub use guard::{Broken, Guard, How};
pub use hold::{FIELD_MANAGER, Hold};
pub use metadata::Metadata;
pub use saved::{FORMAT, Saved, SavedError};
pub use target::{Kind, Target, is_object_name};
pub use until::{Sign, Until};

/// What a command is about to do.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WholePlan")]
pub struct Plan {
    /// What it is for, as an imperative: `reset gpu on 3 nodes`.
    pub title: String,
    /// The name that a user types to confirm what cannot easily be made good.
    pub subject: String,
    pub stages: Vec<Stage>,
    #[serde(default)]
    pub consequences: Consequences,
    /// The label selector of nodes on which it goes wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub erroring: Option<String>,
}

/// Steps that may be taken side by side.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stage {
    pub steps: Vec<Step>,
    /// What to wait for before the next stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Value>")]
    pub until: Option<Until>,
    /// Taken even where an earlier stage failed: it puts back what the plan changed for its own sake.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub always: bool,
}

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
    pub why: String,
    /// Where the object is gone by then, nothing is left to do.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_be_gone: bool,
}

impl Plan {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.steps().next().is_none()
    }

    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.stages.iter().flat_map(|s| &s.steps)
    }

    /// Whether the step makes an object that another step of the plan has removed by then.
    pub fn makes_again(&self, step: &Step) -> bool {
        let removes = |other: &Step| {
            matches!(
                other.change,
                Change::Delete { .. } | Change::Finalizer { .. }
            ) && other.target.names_the_place_of(&step.target)
        };
        matches!(step.change, Change::Create(_)) && self.steps().any(removes)
    }

    /// Whether the step works on an object that another step of the plan is to make before.
    pub fn works_on_what_it_makes(&self, step: &Step) -> bool {
        let before = self.steps().take_while(|other| !std::ptr::eq(*other, step));
        let makes = |other: &Step| {
            matches!(other.change, Change::Create(_))
                && other.target.names_the_place_of(&step.target)
        };
        // Plans are mostly of nodes, which nobody makes.
        step.target.kind.comes_back() && before.into_iter().any(makes)
    }

    /// Whether it waits for something to come about, be it with nothing to do before.
    pub fn waits(&self) -> bool {
        self.stages.iter().any(|s| s.until.is_some())
    }

    /// What it may do to the cluster at worst.
    pub fn grade(&self) -> Grade {
        if self.is_empty() {
            return Grade::B0;
        }
        self.consequences
            .grade
            .max(Some(Grade::B1))
            .unwrap_or(Grade::B1)
    }

    /// The names of the nodes that are written to, sorted.
    pub fn nodes(&self) -> BTreeSet<&str> {
        self.steps()
            .filter(|s| s.target.kind == Kind::Node)
            .map(|s| s.target.name.as_str())
            .collect()
    }

    /// The permissions that the plan needs: verb, group, resource, subresource and namespace.
    pub fn permissions(&self) -> BTreeSet<Permission> {
        self.steps().flat_map(Step::permissions).collect()
    }

    /// The names of the objects that a permission is needed for.
    pub fn needed_for(&self, permission: &Permission) -> BTreeSet<&str> {
        let needing = self
            .steps()
            .filter(|s| s.permissions().contains(permission));
        needing.map(|step| step.target.name.as_str()).collect()
    }

    /// Whether the object is let go and made again: neither half alone can be taken back.
    fn replaces(&self, target: &Target) -> bool {
        let path = target.path();
        let of_it = || self.steps().filter(|s| s.target.path() == path);
        let goes = |s: &Step| matches!(s.change, Change::Finalizer { .. } | Change::Delete { .. });
        of_it().any(goes) && of_it().any(|s| matches!(s.change, Change::Create(_)))
    }

    /// The plan that takes this one back, last step first, and what it cannot take back.
    pub fn inverse(&self) -> (Vec<Stage>, Vec<&Step>) {
        let mut lost = Vec::new();
        let mut stages = Vec::new();
        // A plan that pauses, acts and resumes is taken back the same way round: what the mirrored
        // stage waits for is waited for again.
        for (stage, mirrored) in self.stages.iter().rev().zip(&self.stages) {
            let mut steps = Vec::new();
            for step in &stage.steps {
                match step.inverse() {
                    Some(step) if !self.replaces(&step.target) => steps.push(step),
                    _ => lost.push(step),
                }
            }
            // What cannot be taken back is not done again either, and nothing comes of it to wait for.
            let repeats = mirrored.steps.iter().any(|s| s.inverse().is_some());
            stages.push(Stage {
                steps,
                until: mirrored
                    .until
                    .clone()
                    .filter(|until| repeats && until.counts_for_the_way_back()),
                always: mirrored.always,
            });
        }
        stages.retain(|s| !s.steps.is_empty());
        (stages, lost)
    }
}

/// `patch nodes/status`, `delete jobs.batch in namespace skyhook`
impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if let Some(subresource) = self.subresource {
            write!(f, "/{subresource}")?;
        }
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        match &self.namespace {
            Some(namespace) => write!(f, " in namespace {namespace}"),
            None => Ok(()),
        }
    }
}

/// One thing that the plan's user must be allowed to do.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Permission {
    pub verb: &'static str,
    pub group: &'static str,
    pub resource: &'static str,
    pub subresource: Option<&'static str>,
    pub namespace: Option<String>,
}

impl Permission {
    /// The command that asks whether one has it.
    pub fn question(&self) -> String {
        let dot = if self.group.is_empty() { "" } else { "." };
        let mut words = format!(
            "kubectl auth can-i {} {}{dot}{}",
            self.verb, self.resource, self.group
        );
        if let Some(subresource) = self.subresource {
            words.push_str(&format!(" --subresource={subresource}"));
        }
        if let Some(namespace) = &self.namespace {
            words.push_str(&format!(" -n {namespace}"));
        }
        words
    }
}

impl Stage {
    pub fn of(steps: Vec<Step>) -> Stage {
        Stage {
            steps,
            ..Stage::default()
        }
    }
}

impl Step {
    pub fn new(target: Target, change: Change, why: impl Into<String>) -> Step {
        Step {
            target,
            change,
            guard: Guard::none(),
            why: why.into(),
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
        let request = self.request();
        match (request.verb, request.subresource) {
            (Verb::Create, _) => self.target.collection(),
            (_, Some(subresource)) => format!("{}/{subresource}", self.target.path()),
            (_, None) => self.target.path(),
        }
    }

    /// Reading is needed to tell a conflict from a refusal.
    fn permissions(&self) -> [Permission; 2] {
        let (group, _, resource) = self.target.kind.resource();
        let request = self.request();
        let permission = |verb, subresource: Option<&'static str>| Permission {
            verb,
            group,
            resource,
            subresource,
            namespace: self.target.namespace.clone(),
        };
        let verb = match request.verb {
            Verb::Create => "create",
            Verb::Delete => "delete",
            Verb::Patch => "patch",
        };
        [
            permission("get", None),
            permission(verb, request.subresource),
        ]
    }

    /// What the server will do to the object; null is no object.
    ///
    /// # Errors
    ///
    /// The first value that is not as expected. The object is untouched then.
    pub fn apply_to(&self, object: &mut Value) -> Result<(), Broken> {
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
                    _ => Rebased::Moved("another object of that name was made since".to_owned()),
                };
            }
        }
        match self.change.rebase(object) {
            Rebased::Same(Change::Delete { was: Some(was) })
                if self.target.uid.is_none() && !remake::is_as_made(object, &was) =>
            {
                Rebased::Moved("it is not as it was made any more".to_owned())
            }
            Rebased::Same(change) => match self.guard.check(object) {
                Ok(()) => Rebased::Same(Step {
                    target: self.meant(object),
                    change: self.with_what_goes(change, object),
                    ..self.clone()
                }),
                Err(broken) => Rebased::Moved(broken.to_string()),
            },
            Rebased::Done => Rebased::Done,
            Rebased::Moved(why) => Rebased::Moved(why),
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
            why: "as it was before".to_owned(),
            may_be_gone: self.may_be_gone,
        })
    }

    /// A deletion with the object that it deletes, to be made again on undo.
    fn with_what_goes(&self, change: Change, object: &Value) -> Change {
        match change {
            Change::Delete { .. } if self.target.kind.comes_back() => Change::Delete {
                was: Some(Box::new(remake::remade(object))),
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
