//! The directory of the journals.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::record::{Begun, Record, RecordError, Undone};
use crate::apply::trust;

/// The directory that contains the journals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    pub directory: PathBuf,
}

const SUFFIX: &str = "jsonl";

impl Store {
    /// `$XDG_STATE_HOME/kubectl-skyhook/journal`. The fallbacks of the state directory are
    /// `$HOME/.local/state` and `$LOCALAPPDATA`.
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> anyhow::Result<Store> {
        let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|p| p.is_absolute());
        let state = absolute("XDG_STATE_HOME")
            .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
            .or_else(|| absolute("LOCALAPPDATA"))
            .context("no directory for the journal: neither XDG_STATE_HOME nor HOME is set")?;
        Ok(Store { directory: state.join("kubectl-skyhook").join("journal") })
    }

    pub fn path(&self, id: &str) -> PathBuf {
        self.directory.join(format!("{id}.{SUFFIX}"))
    }

    /// The ids of the journals, newest first. Only regular files count: reading a pipe would block forever.
    pub fn ids(&self) -> anyhow::Result<Vec<String>> {
        let entries = match std::fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error).context(self.directory.display().to_string()),
        };
        let mut ids = Vec::new();
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_some_and(|e| e == SUFFIX)
                && let Some(stem) = path.file_stem()
                && std::fs::metadata(&path).is_ok_and(|m| m.is_file())
            {
                ids.push(stem.to_string_lossy().into_owned());
            }
        }
        ids.sort_unstable_by(|a, b| b.cmp(a));
        Ok(ids)
    }

    /// Rejects a directory in which other users could create a journal.
    pub fn trusted(&self) -> anyhow::Result<()> {
        match std::fs::metadata(&self.directory) {
            Ok(metadata) => trust::check(&self.directory, &metadata),
            Err(_) => Ok(()),
        }
    }

    /// Reads a journal by its id, or by an unambiguous prefix of the id.
    pub fn read(&self, id: &str) -> anyhow::Result<Record> {
        let ids = self.ids()?;
        let fitting: Vec<&String> = match ids.iter().find(|i| *i == id) {
            Some(exact) => vec![exact],
            None => ids.iter().filter(|i| i.starts_with(id)).collect(),
        };
        match fitting.as_slice() {
            [one] => self.parse(&self.path(one)).map_err(|error| match advice(&error) {
                "" => error,
                advice => anyhow::anyhow!("{error:#}{advice}"),
            }),
            [] => anyhow::bail!(
                "no journal {id:?} in {}; see: kubectl skyhook journal list",
                self.directory.display()
            ),
            many => anyhow::bail!("{id:?} matches {} journals; use a longer id", many.len()),
        }
    }

    fn parse(&self, path: &Path) -> anyhow::Result<Record> {
        let name = || path.display().to_string();
        let kind = std::fs::metadata(path).with_context(name)?;
        if !kind.is_file() {
            anyhow::bail!("{} is not a file", path.display());
        }
        let mut file = File::open(path).with_context(name)?;
        trust::check(path, &file.metadata().with_context(name)?)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).with_context(name)?;
        let text = String::from_utf8_lossy(&text);
        Record::parse(&text).with_context(|| format!("{} is not a journal", path.display()))
    }

    /// All readable journals, newest first, and the defects of all journals as messages.
    pub fn all(&self) -> anyhow::Result<(Vec<Record>, Vec<String>)> {
        let (mut records, mut complaints) = (Vec::new(), Vec::new());
        for id in self.ids()? {
            match self.parse(&self.path(&id)) {
                Ok(record) => {
                    complaints.extend(self.complaint(&record));
                    records.push(record);
                }
                Err(error) => {
                    complaints.push(format!("{error:#}; this journal is ignored{}", advice(&error)))
                }
            }
        }
        Ok((records, complaints))
    }

    /// A defect of a readable journal, with a remedy.
    pub fn complaint(&self, record: &Record) -> Option<String> {
        record.complaint(&self.path(&record.begun.id))
    }

    /// The newest undo of a journal, whether or not it reverted everything.
    ///
    /// # Errors
    ///
    /// The directory cannot be read.
    pub fn newest_undo_of(&self, id: &str) -> anyhow::Result<Option<Record>> {
        let (records, _) = self.all()?;
        let of = |record: &Record| record.begun.undoes.as_deref() == Some(id);
        Ok(records.into_iter().find(of))
    }

    /// The newest journal that is not undone, is not an undo itself, and has at least one revertible change.
    ///
    /// # Errors
    ///
    /// There is no such journal, a newer one cannot be read, or the directory cannot be read.
    pub fn newest_in_force(&self) -> anyhow::Result<InForce> {
        let (records, complaints) = self.all()?;
        // Ids begin with the date; other files are not journals.
        let dated = |id: &str| id.get(..8).is_some_and(|date| date.bytes().all(|b| b.is_ascii_digit()));
        let unread = |id: &String| dated(id) && records.iter().all(|record| record.begun.id != *id);
        let unread = self.ids()?.into_iter().find(unread);
        let mut undone = Undone::default();
        let mut in_force = Vec::new();
        let mut passed_over = Vec::new();
        for record in records {
            undone.note(&record);
            if record.begun.undoes.is_some() {
                in_force.push(record);
            } else if !undone.holds(&record.begun.id) {
                let (plan, lost) = record.undo();
                if plan.is_empty() {
                    passed_over.extend((!lost.is_empty()).then_some(record.begun));
                } else if let Some(unread) = unread.filter(|unread| *unread > record.begun.id) {
                    let why = self.read(&unread).err().map_or_else(String::new, |error| format!("{error:#}"));
                    anyhow::bail!(
                        "nothing was undone, because the journal of the newest command cannot be read: {why}; to undo an \
                         older command, pass its id; to list the ids: kubectl skyhook journal list"
                    )
                } else {
                    let tried = in_force.iter().find(|undo: &&Record| {
                        undo.begun.undoes.as_ref() == Some(&record.begun.id) && !undone.holds(&undo.begun.id)
                    });
                    return Ok(InForce {
                        tried: tried.map(|undo| undo.begun.clone()),
                        record,
                        passed_over,
                        complaints,
                    });
                }
            }
        }
        let directory = self.directory.display();
        let unreadable =
            if complaints.is_empty() { String::new() } else { format!("; {}", complaints.join("; ")) };
        if self.ids()?.is_empty() {
            anyhow::bail!("nothing to undo: no journal in {directory}")
        } else {
            anyhow::bail!(
                "nothing to undo: every command recorded in {directory} was already undone, cannot be undone, or changed nothing{unreadable}; see: kubectl skyhook journal list"
            )
        }
    }
}

/// The remedy for an unreadable journal, unless the error contains one.
fn advice(error: &anyhow::Error) -> &'static str {
    match error.downcast_ref() {
        Some(RecordError::Syntax { .. } | RecordError::NoBeginning) => {
            ": delete the file if you do not need it"
        }
        Some(RecordError::Format(_)) => ": to undo it, use the version that wrote it",
        None => "",
    }
}

/// The journal that `undo` without a name reverts.
#[derive(Debug)]
pub struct InForce {
    pub record: Record,
    /// The newest undo of the journal, which did not revert it completely.
    pub tried: Option<Begun>,
    /// Newer commands that changed objects, but not revertibly, such as deletions of pods and Jobs.
    pub passed_over: Vec<Begun>,
    pub complaints: Vec<String>,
}
