//! Nodes that wait for another custom resource, or for a problem of another node.

use kubectl_skyhook::api::{ApiFlavor, keys};
use serde_json::{Value, json};

use super::{expected_outcome, list, node, node_outcome, stuck};
use crate::support::object_builder::{NODEWRIGHT, PackageRun, SKYHOOK};
use crate::support::run::run;

/// An interrupt starts once all package pods, of any custom resource, have left the node. The operator does
/// not delete the pods of a custom resource that no longer selects the node, so such a pod may block the
/// interrupt for ever.
#[test]
fn interrupt_that_waits_for_another_pod_names_it() {
    let mut skyhook = SKYHOOK.skyhook(
        "in_progress",
        json!({"driver": {"version": "1.0.0", "image": "example.com/driver", "interrupt": {"type": "reboot"}}}),
    );
    skyhook["metadata"]["creationTimestamp"] = "2026-11-20T11:54:00Z".into();
    skyhook["status"]["nodePriority"] = json!({"node-1": "2026-11-20T11:54:00Z"});
    let mut other = SKYHOOK.skyhook("complete", json!({}));
    other["metadata"]["name"] = "other".into();
    other["metadata"]["uid"] = "u-other".into();
    other["spec"]["nodeSelectors"] = json!({"matchLabels": {"gone": "yes"}});
    let place = PackageRun {
        node: "node-1",
        package: "tuning",
        stage: "config",
        at: "2026-11-20T11:55:00Z",
        ..PackageRun::default()
    };
    let pod = SKYHOOK.pod("tuning", &place, "Pending", &["tuning-config running"]);
    let pod = pod.to_string().replace("gpu", "other");
    let pod: Value = serde_json::from_str(&pod).expect("a pod");
    let entries = ["driver|1.0.0 config complete"];
    let items =
        json!([skyhook, other, pod, SKYHOOK.node("node-1", "in_progress", &entries), SKYHOOK.operator()]);
    let ran = run("diagnose node node-1 --from -")
        .stdin(json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string())
        .output();
    ran.expect_stdout(
        "an interrupt waits until stage config of tuning of other has ended here and its pod is gone",
    );
}

/// Two custom resources on two nodes. The first, `base`, must complete on all nodes before the second starts,
/// and is complete only on gpu-01.
fn behind_earlier_resource(status: &str, state: &str) -> Vec<Value> {
    let package = json!({"driver": {"version": "1.0.0", "image": "example.com/driver"}});
    let mut base = NODEWRIGHT.skyhook("in_progress", package.clone());
    base["metadata"]["name"] = "base".into();
    base["spec"]["priority"] = 10.into();
    base["spec"]["sequencing"] = "all".into();
    let later = NODEWRIGHT.skyhook("waiting", package);
    let node = |name: &str, status: &str, entry: &str| {
        let mut node = NODEWRIGHT.node(name, status, &[entry]);
        let own = node["metadata"]["annotations"].take();
        for (key, value) in own.as_object().expect("annotations") {
            let key = key.replace("_gpu", "_base");
            node["metadata"]["annotations"][key] = value.clone();
        }
        node["metadata"]["annotations"][keys::status(NODEWRIGHT.0, "gpu")] = "waiting".into();
        node
    };
    vec![
        base,
        later,
        NODEWRIGHT.operator(),
        node("gpu-01", "complete", "driver|1.0.0 config complete"),
        node("gpu-02", status, &format!("driver|1.0.0 {state}")),
    ]
}

/// A blocker of the earlier custom resource on another node also blocks later ones on nodes where the earlier
/// one is complete.
#[test]
fn blocker_of_an_earlier_custom_resource_blocks_its_dependents() {
    let working = behind_earlier_resource("in_progress", "apply complete");
    assert_eq!(node_outcome("gpu-01", &list(working)), expected_outcome("Waiting", 0));

    let failing = list(behind_earlier_resource("erroring", "apply erroring"));
    assert_eq!(node_outcome("gpu-01", &failing), stuck());

    let mut paused = behind_earlier_resource("paused", "apply complete");
    paused[0]["metadata"]["annotations"] = json!({NODEWRIGHT.0.key("pause"): "true"});
    assert_eq!(node_outcome("gpu-01", &list(paused)), expected_outcome("Suspended", 0));

    let mut ignored = behind_earlier_resource("waiting", "apply complete");
    ignored[4]["metadata"]["labels"] = json!({NODEWRIGHT.0.key("ignore"): "true"});
    let ignored = list(ignored);
    assert_eq!(node_outcome("gpu-01", &ignored), expected_outcome("Suspended", 0));
    let ran = run("diagnose node gpu-01 --from -").stdin(ignored).output();
    ran.expect_stdout("kubectl skyhook node unignore gpu-02");
}

/// The remedy is to resume the earlier custom resource; disabling it would give up its installations.
#[test]
fn node_behind_a_paused_custom_resource_suggests_resume() {
    let package = json!({"driver": {"version": "1.0.0", "image": "example.com/driver"}});
    let named = |name: &str, priority: u32| {
        let mut skyhook = NODEWRIGHT.skyhook("waiting", package.clone());
        skyhook["metadata"]["name"] = name.into();
        skyhook["spec"]["priority"] = priority.into();
        skyhook
    };
    let mut first = named("first", 10);
    first["metadata"]["annotations"] = json!({ApiFlavor::NodeWright.key("pause"): "true"});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-1"}});
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [first, named("second", 20), node]});
    let ran = run("diagnose node gpu-1 --from -").stdin(list.to_string()).output();
    let (findings, next) = ran.stdout.split_once("what to do next").expect("the next steps");
    assert!(findings.contains("- SKY308 paused"), "{}", ran.transcript());
    assert!(next.contains("\n1. Resume the custom resource"), "{}", ran.transcript());
}

/// A problem on another node that ends every reconcile is mentioned once, with the node.
#[test]
fn blocked_reconciles_are_mentioned_once() {
    for (fixture, node, says) in [
        (
            "pod_stuck_terminating.unwanted",
            "node-2",
            "\n  node-1: the pod for stage apply of package driver is stuck terminating; until the pod is gone, every operator reconcile ends at this node\n",
        ),
        (
            "drain_blocked",
            "drained",
            "\n  held: PodDisruptionBudget apps/single allows no evictions, so the node cannot be drained for the interrupt of package driver; until the node can be drained, the operator does nothing on the other nodes of this custom resource\n",
        ),
        (
            "node_state_malformed",
            "newer",
            "\n  the node state of skyhook/gpu on node/broken cannot be read\n",
        ),
    ] {
        let ran = run(&format!("diagnose node {node} --from tests/rules/{fixture}.yaml")).output();
        ran.expect_stdout(says);
        let first = ran.stdout.split("findings, causes first").next().unwrap_or_default();
        assert!(first.matches("every reconcile").count() <= 1, "{}", ran.transcript());
    }
}

/// "Nothing to do" is about this node: errors of the same custom resource on other nodes are mentioned.
#[test]
fn errors_on_other_nodes_are_mentioned_where_nothing_is_to_do() {
    let ran = node("modelled-image-pull-failing", "node-3");
    ran.expect_code(0);
    ran.expect_no_stdout("the rollout continues without intervention");
    ran.expect_stdout(
        "Nothing to do for this node, but there are errors on other nodes: kubectl skyhook diagnose stuck gpu",
    );
}

/// A webhook that refuses Jobs blocks the nodes where one has to be created, and no stage that already runs.
#[test]
fn a_webhook_that_refuses_jobs_blocks_nodes_without_one() {
    let from = "--from tests/rules/foreign_webhook_unreachable.rollout.yaml";
    let refused = run(&format!("diagnose node refused {from}")).output();
    refused.expect_code(2);
    refused.expect_stdout(
        "kernel, priority 200: blocked\n  every request for jobs is rejected: service kyverno/kyverno-svc ",
    );
    refused.expect_stdout("kubectl get service,endpointslices,pods -n kyverno\n");
    run(&format!("diagnose node at-work {from}")).output().expect_stdout("kernel, priority 200: running\n");
    let status = run(&format!("status {from}")).output();
    status.expect_stdout("STUCK: 1 cause blocks 1 of 2 nodes\n");
    status.expect_no_stdout("SKY222");
}

/// A node that went down at work keeps its slot: the node behind it is not next, and its cause and remedy are shown.
#[test]
fn a_node_behind_one_that_is_down_shows_what_it_waits_for() {
    let batch = |node: &str| {
        run(&format!("diagnose node {node} --from tests/rules/action_overdue.batch.yaml")).output()
    };
    let ran = batch("down-2");
    ran.expect_code(2);
    ran.expect_stdout("down-2: stuck\n");
    ran.expect_stdout("- SKY409 node-not-ready on down-1: ");
    ran.expect_stdout("kubectl skyhook node ignore down-1\n");
    ran.expect_no_stdout("next reconcile");
    // Without a recorded batch it is unknown which nodes belong to it.
    let ran = batch("unrecorded-2");
    ran.expect_code(0);
    ran.expect_stdout("unrecorded-2: waiting\n");
    ran.expect_no_stdout("next reconcile");
}

/// A custom resource that waits for an earlier one is still stuck by its own failing package, as on
/// its page.
#[test]
fn failing_package_behind_an_earlier_custom_resource_is_stuck() {
    let ran = run("diagnose node node-1 -o json --from tests/rules/deletion_not_progressing.yaml");
    let json = ran.output().json();
    let links = json["skyhooks"].as_array().expect("custom resources");
    let link = links.iter().find(|link| link["name"] == "failing");
    let link = link.expect("the failing one");
    assert_eq!(link["state"], "Blocked", "{link}");
    let reason = link["message"].as_str().expect("a sentence");
    assert!(reason.contains("skyhook/at-work"), "{reason}");
}
