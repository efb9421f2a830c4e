//! (edge) Reads manifests from files, directories and standard input.

use std::path::{Path, PathBuf};

use thiserror::Error;

use super::ManifestFile;
use crate::bounded::{self, MOST_CAPTURE, utf16};
use crate::reason::plain_reason;

/// An error of reading manifests.
#[derive(Debug, Error)]
pub enum FilesError {
    #[error("cannot read {path}: {}", plain_reason(source))]
    Io { path: String, source: std::io::Error },
    #[error("{path} contains no .yaml, .yml or .json file")]
    NoFiles { path: String },
}

impl From<FilesError> for crate::error::Error {
    fn from(error: FilesError) -> Self {
        Self::failed(error)
    }
}

/// Reads files, directories with all `.yaml`, `.yml` and `.json` files below them, and `-` for standard input.
///
/// # Errors
///
/// A path cannot be read, or a directory contains no such file.
pub fn read(paths: &[PathBuf]) -> Result<Vec<ManifestFile>, FilesError> {
    let mut files = Vec::new();
    for path in paths {
        if path == Path::new("-") {
            let text = bounded::read(std::io::stdin().lock(), MOST_CAPTURE);
            files.push(file(path, "stdin", text)?);
            continue;
        }
        let metadata = std::fs::metadata(path).map_err(|source| unreadable(path, source))?;
        if !metadata.is_dir() {
            files.push(read_file(path)?);
            continue;
        }
        let below = files_below(path)?;
        if below.is_empty() {
            return Err(FilesError::NoFiles { path: path.display().to_string() });
        }
        for path in below {
            files.push(read_file(&path)?);
        }
    }
    Ok(files)
}

fn read_file(path: &Path) -> Result<ManifestFile, FilesError> {
    let bytes = bounded::open(path).and_then(|file| bounded::read(file, MOST_CAPTURE));
    file(path, &path.display().to_string(), bytes)
}

fn file(path: &Path, label: &str, bytes: std::io::Result<Vec<u8>>) -> Result<ManifestFile, FilesError> {
    let bytes = bytes.and_then(utf16::to_utf8);
    let bytes = bytes.map_err(|source| unreadable(path, source))?;
    Ok(ManifestFile { path: label.to_owned(), text: String::from_utf8_lossy(&bytes).into_owned() })
}

/// The manifests below a directory, sorted by path. Symbolic links are not followed.
fn files_below(directory: &Path) -> Result<Vec<PathBuf>, FilesError> {
    let mut files = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        let entries = std::fs::read_dir(&directory).map_err(|e| unreadable(&directory, e))?;
        for entry in entries {
            let entry = entry.map_err(|source| unreadable(&directory, source))?;
            let kind = entry.file_type().map_err(|source| unreadable(&directory, source))?;
            let path = entry.path();
            let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
            if kind.is_dir() {
                open.push(path);
            } else if kind.is_file() && matches!(extension, "yaml" | "yml" | "json") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

fn unreadable(path: &Path, source: std::io::Error) -> FilesError {
    FilesError::Io { path: path.display().to_string(), source }
}
