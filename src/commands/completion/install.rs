//! (edge) Installs the file that kubectl runs for completion next to the plugin, and removes it.

use std::env;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use clap::ValueHint;

use crate::args::safety::DryRun;
use crate::ctx::Ctx;
use crate::error::{Error, Exit, Result};
use crate::plan::Refusal;
use crate::program::Program;

/// The file extension of executables.
const EXTENSION: &str = if cfg!(unix) { "" } else { ".cmd" };

/// Enable shell completion through kubectl
///
/// Installs kubectl_complete-skyhook, which kubectl calls, next to the plugin: a link to the plugin, or on
/// Windows a batch file. The shell configuration is not changed: completion works wherever kubectl completion
/// works, from kubectl 1.26 on; in bash, that needs the package bash-completion. Run it once; the link
/// survives upgrades of the plugin. A file that belongs to another program is never overwritten.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook completion install
  kubectl skyhook completion install --dir ~/.local/bin

  # Also for the plugin's other name: kubectl nodewright
  kubectl skyhook completion install --nodewright")]
pub struct Install {
    /// Write to this directory, which should be on the PATH, instead of the plugin's directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    dir: Option<PathBuf>,

    /// Also install the plugin as `kubectl nodewright`
    #[arg(long)]
    nodewright: bool,
}

/// Remove what `completion install` installed
///
/// Removes the files that kubectl calls, and kubectl-nodewright if it points to this plugin. Other programs'
/// files are left alone. A package manager that removes the plugin does not remove these files, so run this
/// command first.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook completion uninstall
  kubectl skyhook completion uninstall --dir ~/.local/bin --dry-run")]
pub struct Uninstall {
    /// Look in this directory instead of the plugin's directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    dir: Option<PathBuf>,
}

pub fn install(ctx: &mut Ctx, args: &Install) -> Result<Exit> {
    let place = Place::of(args.dir.as_deref())?;
    let entries = place.entries(args.nodewright);
    // Check all files before the first write.
    let mut missing = Vec::new();
    for entry in entries {
        match entry.existing()? {
            ExistingFile::Same => ctx.print(&format!("{entry} already\n"))?,
            ExistingFile::Other(what) => return Err(entry.not_ours(&what)),
            existing @ (ExistingFile::Nothing | ExistingFile::Ours) => missing.push((entry, existing)),
        }
    }
    for (entry, existing) in &missing {
        if ctx.global().dry_run != DryRun::None {
            ctx.print(&format!("{entry} (dry run)\n"))?;
            continue;
        }
        entry.put(existing).map_err(|why| {
            Error::failed(format!("cannot write {}: {why}", entry.path.display()))
                .hint("use --dir to specify a writable directory on the PATH")
        })?;
        ctx.print(&format!("{entry}\n"))?;
    }
    if ctx.global().dry_run == DryRun::None {
        ctx.note(
            "hint: completion of kubectl itself must be set up: see `kubectl completion --help`; in bash, it needs the \
             package bash-completion",
        );
    }
    if !on_path(&place.directory) {
        ctx.warn(format!(
            "{} is not on the PATH, so kubectl cannot find these files",
            place.directory.display()
        ));
    }
    Ok(Exit::Done)
}

pub fn uninstall(ctx: &mut Ctx, args: &Uninstall) -> Result<Exit> {
    let place = Place::of(args.dir.as_deref())?;
    let (mut ours, mut refused) = (Vec::new(), None);
    for entry in place.entries(true) {
        match entry.existing()? {
            ExistingFile::Nothing => {}
            ExistingFile::Same | ExistingFile::Ours => ours.push(entry),
            ExistingFile::Other(what) => refused = refused.or(Some(entry.not_ours(&what))),
        }
    }
    if ours.is_empty() && refused.is_none() {
        ctx.note(format!("No completion files of this plugin found in {}.", place.directory.display()));
    }
    for entry in ours {
        let path = entry.path.display();
        if ctx.global().dry_run != DryRun::None {
            ctx.print(&format!("{path}: removed (dry run)\n"))?;
            continue;
        }
        std::fs::remove_file(&entry.path)
            .map_err(|why| Error::failed(format!("cannot remove {path}: {why}")))?;
        ctx.print(&format!("{path}: removed\n"))?;
    }
    refused.map_or(Ok(Exit::Done), Err)
}

/// The plugin, and the directory for its completion files.
struct Place {
    plugin: PathBuf,
    directory: PathBuf,
}

impl Place {
    /// The running plugin, with its own directory or the given one.
    fn of(directory: Option<&Path>) -> Result<Place> {
        let plugin = plugin()?;
        let directory = match (directory, plugin.parent()) {
            (Some(directory), _) => directory.to_owned(),
            (None, Some(parent)) => parent.to_owned(),
            (None, None) => return Err(Error::failed("cannot find the plugin's own directory")),
        };
        Ok(Place { plugin, directory })
    }

    /// The completion file `kubectl_complete-…`; with `nodewright`, also `kubectl-nodewright` and its completion file.
    fn entries(&self, nodewright: bool) -> Vec<Entry> {
        let own = Program::of(self.plugin.as_os_str()).plugin.replace('-', "_");
        let mut names = vec![format!("kubectl_complete-{own}")];
        if nodewright && own != "nodewright" {
            names.push("kubectl-nodewright".to_owned());
            names.push("kubectl_complete-nodewright".to_owned());
        }
        names
            .iter()
            .map(|name| {
                let path = self.directory.join(format!("{name}{EXTENSION}"));
                Entry {
                    content: content(&path, &self.plugin),
                    shim: name.strip_prefix("kubectl_complete-").map(shim),
                    plugin: self.plugin.clone(),
                    path,
                }
            })
            .collect()
    }
}

/// The path of the plugin, from the command line or the PATH; links are not resolved, because a package
/// manager changes their targets with each version. If neither has the plugin, the path of this process.
fn plugin() -> Result<PathBuf> {
    let called = PathBuf::from(env::args_os().next().unwrap_or_default());
    let found = if called.components().count() > 1 {
        std::path::absolute(&called)
    } else {
        let on_path = directories().map(|directory| directory.join(&called)).find(|path| path.is_file());
        on_path.map_or_else(env::current_exe, Ok)
    };
    found.map_err(|error| Error::failed(format!("cannot find the plugin: {error}")))
}

fn directories() -> impl Iterator<Item = PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).collect::<Vec<_>>().into_iter()
}

fn on_path(directory: &Path) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    let wanted = real(directory);
    directories().any(|d| d == directory || (wanted.is_some() && real(&d) == wanted))
}

/// A completion file with its content.
struct Entry {
    path: PathBuf,
    plugin: PathBuf,
    content: EntryContent,
    /// A packager's script that may exist in place of this file.
    shim: Option<String>,
}

/// The content of a completion file: a link to the plugin, or on Windows a script that calls it.
enum EntryContent {
    #[cfg_attr(not(unix), expect(dead_code, reason = "links are for Unix"))]
    Link(PathBuf),
    #[cfg_attr(unix, expect(dead_code, reason = "scripts are for Windows"))]
    Script(String),
}

/// The existing file at the path of an entry.
enum ExistingFile {
    Nothing,
    /// The entry's own content, or a script with the same effect.
    Same,
    /// A file of this plugin, for another path or version.
    Ours,
    /// A description of another program's file.
    Other(String),
}

impl Entry {
    fn existing(&self) -> Result<ExistingFile> {
        let found = match std::fs::symlink_metadata(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(ExistingFile::Nothing),
            Ok(found) if found.is_symlink() => std::fs::read_link(&self.path).map(|t| self.link(&t)),
            Ok(found) if found.is_file() => std::fs::read(&self.path).map(|text| self.file(&text)),
            Ok(_) => Ok(ExistingFile::Other("not a file".to_owned())),
            Err(error) => Err(error),
        };
        found.map_err(|why| Error::failed(format!("cannot read {}: {why}", self.path.display())))
    }

    fn link(&self, target: &Path) -> ExistingFile {
        if matches!(&self.content, EntryContent::Link(wanted) if wanted == target) {
            return ExistingFile::Same;
        }
        let real = |path: &Path| std::fs::canonicalize(path).ok();
        let names = ["kubectl-skyhook", "kubectl-nodewright", "kubectl-node_rollout"].map(Some);
        let ours = match real(&self.path) {
            // Another program may have the plugin's name.
            Some(leads_to) => real(&self.plugin) == Some(leads_to),
            // The plugin was moved or removed after the installation.
            None => names.contains(&target.file_name().and_then(|name| name.to_str())),
        };
        if ours { ExistingFile::Ours } else { ExistingFile::Other(format!("a link to {}", target.display())) }
    }

    fn file(&self, text: &[u8]) -> ExistingFile {
        let text = String::from_utf8_lossy(text);
        match &self.content {
            EntryContent::Script(script) if *script == text => ExistingFile::Same,
            EntryContent::Script(_) if calls_us(&text) => ExistingFile::Ours,
            _ if self.shim.as_deref() == Some(&*text) => ExistingFile::Same,
            _ => ExistingFile::Other("a regular file".to_owned()),
        }
    }

    fn put(&self, existing: &ExistingFile) -> io::Result<()> {
        if let ExistingFile::Ours = existing {
            std::fs::remove_file(&self.path)?;
        }
        match &self.content {
            EntryContent::Link(target) => symlink(target, &self.path),
            EntryContent::Script(script) => std::fs::write(&self.path, script),
        }
    }

    /// The error for a file that may be another plugin, or the user's own script.
    fn not_ours(&self, what: &str) -> Error {
        Refusal::NotOurFile { file: self.path.display().to_string(), what: what.to_owned() }.into()
    }
}

/// Prints `/usr/local/bin/kubectl_complete-skyhook: linked to kubectl-skyhook`.
impl std::fmt::Display for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = self.path.display();
        match &self.content {
            EntryContent::Link(target) => write!(f, "{path}: linked to {}", target.display()),
            EntryContent::Script(_) => write!(f, "{path}: calls {}", self.plugin.display()),
        }
    }
}

/// Whether a batch file calls this plugin, at any path.
fn calls_us(script: &str) -> bool {
    let ends = ["kubectl-skyhook.exe\"", "kubectl-nodewright.exe\""];
    let call = script.trim_end().trim_end_matches(" %*").trim_end_matches(" __complete");
    call.starts_with("@\"") && call.lines().count() == 1 && ends.iter().any(|e| call.ends_with(e))
}

#[cfg(unix)]
fn content(path: &Path, plugin: &Path) -> EntryContent {
    // A link within a directory stays valid if the directory moves.
    EntryContent::Link(match plugin.file_name() {
        Some(name) if path.parent() == plugin.parent() => PathBuf::from(name),
        _ => plugin.to_owned(),
    })
}

#[cfg(unix)]
fn symlink(target: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

#[cfg(not(unix))]
fn content(path: &Path, plugin: &Path) -> EntryContent {
    let completes = Program::of(path.as_os_str()).completes;
    let asks = if completes { " __complete" } else { "" };
    EntryContent::Script(format!("@\"{}\"{asks} %*\r\n", plugin.display()))
}

#[cfg(not(unix))]
fn symlink(_: &Path, _: &Path) -> io::Result<()> {
    Err(ErrorKind::Unsupported.into())
}

/// A script that works like the link, for users who install it themselves.
pub fn shim(plugin: &str) -> String {
    format!(
        "#!/bin/sh\n\
         # kubectl runs this to complete the words after the plugin's name. Make it executable, and put it on the PATH.\n\
         exec kubectl-{plugin} __complete \"$@\"\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batch_files_of_ours_are_told_from_others() {
        for (script, ours) in [
            ("@\"C:\\bin\\kubectl-skyhook.exe\" __complete %*\r\n", true),
            ("@\"D:\\kubectl-skyhook.exe\" %*\r\n", true),
            ("@\"D:\\other.exe\" %*\r\n", false),
            ("@\"D:\\other.exe\"\r\n@\"kubectl-skyhook.exe\" %*\r\n", false),
            ("", false),
        ] {
            assert_eq!(calls_us(script), ours, "{script}");
        }
    }
}
