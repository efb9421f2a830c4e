//! (edge) Reads a cluster from files written by `collect`, `kubectl get -o json|yaml`, `oc adm must-gather` or `kubectl
//! cluster-info dump`: single files, directory trees, or `.tar.gz` archives of them.

mod body;
mod json;
mod loader;

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use loader::ManifestLoader;
use serde_json::Value;
use thiserror::Error;

use crate::api::ApiFlavor;
use crate::bounded::{self, MOST_CAPTURE, MOST_LOG, PIECE, Unpacked};
use crate::cluster::{Cluster, clock};
use crate::error::{first_line, plain_reason};
use crate::text::Joined;

/// Errors of reading a cluster from files.
#[derive(Debug, Error)]
pub enum DumpError {
    #[error("cannot read {path}: {}; check --from", plain_reason(source))]
    Io { path: String, source: std::io::Error },
    #[error("{path}: empty; expected the output of `kubectl get nodes,pods,… -o json`")]
    Empty { path: String },
    #[error("{path}: no objects, only a message from kubectl: {text}")]
    OnlyMessage { path: String, text: String },
    #[error("{path}: neither JSON nor YAML: {why}")]
    Syntax { path: String, why: String },
    #[error("{path}: line {line} is neither an object nor a known message from kubectl: {text}")]
    Text { path: String, line: usize, text: String },
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
    let all = || paths.iter().map(|p| p.display().to_string()).joined(", ");
    loader.finish(asked_for).ok_or_else(|| DumpError::NothingKnown { path: all() })
}

fn read_path(path: &Path, loader: &mut ManifestLoader) -> Result<(), DumpError> {
    if path == Path::new("-") {
        // A pipe was written just now.
        let written = fs::metadata("/dev/stdin").and_then(|stdin| stdin.modified()).ok();
        loader.record_stream(written.and_then(|at| at.try_into().ok()));
        return read_stream("standard input", "", std::io::stdin().lock(), loader);
    }
    let label = path.display().to_string();
    let io = |source| unreadable(&label, source);
    let metadata = fs::metadata(path).map_err(io)?;
    if !metadata.is_dir() {
        if is_clock(path) {
            let file = bounded::open(path).map_err(io)?;
            loader.record_capture_time(clock_in(file).map_err(io)?);
            return Ok(());
        }
        let written = metadata.modified().ok();
        loader.record_modified(written.and_then(|at| at.try_into().ok()));
        let file = bounded::open(path).map_err(io)?;
        return read_stream(&label, &file_stem(path), file, loader);
    }
    let mut files = files_below(path).map_err(io)?;
    let below = |file: &PathBuf| file.strip_prefix(path).unwrap_or(file).to_owned();
    let is_log = |file: &PathBuf| loader::log_of_capture(file).is_some();
    files.retain(|file| is_log(file) || loader.namespaces.admits(&below(file)));
    if files.iter().all(|file| is_clock(file) || is_log(file)) {
        return Err(DumpError::NoFiles { path: label });
    }
    files.iter().try_for_each(|file| {
        let Some(log) = loader::log_of_capture(file) else {
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
    holds_objects(path) || is_clock(path) || loader::log_of_capture(path).is_some()
}

/// Files of a tree that are read, sorted. Symbolic links are not followed.
fn files_below(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory)? {
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

fn file_stem(path: &Path) -> String {
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
    let read = (&mut stream).take(PIECE as u64).read_to_end(&mut head);
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
    if bounded::is_utf16(head) {
        let text = bounded::read(stream, MOST_CAPTURE).and_then(bounded::to_utf8).map_err(io)?;
        let head = &text[..text.len().min(PIECE)];
        look(head).map_err(|why| DumpError::syntax(label, why))?;
        return read_objects(label, stem, head, text.as_slice(), loader);
    }
    if !is_tar(head) {
        look(head).map_err(|why| DumpError::syntax(label, why))?;
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
        } else if let Some(log) = loader::log_of_capture(&path) {
            loader.log(log, &read_log(entry).map_err(io)?);
        } else if holds_objects(&path) && loader.namespaces.admits(&path) {
            any = true;
            let written = entry.header().mtime().ok().and_then(|s| i64::try_from(s).ok());
            loader.record_modified(written.and_then(|s| Timestamp::from_second(s).ok()));
            let label = format!("{label}:{}", path.display());
            let (head, entry) = peek(&label, entry)?;
            read_objects(&label, &file_stem(&path), &head, entry, loader)?;
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
    if json::begins(head) {
        let stream = bounded::BoundedReader::new(stream, MOST_CAPTURE);
        return json::read(label, stem, stream, loader);
    }
    let bytes = bounded::read(stream, MOST_CAPTURE).map_err(|e| unreadable(label, e))?;
    let syntax = |why: String| DumpError::syntax(label, why);
    let text = String::from_utf8(bytes).map_err(|e| syntax(e.to_string()))?;
    let (text, messages) = without_messages(&text);
    messages.iter().for_each(|message| loader.skip_message(label, message));
    let documents = match parse(text) {
        Err(_) if text_before_json(text).is_some() => {
            let text = text_before_json(text).map(quoted).unwrap_or_default();
            return Err(DumpError::Text { path: label.to_owned(), line: messages.len() + 1, text });
        }
        parsed => parsed.map_err(syntax)?,
    };
    if documents.is_empty() {
        loader.skip_empty(label, stem, messages.first().copied());
    }
    for document in documents {
        json::read(label, stem, document.to_string().as_bytes(), loader)?;
    }
    Ok(())
}

/// Reads a list that is an item of another one.
fn read_list(path: &str, list: &Value, loader: &mut ManifestLoader) -> Result<(), DumpError> {
    json::read(path, "", list.to_string().as_bytes(), loader)
}

const TEXT: &str = "it is plain text, not Kubernetes objects";
/// Number of YAML nodes allowed beyond one per byte of text, so that small texts may use aliases.
const SMALL: usize = 1 << 20;
/// Maximum number of bytes that aliases may repeat.
const ALIASED: usize = 16 << 20;

/// Rejects text that cannot contain objects, judged by its first bytes, before the rest is read.
///
/// # Errors
///
/// Fails if the text is a zip archive, is not UTF-8, or contains neither a key nor a comment, but other text.
pub fn look(head: &[u8]) -> Result<(), String> {
    if head.starts_with(b"PK\x03\x04") {
        return Err("a zip archive; unpack it, and pass the directory to --from".to_owned());
    }
    let text = match std::str::from_utf8(head) {
        Ok(text) => text,
        // The head may end within a character.
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&head[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(error) => return Err(error.to_string()),
    };
    // The head may lie within a comment, so keys may follow.
    let keyed = text.contains([':', '{', '[']) || text.starts_with('#');
    let blank = |c: char| c.is_whitespace() || c == '\0';
    if text.trim_matches(blank).is_empty() || keyed { Ok(()) } else { Err(TEXT.to_owned()) }
}

/// Beginnings of lines that kubectl writes to stderr, and that `2>&1` adds to its output.
const MESSAGES: [&str; 3] =
    ["Warning: ", "Error from server", "error: the server doesn't have a resource type"];
/// Maximum number of characters of a quoted line.
const QUOTED: usize = 160;

/// Whether a line is a message of kubectl, not a part of an object.
pub fn is_message(line: &[u8]) -> bool {
    MESSAGES.iter().any(|start| line.starts_with(start.as_bytes()))
}

/// A line for an error or a note, without secrets.
pub fn quoted(line: &str) -> String {
    crate::redact::log_lines([line]).concat().trim().chars().take(QUOTED).collect()
}

/// Splits messages of kubectl off the beginning and the end of a text.
pub fn without_messages(text: &str) -> (&str, Vec<&str>) {
    let (mut rest, mut messages) = (text, Vec::new());
    while let Some((line, after)) = rest.split_once('\n').filter(|(line, _)| is_message(line.as_bytes())) {
        messages.push(line);
        rest = after;
    }
    loop {
        let end = rest.trim_end();
        let start = end.rfind('\n').map_or(0, |at| at + 1);
        if !is_message(&end.as_bytes()[start..]) {
            return (rest, messages);
        }
        messages.push(&end[start..]);
        rest = &rest[..start];
    }
}

/// The first line of a text whose next lines are JSON.
pub fn text_before_json(text: &str) -> Option<&str> {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let first = lines.next()?;
    lines.next().is_some_and(|next| next.starts_with(['{', '['])).then_some(first)
}

/// Splits YAML into its documents. Empty text has none.
///
/// # Errors
///
/// Fails with one line that has the position of the syntax error. It never quotes the text, which may contain
/// secrets.
pub fn parse(text: &str) -> Result<Vec<Value>, String> {
    let text = text.trim_start_matches('\u{feff}');
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    // Limits for YAML grow with the text, as every YAML node takes at least one byte: a capture of 15,000
    // nodes has tens of millions of YAML nodes. Nodes that aliases repeat count each time.
    let size = text.len() + SMALL;
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: size.saturating_mul(2),
            max_nodes: size,
            max_documents: 1_000_000,
            max_total_scalar_bytes: size + ALIASED,
        },
        with_snippet: false,
    };
    let documents: Vec<Value> =
        serde_saphyr::from_multiple_with_options(text, options).map_err(|e| first_line(&e.to_string()))?;
    // Plain text parses as a YAML string.
    match documents.iter().find(|d| !d.is_object()) {
        Some(_) => Err(TEXT.to_owned()),
        None => Ok(documents),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_in_a_row() {
        for text in ["a: 1\n---\na: 2\n", "---\na: 1\n---\n---\na: 2\n"] {
            let documents = parse(text).expect(text);
            assert_eq!(documents, [serde_json::json!({"a": 1}), serde_json::json!({"a": 2})], "{text}");
        }
        assert_eq!(parse(" \n"), Ok(vec![]));
    }

    #[test]
    fn messages_of_kubectl_around_objects_are_split_off() {
        for (text, rest, count) in [
            ("Warning: a is deprecated\nkind: A\n", "kind: A\n", 1),
            ("kind: A\nError from server (Forbidden): no\n\n", "kind: A\n", 1),
            ("Warning: a\nWarning: b\nkind: A\nError from server (NotFound): c", "kind: A\n", 3),
            ("error: the server doesn't have a resource type \"a\"\n", "", 1),
            ("kind: A\nnote: |\n  Warning: b\n", "kind: A\nnote: |\n  Warning: b\n", 0),
            ("Unable to connect\nkind: A\n", "Unable to connect\nkind: A\n", 0),
        ] {
            let (found, messages) = without_messages(text);
            assert_eq!((found, messages.len()), (rest, count), "{text}");
        }
        assert_eq!(text_before_json("I am text\n{\n"), Some("I am text"));
        assert_eq!(text_before_json("kind: A\nspec: {\n"), None);
    }

    #[test]
    fn what_is_neither_says_where() {
        assert_eq!(
            parse("error: no server\n").map_err(|_| ()),
            Ok(vec![serde_json::json!({"error": "no server"})])
        );
        assert_eq!(parse("no server\n"), Err("it is plain text, not Kubernetes objects".into()));
    }
}
