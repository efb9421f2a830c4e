//! Plans: writes as data, with guards, order and reasons.
//!
//! Everything here is pure: no client, no clock, no files. A plan is previewed before it is applied. Its
//! changes have inverses, except for example deletions of pods and Jobs.

mod change;
mod consequences;
mod edit;
mod fields;
mod forecast;
mod goal;
mod graph;
mod hold;
mod metadata;
pub mod planners;
mod precondition;
mod refusal;
pub mod step;
mod target;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use crate::api::Skyhook;
use crate::text::NodeSet;

pub use change::{Change, Request, Verb};
pub use consequences::{Consequences, growth};
pub(crate) use edit::pointer;
pub use edit::{At, Edit, Move, OnConflict, Rebased};
pub use fields::Field;
pub use forecast::Baseline;
pub use goal::{Condition, Goal};
pub use graph::retain_stages;
pub use hold::{Hold, Uncordon};
pub use metadata::Metadata;
pub use precondition::{Guard, OperatorAvailability, Preconditions, ResourceState};
pub use refusal::{Moment, Refusal};
pub use step::{RemovedEntry, Step};
pub use target::{Kind, Target};

pub use crate::cluster::hold::FIELD_MANAGER;

/// The planned changes of a command.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WholePlan")]
pub struct Plan {
    /// The purpose, as an imperative: `reset gpu on 3 nodes`.
    pub title: String,
    /// The text that the user types to confirm a plan of grade B3 or B4. Not a reference: a custom resource may have the
    /// same name.
    pub subject: String,
    /// The steps, in stages.
    pub stages: Vec<PlanStage>,
    /// The side effects.
    #[serde(default)]
    pub consequences: Consequences,
    /// The label selector that matches nodes that became erroring; absent if the plan does not check for
    /// them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub erroring: Option<String>,
    /// Preconditions on objects that the plan itself does not change.
    #[serde(default, skip_serializing_if = "Preconditions::is_empty")]
    pub preconditions: Preconditions,
}

/// Steps that may run at the same time.
///
/// A stage starts after the stages in `after` have ended, and is skipped if one of their steps failed, may have failed
/// or was not reached. Without `after`, it starts after the preceding stage has ended, even if a step failed. Stages
/// with `always` are never skipped.
///
/// An awaited effect relies on all steps before it: if one of them is not made, or if the effect does not occur, the
/// stages after it do not run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlanStage {
    /// The steps.
    pub steps: Vec<Step>,
    /// The condition to wait for before the stage ends; absent if the stage ends with its steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Value>")]
    pub until: Option<Goal>,
    /// Whether the stage runs even if earlier stages failed: it ends the plan's own pause. Absent if false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub always: bool,
    /// The stages whose changes this one needs, as indexes into `stages`, starting at 0; absent if it only follows the
    /// preceding stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Vec<usize>>,
}

impl Plan {
    /// A plan without steps yet; the subject is the name that a user types to confirm it.
    pub fn new(title: impl Into<String>, subject: &str) -> Plan {
        Plan { title: title.into(), subject: subject.to_owned(), ..Plan::default() }
    }

    /// Adds a stage of these steps after the others, unless there are none.
    pub fn stage(&mut self, steps: Vec<Step>) {
        if !steps.is_empty() {
            self.stages.push(PlanStage::of(steps));
        }
    }

    /// Whether the plan has no steps.
    pub fn is_empty(&self) -> bool {
        self.steps().next().is_none()
    }

    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.stages.iter().flat_map(|s| &s.steps)
    }

    /// Whether the step serves the plan's purpose: it neither pauses the operator for other steps nor ends
    /// such a pause of the plan itself. Ending an earlier pause is work.
    pub fn is_work(&self, step: &Step) -> bool {
        let pauses = |change: &Change| change.holds() || change.creates();
        match step.change {
            Change::Hold(_) => false,
            Change::Release(_) => !self.changes(&step.target, pauses),
            _ => true,
        }
    }

    /// Whether any step makes such a change of the object.
    pub fn changes(&self, target: &Target, such: impl Fn(&Change) -> bool) -> bool {
        self.steps().any(|step| step.target.same_object_name(target) && such(&step.change))
    }

    /// Whether the step recreates an object that another step of the plan removes.
    pub fn recreates(&self, step: &Step) -> bool {
        step.change.creates() && self.changes(&step.target, Change::removes)
    }

    /// Whether an earlier step of the plan creates the step's object.
    pub fn targets_created_object(&self, step: &Step) -> bool {
        let mut before = self.steps().take_while(|other| !std::ptr::eq(*other, step));
        // Most targets are nodes, which no plan creates.
        step.target.kind.undo_recreates()
            && before.any(|other| other.change.creates() && other.target.same_object_name(&step.target))
    }

    /// Whether any stage waits for an effect, with or without steps.
    pub fn waits(&self) -> bool {
        self.stages.iter().any(|s| s.until.is_some())
    }

    /// Whether any stage waits for an uninstall.
    pub fn awaits_uninstall(&self) -> bool {
        self.stages
            .iter()
            .filter_map(|stage| stage.until.as_ref())
            .any(|goal| matches!(goal.condition, Condition::Uninstalled { .. }))
    }

    /// The worst effect on the cluster.
    pub fn grade(&self) -> Grade {
        if self.is_empty() {
            return Grade::B0;
        }
        self.consequences.worst_grade()
    }

    /// The names of the nodes that the plan changes, sorted.
    pub fn nodes(&self) -> BTreeSet<&str> {
        self.steps().filter(|s| s.target.kind == Kind::Node).map(|s| s.target.name.as_str()).collect()
    }

    /// The names of the custom resources that the steps change or whose keys on nodes they edit; `None` if a step names
    /// no custom resource.
    pub fn custom_resources(&self) -> Option<BTreeSet<&str>> {
        let mut names = BTreeSet::new();
        for step in self.steps() {
            let own = step.custom_resources();
            if own.is_empty() {
                return None;
            }
            names.extend(own);
        }
        Some(names)
    }

    /// The permissions that the plan needs: verb, group, resource, subresource and namespace.
    pub fn permissions(&self) -> BTreeSet<Permission> {
        self.steps().flat_map(Step::permissions).collect()
    }

    /// The names of the objects for which a permission is needed.
    pub fn needed_for(&self, permission: &Permission) -> BTreeSet<&str> {
        self.steps()
            .filter(|s| s.permissions().contains(permission))
            .map(|step| step.target.name.as_str())
            .collect()
    }

    /// Whether any step can be undone.
    pub fn is_undoable(&self) -> bool {
        self.steps().any(|step| step.is_undoable() && !self.replaces(&step.target))
    }

    /// Whether the plan both removes and recreates the object: neither step can be undone alone.
    fn replaces(&self, target: &Target) -> bool {
        self.changes(target, Change::removes) && self.changes(target, Change::creates)
    }
}

/// The names of nodes for a message; the first of many, with the number of the others.
pub(crate) fn some_nodes<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> String {
    NodeSet::of(names).limited(6)
}

impl PlanStage {
    pub fn of(steps: Vec<Step>) -> PlanStage {
        PlanStage { steps, ..PlanStage::default() }
    }

    /// The stage, which then waits for the condition, for at most so many seconds.
    pub fn awaiting(self, target: Target, condition: Condition, at_most: u64) -> PlanStage {
        PlanStage { until: Some(Goal { target, condition, at_most }), ..self }
    }
}

/// The worst effect of a command on the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Grade {
    /// Only reads.
    B0,
    /// Changes objects; nothing runs.
    B1,
    /// Packages run, often again.
    B2,
    /// Services restart, or pods are evicted.
    B3,
    /// Nodes reboot, or the only record of an installation is lost.
    B4,
}

impl Grade {
    pub const ALL: [Grade; 5] = [Grade::B0, Grade::B1, Grade::B2, Grade::B3, Grade::B4];

    /// Parses a grade or its word, ignoring case.
    pub fn named(name: &str) -> Option<Grade> {
        Grade::ALL.into_iter().find(|grade| {
            grade.to_string().eq_ignore_ascii_case(name) || grade.word().eq_ignore_ascii_case(name)
        })
    }

    /// The grade as one word.
    pub fn word(self) -> &'static str {
        match self {
            Grade::B0 => "read",
            Grade::B1 => "objects",
            Grade::B2 => "rerun",
            Grade::B3 => "restart",
            Grade::B4 => "reboot",
        }
    }

    /// The grade of rerunning packages with this interrupt, if any: every interrupt drains the node.
    pub fn of_rerun(interrupt: Option<&str>) -> Grade {
        match interrupt {
            None => Grade::B2,
            Some("reboot") => Grade::B4,
            Some(_) => Grade::B3,
        }
    }

    /// The worst grade of running packages of a custom resource.
    pub fn of_running(skyhook: &Skyhook) -> Grade {
        let grades = skyhook.packages().map(|(name, p)| Grade::of_rerun(skyhook.pending_interrupt(name, p)));
        grades.max().unwrap_or(Grade::B2)
    }

    /// The meaning of the grade in a few words.
    pub fn meaning(self) -> &'static str {
        match self {
            Grade::B0 => "reads only",
            Grade::B1 => "changes objects, runs nothing",
            Grade::B2 => "packages run",
            Grade::B3 => "services restart, pods are evicted",
            Grade::B4 => "nodes reboot, or installation records are lost",
        }
    }
}

impl fmt::Display for Grade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// A permission that the user of a plan needs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Permission {
    pub verb: &'static str,
    pub group: &'static str,
    pub resource: &'static str,
    pub subresource: Option<&'static str>,
    pub namespace: Option<String>,
}

impl Permission {
    /// The command that checks the permission.
    pub fn question(&self) -> String {
        let dot = if self.group.is_empty() { "" } else { "." };
        let mut words = format!("kubectl auth can-i {} {}{dot}{}", self.verb, self.resource, self.group);
        if let Some(subresource) = self.subresource {
            words.push_str(&format!(" --subresource={subresource}"));
        }
        if let Some(namespace) = &self.namespace {
            words.push_str(&format!(" -n {namespace}"));
        }
        words
    }
}

/// Formats the permission: `patch nodes/status`, `delete jobs.batch in namespace skyhook`.
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

/// The format of the file. Increment the version with every change that makes older files unreadable.
pub const FORMAT: &str = "kubectl-skyhook/plan/v3";

/// Why text is not a plan.
#[derive(Debug, Error)]
pub enum SavedError {
    #[error("not a plan file written by --plan-out")]
    Syntax(#[from] serde_json::Error),
    #[error("unsupported plan format {0:?}; this version reads only {FORMAT:?}")]
    Format(String),
    #[error("the plan does not match its digest: the file was edited or truncated")]
    Digest,
    #[error("a stage depends on itself or on a later stage")]
    Order,
}

/// A plan file, as written by `--plan-out`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct SavedPlan {
    /// The version of the file format.
    format: String,
    /// The first 12 bytes of the SHA-256 of all other fields, in hexadecimal.
    digest: String,
    /// The cluster that the plan was made for; absent if the plan was made from files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterIdentity>,
    /// The custom resources whose specs determine the side effects; `apply-plan` refuses the plan if one has
    /// changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub specs: Vec<ResourceState>,
    #[serde(flatten)]
    pub plan: Plan,
}

impl SavedPlan {
    /// The file for a plan; `cluster` is `None` for a plan from files, and `specs` are all custom resources
    /// that were read.
    pub fn of(plan: &Plan, cluster: Option<ClusterIdentity>, specs: Vec<ResourceState>) -> SavedPlan {
        let mut saved = SavedPlan {
            format: FORMAT.to_owned(),
            digest: String::new(),
            cluster,
            specs: ResourceState::of_plan(specs, plan),
            plan: plan.clone(),
        };
        let mut document = serde_json::to_value(&saved).expect("a plan is JSON");
        saved.digest = digest(&mut document);
        saved
    }

    /// The digest, which covers all data that is displayed, confirmed and checked.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The text of the plan file.
    pub fn text(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a plan is JSON");
        text.push('\n');
        text
    }

    /// Reads the text that [`SavedPlan::text`] wrote.
    ///
    /// # Errors
    ///
    /// The text is not a plan, has another format, was edited, or has a stage that depends on a later one.
    pub fn parse(text: &str) -> Result<SavedPlan, SavedError> {
        let mut document: Value = serde_json::from_str(text)?;
        let Header { format, digest: written } = Header::deserialize(&document)?;
        if format != FORMAT {
            return Err(SavedError::Format(format));
        }
        if digest(&mut document) != written {
            return Err(SavedError::Digest);
        }
        document["digest"] = Value::from(written);
        let saved: SavedPlan = serde_json::from_value(document)?;
        if !saved.plan.is_in_order() {
            return Err(SavedError::Order);
        }
        Ok(saved)
    }
}

#[derive(Deserialize)]
struct Header {
    format: String,
    #[serde(default)]
    digest: String,
}

/// Length of the digest in bytes: long enough to avoid collisions, short enough to compare by eye.
const DIGEST_BYTES: usize = 12;

/// The digest of the whole document in its canonical form: without its own digest, members sorted by name.
fn digest(document: &mut Value) -> String {
    if let Some(members) = document.as_object_mut() {
        members.shift_remove("digest");
    }
    document.sort_all_objects();
    let digest = ring::digest::digest(&ring::digest::SHA256, document.to_string().as_bytes());
    let hex = |byte: &u8| format!("{byte:02x}");
    digest.as_ref()[..DIGEST_BYTES].iter().map(hex).collect()
}

/// The identity of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterIdentity {
    /// The address of the API server; one cluster may have several.
    pub server: String,
    /// The uid of the namespace `kube-system`, unique to each cluster; absent if it could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

/// The cluster that a command changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Destination {
    /// The cluster name in the kubeconfig; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// The context in the kubeconfig; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// The address of the API server.
    pub server: String,
}

impl Destination {
    /// Describes the destination: `on cluster prod (context admin@prod, https://10.0.0.1:6443)`.
    pub fn line(&self) -> String {
        let context = self.context.as_ref().map(|c| format!("context {c}"));
        let rest: Vec<String> = context.into_iter().chain([self.server.clone()]).collect();
        match &self.cluster {
            Some(cluster) => format!("on cluster {cluster} ({})", rest.join(", ")),
            None => format!("on {}", rest.join(", ")),
        }
    }
}

/// The result of comparing two identities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sameness {
    Same,
    /// At least one uid is unknown, and the addresses are equal.
    SameAddress,
    /// At least one uid is unknown, and the addresses differ: a cluster may have several addresses.
    OtherAddress,
    Other,
}

impl ClusterIdentity {
    pub fn sameness(&self, other: &ClusterIdentity) -> Sameness {
        match (&self.uid, &other.uid) {
            (Some(a), Some(b)) if a == b => Sameness::Same,
            (Some(_), Some(_)) => Sameness::Other,
            _ if self.server == other.server => Sameness::SameAddress,
            _ => Sameness::OtherAddress,
        }
    }

    /// Whether both count as one cluster without a warning.
    pub fn is_taken_for(&self, other: &ClusterIdentity) -> bool {
        matches!(self.sameness(other), Sameness::Same | Sameness::SameAddress)
    }
}
