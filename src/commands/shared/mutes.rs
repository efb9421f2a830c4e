//! `--mutes`: known findings, which reports count instead of showing them.

use std::io::Write;
use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::apply::file::{check_writers, directory, place};
use crate::cluster::Cluster;
use crate::ctx::Ctx;
use crate::error::{Error, Exit, Result};
use crate::plan::Refusal;
use crate::rules::support::mute::{self, LapsedMute, MutedFinding, Mutes};
use crate::rules::{Finding, Report};
use crate::view::format::yaml;
use crate::view::text::{self, Line, Text};
use crate::view::{distinct, plural};

const VARIABLE: &str = "KUBECTL_SKYHOOK_MUTES";

/// Where mutes come from.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct MuteFlags {
    /// File of muted findings; default: KUBECTL_SKYHOOK_MUTES
    ///
    /// Muted findings are counted instead of shown, and do not affect the exit code. The annotation
    /// kubectl-skyhook/mutes of a custom resource mutes its findings as well. See docs/teams.md for the
    /// format.
    #[arg(long, value_name = "FILE")]
    mutes: Option<PathBuf>,
}

/// Where the mutes of a run's findings are written.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct NewMutes {
    /// Write a new file that mutes the findings of this run that cause exit code 2
    ///
    /// With this file as --mutes, later runs fail only on other findings, and on these if they become more severe or
    /// affect more nodes.
    #[arg(long, value_name = "FILE")]
    write_mutes: Option<PathBuf>,
}

impl NewMutes {
    pub fn wanted(&self) -> bool {
        self.write_mutes.is_some()
    }

    /// Checks that the file can be written, before the cluster is read.
    ///
    /// # Errors
    ///
    /// The file exists, or no file can be written there.
    pub fn target(&self, ctx: &Ctx) -> Result<Option<File>> {
        let Some(path) = &self.write_mutes else { return Ok(None) };
        match Target::of(ctx, path.clone(), None, "--write-mutes")? {
            Target::File(file) => Ok(Some(file)),
            Target::Stdout => {
                Err(Error::usage("--write-mutes requires a file; the report is on standard output"))
            }
        }
    }
}

/// Writes a file with these mutes.
///
/// # Errors
///
/// The file cannot be written.
pub fn write(ctx: &mut Ctx, file: &File, mutes: &[Value]) -> Result<()> {
    let text = yaml(&mute::file(mutes)).map_err(|error| Error::failed(error.to_string()))?;
    file.fill(|out| out.write_all(text.as_bytes()).map(|()| text.len() as u64))?;
    ctx.note(format!("{} written to {}", plural(mutes.len(), "mute"), file.path.display()));
    Ok(())
}

/// The mutes that apply to a run.
pub struct LoadedMutes {
    pub mutes: Mutes,
    /// Whether an annotation is invalid; its mutes are ignored.
    broken: bool,
}

impl MuteFlags {
    /// The words of the command line, for commands that are suggested.
    pub fn words(&self) -> Vec<String> {
        let file = self.mutes.iter();
        file.flat_map(|file| ["--mutes".to_owned(), file.display().to_string()]).collect()
    }

    /// Reads the file and the annotations. Invalid annotations do not prevent a diagnosis: they are ignored
    /// with an error message, and the exit code is 1 instead of 0.
    ///
    /// # Errors
    ///
    /// The file cannot be read, users other than its owner can write to it, or a mute in it is invalid.
    pub fn load(&self, ctx: &mut Ctx, cluster: &Cluster) -> Result<LoadedMutes> {
        let mut mutes = self.read(ctx)?;
        let wrong = mutes.add_annotations(cluster);
        for problem in &wrong {
            let problem = format!("invalid mute is ignored: {problem}");
            ctx.error(&Error::failed(problem));
        }
        Ok(LoadedMutes { mutes, broken: !wrong.is_empty() })
    }

    /// Reads the file.
    ///
    /// # Errors
    ///
    /// As for [`MuteFlags::load`].
    pub fn read(&self, ctx: &Ctx) -> Result<Mutes> {
        let file = self.mutes.clone().or(ctx.variable(VARIABLE).map(PathBuf::from));
        let Some(file) = file else {
            return Ok(Mutes::default());
        };
        check_writers(&file)?;
        let text = String::from_utf8_lossy(&ctx.read_file(&file)?).into_owned();
        Mutes::parse(&file.display().to_string(), &text).map_err(Error::failed)
    }
}

impl LoadedMutes {
    /// The exit code: an invalid mute is an error unless the result is worse.
    pub fn exit(&self, exit: Exit) -> Exit {
        match exit {
            Exit::Done if self.broken => Exit::Failed,
            exit => exit,
        }
    }
}

/// Counts muted causes: `2 muted findings, 1 without expiry`; `None` without any.
pub fn counted(muted: usize, without_expiry: usize) -> Option<String> {
    let expiry = match without_expiry {
        0 => String::new(),
        number => format!(", {number} without expiry"),
    };
    (muted > 0).then(|| format!("{}{expiry}", plural(muted, "muted finding")))
}

/// The muted findings and the lapsed mutes of a report, as text.
pub fn section(report: &Report) -> Text {
    let counts = &report.counts;
    let mut text = Text::new();
    if let Some(counted) = counted(counts.muted, counts.muted_without_expiry) {
        text.line(text::dim(counted));
        let shown = distinct(report.muted.iter().map(muted_line));
        for line in shown {
            text.indented(2, Line::from(line));
        }
    }
    for lapsed in &report.lapsed {
        let LapsedMute { mute, reason } = lapsed;
        let message = format!(" the mute of {} in {} has lapsed: {reason}", mute.code, mute.source);
        text.paragraph(text::warning("warning:") + message);
    }
    text
}

/// The line of a muted finding: `SKY201 gpu-tune driver: new disk ordered (until 2026-12-31)`.
fn muted_line(finding: &Finding) -> String {
    let subject = &finding.subject;
    let mut words: Vec<&str> = subject.skyhook.iter().chain(&subject.package).map(String::as_str).collect();
    if words.is_empty() {
        words.push(&subject.name);
    }
    let reason = finding.muted.as_ref().map(ToString::to_string);
    format!("{} {}: {}", finding.rule.code, words.join(" "), reason.unwrap_or_default())
}

/// The muted findings of a report, for its document.
pub fn documents(report: &Report) -> Vec<MutedFinding> {
    report.muted.iter().filter_map(MutedFinding::of).collect()
}

/// Characters that are encoded in the file name of a context.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'.').remove(b'-').remove(b'_');

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
    /// several contexts would write to standard output, or it is a terminal.
    pub fn of(ctx: &Ctx, path: PathBuf, force: Option<bool>, flag: &str) -> Result<Target> {
        let path = match ctx.context() {
            Some(_) if path == Path::new("-") => {
                let reason = format!("{flag} - cannot be used with --contexts");
                return Err(Error::usage(reason).hint("each context is written to its own file"));
            }
            Some(context) if path.is_file() || !path.exists() => of_context(&path, context),
            _ => path,
        };
        if path == Path::new("-") {
            ctx.refuse_terminal()?;
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
            let (file, overwrite, flag) = (shown.to_string(), overwrite.to_owned(), flag.to_owned());
            return Err(Refusal::FileExists { file, overwrite, flag }.into());
        }
        if !directory(&path).is_dir() {
            let directory = directory(&path).display();
            return Err(Error::failed(format!("cannot write {shown}: directory {directory} does not exist")));
        }
        Ok(Target::File(File { path, force: force == Some(true), stream }))
    }

    /// Writes the output of `fill`, and prints the path of the file.
    ///
    /// # Errors
    ///
    /// Writing fails; see [`File::fill`].
    pub fn fill(
        &self,
        ctx: &mut Ctx,
        fill: impl FnOnce(&mut dyn Write) -> std::io::Result<u64>,
    ) -> Result<u64> {
        match self {
            Target::Stdout => {
                let mut bytes = Vec::new();
                let size = fill(&mut bytes);
                ctx.write_bytes(&bytes)?;
                size.map_err(|error| Error::failed(format!("cannot write to standard output: {error}")))
            }
            Target::File(file) => {
                let size = file.fill(fill)?;
                ctx.print(&format!("{}\n", file.path.display()))?;
                Ok(size)
            }
        }
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
/// letters, digits, dots, `-` and `_` are percent-encoded.
fn of_context(path: &Path, context: &str) -> PathBuf {
    let context = utf8_percent_encode(context, ENCODED);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (stem, extension) = match name.strip_suffix(".tar.gz") {
        Some(stem) => (stem, ".tar.gz"),
        None => name.rfind('.').map_or((&*name, ""), |at| name.split_at(at)),
    };
    path.with_file_name(format!("{stem}-{context}{extension}"))
}
