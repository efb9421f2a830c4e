//! The source files of all crates, as text.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A file below the `src` of a crate.
pub struct Source {
    /// The directory of the crate's sources: `src`, `crates/nodewright/src`.
    pub root: String,
    /// The path below it, with slashes: `cluster/live/list.rs`.
    pub path: String,
    pub whole: String,
    /// Without comments and without tests.
    pub code: String,
}

/// A file of the repository; empty if it does not exist.
pub fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap_or_default()
}

/// The directories with the sources of each crate.
pub fn roots() -> Vec<String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates");
    let names = std::fs::read_dir(crates).expect("crates").map(|entry| entry.expect("an entry").file_name());
    let mut roots: Vec<String> = names.map(|name| format!("crates/{}/src", name.to_string_lossy())).collect();
    roots.sort();
    roots.push("src".to_owned());
    roots
}

/// All source files, sorted by crate and path.
pub fn sources() -> impl Iterator<Item = Source> {
    let sources = roots().into_iter().flat_map(|root| {
        files(&root).into_iter().map(move |(path, whole)| {
            let path = path[root.len() + 1..].to_owned();
            Source { root: root.clone(), code: code(&path, &whole), path, whole }
        })
    });
    let sources: Vec<Source> = sources.collect();
    assert!(sources.len() > 50, "where are the sources?");
    sources.into_iter()
}

/// The paths and texts of all Rust files below a directory, sorted by path.
pub fn files(directory: &str) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = Vec::new();
    walk(&root.join(directory), &mut paths);
    paths.sort();
    let file = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("a source file");
        let path = path.strip_prefix(root).expect("the path is below the root");
        (path.to_string_lossy().replace('\\', "/"), text)
    };
    paths.into_iter().map(file).collect()
}

fn walk(directory: &Path, paths: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            walk(&path, paths);
        } else if path.extension().is_some_and(|e| e == "rs") {
            paths.push(path);
        }
    }
}

/// Unit tests are at the end of a file, or in files of their own.
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

    /// Whether the source is this file, is in this directory, or is the directory's module file.
    pub fn is_in(&self, place: &str) -> bool {
        let rest = self.path.strip_prefix(place);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '.']))
    }

    /// The path of its module: `cluster::live::list`, and `cluster` for `cluster/mod.rs`.
    pub fn path_of_module(&self) -> Vec<String> {
        let path = self.path.trim_end_matches(".rs");
        let path = path.strip_suffix("/mod").unwrap_or(path);
        path.split('/').map(str::to_owned).collect()
    }

    /// Every path that starts with `crate` or `super`, resolved from the top module, in any form of `use` and
    /// in code.
    pub fn paths(&self) -> BTreeSet<Vec<String>> {
        let own = self.path_of_module();
        let mut found = BTreeSet::new();
        let begins = |word: &'static str| self.code.match_indices(word).map(|(at, _)| at);
        let inside = |at: usize| {
            let before = self.code[..at].chars().next_back();
            before.is_some_and(|c| c.is_alphanumeric() || c == '_')
        };
        for at in begins("crate::").filter(|at| !inside(*at)) {
            expand(&self.code[at + "crate::".len()..], &[], &mut found);
        }
        for at in begins("super::").filter(|at| !inside(*at)) {
            let mut rest = &self.code[at..];
            if self.code[..at].ends_with("super::") {
                continue;
            }
            let mut base = own.as_slice();
            while let Some(after) = rest.strip_prefix("super::") {
                base = &base[..base.len().saturating_sub(1)];
                rest = after;
            }
            expand(rest, base, &mut found);
        }
        found
    }

    /// The top modules that the file uses.
    pub fn modules_used(&self) -> BTreeSet<String> {
        let paths = self.paths().into_iter();
        paths
            .filter_map(|path| path.into_iter().next())
            .filter(|top| top.starts_with(|c: char| c.is_ascii_lowercase()))
            .collect()
    }

    /// String literals that start with one of our commands, with placeholders replaced by a word.
    pub fn hints(&self) -> Vec<String> {
        let literals = self.code.split("\"kubectl skyhook ").skip(1);
        let literals = literals.filter_map(|rest| rest.split_once('"'));
        literals.map(|(words, _)| format!("kubectl skyhook {}", without_values(words))).collect()
    }
}

/// Collects the paths at the start of a text below `base`: one, or several in braces.
fn expand(text: &str, base: &[String], found: &mut BTreeSet<Vec<String>>) {
    let text = text.trim_start();
    if text.starts_with('}') {
        // After a trailing comma.
        return;
    }
    if let Some(mut rest) = text.strip_prefix('{') {
        let mut depth = 0;
        loop {
            expand(rest, base, found);
            let next = rest.find(|c| {
                match c {
                    '{' => depth += 1,
                    '}' if depth > 0 => depth -= 1,
                    ',' | '}' if depth == 0 => return true,
                    _ => {}
                }
                false
            });
            match next {
                Some(at) if rest[at..].starts_with(',') => rest = &rest[at + 1..],
                _ => return,
            }
        }
    }
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let (word, rest) = text.split_at(end.unwrap_or(text.len()));
    if word.is_empty() || word == "self" {
        found.insert(base.to_vec());
        return;
    }
    let path = [base, &[word.to_owned()]].concat();
    match rest.strip_prefix("::") {
        Some(rest) => expand(rest, &path, found),
        None => {
            found.insert(path);
        }
    }
}

#[test]
fn every_form_of_use_is_parsed() {
    let source = Source {
        root: "src".to_owned(),
        path: "a/b/c.rs".to_owned(),
        whole: String::new(),
        code: "use crate::x::y;\nuse crate::{k, l::{self, M}, n::O as P};\nuse super::d;\nuse super::super::{e::F, g};\n\
               fn f() { crate::q::r(super::s::t()) }\nuse crate::{\n    u,\n    v::*,\n};"
            .to_owned(),
    };
    let paths: Vec<String> = source.paths().iter().map(|p| p.join("::")).collect();
    let expected = "a::b::d a::b::s::t a::e::F a::g k l l::M n::O q::r u v x::y";
    assert_eq!(paths.join(" "), expected);
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
