//! Conventions of this repository that can be checked.

mod examples;
mod help;
mod prose;
mod source;

use std::collections::{BTreeMap, BTreeSet};

use source::{Source, sources};

/// APIs that only edges may use, each with its edges: files and directories.
const EDGES: &[(&str, &[&str])] = &[
    (
        "std::fs",
        &[
            "apply",
            // Templates can be files.
            "args/global.rs",
            "bounded.rs",
            "dump",
            "lint/files.rs",
            "connect",
            "commands/shared/mutes.rs",
            "commands/completion/install.rs",
            // Checks whether the process ignores SIGHUP.
            "ctx/process.rs",
        ],
    ),
    (
        "std::env",
        &[
            "apply/precondition.rs",
            "connect",
            "program.rs",
            "commands/completion/install.rs",
            "cli/completion/mod.rs",
        ],
    ),
    (
        "kube::Client",
        &[
            "apply",
            "cluster/live",
            "connect",
            "ctx",
            // These commands stream or wait; no other command gets a client.
            "commands/package/logs",
        ],
    ),
    ("Timestamp::now", &["connect", "ctx"]),
    ("println!", &[]),
    ("print!(", &[]),
    ("std::process::exit", &[]),
];

/// Fails with all violations, one line each.
fn check(wrong: impl Iterator<Item = String>) {
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn only_the_api_module_spells_api_groups() {
    // Split, or this file would violate its own rule.
    let groups = ["skyhook", "nodewright"].map(|name| format!("{name}.nvidia.com"));
    let others = sources().filter(|s| !s.is_in("api"));
    check(others.flat_map(|s| {
        let spelled = groups.iter().filter(move |g| s.whole.contains(g.as_str()));
        let place = s.path.clone();
        spelled.map(move |g| format!("{place} spells {g}; ask the Generation for it")).collect::<Vec<_>>()
    }));
}

/// The compiler keeps the order of the crates; within a crate, `lib.rs` declares the modules in the order in which data
/// flows.
#[test]
fn modules_use_only_modules_above_them() {
    check(source::roots().iter().flat_map(|root| {
        let lib = source::read(&format!("{root}/lib.rs"));
        let order: Vec<&str> =
            lib.lines().filter_map(|l| l.strip_prefix("pub mod ")?.strip_suffix(';')).collect();
        assert!(!order.is_empty(), "{root}/lib.rs declares no modules");
        let place = |module: &str| order.iter().position(|m| *m == module);
        let below = sources().filter(|s| s.root == *root).flat_map(|s| {
            let own = place(s.module());
            let used = s.modules_used().into_iter().filter(|used| own.is_some() && place(used) > own);
            used.map(|used| format!("{root}/{} uses {used}", s.path)).collect::<Vec<_>>()
        });
        below.collect::<Vec<_>>()
    }));
}

#[test]
fn exception_lists_have_no_unused_entries() {
    let all: Vec<Source> = sources().collect();
    check(EDGES.iter().flat_map(|(name, edges)| {
        let needed = |edge: &str| all.iter().any(|s| s.is_in(edge) && s.code.contains(name));
        let unused = edges.iter().filter(|edge| !needed(edge));
        unused.map(|edge| format!("{edge} need not be an edge to {name}")).collect::<Vec<_>>()
    }));
}

/// For each file, the files it uses, without its parents and children.
fn graph() -> BTreeMap<String, BTreeSet<String>> {
    let all: Vec<Source> = sources().filter(|s| !s.code.is_empty()).collect();
    let modules: BTreeSet<Vec<String>> = all.iter().map(Source::path_of_module).collect();
    let family = |a: &[String], b: &[String]| a.starts_with(b) || b.starts_with(a);
    let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in &all {
        let own = source.path_of_module();
        let paths = source.paths().into_iter();
        let named = paths.filter_map(|path| {
            let prefixes = (1..=path.len()).rev().map(|n| path[..n].to_vec());
            prefixes.into_iter().find(|prefix| modules.contains(prefix))
        });
        let named = named.filter(|module| !family(module, &own));
        // Two crates can have a module of one name: one adds to the other.
        graph.entry(own.join("::")).or_default().extend(named.map(|m| m.join("::")));
    }
    graph
}

#[test]
fn modules_have_no_import_cycles() {
    let graph = graph();
    let reached = |from: &str| {
        let mut reached: BTreeSet<&str> = BTreeSet::new();
        let mut open = vec![from];
        while let Some(at) = open.pop() {
            for next in graph.get(at).into_iter().flatten() {
                if reached.insert(next) {
                    open.push(next);
                }
            }
        }
        reached
    };
    let in_circle = graph.keys().filter(|module| reached(module).contains(module.as_str()));
    check(in_circle.map(|module| format!("{module} leads back to itself")));
}

#[test]
fn commands_do_not_import_each_other() {
    let command = |module: &str| {
        let mut parts = module.split("::");
        (parts.next() == Some("commands")).then(|| parts.next().map(str::to_owned))?
    };
    check(graph().iter().flat_map(|(module, named)| {
        let own = command(module);
        let others = named.iter().filter(|named| {
            let theirs = command(named);
            own.is_some() && theirs.is_some() && own != theirs && theirs.as_deref() != Some("shared")
        });
        let wrong: Vec<String> = others.map(|n| format!("{module} imports {n}")).collect();
        wrong
    }));
}

#[test]
fn only_edge_modules_do_io() {
    check(sources().flat_map(|s| {
        let names = EDGES
            .iter()
            .filter(|(name, edges)| s.code.contains(name) && !edges.iter().any(|edge| s.is_in(edge)));
        names.map(|(name, _)| format!("{} is no edge, and names {name}", s.path)).collect::<Vec<_>>()
    }));
}

#[test]
fn files_are_small_and_have_concrete_names() {
    const MOST: usize = 800;
    let files = ["src", "crates", "tests"].into_iter().flat_map(source::files);
    check(files.flat_map(|(path, text)| {
        let lines = text.lines().count();
        let long = (lines > MOST).then(|| format!("{path} has {lines} lines; split it"));
        let vague = ["utils", "util", "helpers", "common", "misc"];
        let named = path.split(['/', '.']).any(|part| vague.contains(&part));
        let named = named.then(|| format!("{path}: name it after what is in it"));
        [long, named].into_iter().flatten()
    }));
}

#[test]
fn modules_have_doc_comments() {
    // The doc comment of a command or rule is its manual.
    let spoken = |s: &Source| {
        let is_rule = s.is_in("rules") || s.is_in("lint/rules");
        s.whole.starts_with("//!") || s.is_in("commands") || is_rule || s.code.is_empty()
    };
    check(sources().filter(|s| !spoken(s)).map(|s| format!("{} does not say what it is", s.path)));
}

/// Paths in backticks in the documents exist.
#[test]
fn documents_name_existing_files() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let path =
        regex::Regex::new(r"`((?:src|crates|tests|docs|\.github)/[A-Za-z0-9_./-]+)`").expect("a pattern");
    let mut documents = vec![root.join("README.md"), root.join("CONTRIBUTING.md"), root.join("SECURITY.md")];
    documents.push(root.join("tests/e2e/README.md"));
    documents.push(root.join("SKILL.md"));
    for directory in ["docs", "docs/codes"] {
        let pages = std::fs::read_dir(root.join(directory)).expect("a directory");
        let pages = pages.map(|page| page.expect("an entry").path());
        documents.extend(pages.filter(|page| page.is_file()));
    }
    check(documents.iter().flat_map(|document| {
        let text = std::fs::read_to_string(document).expect("a document");
        let named = path.captures_iter(&text).map(|found| found[1].to_owned());
        let missing = named.filter(|name| !name.contains("NAME") && !root.join(name).exists());
        missing.map(|name| format!("{}: {name}", document.display())).collect::<Vec<_>>()
    }));
}
