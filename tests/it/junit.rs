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
