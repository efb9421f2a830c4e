//! Stuck deletions: their reported state, and `finalizer strip`.

mod strip;

use insta::assert_snapshot;
use kubectl_skyhook::api::ApiFlavor;
use serde_json::{Value, json};

use crate::support::run::run;
use crate::support::test_cluster::{CR, TestCluster};

const FOREIGN: &str = "example.com/keep";
const NODES: [&str; 3] = ["node-1", "node-2", "node-3"];

impl TestCluster {
    fn add_finalizer(&self, entry: &str) {
        let mut cr = self.cr().expect("the custom resource exists");
        let all = cr["metadata"]["finalizers"].as_array_mut();
        all.expect("finalizers").insert(0, json!(entry));
        self.fake.load(cr);
    }

    fn change_node(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut node = self.node(name);
        change(&mut node);
        self.fake.load(node);
    }

    /// The annotations, labels and conditions of the custom resource that are left on a node.
    fn left_on(&self, name: &str) -> Vec<String> {
        let node = self.node(name);
        let mut left_on: Vec<String> = ["annotations", "labels"]
            .iter()
            .flat_map(|map| node["metadata"][map].as_object().cloned().unwrap_or_default())
            .map(|(key, _)| key)
            .filter(|key| key.ends_with(CR))
            .collect();
        let conditions = node["status"]["conditions"].as_array().cloned();
        let ours = format!("{}/", ApiFlavor::Skyhook.key(CR));
        left_on.extend(
            conditions
                .unwrap_or_default()
                .iter()
                .filter_map(|c| c["type"].as_str().map(str::to_owned))
                .filter(|kind| kind.starts_with(&ours)),
        );
        left_on
    }

    /// The nodes without server metadata.
    fn nodes(&self) -> Value {
        let mut nodes = json!(NODES.map(|n| self.node(n)));
        for node in nodes.as_array_mut().expect("a list") {
            let metadata = node["metadata"].as_object_mut().expect("metadata");
            metadata.remove("resourceVersion");
            metadata.remove("managedFields");
            metadata.retain(|_, v| *v != json!({}));
            if let Some(list) = node["status"]["conditions"].as_array_mut() {
                list.sort_by_key(|c| c["type"].to_string());
                for condition in list.iter_mut().filter_map(Value::as_object_mut) {
                    // Heartbeats do not matter to these tests.
                    condition.remove("lastHeartbeatTime");
                }
            }
        }
        nodes
    }
}

#[test]
fn unreadable_pods_may_be_running() {
    let test_cluster = TestCluster::captured_with_operator("deleted-while-erroring");
    // Nothing fails any more, so the uninstall may be running.
    test_cluster.change_node("node-2", |node| {
        let key = ApiFlavor::Skyhook.key(&format!("nodeState_{CR}"));
        let state = node["metadata"]["annotations"][&key].as_str();
        let state = state.expect("a state").replace("erroring", "in_progress");
        node["metadata"]["annotations"][&key] = json!(state);
    });
    test_cluster.fake.on("LIST pods").reply(403);
    let status = test_cluster.run("status gpu-tune -o json");
    let document = status.json()["items"][0]["deletion"].take();
    assert_eq!(document["state"], json!("Unknown"), "{}", status.transcript());
    let strip = test_cluster.run("finalizer strip gpu-tune --confirm");
    strip.expect_code(3);
    strip.expect_stderr("kubectl skyhook wait gpu-tune --for=deleted");
    assert_eq!(test_cluster.writes(), [""; 0]);
}

/// The blocker is known without pods; the report adds that something may still be running.
#[test]
fn blocked_deletion_is_reported_without_pods() {
    for cluster in ["deleted-while-paused", "deleted-while-erroring"] {
        let test_cluster = TestCluster::captured_with_operator(cluster);
        let document = || test_cluster.run("status gpu-tune -o json").json()["items"][0]["deletion"].take();
        let (state, unread) = (document()["state"].clone(), "may still be running");
        assert_eq!(state, json!("Stuck"), "{cluster}");
        test_cluster.fake.on("LIST pods").reply(403);
        let document = document();
        assert_eq!(document["state"], json!("Stuck"), "{cluster}");
        let because = document["message"].as_str().expect("a reason");
        assert!(because.contains(unread), "{because}");
    }
}

/// Without an operator the deletion does not end, and every command gives the same reason.
#[test]
fn all_commands_agree_when_the_operator_is_missing() {
    let test_cluster = TestCluster::from_capture("deleted-while-erroring");
    let report = test_cluster.run("diagnose stuck gpu-tune -o json");
    report.expect_code(2);
    assert_eq!(report.json()["verdict"], "Stuck");
    let waited = test_cluster.run("wait gpu-tune --for=deleted --timeout 20s -o json");
    waited.expect_code(2);
    let torn = test_cluster.run("teardown --dry-run -o json");
    for ran in [&report, &waited, &torn] {
        ran.expect_stdout("SKY501");
    }
    let status = test_cluster.run("status gpu-tune");
    status.expect_stdout("skyhook/gpu-tune: the deletion is blocked");
    status.expect_stdout("no deployment of the operator was found");
    let next = status.stdout.lines().find_map(|l| l.strip_prefix("now: "));
    assert_eq!(next, Some("kubectl skyhook finalizer strip gpu-tune"));
    // The recommended command is not refused.
    let ran = test_cluster.run("finalizer strip gpu-tune --confirm");
    ran.expect_code(0);
    ran.expect_stderr("to run uninstall.sh, reinstall the operator instead: it then finishes the deletion");
    assert_eq!(test_cluster.cr(), None);
}

/// Packages that still fail no longer delay the deletion.
#[test]
fn deletion_held_by_other_finalizers_waits_for_no_uninstall() {
    let test_cluster = TestCluster::captured_with_operator("deleted-while-erroring");
    let mut cr = test_cluster.cr().expect("the custom resource exists");
    cr["metadata"]["finalizers"] = json!([FOREIGN]);
    test_cluster.fake.load(cr);
    let key = ApiFlavor::Skyhook.key("nodeState_gpu-tune");
    let failing = test_cluster.node("node-2")["metadata"]["annotations"][&key].clone();
    let failing = failing.as_str().expect("a state").replace(' ', "");
    let failing = failing.replace(r#""stage":"apply""#, r#""stage":"uninstall""#);
    for node in NODES {
        test_cluster.change_node(node, |node| {
            node["metadata"]["annotations"][&key] = json!(failing);
        });
    }
    let ran = test_cluster.run("status gpu-tune");
    ran.expect_code(0);
    for message in [
        "only third-party finalizers are left: example.com/keep",
        "SKY112",
        "1. Show the remaining finalizers",
        "2. Check the logs for the cause, then fix the package",
        "kubectl skyhook package logs driver --skyhook gpu-tune --node node-1 --stage uninstall",
        "3. Remove the finalizer if its owner no longer exists",
        "4. Reset the package on the node",
        "now: kubectl get skyhooks.skyhook.nvidia.com gpu-tune -o yaml",
    ] {
        assert!(ran.stdout.contains(message), "{message}: {}", ran.transcript());
    }
    for not in ["PENDING", "the deletion waits for it"] {
        assert!(!ran.stdout.contains(not), "{not}: {}", ran.transcript());
    }
}

#[test]
fn pages_of_deletions_match_snapshots() {
    for cluster in ["deleted-while-paused", "deleted-while-erroring"] {
        for format in ["table", "json"] {
            let shown = format!("tests/clusters/{cluster}");
            let ran = run(&format!("status gpu-tune --from {shown} -o {format}")).output();
            ran.expect_code(0);
            assert_snapshot!(format!("page_{cluster}_{format}"), ran.transcript());
        }
    }
}

#[test]
fn orphaned_cordon_is_released_and_undone() {
    let test_cluster = TestCluster::from_capture("complete");
    let cordon = ApiFlavor::Skyhook.key("cordon_gone");
    test_cluster.change_node("node-1", |node| {
        node["metadata"]["annotations"][&cordon] = json!("true");
        node["spec"]["unschedulable"] = json!(true);
    });
    let before = test_cluster.nodes();
    let unasked = test_cluster.run("leftovers --clean");
    unasked.expect_code(3);
    assert_eq!(test_cluster.writes(), [""; 0]);
    let ran = test_cluster.run("leftovers --clean --node node-1 --confirm");
    ran.expect_code(0);
    let node = test_cluster.node("node-1");
    assert_eq!(node["spec"]["unschedulable"], Value::Null);
    assert_eq!(node["metadata"]["annotations"][&cordon], Value::Null);
    assert_eq!(test_cluster.writes(), ["PATCH /api/v1/nodes/node-1"]);
    test_cluster.run("undo --confirm").expect_code(0);
    assert_eq!(test_cluster.nodes(), before);
}

#[test]
fn unreachable_node_blocks_deletion_despite_a_running_pod() {
    let from = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rules/node_not_ready.yaml");
    let ran = run(&format!("status old --from {from}")).output();
    assert!(
        ran.stdout.contains("the deletion is blocked") && ran.stdout.contains("kubectl describe node going"),
        "{}",
        ran.transcript()
    );
    let ran = run(&format!("diagnose stuck old --rule SKY113 --from {from}")).output();
    ran.expect_no_stdout("SKY113");
    let ran = run(&format!("status half --from {from}")).output();
    let because = "on half-gone: the node has not been ready";
    ran.expect_stdout(because);
    ran.expect_stdout("pods are still running");
}

/// A starting operator delays a deletion, and every command says so; ten minutes later it blocks the
/// deletion.
#[test]
fn starting_operator_delays_but_does_not_block_deletion() {
    let status = |now: &str| {
        let from = "--from tests/rules/operator_not_running.starting.yaml";
        run(&format!("status gpu -o json {from} --now {now}")).output().json()["items"][0]["deletion"].take()
    };
    let young = status("2026-11-20T10:00:04Z");
    assert_eq!(young["state"], json!("Waiting"), "{young:#}");
    let old = status("2026-11-20T10:10:00Z");
    assert_eq!(old["state"], json!("Stuck"), "{old:#}");
    for status in [young, old] {
        let reason = status["message"].as_str().expect("a reason");
        assert!(reason.contains("no replica of the operator"), "{reason}");
    }
}

/// Only node states show whether anything is left to uninstall.
#[test]
fn unreadable_nodes_are_not_reported_as_progress() {
    let skyhook = json!({
        "apiVersion": "skyhook.nvidia.com/v1alpha1", "kind": "Skyhook",
        "metadata": {
            "name": "gpu", "deletionTimestamp": "2026-11-20T09:00:00Z",
            "finalizers": ["skyhook.nvidia.com/skyhook"],
        },
        "spec": {"packages": {"driver": {"version": "1.0.0", "image": "i", "uninstall": {"enabled": true}}}},
    });
    let status = run("status gpu -o json --now 2026-11-20T09:10:00Z --from -")
        .stdin(skyhook.to_string())
        .output()
        .json()["items"][0]["deletion"]
        .take();
    assert_eq!(
        (&status["state"], &status["message"]),
        (&json!("Unknown"), &json!("nodes could not be read, so the remaining uninstalls are unknown"))
    );
}
