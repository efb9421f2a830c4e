//! The dependencies of the binary: their licenses, sources and Rust versions are checked even without
//! `cargo deny`, and the workflows use the checked versions.

mod release;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(path).expect("a file of the repository")
}

/// Cargo's metadata of all packages for this platform, offline.
fn metadata() -> Value {
    let run = |program: &str, words: &[&str]| {
        let ran = Command::new(program)
            .args(words)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .expect("the program starts");
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).expect("text")
    };
    let cargo = env!("CARGO");
    let version = run(cargo, &["-vV"]);
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).expect("a host");
    let words = ["metadata", "--locked", "--offline", "--format-version=1", "--filter-platform", host];
    serde_json::from_str(&run(cargo, &words)).expect("JSON")
}

/// The packages in the binary and its build, without those of the tests.
fn parts(metadata: &Value) -> Vec<&Value> {
    let list = |value: &'_ Value| value.as_array().cloned().expect("a list");
    let mut uses: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for node in list(&metadata["resolve"]["nodes"]) {
        let deps = list(&node["deps"])
            .into_iter()
            .filter(|dep| list(&dep["dep_kinds"]).iter().any(|kind| kind["kind"] != "dev"));
        let ids = deps.map(|dep| dep["pkg"].as_str().expect("an id").to_owned());
        uses.insert(node["id"].as_str().expect("an id").to_owned(), ids.collect());
    }
    let mut open = vec![metadata["resolve"]["root"].as_str().expect("an id").to_owned()];
    let mut found = BTreeSet::new();
    while let Some(id) = open.pop() {
        if found.insert(id.clone()) {
            open.extend(uses[&id].clone());
        }
    }
    let packages = metadata["packages"].as_array().expect("packages").iter();
    packages.filter(|p| found.contains(p["id"].as_str().expect("an id"))).collect()
}

/// The words of a list in `deny.toml`.
fn words_of_list(key: &str) -> BTreeSet<String> {
    let text = read("deny.toml");
    let (_, rest) = text.split_once(&format!("\n{key} = [")).expect("the list");
    let (list, _) = rest.split_once(']').expect("its end");
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Whether a license expression is satisfied by the allowed licenses. `/` means OR in old crates.
fn is_met(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    let met = any(&mut rest, allowed);
    met && rest.is_empty()
}

fn any(rest: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    let mut met = every(rest, allowed);
    while let ["OR", tail @ ..] = *rest {
        *rest = tail;
        met |= every(rest, allowed);
    }
    met
}

fn every(rest: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    let mut met = one(rest, allowed);
    while let ["AND", tail @ ..] = *rest {
        *rest = tail;
        met &= one(rest, allowed);
    }
    met
}

fn one(rest: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    match *rest {
        ["(", tail @ ..] => {
            *rest = tail;
            let met = any(rest, allowed);
            let closed = rest.first() == Some(&")");
            *rest = rest.get(1..).unwrap_or_default();
            met && closed
        }
        [name, "WITH", exception, tail @ ..] => {
            *rest = tail;
            allowed.contains(&format!("{name} WITH {exception}"))
        }
        [name, tail @ ..] => {
            *rest = tail;
            allowed.contains(*name)
        }
        [] => false,
    }
}

#[test]
fn license_expressions_are_evaluated() {
    let allowed = ["MIT", "Apache-2.0", "ISC"].map(str::to_owned).into();
    for (expression, met) in [
        ("MIT", true),
        ("GPL-3.0-only", false),
        ("GPL-3.0-only OR MIT", true),
        ("MIT AND GPL-3.0-only", false),
        ("(MIT OR GPL-3.0-only) AND ISC", true),
        ("MIT/Apache-2.0", true),
        ("Apache-2.0 WITH LLVM-exception", false),
        ("(MIT", false),
        ("", false),
    ] {
        assert_eq!(is_met(expression, &allowed), met, "{expression}");
    }
}

#[test]
fn dependencies_have_allowed_licenses_and_come_from_crates_io() {
    let (metadata, allowed) = (metadata(), words_of_list("allow"));
    let parts = parts(&metadata);
    assert!(parts.len() > 100, "{}", parts.len());
    let registry = "registry+https://github.com/rust-lang/crates.io-index";
    let wrong = parts.iter().filter(|p| {
        // The packages of the workspace have no source.
        let own = p["source"].is_null();
        let licence = p["license"].as_str().unwrap_or_default();
        !is_met(licence, &allowed) || !(own || p["source"] == registry)
    });
    let wrong: Vec<String> = wrong
        .map(|p| format!("{} {}: {} from {}", p["name"], p["version"], p["license"], p["source"]))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// `1.90` as numbers.
fn version(text: &str) -> Vec<u32> {
    text.split('.').map(|n| n.parse().expect("a number")).collect()
}

#[test]
fn rust_version_matches_the_workflow_and_dependencies() {
    let metadata = metadata();
    let parts = parts(&metadata);
    let own = parts.iter().find(|p| p["name"] == "kubectl-skyhook").expect("the packages include this one");
    let own = own["rust_version"].as_str().expect("a version");
    let newer = parts
        .iter()
        .filter(|p| p["rust_version"].as_str().is_some_and(|v| version(v)[..2] > version(own)[..2]));
    let newer: Vec<&Value> = newer.map(|p| &p["name"]).collect();
    assert!(newer.is_empty(), "{newer:?} need a newer Rust than {own}");
    let built = format!("cargo +{own} check --locked");
    assert!(read(".github/workflows/ci.yml").contains(&built), "the workflow does not run {built:?}");
}

#[test]
fn workflows_pin_actions_by_hash() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(".github/workflows");
    let mut seen = 0;
    for file in std::fs::read_dir(directory).expect("workflows") {
        let text = std::fs::read_to_string(file.expect("an entry").path()).expect("text");
        for line in text.lines().filter_map(|line| line.split_once("uses: ")) {
            // A workflow of this repository needs no pin: it comes from the same commit.
            if line.1.starts_with("./.github/") {
                continue;
            }
            let (action, tag) = line.1.split_once(" # v").unwrap_or((line.1, ""));
            let hash = action.split_once('@').map_or("", |(_, hash)| hash);
            let pinned = hash.len() == 40 && hash.chars().all(|c| c.is_ascii_hexdigit());
            assert!(pinned && !tag.is_empty(), "{}: name it by hash, with its version behind", line.1);
            seen += 1;
        }
    }
    assert!(seen > 5, "{seen}");
}
