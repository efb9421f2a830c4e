//! The source files of the crate, as text.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A file below `src`.
pub struct Source {
    /// From `src` on, with slashes: `cluster/live/list.rs`.
    pub path: String,
    pub whole: String,
    /// Without comments and without tests.
    pub code: String,
}

/// A file of the repository; nothing if it is not there.
pub fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap_or_default()
}

/// All of them, by path.
pub fn sources() -> impl Iterator<Item = Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut paths = Vec::new();
    walk(&root, &mut paths);
    paths.sort();
    let sources: Vec<Source> = paths
        .iter()
        .map(|path| {
            let whole = std::fs::read_to_string(path).expect("a source file");
            let path = path.strip_prefix(&root).expect("it is below src");
            let path = path.to_string_lossy().replace('\\', "/");
            Source {
                code: code(&path, &whole),
                path,
                whole,
            }
        })
        .collect();
    assert!(sources.len() > 50, "where are the sources?");
    sources.into_iter()
}

fn walk(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            walk(&path, paths);
        } else if path.extension().is_some_and(|e| e == "rs") {
            paths.push(path);
        }
    }
}

/// Tests stand at the end of a file, or in files of their own beside what they test.
fn code(path: &str, whole: &str) -> String {
    if path.ends_with("/tests.rs") || path.ends_with("/oracle.rs") {
        return String::new();
    }
    let tests = whole.find("\n#[cfg(test)]\nmod tests {");
    let lines = whole[..tests.unwrap_or(whole.len())].lines();
    let lines = lines.filter(|line| !line.trim_start().starts_with("//"));
    lines.map(|line| format!("{line}\n")).collect()
}

impl Source {
    /// The top module: `cluster`.
    pub fn module(&self) -> &str {
        self.path.split(['/', '.']).next().unwrap_or_default()
    }

    /// Whether it is that file, or stands in that folder or beside it under its name.
    pub fn is_in(&self, place: &str) -> bool {
        let rest = self.path.strip_prefix(place);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '.']))
    }

    /// The top modules that stand after `crate::`.
    pub fn modules_used(&self) -> BTreeSet<String> {
        let after = self.code.split("crate::").skip(1);
        let words = after.map(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_lowercase() && c != '_');
            &rest[..end.unwrap_or(rest.len())]
        });
        words
            .filter(|word| !word.is_empty() && !word.starts_with("__"))
            .map(str::to_owned)
            .collect()
    }

    /// String literals that begin with a command of ours, a word for every value put in.
    pub fn hints(&self) -> Vec<String> {
        let literals = self.code.split("\"kubectl skyhook ").skip(1);
        let literals = literals.filter_map(|rest| rest.split_once('"'));
        literals
            .map(|(words, _)| format!("kubectl skyhook {}", without_values(words)))
            .collect()
    }
}

/// `explain {code}` as `explain x`.
fn without_values(words: &str) -> String {
    let mut text = String::new();
    let mut rest = words;
    while let Some((before, after)) = rest.split_once('{')
        && let Some((_, after)) = after.split_once('}')
    {
        text.push_str(before);
        text.push('x');
        rest = after;
    }
    text + rest
}
