//! Every rule against its fixtures in `tests/rules`: the findings are exactly the marks. A fixture is a test with its name
//! and the code of its rule: `cargo test --test rules -- SKY201`.

#[path = "../../../tests/it/support/marks.rs"]
mod marks;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use nodewright::dump;
use nodewright_diagnosis::rules::{self, Rule, Scope};

/// The root of the repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn main() -> ExitCode {
    let of_fixtures = fixtures().into_iter().map(|path| {
        let rule = rule_of(&path);
        let file = path.file_stem().expect("a name").to_string_lossy().into_owned();
        Trial::test(format!("{file} {}", rule.code), move || findings_match_marks(rule, &path))
    });
    let of_list: [(&str, fn()); 3] = [
        ("every_rule_has_a_fixture_and_a_manual", every_rule_has_a_fixture_and_a_manual),
        ("codes_are_sorted_and_unique", codes_are_sorted_and_unique),
        ("stuck_states_table_names_every_rule", stuck_states_table_names_every_rule),
    ];
    let of_list = of_list.map(|(name, test)| {
        let test = move || {
            test();
            Ok(())
        };
        Trial::test(name, test)
    });
    libtest_mimic::run(&Arguments::from_args(), of_fixtures.chain(of_list).collect()).exit_code()
}

fn fixtures() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(Path::new(ROOT).join("tests/rules")).expect("the directory of fixtures");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files
}

/// `package_erroring.jobs.yaml` is a second fixture of `package-erroring`.
fn rule_of(path: &Path) -> &'static Rule {
    let file = path.file_name().expect("a name").to_string_lossy();
    let name = file.split('.').next().expect("a first part").replace('_', "-");
    rules::find(&name).unwrap_or_else(|| panic!("no rule is called {name}"))
}

/// The marks of a fixture: comments such as `# expect: SKY101 node-2 gpu driver`.
fn marks_in(text: &str) -> BTreeSet<String> {
    let marks = text.lines().filter_map(|line| line.trim().strip_prefix("# expect: "));
    marks.map(|mark| mark.trim().to_owned()).collect()
}

fn findings_match_marks(rule: &'static Rule, path: &Path) -> Result<(), Failed> {
    let mut marks = marks_in(&std::fs::read_to_string(path)?);
    if marks.is_empty() {
        return Err("a fixture needs at least one mark".into());
    }
    marks.remove("nothing");
    let cluster = dump::load(&[path.to_owned()], None)?;
    let report = rules::diagnose(&cluster, &Scope { rules: vec![rule], ..Scope::default() });
    let findings = report.findings.iter();
    let found: BTreeSet<String> =
        findings.map(|f| marks::of_finding(f.rule.code, f.severity, &f.subject)).collect();
    let missing = marks.difference(&found).map(|mark| format!("not found: {mark}"));
    let surplus = found.difference(&marks).map(|mark| format!("not marked: {mark}"));
    let wrong: Vec<String> = missing.chain(surplus).collect();
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}

fn every_rule_has_a_fixture_and_a_manual() {
    let with_fixture: BTreeSet<&str> = fixtures().iter().map(|path| rule_of(path).name).collect();
    let names: BTreeSet<&str> = rules::ALL.iter().map(|rule| rule.name).collect();
    assert_eq!(names, with_fixture);
    for rule in rules::ALL {
        for heading in
            ["What it means", "What causes it", "How to confirm", "How to fix", "Affected versions"]
        {
            assert!(rule.docs.contains(&format!(" # {heading}\n")), "{}: {heading}", rule.code);
        }
        assert!(rule.summary().ends_with('.'), "{}", rule.code);
    }
}

fn codes_are_sorted_and_unique() {
    let codes: Vec<&str> = rules::ALL.iter().map(|r| r.code).collect();
    let mut sorted = codes.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(codes, sorted);
}

/// The table for users names every rule, and no unknown code.
fn stuck_states_table_names_every_rule() {
    let text = std::fs::read_to_string(Path::new(ROOT).join("docs/stuck-states.md")).expect("the table");
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    let named: BTreeSet<&str> = words.filter(|w| w.starts_with("SKY")).collect();
    let codes: BTreeSet<&str> = rules::ALL.iter().map(|r| r.code).collect();
    assert_eq!(named, codes);
}
