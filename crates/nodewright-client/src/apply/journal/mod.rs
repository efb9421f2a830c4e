//! The journal: each step is on disk before its request, so that it can be undone after a crash.

pub mod record;

use std::fs;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use jiff::Timestamp;
use record::{Begun, Entry, FORMAT, RecordError};

use super::{ApplyEvent, PlanOutcome, StepResult, file};
use crate::plan::{ClusterIdentity, Plan};

pub use record::{Record, Undone};

/// A journal that is being written.
#[derive(Debug)]
pub struct Journal {
    pub id: String,
    pub path: PathBuf,
    file: File,
    /// The error of the first write that failed.
    trouble: Option<String>,
    /// Whether the last write may have left a partial line behind.
    torn: bool,
}

/// What to do without a directory for the journal.
const ADVICE: &str =
    "set XDG_STATE_HOME to a writable directory, or pass --no-journal to continue without undo";

/// Metadata of a journal beside the plan.
#[derive(Debug, Clone, Default)]
pub struct Circumstances {
    pub at: Timestamp,
    pub command: Vec<String>,
    /// The cluster that the plan is for.
    pub origin: ClusterIdentity,
    /// The journal that the plan reverts.
    pub undoes: Option<String>,
}

impl Journal {
    /// Creates a journal file that only this user can read, and writes the plan. Returns once the file is on
    /// disk.
    pub fn begin(store: &Store, plan: &Plan, circumstances: Circumstances) -> anyhow::Result<Journal> {
        let directory = &store.directory;
        let cannot = || {
            let name = directory.display();
            format!("cannot write the journal to {name}; {ADVICE}")
        };
        make_directory(directory).with_context(cannot)?;
        store.trusted()?;
        let (id, path, file) = create(store, plan, circumstances.at).with_context(cannot)?;
        let mut journal = Journal { id: id.clone(), path, file, trouble: None, torn: false };
        let begun = Begun {
            format: FORMAT.to_owned(),
            id,
            at: circumstances.at,
            command: circumstances.command,
            server: circumstances.origin.server,
            cluster_uid: circumstances.origin.uid,
            undoes: circumstances.undoes,
            plan: plan.clone(),
        };
        journal.write(&Entry::Begun(Box::new(begun)), true);
        // Sync the directory as well, so that the file name is on disk.
        if let Ok(directory) = File::open(directory) {
            let _ = directory.sync_all();
        }
        match journal.trouble.take() {
            Some(reason) => {
                // Nothing was changed: remove the incomplete journal.
                let _ = fs::remove_file(&journal.path);
                anyhow::bail!("cannot write the journal {}: {reason}; {ADVICE}", journal.path.display())
            }
            None => Ok(journal),
        }
    }

    /// Writes an apply event to the journal: replanned steps, step results, the outcome.
    pub fn on_event(&mut self, event: &ApplyEvent<'_>) {
        match event {
            ApplyEvent::Replanned { place: (stage, step), step: sent } => self.write(
                &Entry::Replanned { stage: *stage, step: *step, sent: Box::new((*sent).clone()) },
                true,
            ),
            ApplyEvent::Step { place: (stage, step), result, .. } => self
                .write(&Entry::StepResult { stage: *stage, step: *step, result: (*result).clone() }, false),
            ApplyEvent::Done { outcome } => {
                self.note_what_was_not_reached(outcome);
                self.write(&Entry::Ended(outcome.ended.clone()), true);
            }
            _ => {}
        }
    }

    /// Records unreached steps, which have no event of their own, to distinguish them from steps of unknown
    /// result.
    fn note_what_was_not_reached(&mut self, outcome: &PlanOutcome) {
        for (stage, results) in outcome.results.iter().enumerate() {
            for (step, result) in results.iter().enumerate() {
                if *result == StepResult::NotReached {
                    let result = StepResult::NotReached;
                    self.write(&Entry::StepResult { stage, step, result }, false);
                }
            }
        }
    }

    /// Why the journal may be incomplete.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    fn write(&mut self, entry: &Entry, sync: bool) {
        let mut line = serde_json::to_vec(entry).expect("an entry is JSON");
        line.push(b'\n');
        if self.torn {
            line.insert(0, b'\n');
        }
        let written = self.file.write_all(&line);
        self.torn = written.is_err();
        let written = written.and_then(|()| if sync { self.file.sync_data() } else { Ok(()) });
        if let Err(error) = written {
            self.trouble.get_or_insert(error.to_string());
        }
    }
}

fn make_directory(directory: &Path) -> std::io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

/// Creates a file named by time and command. The time includes milliseconds because ids are sorted as text:
/// within one second, the commands of a script would be sorted by verb, and `undo` would revert the wrong
/// one.
fn create(store: &Store, plan: &Plan, at: Timestamp) -> std::io::Result<(String, PathBuf, File)> {
    let time = at.strftime("%Y%m%d-%H%M%S.%3f");
    let verb = plan.title.split_whitespace().next().unwrap_or("plan");
    let subject: String =
        plan.subject.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.')).collect();
    let stem = match subject.as_str() {
        "" => format!("{time}-{verb}"),
        subject if subject == verb => format!("{time}-{verb}"),
        subject => format!("{time}-{verb}-{subject}"),
    };
    for nth in 1.. {
        let id = if nth == 1 { stem.clone() } else { format!("{stem}-{nth}") };
        let path = store.path(&id);
        let mut options = OpenOptions::new();
        options.create_new(true).append(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        match options.open(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            file => return file.map(|file| (id, path, file)),
        }
    }
    unreachable!("some number is unused")
}

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
            .with_context(|| {
                format!("no directory for the journal: neither XDG_STATE_HOME nor HOME is set; {ADVICE}")
            })?;
        Ok(Store { directory: state.join("kubectl-skyhook").join("journal") })
    }

    pub fn path(&self, id: &str) -> PathBuf {
        self.directory.join(format!("{id}.{SUFFIX}"))
    }

    /// The ids of the journals, newest first. Only regular files count: reading a pipe would block forever.
    pub fn ids(&self) -> anyhow::Result<Vec<String>> {
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error).context(self.directory.display().to_string()),
        };
        let mut ids = Vec::new();
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_some_and(|e| e == SUFFIX)
                && let Some(stem) = path.file_stem()
                && fs::metadata(&path).is_ok_and(|m| m.is_file())
            {
                ids.push(stem.to_string_lossy().into_owned());
            }
        }
        ids.sort_unstable_by(|a, b| b.cmp(a));
        Ok(ids)
    }

    /// Rejects a directory in which other users could create a journal.
    pub fn trusted(&self) -> anyhow::Result<()> {
        match fs::metadata(&self.directory) {
            Ok(metadata) => file::check(&self.directory, &metadata),
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
        let kind = fs::metadata(path).with_context(name)?;
        if !kind.is_file() {
            anyhow::bail!("{} is not a file", path.display());
        }
        let mut file = File::open(path).with_context(name)?;
        file::check(path, &file.metadata().with_context(name)?)?;
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

    /// The journal that undid this one, and was not undone itself; `None` if it is in force.
    ///
    /// # Errors
    ///
    /// The directory cannot be read.
    pub fn undone_by(&self, id: &str) -> anyhow::Result<Option<Record>> {
        let (records, _) = self.all()?;
        let mut undone = Undone::default();
        records.iter().for_each(|record| undone.note(record));
        Ok(self.newest_undo_of(id)?.filter(|_| undone.holds(id)))
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
            anyhow::bail!(
                "nothing to undo: no journal in {directory}; only changes by this plugin are recorded"
            )
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::StopReason;

    /// A write to a full disk leaves a partial line behind.
    #[test]
    fn an_entry_after_a_torn_line_starts_a_new_line() {
        let directory = tempfile::tempdir().expect("a directory");
        let store = Store { directory: directory.path().join("journal") };
        let mut journal =
            Journal::begin(&store, &Plan::default(), Circumstances::default()).expect("a journal");
        let disk = std::mem::replace(
            &mut journal.file,
            OpenOptions::new().write(true).open("/dev/full").expect("a full disk"),
        );
        journal.write(&Entry::Ended(StopReason::Interrupted), true);
        assert!(journal.trouble().is_some_and(|reason| reason.contains("No space left")));
        journal.file = disk;
        journal.file.write_all(br#"{"ended":{"end"#).expect("the journal file is writable");
        journal.write(&Entry::Ended(StopReason::Finished), true);
        let record = store.read(&journal.id).expect("a journal");
        assert_eq!((record.ended, record.torn), (Some(StopReason::Finished), vec![2]));
        assert!(journal.trouble().is_some(), "lost entries stay lost");
    }
}
