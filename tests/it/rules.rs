//! Every rule against its fixture: the findings are exactly the marks.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use insta::assert_snapshot;
use kubectl_skyhook::cluster::dump;
use kubectl_skyhook::rules::{self, Scope};
use serde_json::json;

use crate::support::marks;
use crate::support::run::run;

/// The marks of a fixture: comments such as `# expect: SKY101 node-2 gpu driver`.
fn marks_in(text: &str) -> BTreeSet<String> {
    text.lines()
        .filter_map(|line| line.trim().strip_prefix("# expect: "))
        .map(|mark| mark.trim().to_owned())
        .collect()
}

/// `package_erroring.jobs.yaml` is a second fixture of `package-erroring`.
fn rule_name(path: &Path) -> String {
    let name = path.file_name().expect("a name").to_string_lossy();
    name.split('.').next().expect("a first part").replace('_', "-")
}

fn fixtures() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rules");
    let mut files: Vec<PathBuf> = std::fs::read_dir(directory)
        .expect("the directory is there")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    files
}

#[test]
fn findings_match_fixture_marks() {
    let mut wrong = String::new();
    for path in fixtures() {
        let stem = rule_name(&path);
        let rule = rules::find(&stem).unwrap_or_else(|| panic!("no rule is called {stem}"));
        let text = std::fs::read_to_string(&path).expect("a fixture");
        let marks = marks_in(&text);
        assert!(!marks.is_empty(), "{stem}: a fixture needs at least one mark");
        let cluster = dump::load(std::slice::from_ref(&path), None).expect("a fixture that loads");
        let scope = Scope { rules: vec![rule], ..Scope::default() };
        let found: BTreeSet<String> =
            rules::diagnose(&cluster, &scope).findings.iter().map(marks::of_finding).collect();
        for missing in marks.difference(&found) {
            wrong.push_str(&format!("{stem}: not found: {missing}\n"));
        }
        for surplus in found.difference(&marks) {
            wrong.push_str(&format!("{stem}: not marked: {surplus}\n"));
        }
    }
    assert_eq!(wrong, "");
}

#[test]
fn every_rule_has_a_fixture_and_a_manual() {
    let stems: BTreeSet<String> = fixtures().iter().map(|p| rule_name(p)).collect();
    let names: BTreeSet<String> = rules::ALL.iter().map(|r| r.name.to_owned()).collect();
    assert_eq!(names, stems);
    for rule in rules::ALL {
        for heading in ["What it means", "What causes it", "How to confirm", "How to fix", "Since"] {
            assert!(rule.docs.contains(&format!(" # {heading}\n")), "{}: {heading}", rule.code);
        }
        assert!(rule.summary().ends_with('.'), "{}", rule.code);
    }
}

#[test]
fn codes_are_sorted_unique_and_not_retired() {
    let codes: Vec<&str> = rules::ALL.iter().map(|r| r.code).collect();
    let mut sorted = codes.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(codes, sorted);
    for (retired, heir) in rules::RETIRED {
        assert!(!codes.contains(retired), "{retired} is retired");
        assert!(codes.contains(heir), "{retired} names {heir}, which does not exist");
    }
}

/// The table for users names every rule, and no unknown code.
#[test]
fn stuck_states_table_names_every_rule() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/stuck-states.md");
    let text = std::fs::read_to_string(path).expect("the table");
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    let named: BTreeSet<&str> = words.filter(|w| w.starts_with("SKY")).collect();
    let codes: BTreeSet<&str> = rules::ALL.iter().map(|r| r.code).collect();
    assert_eq!(named, codes);
}

#[test]
fn explain_accepts_impact_grades() {
    let ran = run("explain b4").output();
    assert_snapshot!("explain_grade", ran.transcript());
    let document = run("explain B4 -o json").output().json();
    let meaning = "reboots, or installation records are lost";
    let expected =
        json!({"apiVersion": "kubectl-skyhook/v1", "kind": "Grade", "grade": "B4", "meaning": meaning});
    assert_eq!(document, expected);
    let both = run("explain B0 SKY101 -o name").output().stdout;
    assert_eq!(both, "grade/B0\nrule/SKY101\n");
    let stdout = |words: &str| run(words).output().stdout;
    assert_eq!(stdout("explain grades"), stdout("explain GRADE"));
}

/// Since v0.19.1 the operator sets a higher limit.
#[test]
fn upgrade_is_not_suggested_beyond_the_limit_of_older_operators() {
    let fixture = std::fs::read_to_string("tests/rules/package_erroring.interrupts.yaml").expect("a fixture");
    let directory = tempfile::tempdir().expect("a directory");
    let suggests = |text: &str| {
        let file = directory.path().join("cluster.yaml");
        std::fs::write(&file, text).expect("a file");
        let ran = run(&format!("diagnose stuck --rule SKY201 --from {}", file.display())).output();
        ran.expect_code(2);
        ran.stdout.contains("upgrade the operator")
    };
    assert!(suggests(&fixture));
    assert!(!suggests(&fixture.replace("memory: 64Mi", "memory: 256Mi")));
}
