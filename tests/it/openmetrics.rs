//! `-o openmetrics`.

use crate::support::clusters;
use crate::support::run::{RunOutput, run};

fn metrics(command: &str, capture: &str) -> RunOutput {
    let captured = clusters::named(capture);
    run(&format!("{command} -o openmetrics --from {}", captured.path())).output()
}

#[test]
fn findings_and_nodes_are_counted() {
    let output = metrics("diagnose stuck", "apply-erroring");
    output.expect_code(2);
    insta::assert_snapshot!(output.transcript());
}

#[test]
fn checks_are_counted() {
    insta::assert_snapshot!(metrics("diagnose check", "complete").transcript());
}

/// Unread nodes give no metric, rather than a zero.
#[test]
fn nodes_that_were_not_read_have_no_metric() {
    let input = r#"{"apiVersion":"v1","kind":"NodeList","items":[]}"#;
    let output = run("diagnose stuck -o openmetrics --from -").stdin(input).output();
    output.expect_no_stdout("kubectl_skyhook_nodes{");
    output.expect_stdout("kubectl_skyhook_verdict{verdict=\"healthy\"} 0\n");
    assert!(output.stdout.ends_with("# EOF\n"), "{}", output.stdout);
}

#[test]
fn hostile_names_are_escaped() {
    use kubectl_skyhook::view::monitoring::Metrics;
    let mut metrics = Metrics::default();
    let labels = vec![("skyhook", "a\"} 1\nb\\".to_owned())];
    metrics.gauge("findings", "Findings", [(labels, 2)]);
    let text = metrics.text();
    let sample = "kubectl_skyhook_findings{skyhook=\"a\\\"} 1\\nb\\\\\"} 2\n# EOF\n";
    assert!(text.ends_with(sample), "{text}");
}

#[cfg(unix)]
#[test]
fn a_file_for_a_textfile_collector_is_replaced_at_once() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("skyhook.prom");
    let to_file = |capture: &str, file: &std::path::Path| {
        let captured = clusters::named(capture);
        let format = format!("openmetrics={}", file.display());
        run(&format!("diagnose stuck -o {format} --from {}", captured.path())).output()
    };
    for capture in ["complete", "apply-erroring"] {
        let printed = metrics("diagnose stuck", capture);
        let written = to_file(capture, &file);
        assert_eq!((written.stdout.as_str(), written.code), ("", printed.code), "{}", written.transcript());
        assert_eq!(std::fs::read_to_string(&file).expect("a file"), printed.stdout);
        let mode = file.metadata().expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o644);
        let left = std::fs::read_dir(directory.path()).expect("a directory").count();
        assert_eq!(left, 1, "no temporary file remains");
    }
    let missing = to_file("complete", &directory.path().join("none/skyhook.prom"));
    missing.expect_code(1);
    missing.expect_stderr("none/skyhook.prom: No such file or directory");
}

#[test]
fn other_commands_have_no_metrics() {
    let captured = clusters::named("complete");
    let output = run(&format!("status -o openmetrics --from {}", captured.path())).output();
    output.expect_code(1);
    output.expect_stderr("this command has no metrics");
}
