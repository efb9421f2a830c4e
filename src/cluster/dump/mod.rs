//! (edge) A cluster from files: what `kubectl get -o json|yaml` wrote, alone, in a directory tree
//! or in a `.tar.gz` of one.

mod documents;
mod gather;

use std::io::Read as _;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::Cluster;
use crate::api::Generation;
use crate::reason::plain_reason;
use gather::Gatherer;

/// The most bytes that one archive or stream may unfold to, against bombs: 8 GiB.
const MOST_BYTES: u64 = 8 << 30;

/// Why files are not a cluster.
#[derive(Debug, Error)]
pub enum DumpError {
    #[error("cannot read {path}: {}; check --from", plain_reason(source))]
    Io {
        path: String,
        source: std::io::Error,
    },
    #[error("{path}: empty; expected what `kubectl get nodes,pods,… -o json` prints")]
    Empty { path: String },
    #[error("{path}: neither JSON nor YAML: {why}")]
    Syntax { path: String, why: String },
    #[error(
        "{path}: {what} is not a Kubernetes object; expected what `kubectl get … -o json` prints"
    )]
    NotAnObject { path: String, what: String },
    #[error("{path}: no .json, .yaml or .yml file in it")]
    NoFiles { path: String },
    #[error("{path}: unfolds to more than {} GiB", MOST_BYTES >> 30)]
    TooLarge { path: String },
    #[error("{path}: no nodes and no Skyhook or NodeWright objects in it; nothing to look at")]
    NothingKnown { path: String },
}

/// Reads files into a cluster.
///
/// Each path is a file, a directory tree, a `.tar.gz`, or `-` for `stdin`. Objects that stand in
/// several files are read once. What no file holds is [`super::Read::NotAsked`].
///
/// # Errors
///
/// A path that cannot be read, or text that is not Kubernetes objects, ends it: half a capture
/// could hide what is stuck.
pub fn load(paths: &[PathBuf], asked_for: Option<Generation>) -> Result<Cluster, DumpError> {
    let mut gatherer = Gatherer::default();
    for path in paths {
        read_path(path, &mut gatherer)?;
    }
    let all = || {
        paths
            .iter()
            .map(|p| p.display().to_string())
            .collect::<Vec<_>>()
            .join(", ")
    };
    gatherer
        .finish(asked_for)
        .ok_or_else(|| DumpError::NothingKnown { path: all() })
}

fn read_path(path: &Path, gatherer: &mut Gatherer) -> Result<(), DumpError> {
    if path == Path::new("-") {
        return read_stream("standard input", "", std::io::stdin().lock(), gatherer);
    }
    let label = path.display().to_string();
    let io = |source| DumpError::Io {
        path: label.clone(),
        source,
    };
    if !std::fs::metadata(path).map_err(io)?.is_dir() {
        let file = std::fs::File::open(path).map_err(io)?;
        return read_stream(&label, &stem(path), file, gatherer);
    }
    let files = files_below(path).map_err(io)?;
    if files.is_empty() {
        return Err(DumpError::NoFiles { path: label });
    }
    files.iter().try_for_each(|file| read_path(file, gatherer))
}

/// The object files of a tree, sorted; symbolic links are not followed.
fn files_below(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                open.push(entry.path());
            } else if kind.is_file() && holds_objects(&entry.path()) {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}

fn holds_objects(path: &Path) -> bool {
    let extension = path
        .extension()
        .and_then(|e| e.to_str())
        .unwrap_or_default();
    matches!(extension, "json" | "yaml" | "yml")
}

fn stem(path: &Path) -> String {
    path.file_stem()
        .map(|s| s.to_string_lossy().into_owned())
        .unwrap_or_default()
}

fn read_stream(
    label: &str,
    stem: &str,
    stream: impl std::io::Read,
    gatherer: &mut Gatherer,
) -> Result<(), DumpError> {
    let mut bytes = read_bounded(label, stream)?;
    if bytes.starts_with(&[0x1f, 0x8b]) {
        bytes = read_bounded(label, flate2::read::MultiGzDecoder::new(bytes.as_slice()))?;
    }
    if !is_tar(&bytes) {
        return read_text(label, stem, bytes, gatherer);
    }
    let io = |source| DumpError::Io {
        path: label.to_owned(),
        source,
    };
    let mut archive = tar::Archive::new(bytes.as_slice());
    let mut any = false;
    for entry in archive.entries().map_err(io)? {
        let entry = entry.map_err(io)?;
        let path = entry.path().map_err(io)?.into_owned();
        if entry.header().entry_type().is_file() && holds_objects(&path) {
            any = true;
            let label = format!("{label}:{}", path.display());
            let bytes = read_bounded(&label, entry)?;
            read_text(&label, &self::stem(&path), bytes, gatherer)?;
        }
    }
    if any {
        Ok(())
    } else {
        Err(DumpError::NoFiles {
            path: label.to_owned(),
        })
    }
}

fn is_tar(bytes: &[u8]) -> bool {
    bytes.get(257..262) == Some(b"ustar")
}

fn read_bounded(label: &str, stream: impl std::io::Read) -> Result<Vec<u8>, DumpError> {
    let mut bytes = Vec::new();
    let read = stream.take(MOST_BYTES + 1).read_to_end(&mut bytes);
    let read = read.map_err(|source| DumpError::Io {
        path: label.to_owned(),
        source,
    })?;
    if read as u64 > MOST_BYTES {
        return Err(DumpError::TooLarge {
            path: label.to_owned(),
        });
    }
    Ok(bytes)
}

fn read_text(
    label: &str,
    stem: &str,
    bytes: Vec<u8>,
    gatherer: &mut Gatherer,
) -> Result<(), DumpError> {
    let syntax = |why: String| DumpError::Syntax {
        path: label.to_owned(),
        why,
    };
    let text = String::from_utf8(bytes).map_err(|e| syntax(e.to_string()))?;
    let documents = documents::parse(&text).map_err(syntax)?;
    if documents.is_empty() {
        return Err(DumpError::Empty {
            path: label.to_owned(),
        });
    }
    for document in documents {
        gatherer
            .add(label, stem, document)
            .map_err(|what| DumpError::NotAnObject {
                path: label.to_owned(),
                what,
            })?;
    }
    Ok(())
}
