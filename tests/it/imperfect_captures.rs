//! Captures as people produce them: failed commands, stderr among the objects, kinds left out.

use std::path::Path;

use crate::support::run::{RunOutput, run};

const NODE: &str = r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a-1", "creationTimestamp": "2026-11-20T10:00:00Z"},
    "status": {"conditions": [{"type": "Ready", "status": "True"}]}}"#;

const RESOURCE: &str = r#"{"apiVersion": "nodewright.nvidia.com/v1alpha1", "kind": "NodeWright",
    "metadata": {"name": "kernel", "uid": "u-1", "generation": 1, "creationTimestamp": "2026-11-20T09:00:00Z"},
    "spec": {"packages": {"sysctl": {"version": "1.0.0", "image": "registry.example/sysctl"}}},
    "status": {"status": "in_progress", "observedGeneration": 1, "nodePriority": {"a-1": "2026-11-20T09:00:00Z"}}}"#;

const OPERATOR: &str = r#"{"apiVersion": "apps/v1", "kind": "Deployment",
    "metadata": {"name": "op", "namespace": "nodewright", "labels": {"control-plane": "controller-manager"}},
    "spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "manager", "image": "example.org/nodewright/operator:v0.20.0"}]}}},
    "status": {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1}}"#;

fn list(items: &[&str]) -> String {
    format!(r#"{{"apiVersion": "v1", "kind": "List", "items": [{}]}}"#, items.join(", "))
}

fn on(words: &str, text: &str) -> RunOutput {
    run(&format!("{words} --from - --now 2026-11-20T10:00:00Z")).stdin(text.to_owned()).output()
}

/// The unchecked codes of a diagnosis, with their reasons.
fn not_checked(report: &serde_json::Value) -> Vec<String> {
    let all = report["notChecked"].as_array().expect("a list").iter();
    all.map(|n| {
        format!("{} {}", n["code"].as_str().expect("a code"), n["message"].as_str().expect("a reason"))
    })
    .collect()
}

#[test]
fn empty_file_beside_others_is_skipped_and_its_rules_are_not_checked() {
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).expect("a file");
    write("nodes.json", &list(&[NODE]));
    write("nodewrights.json", &list(&[RESOURCE]));
    write("deployments.json", &list(&[OPERATOR]));
    write("skyhooks.json", "\n");
    let from = |path: &Path| format!("diagnose stuck --rule SKY601 -o json --from {}", path.display());
    let ran = run(&from(directory.path())).output();
    ran.expect_stderr("skyhooks.json: empty, skipped");
    let unchecked = not_checked(&ran.json());
    assert!(unchecked.len() == 1 && unchecked[0].contains("skyhooks.json: empty, skipped"), "{unchecked:?}");
    let alone = run(&from(&directory.path().join("skyhooks.json"))).output();
    alone.expect_code(1);
    alone.expect_stderr("skyhooks.json: empty; expected the output of");
    write("skyhooks.json", r#"{"apiVersion": "v1", "kind": "List", "items": []}"#);
    let ran = run(&from(directory.path())).output();
    assert_eq!(not_checked(&ran.json()), Vec::<String>::new());
    ran.expect_no_stderr("skipped");
}

#[test]
fn messages_of_kubectl_are_skipped_with_a_note() {
    let objects = list(&[NODE, RESOURCE, OPERATOR]);
    let words = "node list --skyhook kernel";
    let clean = on(words, &objects);
    clean.expect_no_stderr("skipped");
    for (text, message) in [
        (format!("Warning: v1 Thing is deprecated\n{objects}\n"), "Warning: v1 Thing is deprecated"),
        (
            format!("{objects}\nError from server (NotFound): no thing\n"),
            "Error from server (NotFound): no thing",
        ),
        (
            format!("{objects}\nerror: the server doesn't have a resource type \"skyhooks\"\n"),
            "error: the server doesn't have a resource type",
        ),
    ] {
        let ran = on(words, &text);
        assert_eq!(ran.stdout, clean.stdout);
        ran.expect_stderr(format!("skipped a message from kubectl: {message}"));
    }
    let yaml = "apiVersion: v1\nkind: Node\nmetadata: {name: a-1}\n";
    let ran = on("leftovers", &format!("Warning: a\n{yaml}Error from server: b\n"));
    ran.expect_stderr("skipped a message from kubectl: Warning: a");
    ran.expect_stderr("skipped a message from kubectl: Error from server: b");
}

#[test]
fn message_about_a_kind_makes_its_rules_unchecked() {
    let refused = "Error from server (Forbidden): pods is forbidden: User \"me\" cannot list resource \"pods\" in API group \"\"";
    let text = format!("{}\n{refused}\n", list(&[NODE, RESOURCE, OPERATOR]));
    let unchecked = not_checked(&on("diagnose stuck --rule SKY205 -o json", &text).json());
    assert!(unchecked.len() == 1 && unchecked[0].contains("Forbidden"), "{unchecked:?}");
}

#[test]
fn other_text_is_an_error_that_quotes_the_line() {
    for text in
        [format!("{}\nlost connection\n", list(&[NODE])), format!("lost connection\n{}", list(&[NODE]))]
    {
        let ran = on("leftovers", &text);
        ran.expect_code(1);
        ran.expect_stderr("is neither an object nor a known message from kubectl: lost connection");
    }
}

#[test]
fn operator_version_needs_no_custom_resource() {
    for objects in [list(&[NODE, OPERATOR]), list(&[OPERATOR])] {
        let version = on("version -o json", &objects).json();
        assert_eq!(version["operator"]["version"], "v0.20.0", "{version}");
    }
    let older = OPERATOR.replace("v0.20.0", "v0.17.1");
    let version = on("version -o json", &list(&[NODE, &older])).json();
    assert_eq!(version["operator"]["api"], "skyhook.nvidia.com/v1alpha1", "{version}");
}

/// A Job of a package: `status` in JSON.
fn job(status: &str) -> String {
    format!(
        r#"{{"apiVersion": "batch/v1", "kind": "Job", "metadata": {{"name": "kernel-sysctl-1-0-0-apply-a-1-x", "namespace": "nodewright",
        "creationTimestamp": "2026-11-20T09:00:00Z", "labels": {{"nodewright.nvidia.com/name": "kernel", "nodewright.nvidia.com/package": "sysctl-1.0.0",
        "nodewright.nvidia.com/stage": "apply", "nodewright.nvidia.com/node": "a-1"}},
        "annotations": {{"nodewright.nvidia.com/package": "{{\"name\":\"sysctl\",\"version\":\"1.0.0\",\"skyhook\":\"kernel\",\"stage\":\"apply\"}}"}}}},
        "spec": {{"backoffLimit": 3, "template": {{"spec": {{"nodeName": "a-1"}}}}}}, "status": {status}}}"#
    )
}

const REFUSED: &str = r#"{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "nodewright"}, "type": "Warning",
    "involvedObject": {"kind": "Job", "name": "kernel-sysctl-1-0-0-apply-a-1-x", "namespace": "nodewright"}, "reason": "FailedCreate",
    "message": "Error creating: pods \"kernel-x\" is forbidden: exceeded quota: small", "count": 9, "lastTimestamp": "2026-11-20T09:59:00Z"}"#;

#[test]
fn input_without_pods_shows_that_all_pods_are_refused() {
    let node = NODE.replace(
        r#""metadata": {"#,
        r#""metadata": {"annotations": {"nodewright.nvidia.com/nodeState_kernel": "{\"sysctl|1.0.0\":{\"name\":\"sysctl\",\"version\":\"1.0.0\",\"image\":\"registry.example/sysctl\",\"stage\":\"apply\",\"state\":\"in_progress\"}}"}, "#,
    );
    let with = |status: &str| list(&[&node, RESOURCE, OPERATOR, &job(status), REFUSED]);
    let ran = on("diagnose stuck -o json", &with(r#"{"startTime": "2026-11-20T09:00:00Z"}"#));
    let report = ran.json();
    let found = report["findings"].to_string();
    assert!(found.contains("SKY220") && found.contains("exceeded quota: small"), "{found}");
    ran.expect_stderr("package pods are assumed not to exist");
    // A running pod was left out of the input.
    let ran = on(
        "diagnose stuck --rule SKY220 -o json",
        &with(r#"{"startTime": "2026-11-20T09:00:00Z", "active": 1}"#),
    );
    ran.expect_no_stderr("assumed");
    assert_eq!(not_checked(&ran.json()), ["SKY220 the capture does not include package pods"]);
}

/// Without the time of the capture, a quota that allows no job needs no age, and other unfinished work may be overdue.
#[test]
fn unknown_age_hides_no_refusal() {
    let rule = std::fs::read_to_string("tests/rules/action_overdue.quota.yaml").expect("a fixture");
    let (objects, _) = rule.split_once("---\napiVersion: v1\nkind: Event").expect("an event");
    let allowed = objects.replace("hard: {count/jobs.batch: \"0\"}", "hard: {count/jobs.batch: \"9\"}");
    let ran =
        [objects, &allowed].map(|text| run("diagnose --from -").stdin(text.as_bytes()).output().transcript());
    insta::assert_snapshot!(ran.join("\n"));
}
