//! `-o junit` of `diagnose`.

use crate::support::clusters;
use crate::support::run::{RunOutput, run};

fn junit(command: &str, capture: &str) -> RunOutput {
    let captured = clusters::named(capture);
    run(&format!("{command} -o junit --from {}", captured.path())).output()
}

#[test]
fn causes_are_failures() {
    let stuck = junit("diagnose stuck", "apply-erroring");
    stuck.expect_code(2);
    insta::assert_snapshot!("stuck", stuck.transcript());
}

#[test]
fn a_healthy_cluster_has_no_failures() {
    let healthy = junit("diagnose stuck", "complete");
    healthy.expect_code(0);
    insta::assert_snapshot!("healthy", healthy.transcript());
}

#[test]
fn checks_are_test_cases() {
    insta::assert_snapshot!("check", junit("diagnose check", "complete").transcript());
}

/// Nothing was read, so nothing may pass.
#[test]
fn missing_sources_are_errors() {
    let input = r#"{"apiVersion":"v1","kind":"NodeList","items":[]}"#;
    let output = run("diagnose stuck --rule SKY201 -o junit --from -").stdin(input).output();
    output.expect_code(1);
    output.expect_stdout("errors=\"1\"");
    output.expect_no_stdout("no findings");
}

/// A name may hold characters that XML does not allow, or that change the reading direction.
#[test]
fn names_are_valid_and_harmless_in_xml() {
    let capture = clusters::named("apply-erroring");
    let text = std::fs::read_to_string(format!("{}/cluster.json", capture.path())).expect("a capture");
    for (escape, spelled) in
        [("\u{fffe}", "&lt;U+FFFE&gt;"), ("\u{202e}", "&lt;U+202E&gt;"), ("\u{9b}", "&lt;U+009B&gt;")]
    {
        let hostile = text.replace("gpu-tune", &format!("gpu{escape}tune"));
        let output = run("diagnose stuck -o junit --from -").stdin(hostile).output();
        output.expect_stdout(spelled);
        assert!(!output.stdout.contains(escape), "{}", output.transcript());
        let allowed = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..);
        assert!(output.stdout.chars().all(allowed), "{}", output.transcript());
    }
}
