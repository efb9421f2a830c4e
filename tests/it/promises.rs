//! Every promise of SECURITY.md names tests that exist.

use std::path::PathBuf;
use std::process::Command;

/// The names of tests in the table of promises: hermetic, end-to-end and unit tests.
fn named(page: &str) -> Vec<&str> {
    let promises = page.split("\n## ").find_map(|part| part.strip_prefix("Promises\n"));
    let rows = promises.expect("the promises").lines();
    let kept_by = rows.filter_map(|row| row.split('|').nth(2));
    let spans = kept_by.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    spans.filter(|span| span.contains("::")).collect()
}

fn is_module(name: &str) -> bool {
    let path = name.trim_end_matches("::").replace("::", "/");
    let crates = std::fs::read_dir("crates").expect("crates").map(|entry| entry.expect("an entry").path());
    let mut roots = crates.map(|root| root.join("src")).chain([PathBuf::from("src")]);
    roots.any(|root| root.join(&path).is_dir() || root.join(&path).with_extension("rs").is_file())
}

#[test]
fn promises_name_existing_tests() {
    let page = std::fs::read_to_string("SECURITY.md").expect("the page");
    let myself = std::env::current_exe().expect("a running program has a path");
    let listed = Command::new(myself).arg("--list").output().expect("the test binary lists its tests");
    let here = String::from_utf8(listed.stdout).expect("names");
    let scenarios = ["mod.rs", "groups.rs"]
        .map(|file| std::fs::read_to_string(format!("tests/e2e/scenarios/{file}")).expect("the list"));
    let scenarios = scenarios.concat();
    let is_here = |name: &str| here.lines().any(|line| line.starts_with(name));
    let is_scenario = |name: &str| {
        let mut words = name.split("::").filter(|word| !word.is_empty());
        words.all(|word| scenarios.contains(&format!("\"{word}\"")))
    };
    let named = named(&page);
    assert!(named.len() > 30, "{named:?}");
    let missing = |name: &&&str| !is_here(name) && !is_scenario(name) && !is_module(name);
    let missing: Vec<_> = named.iter().filter(missing).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
