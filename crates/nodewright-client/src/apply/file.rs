//! Writing and reading of plan files.

use std::fs::OpenOptions;
use std::io::{Error, Write};
use std::path::Path;

use anyhow::Context;

use super::trust;
pub use super::trust::{Untrusted, check_writers};
use crate::bounded::{self, MOST_PLAN};
use crate::error::plain_reason;
use crate::plan::SavedPlan;

/// Writes a plan to a file with mode 0600: objects may contain secrets.
///
/// # Errors
///
/// The file cannot be written, is a symbolic link, which may lead to a file of the user, or a value is nested too deeply
/// for the JSON reader.
pub fn write(plan: &SavedPlan, path: &Path) -> anyhow::Result<()> {
    let text = plan.text();
    SavedPlan::parse(&text).context("cannot save the plan, because it could not be read back")?;
    // Links in /dev, such as /dev/stdout, belong to the system.
    let link = std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
    if link && !path.starts_with("/dev") {
        anyhow::bail!("{} is a symbolic link; specify the file itself", path.display());
    }
    let written = private(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.with_context(|| format!("cannot write {}", path.display()))
}

fn private(path: &Path) -> std::io::Result<std::fs::File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    // Set the mode again: a file that already existed keeps its mode when opened.
    #[cfg(unix)]
    if file.metadata()?.is_file() {
        use std::os::unix::fs::PermissionsExt;
        file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

/// Writes a file whole or not at all: `fill` writes to a temporary file beside it, which then takes its place. With
/// `public`, all users can read the file, otherwise only its owner. Returns what `fill` returns.
///
/// # Errors
///
/// Writing fails, or the file exists and `overwrite` is not set. No partial file remains.
pub fn place(
    path: &Path,
    overwrite: bool,
    public: bool,
    fill: impl FnOnce(&mut dyn Write) -> std::io::Result<u64>,
) -> std::io::Result<u64> {
    let draft = tempfile::Builder::new().prefix(".skyhook-").tempfile_in(directory(path))?;
    let mut out = std::io::BufWriter::new(draft.as_file());
    let size = fill(&mut out)?;
    out.flush()?;
    drop(out);
    #[cfg(unix)]
    if public {
        draft.as_file().set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
    }
    draft.as_file().sync_all()?;
    let placed = if overwrite { draft.persist(path) } else { draft.persist_noclobber(path) };
    placed.map_err(|error| error.error)?;
    Ok(size)
}

/// The directory of a file.
pub fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(directory) if directory != Path::new("") => directory,
        _ => Path::new("."),
    }
}

/// Reads a plan from a file or a pipe.
///
/// # Errors
///
/// The file is not a plan, or other users could have written to it. With `compared`, write access of other
/// users is not checked: the caller compares the digest.
pub fn read(path: &Path, compared: bool) -> anyhow::Result<SavedPlan> {
    let name = path.display();
    let cannot = |e: Error| anyhow::anyhow!("cannot read {name}: {}", plain_reason(&e));
    let file = bounded::open(path).map_err(cannot)?;
    let metadata = file.get_ref().1.metadata().map_err(cannot)?;
    if metadata.is_file() && !compared {
        trust::check(path, &metadata)?;
    }
    let bytes = bounded::read(file, MOST_PLAN).map_err(cannot)?;
    let text = String::from_utf8(bytes).with_context(|| format!("{name} is not a UTF-8 text file"))?;
    SavedPlan::parse(&text).with_context(|| name.to_string())
}
