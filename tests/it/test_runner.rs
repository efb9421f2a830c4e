//! `tests/run` names missing programs before it compiles anything, and reports a step that did not run as skipped,
//! not as passed.

use crate::support::run::Run;

/// Runs a Bash script in the repository.
fn bash(script: &str) -> (String, Option<i32>) {
    let script = format!("cd '{}' && {script}", env!("CARGO_MANIFEST_DIR"));
    let ran = Run::program("bash", ["-c", &script]).output();
    (ran.stdout, ran.code)
}

#[test]
fn steps_pass_fail_or_are_skipped() {
    let step = |code: u8| {
        let (out, failed) = bash(&format!("source tests/step; step it sh -c 'exit {code}'; exit $failed"));
        let verdict = out.lines().last().expect("a verdict");
        (verdict.replace(|c: char| c.is_ascii_digit(), ""), failed)
    };
    assert_eq!(step(0), ("== it: passed in  s".to_owned(), Some(0)));
    assert_eq!(step(77), ("== it: SKIPPED, not tested".to_owned(), Some(0)));
    assert_eq!(step(3), ("== it: FAILED after  s".to_owned(), Some(1)));
}

#[test]
fn packaging_without_kubectl_is_skipped() {
    let programs = "bin=$(mktemp -d) && ln -s \"$(command -v bash)\" \"$(command -v dirname)\" \"$bin\"";
    let (out, code) = bash(&format!("{programs}; PATH=$bin tests/packaging/run"));
    assert_eq!((out.as_str(), code), ("not tested: there is no kubectl on the PATH\n", Some(77)));
}

#[test]
fn missing_programs_are_named_with_their_purpose() {
    let (out, code) = bash("bin=$(mktemp -d); PATH=$bin /bin/bash tests/run --all 2>&1");
    // A file, not a program on the PATH.
    let lines = out.lines().filter(|line| !line.contains("bash-completion"));
    insta::assert_snapshot!(lines.collect::<Vec<&str>>().join("\n"));
    assert_eq!(code, Some(1));
}

#[test]
fn unknown_flags_are_usage_errors() {
    let ran = Run::program("bash", ["tests/run", "--al"]).output();
    assert_eq!(ran.parts(), ("", "usage: tests/run [--all | FILTER]\n", Some(64)));
}
