//! What a journal says: lines of JSON, and the plan that takes all of it back. Pure.

use std::collections::BTreeSet;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::apply::{Ended, Fate};
use crate::plan::{Consequences, Plan, Step};

/// The format of the lines. A later one that readers of this one cannot take gets another number.
pub const FORMAT: &str = "kubectl-skyhook/journal/v1";

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Entry {
    /// The first line, on disk before anything is sent.
    Begun(Box<Begun>),
    /// A step is sent in another form than the plan has it.
    Replanned {
        stage: usize,
        step: usize,
        sent: Box<Step>,
    },
    /// What became of a step.
    Fate {
        stage: usize,
        step: usize,
        fate: Fate,
    },
    Ended(Ended),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Begun {
    pub format: String,
    pub id: String,
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// The command line.
    pub command: Vec<String>,
    /// The address of the API server.
    pub server: String,
    /// The journal that this plan takes back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<String>,
    /// Every object with its values before and after.
    pub plan: Plan,
}

/// A journal that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    pub begun: Begun,
    /// The fate of each step as far as it is known.
    pub fates: Vec<Vec<Option<Fate>>>,
    /// `None` if it was cut short.
    pub ended: Option<Ended>,
}

/// What is taken back, of journals that are looked at newest first.
#[derive(Debug, Default)]
pub struct Undone(BTreeSet<String>);

impl Undone {
    /// Whether a newer journal took this one back.
    pub fn holds(&self, id: &str) -> bool {
        self.0.contains(id)
    }

    /// Takes notice of a journal. An undo that did not get to its end, or was itself taken back, takes nothing back.
    pub fn note(&mut self, record: &Record) {
        if let Some(other) = &record.begun.undoes
            && !self.holds(&record.begun.id)
            && record.is_whole()
        {
            self.0.insert(other.clone());
        }
    }
}

/// Why text is not a journal.
#[derive(Debug, Error)]
pub enum RecordError {
    #[error("line {line}: {source}")]
    Syntax {
        line: usize,
        source: serde_json::Error,
    },
    #[error("it does not begin as a journal does")]
    NoBeginning,
    #[error("it is of format {0:?}, which this version does not know; it reads {FORMAT:?}")]
    Format(String),
}

impl Record {
    /// Reads a journal. A last line that was cut short is left out: the process was killed there.
    pub fn parse(text: &str) -> Result<Record, RecordError> {
        let mut lines = text.split_inclusive('\n').enumerate();
        let parse = |number: usize, line: &str| {
            serde_json::from_str::<Entry>(line).map_err(|source| RecordError::Syntax {
                line: number + 1,
                source,
            })
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
        let mut fates: Vec<Vec<Option<Fate>>> = begun
            .plan
            .stages
            .iter()
            .map(|s| vec![None; s.steps.len()])
            .collect();
        let mut ended = None;
        for (number, line) in lines {
            let entry = match parse(number, line) {
                Err(_) if !line.ends_with('\n') => break,
                entry => entry?,
            };
            match entry {
                Entry::Begun(_) => return Err(RecordError::NoBeginning),
                Entry::Replanned { stage, step, sent } => {
                    let place = begun.plan.stages.get_mut(stage);
                    if let Some(place) = place.and_then(|s| s.steps.get_mut(step)) {
                        *place = *sent;
                    }
                }
                Entry::Fate { stage, step, fate } => {
                    if let Some(place) = fates.get_mut(stage).and_then(|s| s.get_mut(step)) {
                        *place = Some(fate);
                    }
                }
                Entry::Ended(how) => ended = Some(how),
            }
        }
        Ok(Record {
            begun: *begun,
            fates,
            ended,
        })
    }

    /// Whether every step was taken, or found to be needless or out of place.
    fn is_whole(&self) -> bool {
        let settled = |fate: &Option<Fate>| {
            use Fate::{Applied, Gone, Skipped, Unchanged};
            matches!(fate, Some(Applied | Unchanged | Gone | Skipped { .. }))
        };
        self.ended == Some(Ended::Finished) && self.fates.iter().flatten().all(settled)
    }

    /// The plan that gives the objects back as they were, and the targets it cannot give back.
    ///
    /// Steps of unknown fate are in it: whether they were taken shows on the object itself, which
    /// is left alone where it is as it was before.
    pub fn undo(&self) -> (Plan, Vec<String>) {
        let mut done = self.begun.plan.clone();
        for (stage, fates) in done.stages.iter_mut().zip(&self.fates) {
            let mut fates = fates.iter();
            stage.steps.retain(|_| {
                let fate = fates.next().and_then(Option::as_ref);
                matches!(fate, None | Some(Fate::Applied | Fate::Failed { .. }))
            });
        }
        let (stages, lost) = done.inverse();
        let lost: Vec<String> = lost.iter().map(|step| step.target.to_string()).collect();
        let changes = match stages.iter().map(|s| s.steps.len()).sum() {
            1 => "1 change".to_owned(),
            more => format!("{more} changes"),
        };
        let plan = Plan {
            title: format!("undo {:?} ({changes})", self.begun.plan.title),
            subject: self.begun.id.clone(),
            stages,
            consequences: Consequences {
                grade: self.begun.plan.consequences.grade,
                ..Consequences::default()
            },
            erroring: None,
        };
        (plan, lost)
    }
}
