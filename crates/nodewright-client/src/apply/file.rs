//! (edge) Writing and reading of plan files, and whether other users can write to a file, checked as ssh and sudo check
//! their files.

use std::fs;
use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{BufWriter, Error, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;

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
    let link = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
    if link && !path.starts_with("/dev") {
        anyhow::bail!("{} is a symbolic link; specify the file itself", path.display());
    }
    if holds_something_else(path) {
        anyhow::bail!("{} exists and is not a plan; nothing was written", path.display());
    }
    let written = private(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// Whether the path is a file with other content than a plan, or with content that cannot be read.
fn holds_something_else(path: &Path) -> bool {
    let is_file = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.len() > 0);
    is_file && !std::fs::read_to_string(path).is_ok_and(|text| SavedPlan::parse(&text).is_ok())
}

fn private(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    // Set the mode again: a file that already existed keeps its mode when opened.
    #[cfg(unix)]
    if file.metadata()?.is_file() {
        use std::os::unix::fs::PermissionsExt;
        file.set_permissions(Permissions::from_mode(0o600))?;
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
    let mut out = BufWriter::new(draft.as_file());
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
    let metadata = file.metadata().map_err(cannot)?;
    if metadata.is_file() && !compared {
        check(path, &metadata)?;
    }
    let bytes = bounded::read(file, MOST_PLAN).map_err(cannot)?;
    let text = String::from_utf8(bytes).with_context(|| format!("{name} is not a UTF-8 text file"))?;
    SavedPlan::parse(&text).with_context(|| name.to_string())
}

/// Why a file is not trusted.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Untrusted {
    #[error(
        "{0} belongs to user {owner}, not to you (user {you}), so its content cannot be trusted",
        path.display()
    )]
    Owner { path: PathBuf, owner: u32, you: u32 },
    #[error(
        "other users can write to {0} (mode {mode:04o}), so its content cannot be trusted; if it is yours, run: chmod go-w \
         {0}",
        path.display()
    )]
    Writable { path: PathBuf, mode: u32 },
}

/// Checks a file or directory, and all directories above it: a user who can write to one of them can replace
/// the file.
///
/// # Errors
///
/// A user other than root and this user owns, or can write to, the file or one of the directories.
/// Directories with the sticky bit, such as `/tmp`, may be world-writable: only the owner of a file can
/// replace it there.
pub fn check(path: &Path, metadata: &Metadata) -> anyhow::Result<()> {
    walk(path, metadata, true)
}

/// [`check`] for a file that may belong to another user, such as a file of a shared repository. Pipes are not
/// checked, nor are missing files: reading them fails.
///
/// # Errors
///
/// Users other than its owner can write to the file or to one of the directories.
pub fn check_writers(path: &Path) -> anyhow::Result<()> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => walk(path, &metadata, false),
        _ => Ok(()),
    }
}

#[cfg(unix)]
fn walk(path: &Path, metadata: &Metadata, own: bool) -> anyhow::Result<()> {
    let you = own.then(|| rustix::process::geteuid().as_raw());
    judge(you, path, Attributes::of(metadata))?;
    for directory in fs::canonicalize(path)?.ancestors().skip(1) {
        let attributes = Attributes::of(&fs::metadata(directory)?);
        judge(you, directory, attributes.allowing_sticky())?;
    }
    Ok(())
}

#[cfg(not(unix))]
fn walk(_path: &Path, _metadata: &Metadata, _own: bool) -> anyhow::Result<()> {
    Ok(())
}

/// The owner and permissions of a file.
#[cfg(unix)]
#[derive(Debug, Clone, Copy)]
struct Attributes {
    owner: u32,
    mode: u32,
    /// Whether the group may write, and has no member other than the owner.
    private_group: bool,
}

#[cfg(unix)]
impl Attributes {
    fn of(metadata: &Metadata) -> Attributes {
        use std::os::unix::fs::MetadataExt;

        let (owner, group) = (metadata.uid(), metadata.gid());
        let mode = metadata.mode() & 0o7777;
        let groups = || fs::read_to_string("/etc/group").unwrap_or_default();
        Attributes {
            owner,
            mode,
            // Linux distributions give each user a group of the same number, and such users often have umask
            // 002.
            private_group: mode & 0o020 != 0 && owner == group && has_no_other_member(&groups(), group),
        }
    }

    /// Ignores the write permission of others in a directory with the sticky bit: there, nobody can replace
    /// the files of another user.
    fn allowing_sticky(self) -> Attributes {
        let mode = match self.mode & 0o1000 {
            0 => self.mode,
            _ => self.mode & !0o022,
        };
        Attributes { mode, ..self }
    }

    fn others_write(self) -> bool {
        let forbidden = if self.private_group { 0o002 } else { 0o022 };
        self.mode & forbidden != 0
    }
}

#[cfg(unix)]
fn judge(you: Option<u32>, path: &Path, attributes: Attributes) -> Result<(), Untrusted> {
    let path = path.to_path_buf();
    let Attributes { owner, mode, .. } = attributes;
    if let Some(you) = you.filter(|you| owner != *you && owner != 0) {
        Err(Untrusted::Owner { path, owner, you })
    } else if attributes.others_write() {
        Err(Untrusted::Writable { path, mode })
    } else {
        Ok(())
    }
}

/// Whether `/etc/group` lists the group without members, or with only the user of the same name.
#[cfg(unix)]
fn has_no_other_member(groups: &str, number: u32) -> bool {
    groups.lines().any(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        matches!(fields.as_slice(), [name, _, id, members]
            if id.parse() == Ok(number) && (members.is_empty() || members == name))
    })
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_the_user_or_root_that_nobody_else_can_write_to_are_trusted() {
        for (you, owner, mode, private_group, trusted) in [
            (Some(1000), 1000, 0o600, false, true),
            (Some(1000), 1000, 0o755, false, true),
            (Some(1000), 0, 0o755, false, true),
            (Some(1000), 1001, 0o600, false, false),
            (None, 1001, 0o600, false, true),
            (None, 1001, 0o666, false, false),
            (Some(0), 1000, 0o600, true, false),
            (Some(1000), 1000, 0o775, false, false),
            (Some(1000), 1000, 0o775, true, true),
            (Some(1000), 1000, 0o777, true, false),
            (Some(1000), 0, 0o777, true, false),
        ] {
            let attributes = Attributes { owner, mode, private_group };
            let judged = judge(you, Path::new("file"), attributes);
            assert_eq!(judged.is_ok(), trusted, "{you:?} {attributes:?}: {judged:?}");
        }
    }

    #[test]
    fn a_private_group_has_no_other_member() {
        let groups = "root:x:0:\nann:x:1000:\nbob:x:1001:bob\neve:x:1002:ann\nfox:x:1003:fox,ann\n";
        let private = [0, 1000, 1001, 1002, 1003, 1004].map(|n| has_no_other_member(groups, n));
        assert_eq!(private, [true, true, true, false, false, false]);
    }
}
