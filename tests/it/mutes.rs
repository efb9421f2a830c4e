//! `--mutes` and the annotation: known findings are counted, and commands that wait or change something still
//! see them.

use std::path::PathBuf;

use serde_json::json;
use tempfile::TempDir;

use crate::support::clusters;
use crate::support::object_builder::SKYHOOK;
use crate::support::run::{RunOutput, run, without_rule_counts};

const HEAD: &str = "apiVersion: kubectl-skyhook/v1\nkind: Mutes\nmutes:\n";
const KNOWN: &str = "- code: SKY201
  skyhook: gpu-tune
  package: driver
  node: node-2
  reason: disk is replaced, TICKET-4711
  until: 2999-12-31
";

struct MuteFile {
    _directory: TempDir,
    path: PathBuf,
}

fn file(mutes: &str) -> MuteFile {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("mutes.yaml");
    std::fs::write(&path, format!("{HEAD}{mutes}")).expect("a file");
    MuteFile { _directory: directory, path }
}

/// A command on the capture `apply-erroring` with a file of mutes; its path is replaced in the output.
fn muted(command: &str, mutes: &str) -> RunOutput {
    let file = file(mutes);
    let captured = clusters::named("apply-erroring");
    let path = file.path.display().to_string();
    let mut output = run(&format!("{command} --mutes {path} --from {}", captured.path())).output();
    for text in [&mut output.stdout, &mut output.stderr] {
        *text = text.replace(&path, "mutes.yaml");
    }
    output
}

fn printed(output: &RunOutput) -> String {
    without_rule_counts(&format!("{}{}", output.stdout, output.stderr))
}

#[test]
fn muted_findings_are_counted_and_do_not_fail() {
    let output = muted("diagnose stuck", KNOWN);
    output.expect_code(0);
    insta::assert_snapshot!(printed(&output));
}

#[test]
fn a_mute_is_in_the_documents() {
    let output = muted("diagnose stuck -o jsonpath={.counts}{.muted}{.lapsedMutes}", KNOWN);
    output.expect_code(0);
    insta::assert_snapshot!(printed(&output));
    let junit = muted("diagnose stuck -o junit", KNOWN);
    junit.expect_code(0);
    insta::assert_snapshot!("junit", printed(&junit));
}

#[test]
fn a_mute_without_expiry_is_counted_as_such() {
    let mutes = "- {code: package-erroring, skyhook: gpu-tune, reason: known}\n";
    let output = muted("diagnose stuck", mutes);
    output.expect_code(0);
    output.expect_stdout("1 muted finding, 1 without expiry");
}

#[test]
fn a_mute_lapses_by_time() {
    let output = muted("diagnose stuck", &KNOWN.replace("2999", "2020"));
    output.expect_code(2);
    insta::assert_snapshot!(printed(&output));
}

#[test]
fn a_mute_lapses_when_more_nodes_are_concerned() {
    let mutes = KNOWN.replace("  until: 2999-12-31\n", "  maxNodes: 0\n");
    let output = muted("diagnose stuck", &mutes);
    output.expect_code(2);
    output.expect_stdout("has lapsed: its maxNodes is 0, but 1 node is affected");
}

/// Diagnoses a custom resource whose package fails on the first `nodes` of five nodes.
fn erroring_on(nodes: usize, mutes: &MuteFile) -> RunOutput {
    erroring_with(nodes, mutes, "")
}

fn erroring_with(nodes: usize, mutes: &MuteFile, flags: &str) -> RunOutput {
    let driver = json!({"driver": {"version": "1.0.0", "image": "example.com/driver"}});
    let mut items = vec![SKYHOOK.skyhook("erroring", driver), SKYHOOK.operator()];
    items.extend((1..=5).map(|number| {
        let (status, state) =
            if number <= nodes { ("erroring", "erroring") } else { ("complete", "complete") };
        let entry = format!("driver|1.0.0 apply {state}");
        SKYHOOK.node(&format!("n-{number}"), status, &[&entry])
    }));
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let path = mutes.path.display().to_string();
    let mut output = run(&format!("diagnose stuck --from - --now 2026-11-20T12:00:00Z {flags}"))
        .env("KUBECTL_SKYHOOK_MUTES", path.as_str())
        .stdin(list.to_string())
        .output();
    output.stdout = output.stdout.replace(&path, "mutes.yaml");
    output
}

/// The mutes come from the environment variable; on more nodes than `maxNodes`, all findings of the mute are
/// shown.
#[test]
fn a_mute_lapses_when_it_spreads_to_more_nodes() {
    let mutes = file("- {code: SKY201, skyhook: gpu, maxNodes: 3, reason: known}\n");
    let three = erroring_on(3, &mutes);
    insta::assert_snapshot!("as_many_as_allowed", printed(&three));
    let four = erroring_on(4, &mutes);
    four.expect_code(2);
    insta::assert_snapshot!("one_more_than_allowed", printed(&four));
}

/// A mute of two nodes leaves the finding of a third one.
#[test]
fn a_mute_of_named_nodes_hides_no_other_node() {
    let mutes = file("- {code: SKY201, node: 'n-[1-2]', reason: known}\n");
    insta::assert_snapshot!("the_named_nodes", printed(&erroring_on(2, &mutes)));
    let three = erroring_on(3, &mutes);
    three.expect_code(2);
    insta::assert_snapshot!("another_node", printed(&three));
}

/// The second custom resource waits only for the failure of the first.
#[test]
fn effects_of_a_muted_cause_are_muted() {
    let captured = clusters::named("two-priorities");
    let mutes = file("- {code: SKY201, skyhook: first, node: node-2, reason: known}\n");
    let diagnose = |flags: &str| run(&format!("diagnose stuck {flags} --from {}", captured.path())).output();
    diagnose("--all").expect_code(2);
    let muted = diagnose(&format!("--all --mutes {}", mutes.path.display()));
    muted.expect_code(0);
    insta::assert_snapshot!("effects", printed(&muted));
}

#[test]
fn a_mute_of_another_subject_changes_nothing() {
    for (field, value) in [("node: node-2", "node: node-3"), ("package: driver", "package: x")] {
        muted("diagnose stuck", &KNOWN.replace(field, value)).expect_code(2);
    }
}

#[test]
fn status_and_a_node_show_muted_findings() {
    let status = muted("status", KNOWN);
    status.expect_code(0);
    insta::assert_snapshot!("status", printed(&status));
    let node = muted("diagnose node node-2", KNOWN);
    insta::assert_snapshot!("node", printed(&node));
}

#[test]
fn invalid_mutes_name_their_line() {
    let invalid = [
        KNOWN.replace("SKY201", "SKY999"),
        KNOWN.replace("disk is replaced, TICKET-4711", "\"\""),
        KNOWN.replace("2999-12-31", "tomorrow"),
        KNOWN.replace("  node: node-2\n", "  nodes: node-2\n"),
        KNOWN.replace("  reason: disk is replaced, TICKET-4711\n", ""),
        "- {code: SKY201, reason: all of them}\n".to_owned(),
        KNOWN.replace("node-2", "'node-[3-1]'"),
    ];
    let errors = invalid.iter().map(|mutes| {
        let output = muted("diagnose stuck", mutes);
        output.expect_code(1);
        assert_eq!(output.stdout, "");
        output.stderr
    });
    insta::assert_snapshot!(errors.collect::<String>());
}

#[test]
fn a_missing_file_is_an_error() {
    let captured = clusters::named("apply-erroring");
    let output =
        run(&format!("diagnose stuck --mutes /nowhere/mutes.yaml --from {}", captured.path())).output();
    output.expect_code(1);
    output.expect_stderr("cannot read /nowhere/mutes.yaml: no such file");
}

/// The capture with an annotation on its custom resource.
fn annotated(command: &str, mutes: &str) -> RunOutput {
    let captured = clusters::named("apply-erroring");
    let text = std::fs::read_to_string(format!("{}/cluster.json", captured.path()));
    let mut list: serde_json::Value = serde_json::from_str(&text.expect("a file")).expect("JSON");
    let items = list["items"].as_array_mut().expect("items");
    for item in items.iter_mut().filter(|item| item["kind"] == "Skyhook") {
        item["metadata"]["annotations"]["kubectl-skyhook/mutes"] = mutes.into();
    }
    run(&format!("{command} --from - --from {}/extra.json", captured.path())).stdin(list.to_string()).output()
}

#[test]
fn an_annotation_mutes_its_own_custom_resource() {
    let output = annotated("diagnose stuck", "- {code: SKY201, node: node-2, reason: known}\n");
    output.expect_stdout("1 muted finding, 1 without expiry");
    output.expect_no_stdout("error SKY201");
    let other = "- {code: SKY201, skyhook: other, reason: known}\n";
    let output = annotated("diagnose stuck", other);
    output.expect_code(2);
    output.expect_stdout("error SKY201");
    output.expect_stderr(
        "invalid mute is ignored: skyhooks.skyhook.nvidia.com/gpu-tune, annotation kubectl-skyhook/mutes:1: an annotation mutes only its own custom resource, not \"other\"",
    );
}

/// An invalid annotation is an error even if nothing else is.
#[test]
fn an_invalid_annotation_fails_a_status() {
    let output = annotated("status", "- {code: SKY201}\n");
    output.expect_code(1);
    output.expect_stderr("missing field `reason`");
}

/// Waits and `fix` treat a muted finding like any other.
#[test]
fn commands_that_wait_ignore_mutes() {
    let mutes = "- {code: SKY201, reason: known}\n";
    let fix = annotated("fix --dry-run", mutes);
    assert_eq!(fix.stdout, annotated("fix --dry-run", "[]").stdout);
}

/// Anyone who may write the file could hide findings.
#[cfg(unix)]
#[test]
fn file_that_others_can_write_is_refused() {
    use std::os::unix::fs::PermissionsExt;

    let captured = clusters::named("apply-erroring");
    for (mode, code) in [(0o644, 0), (0o666, 1), (0o622, 1)] {
        let file = file(KNOWN);
        std::fs::set_permissions(&file.path, std::fs::Permissions::from_mode(mode)).expect("our file");
        let path = file.path.display();
        let output = run(&format!("diagnose stuck --mutes {path} --from {}", captured.path())).output();
        output.expect_code(code);
        let refusal = format!(
            "error: other users can write to {path} (mode {mode:04o}), so its content cannot be trusted; if it is yours, \
             run: chmod go-w {path}\n"
        );
        assert_eq!(output.stderr == refusal, code != 0, "{}", output.transcript());
        assert_eq!(output.stdout.is_empty(), code != 0, "{}", output.transcript());
    }
}

/// The mutes that a run wrote, and the report of a second run with them.
fn known(directory: &TempDir, command: &str) -> String {
    let path = directory.path().join("known.yaml").display().to_string();
    let first = run(&format!("{command} --write-mutes {path}")).output();
    first.expect_code(2);
    first.expect_stderr("written to");
    path
}

#[test]
fn mutes_that_a_run_wrote_mute_its_findings() {
    let directory = tempfile::tempdir().expect("a directory");
    let command = format!("diagnose stuck --from {}", clusters::named("apply-erroring").path());
    let path = known(&directory, &command);
    insta::assert_snapshot!(std::fs::read_to_string(&path).expect("a file"));
    let second = run(&format!("{command} --mutes {path}")).output();
    second.expect_code(0);
    second.expect_stdout("1 muted finding, 1 without expiry");
    let other = clusters::named("drain-blocked");
    run(&format!("diagnose stuck --from {} --mutes {path}", other.path())).output().expect_code(2);
}

/// Findings that are new, affect more nodes or are more severe still fail.
#[test]
fn written_mutes_cover_no_more_than_what_was_found() {
    let directory = tempfile::tempdir().expect("a directory");
    let none = file("  []\n");
    let path = directory.path().join("known.yaml");
    erroring_with(3, &none, &format!("--write-mutes {}", path.display())).expect_code(2);
    let known = MuteFile { _directory: directory, path };
    erroring_on(3, &known).expect_code(0);
    erroring_on(2, &known).expect_code(0);
    erroring_on(4, &known).expect_code(2);
    let text = std::fs::read_to_string(&known.path).expect("a file");
    std::fs::write(&known.path, text.replace("severity: Error", "severity: warning")).expect("a file");
    erroring_on(3, &known).expect_code(2);
}

#[test]
fn a_file_of_mutes_is_never_overwritten() {
    let known = file(KNOWN);
    let captured = clusters::named("apply-erroring");
    let command = format!("diagnose stuck --from {} --write-mutes", captured.path());
    let refused = run(&format!("{command} {}", known.path.display())).output();
    refused.expect_code(3);
    refused.expect_stderr("already exists; nothing was written");
    refused.expect_no_stderr("--force");
    run(&format!("{command} -")).output().expect_code(64);
}

#[test]
fn lint_fails_on_new_findings_only() {
    let directory = tempfile::tempdir().expect("a directory");
    let manifest = "tests/lint/refused_by_webhook/bad_apply_without_enabled.yaml";
    let command = format!("lint --offline -f {manifest}");
    let path = known(&directory, &command);
    let second = run(&format!("{command} --mutes {path}")).output();
    second.expect_code(0);
    // Another field of the same object is another finding.
    let text = std::fs::read_to_string(&path).expect("a file");
    assert!(text.contains("  path: spec."), "{text}");
    std::fs::write(&path, text.replace("path: spec.", "path: other.")).expect("a file");
    run(&format!("{command} --mutes {path}")).output().expect_code(2);
}
