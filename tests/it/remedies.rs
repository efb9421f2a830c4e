//! Every command that a rule advises is one that we understand.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use kubectl_skyhook::cluster::dump;
use kubectl_skyhook::program::Program;
use kubectl_skyhook::rules::{self, Scope};

/// The fixtures of rules, and the captured clusters.
fn captures() -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = ["tests/rules", "tests/clusters"]
        .iter()
        .flat_map(|folder| {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
            std::fs::read_dir(folder).expect("the folder is there")
        })
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    paths
}

#[test]
fn remedies_parse() {
    let mut wrong = BTreeSet::new();
    let mut ours = 0;
    for path in captures() {
        let cluster = dump::load(std::slice::from_ref(&path), None).expect("a capture that loads");
        let report = rules::diagnose(&cluster, &Scope::default());
        for finding in &report.findings {
            for remedy in &finding.remedies {
                let words: Vec<&str> = remedy.argv.iter().map(String::as_str).collect();
                let ["kubectl", "skyhook", own @ ..] = words.as_slice() else {
                    continue;
                };
                ours += 1;
                let line = std::iter::once("kubectl-skyhook").chain(own.iter().copied());
                if let Err(error) = Program::SKYHOOK.parse(line.map(OsString::from)) {
                    let error = error.to_string();
                    let error = error.lines().next().unwrap_or_default();
                    wrong.insert(format!(
                        "{}: {}: {error}",
                        finding.rule.code,
                        words.join(" ")
                    ));
                }
            }
        }
    }
    assert_eq!(wrong, BTreeSet::new());
    assert!(ours > 0, "no rule advises any command of ours");
}
