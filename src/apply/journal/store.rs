//! Where journals are kept.

use std::path::{Path, PathBuf};

use anyhow::Context;

use super::record::{Record, Undone};

/// The folder that journals are in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    pub folder: PathBuf,
}

const SUFFIX: &str = "jsonl";

impl Store {
    /// `$XDG_STATE_HOME/kubectl-skyhook/journal`, with the fallback that the XDG rules name.
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> anyhow::Result<Store> {
        let absolute = |name: &str| {
            variable(name)
                .map(PathBuf::from)
                .filter(|p| p.is_absolute())
        };
        let state = absolute("XDG_STATE_HOME")
            .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
            .or_else(|| absolute("LOCALAPPDATA"))
            .context("no place for the journal: neither XDG_STATE_HOME nor HOME is set")?;
        Ok(Store {
            folder: state.join("kubectl-skyhook").join("journal"),
        })
    }

    pub fn path(&self, id: &str) -> PathBuf {
        self.folder.join(format!("{id}.{SUFFIX}"))
    }

    /// The journals, newest first.
    pub fn ids(&self) -> anyhow::Result<Vec<String>> {
        let entries = match std::fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error).context(self.folder.display().to_string()),
        };
        let mut ids = Vec::new();
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_some_and(|e| e == SUFFIX)
                && let Some(stem) = path.file_stem()
            {
                ids.push(stem.to_string_lossy().into_owned());
            }
        }
        ids.sort_unstable_by(|a, b| b.cmp(a));
        Ok(ids)
    }

    /// Reads a journal by its id, or by the beginning of it where that is unambiguous.
    pub fn read(&self, id: &str) -> anyhow::Result<Record> {
        let ids = self.ids()?;
        let fitting: Vec<&String> = match ids.iter().find(|i| *i == id) {
            Some(exact) => vec![exact],
            None => ids.iter().filter(|i| i.starts_with(id)).collect(),
        };
        match fitting.as_slice() {
            [one] => self.parse(&self.path(one)),
            [] => anyhow::bail!(
                "no journal {id:?} in {}; see: kubectl skyhook journal list",
                self.folder.display()
            ),
            many => anyhow::bail!(
                "{id:?} is the beginning of {} journals; type more of it",
                many.len()
            ),
        }
    }

    fn parse(&self, path: &Path) -> anyhow::Result<Record> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        Record::parse(&text).with_context(|| format!("{} is not a journal", path.display()))
    }

    /// The newest journal of a command that is still in force: not taken back, no undo itself, and one that has
    /// changed something.
    ///
    /// # Errors
    ///
    /// There is none, or one of those newer than it cannot be read.
    pub fn newest_in_force(&self) -> anyhow::Result<Record> {
        let mut undone = Undone::default();
        let ids = self.ids()?;
        for id in &ids {
            if undone.holds(id) {
                continue;
            }
            let record = self.parse(&self.path(id))?;
            undone.note(&record);
            if record.begun.undoes.is_none() {
                let (plan, lost) = record.undo();
                if !plan.is_empty() || !lost.is_empty() {
                    return Ok(record);
                }
            }
        }
        let folder = self.folder.display();
        match ids.is_empty() {
            true => anyhow::bail!("nothing to undo: no journal in {folder}"),
            false => anyhow::bail!(
                "nothing to undo: all that the journals in {folder} tell of is taken back, or has changed nothing; \
                 see: kubectl skyhook journal list"
            ),
        }
    }
}
