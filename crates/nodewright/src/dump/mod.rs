//! (edge) Reads a cluster from files written by `collect`, `kubectl get -o json|yaml`, `oc adm must-gather` or `kubectl
//! cluster-info dump`: single files, directory trees, or `.tar.gz` archives of them.

mod body;
mod documents;
mod json;
mod kinds;
mod layout;
mod loader;
mod summary;

use std::io::Read as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use thiserror::Error;

use crate::api::ApiFlavor;
use crate::bounded::utf16::{self, Utf16};
use crate::bounded::{self, MOST_CAPTURE, MOST_LOG, Unpacked};
use crate::cluster::{Cluster, clock};
use crate::reason::plain_reason;
use loader::ManifestLoader;

/// Errors of reading a cluster from files.
#[derive(Debug, Error)]
pub enum DumpError {
    #[error("cannot read {path}: {}; check --from", plain_reason(source))]
    Io { path: String, source: std::io::Error },
    #[error("{path}: empty; expected the output of `kubectl get nodes,pods,… -o json`")]
    Empty { path: String },
    #[error("{path}: no objects, only a message of kubectl: {text}")]
    OnlyMessage { path: String, text: String },
    #[error("{path}: neither JSON nor YAML: {why}")]
    Syntax { path: String, why: String },
    #[error("{path}: line {line} is neither an object nor a known message of kubectl: {text}")]
    Text { path: String, line: usize, text: String },
    #[error(
        "{path}: a template with {{{{ … }}}}, not Kubernetes objects; render the template first, for example with `helm template`"
    )]
    Template { path: String },
    #[error("{path}: {what} is not a Kubernetes object; expected the output of `kubectl get … -o json`")]
    NotAnObject { path: String, what: String },
    #[error("{path}: cannot read the index of the capture: {why}")]
    Index { path: String, why: String },
    #[error("{path} contains no .json, .yaml or .yml file")]
    NoFiles { path: String },
    #[error("{path} contains no nodes and no Skyhook or NodeWright objects; nothing to check")]
    NothingKnown { path: String },
}

impl From<DumpError> for crate::error::Error {
    fn from(error: DumpError) -> Self {
        Self::failed(error)
    }
}

impl DumpError {
    fn syntax(path: &str, why: String) -> DumpError {
        DumpError::Syntax { path: path.to_owned(), why }
    }

    fn not_an_object(path: &str, what: impl Into<String>) -> DumpError {
        DumpError::NotAnObject { path: path.to_owned(), what: what.into() }
    }
}

/// Reads files into a cluster.
///
/// Each path is a file, a directory tree, a `.tar.gz`, or `-` for `stdin`. Duplicate objects are read once. Sources
/// missing from all files are [`crate::cluster::Read::NotRequested`].
///
/// # Errors
///
/// Fails if a path cannot be read or contains text that is not Kubernetes objects: a partial capture could hide a
/// problem. Empty files beside others and messages of kubectl are skipped with a note, and their kinds count as unread.
pub fn load(paths: &[PathBuf], asked_for: Option<ApiFlavor>) -> Result<Cluster, DumpError> {
    let mut loader = ManifestLoader::default();
    for path in paths {
        read_path(path, &mut loader)?;
    }
    if let Some(error) = loader.only_empty() {
        return Err(error);
    }
    let all = || paths.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", ");
    loader.finish(asked_for).ok_or_else(|| DumpError::NothingKnown { path: all() })
}

fn read_path(path: &Path, loader: &mut ManifestLoader) -> Result<(), DumpError> {
    if path == Path::new("-") {
        // A pipe was written just now.
        let written = std::fs::metadata("/dev/stdin").and_then(|stdin| stdin.modified()).ok();
        loader.record_stream(written.and_then(|at| at.try_into().ok()));
        return read_stream("standard input", "", std::io::stdin().lock(), loader);
    }
    let label = path.display().to_string();
    let io = |source| unreadable(&label, source);
    let metadata = std::fs::metadata(path).map_err(io)?;
    if !metadata.is_dir() {
        if is_clock(path) {
            let file = bounded::open(path).map_err(io)?;
            loader.record_capture_time(clock_in(file).map_err(io)?);
            return Ok(());
        }
        let written = metadata.modified().ok();
        loader.record_modified(written.and_then(|at| at.try_into().ok()));
        let file = bounded::open(path).map_err(io)?;
        return read_stream(&label, &stem(path), file, loader);
    }
    let mut files = files_below(path).map_err(io)?;
    let below = |file: &PathBuf| file.strip_prefix(path).unwrap_or(file).to_owned();
    let is_log = |file: &PathBuf| layout::log_of_capture(file).is_some();
    files.retain(|file| is_log(file) || loader.namespaces.admits(&below(file)));
    if files.iter().all(|file| is_clock(file) || is_log(file)) {
        return Err(DumpError::NoFiles { path: label });
    }
    files.iter().try_for_each(|file| {
        let Some(log) = layout::log_of_capture(file) else {
            return read_path(file, loader);
        };
        let text = bounded::open(file).and_then(read_log);
        let unreadable = |source| unreadable(&file.display().to_string(), source);
        loader.log(log, &text.map_err(unreadable)?);
        Ok(())
    })
}

/// Whether a file of a tree is read.
fn is_read(path: &Path) -> bool {
    holds_objects(path) || is_clock(path) || layout::log_of_capture(path).is_some()
}

/// Files of a tree that are read, sorted. Symbolic links are not followed.
fn files_below(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                open.push(entry.path());
            } else if kind.is_file() && is_read(&entry.path()) {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Whether the file is the `timestamp` file of a must-gather.
fn is_clock(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "timestamp")
}

fn holds_objects(path: &Path) -> bool {
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
    matches!(extension, "json" | "yaml" | "yml")
}

fn stem(path: &Path) -> String {
    path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default()
}

fn read_stream(
    label: &str,
    stem: &str,
    stream: impl std::io::Read,
    loader: &mut ManifestLoader,
) -> Result<(), DumpError> {
    let (head, stream) = peek(label, stream)?;
    if head.starts_with(&[0x1f, 0x8b]) {
        let (head, stream) = peek(label, Unpacked::new(stream))?;
        read_unpacked(label, stem, &head, stream, loader)
    } else {
        read_unpacked(label, stem, &head, stream, loader)
    }
}

/// Reads the first bytes of a stream, and returns them with the whole stream.
fn peek<R: std::io::Read>(
    label: &str,
    mut stream: R,
) -> Result<(Vec<u8>, impl std::io::Read + use<R>), DumpError> {
    let mut head = Vec::new();
    let read = (&mut stream).take(bounded::PIECE as u64).read_to_end(&mut head);
    read.map_err(|source| unreadable(label, source))?;
    Ok((head.clone(), std::io::Cursor::new(head).chain(stream)))
}

fn read_unpacked(
    label: &str,
    stem: &str,
    head: &[u8],
    stream: impl std::io::Read,
    loader: &mut ManifestLoader,
) -> Result<(), DumpError> {
    let io = |source| unreadable(label, source);
    if utf16::begins(head) {
        let (head, stream) = peek(label, Utf16::new(stream, head))?;
        documents::look(&head).map_err(|why| DumpError::syntax(label, why))?;
        return read_objects(label, stem, &head, stream, loader);
    }
    if !is_tar(head) {
        documents::look(head).map_err(|why| DumpError::syntax(label, why))?;
        return read_objects(label, stem, head, stream, loader);
    }
    let mut archive = tar::Archive::new(stream);
    let mut any = false;
    for entry in archive.entries().map_err(io)? {
        let entry = entry.map_err(io)?;
        let path = entry.path().map_err(io)?.into_owned();
        if !entry.header().entry_type().is_file() {
            continue;
        }
        if is_clock(&path) {
            loader.record_capture_time(clock_in(entry).map_err(io)?);
        } else if let Some(log) = layout::log_of_capture(&path) {
            loader.log(log, &read_log(entry).map_err(io)?);
        } else if holds_objects(&path) && loader.namespaces.admits(&path) {
            any = true;
            let written = entry.header().mtime().ok().and_then(|s| i64::try_from(s).ok());
            loader.record_modified(written.and_then(|s| Timestamp::from_second(s).ok()));
            let label = format!("{label}:{}", path.display());
            let (head, entry) = peek(&label, entry)?;
            read_objects(&label, &self::stem(&path), &head, entry, loader)?;
        }
    }
    if any { Ok(()) } else { Err(DumpError::NoFiles { path: label.to_owned() }) }
}

fn is_tar(bytes: &[u8]) -> bool {
    bytes.get(257..262) == Some(b"ustar")
}

/// Reads at most `MOST_LOG` bytes of a log; `collect` keeps less.
fn read_log(stream: impl std::io::Read) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    stream.take(MOST_LOG).read_to_end(&mut text)?;
    Ok(text)
}

fn clock_in(stream: impl std::io::Read) -> std::io::Result<Option<Timestamp>> {
    let bytes = bounded::read(stream, MOST_CAPTURE)?;
    Ok(clock::of_must_gather(&String::from_utf8_lossy(&bytes)))
}

fn unreadable(label: &str, source: std::io::Error) -> DumpError {
    DumpError::Io { path: label.to_owned(), source }
}

/// Reads JSON as a stream, and YAML as a whole.
fn read_objects(
    label: &str,
    stem: &str,
    head: &[u8],
    stream: impl std::io::Read,
    loader: &mut ManifestLoader,
) -> Result<(), DumpError> {
    let template = || DumpError::Template { path: label.to_owned() };
    if json::begins(head) {
        let stream = bounded::BoundedReader::new(stream, MOST_CAPTURE);
        return match json::read(label, stem, stream, loader) {
            Err(DumpError::Syntax { .. }) if documents::begins_template(head) => Err(template()),
            read => read,
        };
    }
    let bytes = bounded::read(stream, MOST_CAPTURE).map_err(|e| unreadable(label, e))?;
    let syntax = |why: String| DumpError::syntax(label, why);
    let text = String::from_utf8(bytes).map_err(|e| syntax(e.to_string()))?;
    let (text, messages) = documents::without_messages(&text);
    messages.iter().for_each(|message| loader.skip_message(label, message));
    let documents = match documents::parse(text) {
        Ok(documents) if documents.iter().any(documents::has_template_name) => {
            return Err(template());
        }
        Err(_) if documents::has_actions(text) => return Err(template()),
        Err(_) if documents::text_before_json(text).is_some() => {
            let text = documents::text_before_json(text).map(documents::quoted).unwrap_or_default();
            return Err(DumpError::Text { path: label.to_owned(), line: messages.len() + 1, text });
        }
        parsed => parsed.map_err(syntax)?,
    };
    if documents.is_empty() {
        loader.skip_empty(label, stem, messages.first().copied());
    }
    for document in documents {
        loader.add(label, stem, document)?;
    }
    Ok(())
}
