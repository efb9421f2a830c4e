//! The content of a journal: lines of JSON, and the plan that undoes them. Pure.

use std::collections::BTreeMap;
use std::path::Path;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use thiserror::Error;

use crate::apply::{StepResult, StopReason};
use crate::args::redacted::redacted;
use crate::plan::{
    Change, ClusterIdentity, Consequences, Kind, Plan, PlanStage, Step, Target, retain_stages, step,
};
use crate::redact;
use crate::text::{plural, time};

/// The format of the lines. Increment the version with every change that makes older files unreadable.
pub const FORMAT: &str = "kubectl-skyhook/journal/v2";

/// A line of a journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Entry {
    /// The first line, on disk before the first request.
    Begun(Box<Begun>),
    /// A rebased step, which replaces the step of the plan.
    Replanned {
        stage: usize,
        step: usize,
        sent: Box<Step>,
    },
    /// The result of a step.
    StepResult {
        stage: usize,
        step: usize,
        result: StepResult,
    },
    Ended(StopReason),
}

/// The first entry of a journal: the command and its plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Begun {
    /// The version of the journal format.
    pub format: String,
    /// The id of the journal, for `undo` and `journal show`.
    pub id: String,
    /// The time at which the command started.
    #[serde(serialize_with = "in_seconds")]
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// The command line.
    pub command: Vec<String>,
    /// The address of the API server.
    pub server: String,
    /// The uid of the namespace kube-system, which identifies the cluster. Absent if unreadable, and in
    /// journals of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_uid: Option<String>,
    /// The journal that this plan reverts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<String>,
    /// Every object with its values before and after.
    pub plan: Plan,
}

/// Serializes a time in seconds, the precision of all documents.
fn in_seconds<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&time(*at))
}

/// The changes of one command, with their results.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The command and its plan.
    pub begun: Begun,
    /// The result of each step, by stage; null if unknown.
    pub results: Vec<Vec<Option<StepResult>>>,
    /// Why the plan ended; absent if the command was interrupted before it recorded its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<StopReason>,
    /// Numbers of the unreadable lines: the disk was full, or the process was killed.
    #[serde(skip)]
    pub torn: Vec<usize>,
}

/// The ids of undone journals, and whether an undo changed anything. Journals must be added newest first.
#[derive(Debug, Default)]
pub struct Undone(BTreeMap<String, bool>);

impl Undone {
    /// Whether a newer journal undid this one.
    pub fn holds(&self, id: &str) -> bool {
        self.0.contains_key(id)
    }

    /// Whether the journal is undone without any change, for example because the operator had restored the
    /// old values.
    pub fn without_change(&self, id: &str) -> bool {
        self.0.get(id) == Some(&false)
    }

    /// Adds a journal. An undo does not count if it is incomplete, was undone itself, or skipped steps and
    /// changed nothing.
    pub fn note(&mut self, record: &Record) {
        if let Some(other) = &record.begun.undoes
            && !self.holds(&record.begun.id)
            && record.has_taken_back()
        {
            let mut results = record.counted().flatten();
            *self.0.entry(other.clone()).or_default() |= results.any(StepResult::changed);
        }
    }
}

/// Why text is not a journal.
#[derive(Debug, Error)]
pub enum RecordError {
    #[error("line {line}")]
    Syntax { line: usize, source: serde_json::Error },
    #[error("the first line is not a journal header")]
    NoBeginning,
    #[error("unsupported journal format {0:?}; this version reads only {FORMAT:?}")]
    Format(String),
}

impl Begun {
    /// The cluster to which the plan was applied.
    pub fn origin(&self) -> ClusterIdentity {
        ClusterIdentity { server: self.server.clone(), uid: self.cluster_uid.clone() }
    }
}

impl Record {
    /// Parses a journal. Unreadable lines after the first are skipped: the object shows whether their step
    /// ran.
    pub fn parse(text: &str) -> Result<Record, RecordError> {
        let mut lines = text.split_inclusive('\n').enumerate();
        let parse = |number: usize, line: &str| {
            serde_json::from_str::<Entry>(line)
                .map_err(|source| RecordError::Syntax { line: number + 1, source })
        };
        let Some((number, first)) = lines.next() else {
            return Err(RecordError::NoBeginning);
        };
        let Entry::Begun(mut begun) = parse(number, first)? else {
            return Err(RecordError::NoBeginning);
        };
        if begun.format != FORMAT {
            return Err(RecordError::Format(begun.format));
        }
        // Older versions recorded the full command line.
        begun.command = redacted(begun.command);
        begun.server = redact::address(&begun.server);
        let mut results: Vec<Vec<Option<StepResult>>> =
            begun.plan.stages.iter().map(|s| vec![None; s.steps.len()]).collect();
        let mut ended = None;
        let mut torn = Vec::new();
        for (number, line) in lines {
            if line.trim().is_empty() {
                continue;
            }
            let Ok(entry) = parse(number, line) else {
                torn.push(number + 1);
                continue;
            };
            match entry {
                Entry::Begun(_) => return Err(RecordError::NoBeginning),
                Entry::Replanned { stage, step, sent } => {
                    let place = begun.plan.stages.get_mut(stage);
                    if let Some(place) = place.and_then(|s| s.steps.get_mut(step)) {
                        *place = *sent;
                    }
                }
                Entry::StepResult { stage, step, result } => {
                    if let Some(place) = results.get_mut(stage).and_then(|s| s.get_mut(step)) {
                        *place = Some(result);
                    }
                }
                Entry::Ended(how) => ended = Some(how),
            }
        }
        Ok(Record { begun: *begun, results, ended, torn })
    }

    /// The step that removed, or may have removed, a finalizer of this custom resource.
    pub fn stripped(&self, kind: Kind, name: &str) -> Option<&Step> {
        let (step, _) = self.steps().find(|(step, result)| {
            let may = result.as_ref().is_none_or(StepResult::may_have_changed);
            let meant = step.target.kind == kind && step.target.name == name;
            may && meant && matches!(step.change, Change::Finalizer { .. })
        })?;
        Some(step)
    }

    /// Describes the unreadable lines of the journal at this path, with a remedy; `None` if there are no such
    /// lines.
    pub fn complaint(&self, path: &Path) -> Option<String> {
        let lines: Vec<String> = self.torn.iter().map(usize::to_string).collect();
        let (lines, are) = match lines.as_slice() {
            [] => return None,
            [one] => (format!("line {one}"), "is"),
            many => (format!("lines {}", many.join(", ")), "are"),
        };
        let id = &self.begun.id;
        Some(format!(
            "journal {id}: {lines} cannot be read and {are} ignored (the disk was full, or the command was killed); `undo` \
             compares the objects instead; deleting {} ends this warning, but the command can then no longer be undone",
            path.display()
        ))
    }

    /// The steps with their results.
    fn steps(&self) -> impl Iterator<Item = (&Step, &Option<StepResult>)> {
        self.begun.plan.steps().zip(self.results.iter().flatten())
    }

    /// The steps with their results, without pauses and resumes.
    fn work(&self) -> impl Iterator<Item = (&Step, &Option<StepResult>)> {
        self.steps().filter(|(step, _)| !step.change.is_hold())
    }

    /// The results of the steps that are counted for the user; `None` for a step with an unknown result.
    pub fn counted(&self) -> impl Iterator<Item = Option<&StepResult>> {
        let plan = &self.begun.plan;
        let counts = move |(step, result): &(&Step, &Option<StepResult>)| match result {
            Some(result) => result.counts(plan, step),
            None => plan.is_work(step),
        };
        self.steps().filter(counts).map(|(_, result)| result.as_ref())
    }

    /// Whether the plan finished, and every step is settled or skipped. If the plan changed nothing, no step
    /// may be skipped.
    fn has_taken_back(&self) -> bool {
        let settled = |result: &Option<StepResult>| {
            result.as_ref().is_some_and(|f| f.is_settled() || matches!(f, StepResult::Skipped { .. }))
        };
        let skipped = |result: &Option<StepResult>| matches!(result, Some(StepResult::Skipped { .. }));
        let applied = self.work().any(|(_, result)| result.as_ref().is_some_and(StepResult::changed));
        self.ended == Some(StopReason::Finished)
            && self.results.iter().flatten().all(settled)
            && (applied || !self.work().any(|(_, result)| skipped(result)))
    }

    /// The plan that restores the objects, and the targets that cannot be restored.
    ///
    /// Failed steps and steps of unknown result are included: the undo tests whether the object has their values.
    /// An unconfirmed recreation is excluded, because the new object may be someone else's. Steps that were not reached are excluded: if an object
    /// has their values, someone else changed it.
    pub fn undo(&self) -> (Plan, Vec<String>) {
        let mut done = self.begun.plan.clone();
        let taken = |result: Option<&StepResult>| result.is_none_or(StepResult::may_have_changed);
        let worked = self.work().any(|(_, result)| taken(result.as_ref()));
        let mut stages = self.results.iter();
        let mut made = Vec::new();
        for stage in &mut done.stages {
            let mut results = stages.next().into_iter().flatten();
            stage.steps.retain(|step| {
                let result = results.next().and_then(Option::as_ref);
                // After a create with an unknown result, the object may be someone else's.
                if matches!(step.change, Change::Create(_)) && result != Some(&StepResult::Applied) {
                    made.push(step.clone());
                }
                // Keep the pause if there is a change to revert.
                if step.change.is_hold() { worked } else { taken(result) }
            });
        }
        for maybe in made {
            if done.recreates(&maybe) {
                let same = |step: &Step| *step == maybe;
                done.stages.iter_mut().for_each(|stage| stage.steps.retain(|step| !same(step)));
            }
        }
        let (mut stages, lost) = done.inverse();
        let left_out = step::leave_out_progress(&done, &mut stages);
        retain_stages(&mut stages, |stage| !stage.steps.is_empty());
        // Without changes to revert, only end pauses that may still be set.
        let works = |stage: &PlanStage| stage.steps.iter().any(|step| !step.change.is_hold());
        if !stages.iter().any(works) {
            stages = self.standing_holds();
        }
        let lost: Vec<String> = lost.iter().map(|step| step.target.to_string()).collect();
        let mut plan = Plan {
            title: String::new(),
            subject: self.begun.plan.subject.clone(),
            stages,
            consequences: Consequences {
                warnings: left_out.into_iter().collect(),
                ..Consequences::default()
            },
            ..Plan::default()
        };
        self.set_title(&mut plan);
        (plan, lost)
    }

    /// Sets the title of an undo of this journal.
    pub fn set_title(&self, plan: &mut Plan) {
        let work = || plan.steps().filter(|step| plan.is_work(step));
        let what = match work().count() {
            0 => "nothing left to revert".to_owned(),
            // Steps that end the pauses of an earlier command count as work.
            1 if work().all(|step| step.change.is_hold()) => "only its pause remains".to_owned(),
            pauses if work().all(|step| step.change.is_hold()) => {
                format!("only its {pauses} pauses remain")
            }
            changes => plural(changes, "change"),
        };
        plan.title = format!("{} ({what})", self.undo_title());
    }

    /// The title of an undo of this journal, without the number of changes: `undo "reset gpu"`. An undo of
    /// that undo is `undo of undo "reset gpu"`.
    fn undo_title(&self) -> String {
        let title = &self.begun.plan.title;
        if self.begun.undoes.is_none() {
            return format!("undo {title:?}");
        }
        let uncounted = title.rsplit_once(" (").map_or(&**title, |(what, _)| what);
        format!("undo of {uncounted}")
    }

    /// The resume steps of pauses that may still be set.
    pub fn standing_holds(&self) -> Vec<PlanStage> {
        let ended = |target: &Target| {
            self.steps().any(|(step, result)| {
                matches!(step.change, Change::Release(_))
                    && step.target.same_object_name(target)
                    && result.as_ref().is_some_and(StepResult::is_settled)
            })
        };
        let standing = self.steps().filter(|(step, result)| {
            step.change.holds()
                && result.as_ref().is_none_or(StepResult::may_have_changed)
                && !ended(&step.target)
        });
        let ends = standing.filter_map(|(step, _)| {
            let end = step.change.end()?;
            let step = Step::new(step.target.clone(), end, "restores the previous state");
            Some(PlanStage { always: true, ..PlanStage::of(vec![step.may_be_gone()]) })
        });
        ends.collect()
    }
}
