//! `diff`: what changed between two clusters.

use crate::support::clusters;
use crate::support::run::{RunOutput, run};

fn diff(old: &str, new: &str, flags: &str) -> RunOutput {
    let [old, new] = [old, new].map(|name| clusters::named(name).path().to_owned());
    run(&format!("diff {old} {new} {flags}")).output()
}

#[test]
fn equal_captures_have_no_changes() {
    let output = diff("complete", "complete", "");
    output.expect_code(0);
    insta::assert_snapshot!(output.transcript());
}

#[test]
fn changes_are_shown_by_custom_resource_and_node_set() {
    let output = diff("in-progress", "apply-erroring", "");
    output.expect_code(2);
    insta::assert_snapshot!(output.transcript());
    let upgrade = diff("complete", "upgrade-in-progress", "");
    upgrade.expect_code(2);
    insta::assert_snapshot!("upgrade", upgrade.transcript());
}

#[test]
fn custom_resources_that_are_not_in_the_input_are_not_deleted() {
    let output = diff("apply-erroring", "deleted-after-reset", "");
    output.expect_code(2);
    insta::assert_snapshot!(output.transcript());
}

#[test]
fn captures_in_the_wrong_order_are_noticed() {
    let [right, wrong] = [("complete", "in-progress"), ("in-progress", "complete")]
        .map(|(old, new)| diff(old, new, ""))
        .map(|output| output.stderr.contains("warning: OLD was captured after NEW"));
    assert_eq!((right, wrong), (false, true));
}

#[test]
fn the_document_names_nodes_and_values() {
    let output = diff("in-progress", "apply-erroring", "-o json");
    output.expect_code(2);
    insta::assert_snapshot!(output.transcript());
}

#[test]
fn a_capture_is_compared_with_the_input() {
    let [old, new] = ["in-progress", "apply-erroring"].map(|n| clusters::named(n).path().to_owned());
    let of_flag = run(&format!("diff {old} --from {new}")).output();
    of_flag.expect_code(2);
    let both = run(&format!("diff {old} {new} --from {new}")).output();
    both.expect_code(64);
    both.expect_stderr("NEW and --from are mutually exclusive");
}

/// Nodes that were not read do not count as deleted.
#[test]
fn sources_that_were_not_read_are_not_compared() {
    let new = clusters::named("apply-erroring").path().to_owned();
    let output = run(&format!("diff - --from {new}"))
        .stdin(r#"{"apiVersion":"v1","kind":"NodeList","items":[]}"#)
        .output();
    output.expect_stdout("not compared");
    output.expect_stdout("old: not in the capture");
    output.expect_no_stdout("custom resource: ");
}

#[test]
fn a_missing_capture_is_an_error() {
    let output = run("diff /nowhere.json /nowhere.json").output();
    output.expect_code(1);
    assert_eq!(output.stdout, "");
}
