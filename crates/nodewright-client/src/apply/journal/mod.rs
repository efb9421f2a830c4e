//! The journal: each step is on disk before its request, so that it can be undone after a crash.

pub mod record;
mod store;

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use jiff::Timestamp;

use super::{ApplyEvent, PlanOutcome, StepResult};
use crate::plan::{ClusterIdentity, Plan};
use record::{Begun, Entry, FORMAT};
pub use record::{Record, Undone};
pub use store::{InForce, Store};

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
        let hint =
            "set XDG_STATE_HOME to a writable directory, or pass --no-journal to continue without undo";
        let directory = &store.directory;
        let cannot = || {
            let name = directory.display();
            format!("cannot write the journal to {name}; {hint}")
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
                let _ = std::fs::remove_file(&journal.path);
                anyhow::bail!("cannot write the journal {}: {reason}; {hint}", journal.path.display())
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
