//! `finalizer strip`: webhooks without a backend, the runtime-required taint, and the journal.

use kubectl_skyhook::api::ApiFlavor;
use serde_json::{Value, json};

use crate::support::test_cluster::{CR, TestCluster, operator};

const NAMESPACE: &str = "skyhook";
const SERVICE: &str = "webhook-service";
const STRIP: &str = "finalizer strip gpu-tune --force --confirm";

fn webhooks(kind: &str, groups: &[&str]) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": format!("{kind}WebhookConfiguration"),
        "metadata": {"name": format!("operator-{}", kind.to_lowercase())},
        "webhooks": [{
            "name": "judge.example",
            "failurePolicy": "Fail",
            "clientConfig": {"service": {"name": SERVICE, "namespace": NAMESPACE}},
            "rules": [{"apiGroups": groups, "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"],
                "resources": ["*"]}],
        }],
    })
}

fn slice(ready: bool) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": "webhook-1", "namespace": NAMESPACE,
            "labels": {"kubernetes.io/service-name": SERVICE}},
        "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": ready}}],
    })
}

fn service() -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": SERVICE, "namespace": NAMESPACE},
        "spec": {"type": "ClusterIP"}})
}

fn ours() -> [&'static str; 1] {
    [ApiFlavor::Skyhook.group()]
}

#[test]
fn webhook_without_a_backend_is_reported_before_any_write() {
    let cluster = TestCluster::from_capture("deleted-while-paused");
    cluster.fake.load(webhooks("Validating", &ours()));
    cluster.fake.load(webhooks("Mutating", &["*"]));
    // First without the Service, then with a Service without endpoints.
    for present in [false, true] {
        if present {
            cluster.fake.load(service());
            cluster.fake.load(slice(false));
        }
        let why = if present {
            "service skyhook/webhook-service has no ready endpoint"
        } else {
            "service skyhook/webhook-service does not exist"
        };
        for words in [STRIP, "finalizer strip gpu-tune --confirm"] {
            let ran = cluster.run(words);
            ran.expect_code(3);
            for message in [
                why,
                "nothing was changed",
                // The operator is gone, so its webhooks may be removed, but not those of others.
                "kubectl delete validatingwebhookconfigurations operator-validating",
                "kubectl patch mutatingwebhookconfigurations operator-mutating --type=json -p \
                 '[{\"op\":\"add\",\"path\":\"/webhooks/0/failurePolicy\",\"value\":\"Ignore\"}]'",
            ] {
                assert!(ran.stderr.contains(message), "{message}: {}", ran.transcript());
            }
        }
        let report = cluster.run("diagnose stuck -o json");
        report.expect_stdout("SKY505");
    }
    assert_eq!(cluster.writes(), [""; 0]);
    // As soon as an endpoint is ready, the strip runs.
    cluster.fake.load(slice(true));
    cluster.run(STRIP).expect_code(0);
    assert_eq!(cluster.cr(), None);
}

#[test]
fn webhooks_that_do_not_match_are_ignored() {
    let cluster = TestCluster::from_capture("deleted-while-paused");
    let mut ignored = webhooks("Validating", &ours());
    ignored["webhooks"][0]["failurePolicy"] = json!("Ignore");
    cluster.fake.load(ignored);
    let mut of_others = webhooks("Mutating", &ours());
    of_others["webhooks"][0]["objectSelector"] = json!({"matchLabels": {"other": "one"}});
    cluster.fake.load(of_others);
    cluster.run(STRIP).expect_code(0);
    assert_eq!(cluster.cr(), None);
}

#[test]
fn unreadable_webhooks_are_reported() {
    let cluster = TestCluster::from_capture("deleted-while-paused");
    cluster.fake.on("LIST validatingwebhookconfigurations").reply(403);
    let ran = cluster.run(STRIP);
    ran.expect_code(0);
    let message = "cannot read admission webhooks";
    ran.expect_stderr(message);
}

fn taint() -> Value {
    json!({"key": ApiFlavor::Skyhook.taint_key(), "value": "runtime-required", "effect": "NoSchedule"})
}

/// Adds a custom resource that requires the taint on all nodes; its package has this state on node-1.
fn other(cluster: &TestCluster, state: &str) {
    let mut other = cluster.cr().expect("the custom resource exists");
    other["metadata"] = json!({"name": "other", "uid": "other"});
    other["spec"] = json!({
        "runtimeRequired": true,
        "packages": {"driver": {"version": "1.0.0", "image": "example.com/driver"}},
    });
    other["status"] = json!({});
    cluster.fake.load(other);
    let mut node = cluster.node("node-1");
    let entry = json!({"driver|1.0.0": {"name": "driver", "version": "1.0.0",
        "image": "example.com/driver", "stage": "config", "state": state}});
    let key = ApiFlavor::Skyhook.key("nodeState_other");
    node["metadata"]["annotations"][key] = json!(entry.to_string());
    cluster.fake.load(node);
}

#[test]
fn runtime_required_taint_is_removed_if_unneeded() {
    let foreign = json!({"key": "example.com/keep", "effect": "NoExecute",
        "timeAdded": "2026-11-20T10:00:00Z"});
    for (needed_by, stays) in [(None, false), (Some("complete"), false), (Some("in_progress"), true)] {
        let cluster = TestCluster::from_capture("deleted-while-paused");
        let mut cr = cluster.cr().expect("the custom resource exists");
        cr["spec"]["runtimeRequired"] = json!(true);
        cluster.fake.load(cr);
        let mut node = cluster.node("node-1");
        node["spec"]["taints"] = json!([taint(), foreign]);
        cluster.fake.load(node);
        if let Some(state) = needed_by {
            other(&cluster, state);
        }
        let before = cluster.node("node-1")["spec"].clone();
        let ran = cluster.run(STRIP);
        ran.expect_code(0);
        let taints = cluster.node("node-1")["spec"]["taints"].clone();
        let expected = if stays { json!([taint(), foreign]) } else { json!([foreign]) };
        assert_eq!(taints, expected, "{needed_by:?}: {}", ran.transcript());
        let warned = ran.stderr.contains("taint stays on node-1");
        assert_eq!(warned, stays, "{}", ran.transcript());
        cluster.run("undo --confirm").expect_code(0);
        assert_eq!(cluster.node("node-1")["spec"], before);
    }
}

#[test]
fn journal_holds_the_custom_resource_before_removal() {
    let cluster = TestCluster::from_capture("deleted-while-paused");
    let before = cluster.cr().expect("the custom resource exists");
    cluster.run(STRIP).expect_code(0);
    let shown = cluster.run("journal show -o json");
    let journal: Value = serde_json::from_str(&shown.stdout).expect("JSON");
    let was = &journal["begun"]["plan"]["stages"][0]["steps"][0]["change"]["finalizer"]["was"];
    assert_eq!(was["spec"], before["spec"]);
    assert_eq!(was["status"], before["status"]);
    assert_eq!(was["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(was["metadata"]["name"], CR);
}

/// The process was killed after the finalizer was removed; the same command cleans the nodes.
#[test]
fn interrupted_strip_is_finished_by_the_same_command() {
    let cluster = TestCluster::from_capture("deleted-while-paused");
    cluster.fake.on("PATCH nodes").reply(500);
    let ran = cluster.run(STRIP);
    ran.expect_code(4);
    assert_eq!(cluster.cr(), None);
    cluster.fake.heal();
    let rest = cluster.run(STRIP);
    rest.expect_code(0);
    rest.expect_stdout("3 changed");
    let done = cluster.run(STRIP);
    done.expect_code(0);
    let message = "gpu-tune is gone: its finalizer was removed earlier (journal ";
    done.expect_stderr(message);
    let other = cluster.run("finalizer strip gpu-tone --force --confirm");
    other.expect_code(1);
}

/// Observed with v0.17: after the finalizer and the state were removed, the state of a terminating pod was
/// written again.
#[test]
fn preview_warns_of_later_operator_writes() {
    let warning = "- warning: the operator may still record the progress of package pods on node-2: once these pods are gone, run \
                   `kubectl skyhook leftovers`\n";
    for (replicas, cluster, says) in [
        (1, "deleted-while-erroring", true),
        (0, "deleted-while-erroring", false),
        (1, "deleted-while-paused", false),
    ] {
        let cluster = TestCluster::from_capture(cluster);
        cluster.fake.load(operator(replicas));
        let ran = cluster.run("finalizer strip gpu-tune --force --dry-run");
        ran.expect_code(0);
        assert_eq!(ran.stdout.contains(warning), says, "{}", ran.transcript());
    }
}
