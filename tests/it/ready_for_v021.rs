//! `diagnose check --for v0.21`.

use crate::support::clusters;
use crate::support::run::{RunOutput, run};

fn check(capture: &str) -> RunOutput {
    let captured = clusters::named(capture);
    run(&format!("diagnose check --for v0.21 --from {}", captured.path())).output()
}

/// The part about v0.21.
fn part(output: &RunOutput) -> String {
    let (_, part) = output.stdout.split_once("before v0.21").expect("a part");
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

/// A migrated cluster in which a policy of the older API, keys of the older operator and one of its pods are left.
const MIGRATED: &str = r#"{"apiVersion":"v1","kind":"List","items":[
    {"apiVersion":"apps/v1","kind":"Deployment",
        "metadata":{"name":"nodewright-controller-manager","namespace":"nodewright","labels":{"control-plane":"controller-manager"}},
        "spec":{"replicas":1,"template":{"spec":{"containers":[{"name":"manager","image":"ghcr.io/nvidia/nodewright/operator:v0.20.0"}]}}},
        "status":{"replicas":1,"readyReplicas":1,"availableReplicas":1}},
    {"apiVersion":"nodewright.nvidia.com/v1alpha1","kind":"NodeWright","metadata":{"name":"tuning"},
        "spec":{"packages":{"driver":{"version":"1.0.0","image":"registry.example/driver"}}},"status":{"status":"complete"}},
    {"apiVersion":"skyhook.nvidia.com/v1alpha1","kind":"DeploymentPolicy","metadata":{"name":"old"},"spec":{"default":{"budget":{"count":1}}}},
    {"apiVersion":"v1","kind":"Node","metadata":{"name":"gpu-1","annotations":{
        "skyhook.nvidia.com/version_tuning":"v0.17.0","nodewright.nvidia.com/version_tuning":"v0.20.0",
        "nodewright.nvidia.com/nodeState_tuning":"{\"driver|1.0.0\":{\"name\":\"driver\",\"version\":\"1.0.0\",\"image\":\"registry.example/driver\",\"stage\":\"config\",\"state\":\"complete\"}}"}}},
    {"apiVersion":"v1","kind":"Pod","metadata":{"name":"driver-1","namespace":"nodewright","labels":{
        "skyhook.nvidia.com/name":"tuning","skyhook.nvidia.com/package":"driver-1.0.0"}},
        "spec":{"nodeName":"gpu-1"},"status":{"phase":"Succeeded"}}]}"#;

#[test]
fn policies_keys_and_pods_that_are_left_are_found() {
    let output = run("diagnose check --for v0.21 --from -").stdin(MIGRATED).output();
    output.expect_code(2);
    insta::assert_snapshot!(part(&output));
    let json = run("diagnose check --for v0.21 --from - -o json").stdin(MIGRATED).output().json();
    assert_eq!(json["questions"].as_array().map(Vec::len), Some(3));
    let leftovers = run("leftovers --from -").stdin(MIGRATED).output();
    leftovers.expect_stdout("kubectl delete deploymentpolicies.skyhook.nvidia.com old");
    leftovers.expect_stdout("The capture may lack some NodeWright objects");
    let json = run("leftovers --from - -o json").stdin(MIGRATED).output().json();
    assert_eq!(json["olderPolicies"], serde_json::json!(["old"]));
    run("diagnose stuck --from -").stdin(MIGRATED).output().expect_stdout("SKY608");
}

/// Questions to the reader do not make the result incomplete.
#[test]
fn questions_do_not_change_the_verdict() {
    let migrated = MIGRATED.replace(r#""skyhook.nvidia.com/version_tuning":"v0.17.0","#, "");
    let migrated = migrated.replace("skyhook.nvidia.com/", "nodewright.nvidia.com/");
    let empty = |kind: &str| {
        format!(r#"{{"apiVersion":"skyhook.nvidia.com/v1alpha1","kind":"{kind}List","items":[]}}"#)
    };
    let input = [migrated, empty("Skyhook"), empty("DeploymentPolicy")].join("\n");
    let output = run("diagnose check --for v0.21 --from -").stdin(input.clone()).output();
    output.expect_stdout("3 open questions");
    let document = run("diagnose check --for v0.21 -o json --from -").stdin(input).output().json();
    let checks = document["items"].as_array().expect("checks");
    let ready: Vec<_> = checks.iter().filter(|check| check["area"] == "before v0.21").collect();
    assert!(!ready.is_empty() && ready.iter().all(|check| check["outcome"] == "Ok"), "{ready:#?}");
}

#[test]
fn rollback_to_v015_names_uninstall_settings() {
    let capture = clusters::named("uninstall-in-progress");
    let output = run(&format!("diagnose check --for v0.15 --from {}", capture.path())).output();
    output.expect_code(2);
    let (_, part) = output.stdout.split_once("before a rollback to v0.15").expect("a part");
    insta::assert_snapshot!(part);
    let output = run("diagnose check --for v0.15 --from -").stdin(MIGRATED).output();
    output.expect_stdout("the active API is nodewright.nvidia.com/v1alpha1, which v0.15 does not know");
}

/// The operator is at v0.20.0.
#[test]
fn a_downgrade_is_called_so() {
    let tops = ["v0.18", "v0.19", "v0.20"].map(|version| {
        let output = run(&format!("diagnose check --for {version} --from -")).stdin(MIGRATED).output();
        let top = output.stdout.lines().take(4).collect::<Vec<_>>().join("\n");
        format!("{version}: {top}\n")
    });
    insta::assert_snapshot!(tops.concat());
}

#[test]
fn only_known_versions_are_accepted() {
    run("diagnose check --for v0.99").output().expect_code(64);
}

/// The migration waits for rollouts of the older API that are unfinished.
#[test]
fn unfinished_rollouts_are_found_before_the_migration() {
    let parts = ["complete", "apply-erroring", "nodewright-apply-erroring"].map(|capture| {
        let captured = clusters::named(capture);
        let output = run(&format!("diagnose check --for v0.18 --from {}", captured.path())).output();
        let (_, part) = output.stdout.split_once("migration to NodeWright").expect("a part");
        format!("{capture}{part}[exit status: {:?}]\n", output.code)
    });
    insta::assert_snapshot!(parts.join("\n"));
}
