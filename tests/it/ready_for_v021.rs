//! `diagnose check --for v0.21`.

use crate::support::clusters;
use crate::support::run::{RunOutput, run};

fn check(capture: &str) -> RunOutput {
    let captured = clusters::named(capture);
    run(&format!("diagnose check --for v0.21 --from {}", captured.path())).output()
}

/// The part about v0.21.
fn part(output: &RunOutput) -> String {
    let (_, part) = output.stdout.split_once("ready for v0.21").expect("a part");
    part.to_owned()
}

#[test]
fn an_older_operator_is_not_ready() {
    let output = check("complete");
    output.expect_code(2);
    insta::assert_snapshot!(part(&output));
}

#[test]
fn migrated_objects_that_are_left_are_found() {
    let output = check("modelled-mirrored-and-complete");
    output.expect_code(2);
    insta::assert_snapshot!(part(&output));
}

const INPUT: &str = r#"{"apiVersion":"v1","kind":"List","items":[
    {"apiVersion":"v1","kind":"Node","metadata":{"name":"gpu-1"},
        "spec":{"taints":[{"key":"skyhook.nvidia.com","value":"runtime-required","effect":"NoSchedule"}]}},
    {"apiVersion":"nodewright.nvidia.com/v1alpha1","kind":"NodeWright","metadata":{"name":"tuning"},
        "spec":{"nodeSelectors":{"matchLabels":{"skyhook.nvidia.com/pool":"gpu"}},
            "additionalTolerations":[{"key":"skyhook.nvidia.com","operator":"Exists"}],"packages":{}}}]}"#;

#[test]
fn taints_selectors_and_tolerations_are_found() {
    let output = run("diagnose check --for v0.21 --from -").stdin(INPUT).output();
    output.expect_code(2);
    insta::assert_snapshot!(part(&output));
}

#[test]
fn only_known_versions_are_accepted() {
    run("diagnose check --for v0.99").output().expect_code(64);
}
