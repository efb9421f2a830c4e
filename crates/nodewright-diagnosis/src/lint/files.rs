//! (edge) Reads manifests from files, directories and standard input, by the cluster that they belong to.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use thiserror::Error;

use super::finding::{CONFIG_FILE, Config};
use super::manifest::{KUSTOMIZATIONS, Named, TESTS};
use super::{ManifestFile, yaml};
use crate::bounded::{self, MOST_CAPTURE};
use crate::error::plain_reason;

/// An error of reading manifests.
#[derive(Debug, Error)]
pub enum FilesError {
    #[error("cannot read {path}: {}", plain_reason(source))]
    Io { path: String, source: std::io::Error },
    #[error("{path} contains no .yaml, .yml or .json file")]
    NoFiles { path: String },
    #[error("standard input is empty")]
    EmptyInput,
    #[error("{path}: {why}")]
    Config { path: String, why: String },
}

impl From<FilesError> for crate::error::Error {
    fn from(error: FilesError) -> Self {
        Self::failed(error)
    }
}

/// The manifests of one cluster: those of a kustomization with its bases, of a chart, of a directory that was named as
/// a root, or all others.
#[derive(Debug, Default)]
pub struct Root {
    pub files: Vec<Rc<ManifestFile>>,
    pub config: Rc<Config>,
}

/// The files that were read.
#[derive(Debug, Default)]
pub struct Files {
    pub roots: Vec<Root>,
    /// Number of files that configurations exclude.
    pub excluded: usize,
    /// Symbolic links without a target.
    pub dangling: Vec<String>,
}

/// A file to read.
struct Found {
    file: PathBuf,
    /// The canonical directory and the file's name.
    place: PathBuf,
    /// The canonical path, without symbolic links.
    target: PathBuf,
}

/// Reads files, directories with all `.yaml`, `.yml` and `.json` files below them, and `-` for standard input. Each
/// directory in `roots` has the manifests of its own cluster.
///
/// # Errors
///
/// A path cannot be read, a directory contains no such file, standard input is empty, or a configuration file is invalid.
pub fn read(paths: &[PathBuf], roots: &[PathBuf]) -> Result<Files, FilesError> {
    let mut files = Files::default();
    let mut found = Vec::new();
    let mut given = Vec::new();
    for path in paths {
        if path == Path::new("-") {
            let text = bounded::read(std::io::stdin().lock(), MOST_CAPTURE);
            let file = file(path, "stdin", text)?;
            // The output of a failed program: it must not pass as a manifest without problems.
            if file.text.trim().is_empty() {
                return Err(FilesError::EmptyInput);
            }
            given.push(of_text(Path::new("."), file)?);
        } else if fs::metadata(path).map_err(|source| unreadable(path, source))?.is_dir() {
            let before = found.len();
            files_below(path, &mut Vec::new(), &mut found, &mut files.dangling)?;
            if found.len() == before {
                return Err(FilesError::NoFiles { path: path.display().to_string() });
            }
            found[before..].sort_by(|a, b| a.file.cmp(&b.file));
        } else {
            found.push(Found::new(path)?);
        }
    }
    let mut tree = Tree::default();
    for root in roots {
        tree.roots.insert(canonical(root)?);
    }
    let mut units: BTreeMap<PathBuf, Vec<Rc<ManifestFile>>> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for found in &found {
        tree.read_above(&found.place)?;
    }
    for found in found {
        if tree.config(&found.place).excludes(&found.place) {
            files.excluded += 1;
            continue;
        }
        let unit = tree.unit(&found.place);
        // A link and its target are one file.
        if !seen.insert((unit.clone(), found.target.clone())) {
            continue;
        }
        let bytes = bounded::open(&found.file).and_then(|file| bounded::read(file, MOST_CAPTURE));
        let mut file = file(&found.file, &found.file.display().to_string(), bytes)?;
        file.is_part = tree.parts.contains(&found.target);
        let file = Rc::new(file);
        for unit in tree.users(&found.target).chain([unit]) {
            units.entry(unit).or_default().push(Rc::clone(&file));
        }
    }
    files.roots = tree.roots_of(&units);
    files.roots.extend(given);
    Ok(files)
}

/// A root of one text, with the configuration for this directory.
///
/// # Errors
///
/// The directory does not exist, or the configuration file is invalid.
pub fn of_text(directory: &Path, file: ManifestFile) -> Result<Root, FilesError> {
    let mut tree = Tree::default();
    let place = canonical(directory)?.join("-");
    tree.read_above(&place)?;
    Ok(Root { files: vec![Rc::new(file)], config: tree.config(&place) })
}

impl Found {
    fn new(file: &Path) -> Result<Found, FilesError> {
        let directory = file.parent().filter(|directory| !directory.as_os_str().is_empty());
        let directory = canonical(directory.unwrap_or(Path::new(".")))?;
        let place = directory.join(file.file_name().unwrap_or_default());
        // A pipe has no canonical path.
        let target = file.canonicalize().unwrap_or_else(|_| place.clone());
        Ok(Found { file: file.to_owned(), place, target })
    }
}

/// The directories above the files, up to the top of their repository.
#[derive(Default)]
struct Tree {
    directories: HashMap<PathBuf, Directory>,
    /// Directories that the command line names.
    roots: BTreeSet<PathBuf>,
    /// Files with parts of objects.
    parts: BTreeSet<PathBuf>,
}

#[derive(Default)]
struct Directory {
    config: Option<Rc<Config>>,
    /// Files and directories that are applied together with this one.
    resources: Vec<PathBuf>,
    /// A kustomization or a chart.
    is_root: bool,
    /// A test that applies its files one after another.
    has_steps: bool,
    /// The top of a repository.
    is_top: bool,
}

impl Tree {
    /// Reads the directories above a file.
    fn read_above(&mut self, place: &Path) -> Result<(), FilesError> {
        for path in place.ancestors().skip(1) {
            if !self.directories.contains_key(path) {
                let directory = self.directory(path)?;
                self.directories.insert(path.to_owned(), directory);
            }
            if self.directories[path].is_top {
                break;
            }
        }
        Ok(())
    }

    fn directory(&mut self, path: &Path) -> Result<Directory, FilesError> {
        let mut directory = Directory { is_top: path.join(".git").exists(), ..Directory::default() };
        let config = path.join(CONFIG_FILE);
        if let Ok(text) = fs::read_to_string(&config) {
            let parsed = Config::parse(&config, &text);
            let path = config.display().to_string();
            directory.config = Some(Rc::new(parsed.map_err(|why| FilesError::Config { path, why })?));
        }
        let read = |names: &[&str]| {
            let mut texts = names.iter().filter_map(|name| fs::read_to_string(path.join(name)).ok());
            texts.next().and_then(|text| Some(yaml::parse(&text, 1).ok()?.value))
        };
        let kustomization = read(&KUSTOMIZATIONS);
        let test = read(&TESTS);
        directory.is_root = kustomization.is_some() || path.join("Chart.yaml").exists();
        directory.has_steps = test.is_some();
        let resolved = |paths: Vec<String>| {
            paths.into_iter().filter_map(|below| path.join(below).canonicalize().ok()).collect::<Vec<_>>()
        };
        let named = kustomization.iter().map(Named::of_kustomization);
        for named in named.chain(test.iter().map(Named::of_test)) {
            directory.resources.extend(resolved(named.resources));
            self.parts.extend(resolved(named.parts));
        }
        Ok(directory)
    }

    /// The directories above a file or directory, from the nearest one on.
    fn above<'t>(&'t self, place: &'t Path) -> impl Iterator<Item = (&'t Path, &'t Directory)> {
        place.ancestors().skip(1).map_while(|path| Some((path, self.directories.get(path)?)))
    }

    fn config(&self, place: &Path) -> Rc<Config> {
        self.above(place).find_map(|(_, directory)| directory.config.clone()).unwrap_or_default()
    }

    /// The directory with the kustomization, the chart or the root of a file; else that of its configuration, or none.
    /// Each file of a test is alone: later ones replace objects of earlier ones.
    fn unit(&self, place: &Path) -> PathBuf {
        let config = self.config(place);
        for (path, directory) in self.above(place) {
            if directory.has_steps {
                return place.to_owned();
            }
            if directory.is_root || self.roots.contains(path) || config.is_root(path) {
                return path.to_owned();
            }
        }
        config.directory.clone()
    }

    /// The kustomizations that name this file.
    fn users<'t>(&'t self, file: &'t PathBuf) -> impl Iterator<Item = PathBuf> + 't {
        let users = self.directories.iter().filter(|(_, directory)| directory.resources.contains(file));
        users.map(|(path, _)| path.clone()).filter(move |path| self.unit(file) != *path)
    }

    /// A root for each unit that no kustomization uses, with all that the unit uses.
    fn roots_of(&self, units: &BTreeMap<PathBuf, Vec<Rc<ManifestFile>>>) -> Vec<Root> {
        let used: BTreeSet<&PathBuf> = self.directories.values().flat_map(|d| &d.resources).collect();
        let tops = self.directories.keys().chain(units.keys()).collect::<BTreeSet<_>>();
        let tops = tops.into_iter().filter(|unit| !used.contains(unit));
        let mut left: BTreeSet<&PathBuf> = units.keys().collect();
        let mut roots = Vec::new();
        let mut add = |top: &PathBuf, left: &mut BTreeSet<&PathBuf>| {
            let mut closure = vec![top];
            let mut at = 0;
            while let Some(unit) = closure.get(at).copied() {
                for resource in self.directories.get(unit).into_iter().flat_map(|d| &d.resources) {
                    if !closure.contains(&resource) {
                        closure.push(resource);
                    }
                }
                at += 1;
            }
            left.retain(|unit| !closure.contains(unit));
            // Bases first, as Kustomize accumulates them.
            let files: Vec<_> =
                closure.iter().rev().filter_map(|unit| units.get(*unit)).flatten().cloned().collect();
            if !files.is_empty() {
                roots.push(Root { files, config: self.config(&top.join("-")) });
            }
        };
        tops.for_each(|top| add(top, &mut left));
        // Kustomizations that use each other.
        while let Some(top) = left.first().copied() {
            add(top, &mut left);
        }
        roots
    }
}

fn file(path: &Path, label: &str, bytes: std::io::Result<Vec<u8>>) -> Result<ManifestFile, FilesError> {
    let bytes = bytes.and_then(bounded::to_utf8).map_err(|source| unreadable(path, source))?;
    let text = String::from_utf8(bytes);
    let text = text.unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    Ok(ManifestFile { path: label.to_owned(), text, is_part: false })
}

/// Collects the manifests below a directory. Symbolic links are followed, except to a directory that contains them.
fn files_below(
    directory: &Path,
    open: &mut Vec<PathBuf>,
    found: &mut Vec<Found>,
    dangling: &mut Vec<String>,
) -> Result<(), FilesError> {
    let real = canonical(directory)?;
    if open.contains(&real) {
        return Ok(());
    }
    open.push(real);
    let entries = fs::read_dir(directory).map_err(|e| unreadable(directory, e))?;
    for entry in entries {
        let path = entry.map_err(|source| unreadable(directory, source))?.path();
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
        let is_manifest = matches!(extension, "yaml" | "yml" | "json");
        match fs::metadata(&path) {
            Ok(kind) if kind.is_dir() => files_below(&path, open, found, dangling)?,
            Ok(kind) if kind.is_file() && is_manifest => found.push(Found::new(&path)?),
            Err(_) if is_manifest => dangling.push(path.display().to_string()),
            _ => {}
        }
    }
    open.pop();
    Ok(())
}

fn canonical(path: &Path) -> Result<PathBuf, FilesError> {
    path.canonicalize().map_err(|source| unreadable(path, source))
}

fn unreadable(path: &Path, source: std::io::Error) -> FilesError {
    FilesError::Io { path: path.display().to_string(), source }
}
