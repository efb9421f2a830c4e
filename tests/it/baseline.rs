//! `--baseline`: only new findings fail.

use std::path::Path;

use crate::support::clusters;
use crate::support::run::{RunOutput, run};

fn path(name: &str) -> String {
    clusters::named(name).path().to_owned()
}

fn diagnose(capture: &str, baseline: &str, flags: &str) -> RunOutput {
    run(&format!("diagnose stuck --from {} --baseline {baseline} {flags}", path(capture))).output()
}

fn saved(directory: &Path, command: &str) -> String {
    let path = directory.join("before.json");
    std::fs::write(&path, run(command).output().stdout).expect("a file");
    path.display().to_string()
}

#[test]
fn known_findings_do_not_fail() {
    let directory = tempfile::tempdir().expect("a directory");
    let erroring = path("apply-erroring");
    let before = saved(directory.path(), &format!("diagnose stuck -o json --from {erroring}"));
    for baseline in [&before, &erroring] {
        let output = diagnose("apply-erroring", baseline, "");
        output.expect_code(0);
        output.expect_stdout(": 0 new, 1 known, 0 gone");
    }
}

#[test]
fn new_findings_fail() {
    let output = diagnose("apply-erroring", &path("complete"), "");
    output.expect_code(2);
    insta::assert_snapshot!(output.transcript());
}

#[test]
fn known_causes_are_skipped_tests() {
    let output = diagnose("apply-erroring", &path("apply-erroring"), "-o junit");
    output.expect_code(0);
    output.expect_stdout("<skipped message=\"known in ");
}

#[test]
fn findings_of_unchecked_rules_are_not_gone() {
    let directory = tempfile::tempdir().expect("a directory");
    let erroring = path("apply-erroring");
    let before = saved(directory.path(), &format!("diagnose stuck -o json --from {erroring}"));
    let output = run(&format!("diagnose stuck --from - --baseline {before}"))
        .stdin(r#"{"apiVersion":"v1","kind":"NodeList","items":[]}"#)
        .output();
    output.expect_stdout(": 0 new, 0 known, 0 gone");
}

#[test]
fn an_unreadable_baseline_is_an_error() {
    let missing = diagnose("apply-erroring", "/nowhere.json", "");
    missing.expect_code(1);
    missing.expect_stderr("cannot read /nowhere.json: no such file");
    let other = diagnose("apply-erroring", "Cargo.toml", "");
    other.expect_code(1);
    assert_eq!(other.stdout, "");
}

#[test]
fn lint_fails_on_new_findings_only() {
    let directory = tempfile::tempdir().expect("a directory");
    let manifest = "tests/lint/apply_without_enabled/bad.yaml";
    let before = saved(directory.path(), &format!("lint --offline -f {manifest} -o json"));
    run(&format!("lint --offline -f {manifest}")).output().expect_code(2);
    let known = run(&format!("lint --offline -f {manifest} --baseline {before}")).output();
    known.expect_code(0);
    known.expect_stdout(" 0 new, ");
    let capture = path("complete");
    let wrong = run(&format!("lint --offline -f {manifest} --baseline {capture}")).output();
    wrong.expect_code(1);
    wrong.expect_stderr("is not output of `lint -o json`");
}
