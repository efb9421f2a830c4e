//! The output file of a command, written completely or not at all, or standard output.

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::apply::file::{directory, place};
use crate::ctx::Ctx;
use crate::error::{Error, Result};

/// Length of the hash in the file name of a context, in bytes.
const HASH_BYTES: usize = 4;

pub enum Target {
    Stdout,
    File(File),
}

pub struct File {
    pub path: PathBuf,
    force: bool,
    /// Whether the target is a device or a pipe, which is written to instead of replaced.
    stream: bool,
}

impl Target {
    /// Checks that the file can be written, before the cluster is read. The hint of a refusal names the flag.
    /// With `--contexts`, each context has its own file, whose name ends with the context, unless the path is
    /// a device or a pipe.
    ///
    /// # Errors
    ///
    /// The file exists and `force` is not set, or the command has no such flag; the path is a directory, or its directory does not exist;
    /// several contexts would write to standard output.
    pub fn of(ctx: &Ctx, path: PathBuf, force: Option<bool>, flag: &str) -> Result<Target> {
        let path = match ctx.context() {
            Some(_) if path == Path::new("-") => {
                let reason = format!("{flag} - cannot be used with --contexts");
                return Err(Error::usage(reason).hint("each context is written to its own file"));
            }
            Some(context) if path.is_file() || !path.exists() => of_context(&path, context),
            Some(_) => path,
            None => path,
        };
        if path == Path::new("-") {
            return Ok(Target::Stdout);
        }
        let there = std::fs::metadata(&path).ok();
        let stream = there.as_ref().is_some_and(|m| !m.is_file() && !m.is_dir());
        let shown = path.display();
        if there.as_ref().is_some_and(std::fs::Metadata::is_dir) {
            return Err(Error::failed(format!("{shown} is a directory; specify a file in it")));
        }
        if there.is_some() && !stream && force != Some(true) {
            let overwrite = if force.is_some() { "--force to overwrite it, or " } else { "" };
            return Err(Error::refused(format!("{shown} already exists; nothing was written"))
                .hint(format!("use {overwrite}{flag} FILE to write to another file")));
        }
        if !directory(&path).is_dir() {
            let directory = directory(&path).display();
            return Err(Error::failed(format!("cannot write {shown}: directory {directory} does not exist")));
        }
        Ok(Target::File(File { path, force: force == Some(true), stream }))
    }
}

impl File {
    /// Writes the output of `fill`.
    ///
    /// # Errors
    ///
    /// Writing fails. No partial file remains; a device or a pipe may have received a part.
    pub fn fill(&self, fill: impl FnOnce(&mut dyn Write) -> std::io::Result<u64>) -> Result<u64> {
        let failed =
            |error: std::io::Error| Error::failed(format!("cannot write {}: {error}", self.path.display()));
        if self.stream {
            let file = std::fs::OpenOptions::new().write(true).open(&self.path);
            return fill(&mut file.map_err(failed)?).map_err(failed);
        }
        place(&self.path, self.force, false, fill).map_err(failed)
    }
}

/// Adds a context to a file name: `skyhook.tar.gz` becomes `skyhook-prod-east.tar.gz`. Characters other than
/// letters, digits, dots, `-` and `_` become `-`, and a hash keeps such names apart.
fn of_context(path: &Path, context: &str) -> PathBuf {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let mut name: String = context.chars().map(|c| if plain(c) { c } else { '-' }).collect();
    if name != context {
        let digest = ring::digest::digest(&ring::digest::SHA256, context.as_bytes());
        let hex = |byte: &u8| format!("{byte:02x}");
        name = format!("{name}-{}", digest.as_ref()[..HASH_BYTES].iter().map(hex).collect::<String>());
    }
    let context = name;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (stem, extension) = match name.strip_suffix(".tar.gz") {
        Some(stem) => (stem, ".tar.gz"),
        None => name.rfind('.').map_or((&*name, ""), |at| name.split_at(at)),
    };
    path.with_file_name(format!("{stem}-{context}{extension}"))
}
