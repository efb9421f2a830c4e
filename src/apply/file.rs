//! Plans in files.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use anyhow::Context;

use crate::bounded::{self, MOST_PLAN};
use crate::plan::SavedPlan;
use crate::reason::plain_reason;

/// Writes a plan to a file, for this user's eyes alone: objects hold whatever was put into them.
///
/// # Errors
///
/// The file cannot be written; or the plan could not be read back, as a value is nested as deeply as JSON is read.
pub fn write(plan: &SavedPlan, path: &Path) -> anyhow::Result<()> {
    let text = plan.text();
    SavedPlan::parse(&text).context("cannot save the plan, because it could not be read back")?;
    let written = private(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.with_context(|| format!("cannot write {}", path.display()))
}

fn private(path: &Path) -> std::io::Result<std::fs::File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    // One that was there keeps its mode otherwise.
    #[cfg(unix)]
    if file.metadata()?.is_file() {
        use std::os::unix::fs::PermissionsExt;
        file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

/// Reads a plan from a file.
pub fn read(path: &Path) -> anyhow::Result<SavedPlan> {
    let name = path.display();
    let bytes = bounded::open(path).and_then(|file| bounded::read(file, MOST_PLAN));
    let bytes = bytes.map_err(|e| anyhow::anyhow!("cannot read {name}: {}", plain_reason(&e)))?;
    let text =
        String::from_utf8(bytes).with_context(|| format!("{name} is not a UTF-8 text file"))?;
    SavedPlan::parse(&text).with_context(|| name.to_string())
}
