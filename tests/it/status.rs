//! `status` on captured clusters.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::support::clusters;
use crate::support::object_builder::{NODEWRIGHT, PackageRun};
use crate::support::run::run;
use crate::support::test_cluster::TestCluster;

fn list(items: Vec<Value>) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

#[test]
fn output_matches_snapshots() {
    for captured in clusters::on_screen() {
        let from = captured.path();
        let mut transcript = run(&format!("status --from {from}")).output().transcript();
        transcript += &run(&format!("status -o wide --from {from}")).output().transcript();
        assert_snapshot!(format!("status_{}", captured.name), transcript);
    }
}

/// The page of each custom resource that is deleted or uninstalls a package.
#[test]
fn pages_with_uninstalls_match_snapshots() {
    for captured in clusters::on_screen() {
        let from = captured.path();
        let items = run(&format!("status -o json --from {from}")).output().json()["items"].take();
        let mut transcript = String::new();
        for item in items.as_array().expect("items") {
            let name = item["name"].as_str().expect("a name");
            let page =
                run(&format!("status {name} -o json --from {from}")).output().json()["items"][0].take();
            if !(page["uninstalls"].is_null() && page["deletion"].is_null()) {
                transcript += &run(&format!("status {name} --from {from}")).output().transcript();
                transcript += &run(&format!("status {name} -o wide --from {from}")).output().transcript();
            }
        }
        if !transcript.is_empty() {
            assert_snapshot!(format!("page_{}", captured.name), transcript);
        }
    }
}

#[test]
fn json_and_name_output_match_snapshots() {
    let from = "--from tests/clusters/rollout-stopped";
    assert_snapshot!(run(&format!("status -o json {from}")).output().transcript());
    assert_snapshot!(run(&format!("status -o name {from}")).output().transcript());
    let from = "--from tests/clusters/uninstall-erroring";
    assert_snapshot!(run(&format!("status gpu-tune -o json {from}")).output().transcript());
}

#[test]
fn unknown_names_are_errors() {
    let from = "--from tests/clusters/two-priorities";
    assert_snapshot!(run(&format!("status second {from}")).output().transcript());
    assert_snapshot!(run(&format!("status secnd {from}")).output().transcript());
}

/// A rollout that makes progress has an estimate, or a reason for none.
#[test]
fn a_rollout_without_an_estimate_says_why() {
    for (capture, name, why) in [
        ("uninstall-in-progress", "gpu-tune", "the duration of driver is not known yet"),
        ("in-progress", "gpu-tune", "the duration of driver is not known yet"),
        ("modelled-first-attempt-failed", "gpu", "a stage fails and is retried"),
    ] {
        let from = format!("--from tests/clusters/{capture}");
        run(&format!("status {from}")).output().expect_stdout(format!("\nno estimate for {name}: {why}\n"));
        run(&format!("status {name} {from}")).output().expect_stdout(format!(", no estimate: {why}\n"));
        let json = run(&format!("status -o json {from}")).output().json();
        let item = json["items"][0].as_object().expect("an item");
        let fields = ["eta", "etaSeconds", "etaUnknown"].map(|field| item.get(field));
        assert_eq!(fields, [Some(&Value::Null), Some(&Value::Null), Some(&why.into())]);
    }
}

#[test]
fn uninstalls_are_shown_by_node() {
    let from = clusters::named("uninstall-erroring").path().to_owned();
    let items = run(&format!("status gpu-tune --from {from} -o json")).output().json()["items"].take();
    let row = |row: &Value| {
        let text = |key: &str| row[key].as_str().expect("a text").to_owned();
        format!("{} {}", text("node"), text("phase"))
    };
    let rows: Vec<String> = items[0]["uninstalls"].as_array().expect("rows").iter().map(row).collect();
    assert_eq!(rows, ["node-1 Uninstalled", "node-2 Failing", "node-3 InProgress"]);
    // Only the page of a custom resource has them.
    let all = run(&format!("status --from {from} -o json")).output().json();
    assert!(all["items"][0].get("uninstalls").is_none(), "{all:#}");
}

#[test]
fn a_node_is_described_by_its_diagnosis() {
    let from = "--from tests/clusters/two-priorities";
    let ran = run(&format!("describe node-1 {from}")).output();
    assert_eq!(
        ran.parts(),
        (
            "",
            "error: Skyhook \"node-1\" not found\nhint: existing: first, second\n\
             hint: node-1 is a node: kubectl skyhook diagnose node node-1\n",
            Some(1)
        )
    );
    let described = run(&format!("describe node/node-1 {from}")).output();
    let diagnosed = run(&format!("diagnose node node-1 {from}")).output();
    assert_eq!(described.parts(), diagnosed.parts());
}

#[test]
fn server_and_files_give_the_same_output() {
    for name in ["apply-erroring", "uninstall-erroring", "two-priorities"] {
        let captured = clusters::named(name);
        let served = captured.served().serve();
        let asked = run("diagnose stuck -o json").kubeconfig(&served.kubeconfig());
        let asked = asked.output().json();
        let now = asked["takenAt"].as_str().expect("a time");
        let page = if name == "two-priorities" { "status first -o json" } else { "status gpu-tune -o json" };
        for words in ["status -o json", page] {
            let live = run(words).kubeconfig(&served.kubeconfig()).output().json();
            let path = captured.path();
            let files = run(&format!("{words} --from {path} --now {now}")).output().json();
            assert_eq!(live["items"], files["items"], "{words} of {name}");
        }
    }
}

#[test]
fn unreadable_sources_are_reported() {
    let captured = clusters::named("complete");
    for source in ["skyhooks", "nodes", "pods", "deployments"] {
        let fake = captured.served();
        fake.on(&format!("LIST {source}")).reply(403);
        let served = fake.serve();
        let ran = run("status").kubeconfig(&served.kubeconfig()).output();
        assert_snapshot!(ran.transcript());
    }
}

/// Files without custom resources do not show whether one was deleted.
#[test]
fn unknown_custom_resource_is_not_reported_deleted() {
    for cluster in ["finalizer-stripped", "deleted-after-reset"] {
        let ran = run(&format!("status --from tests/clusters/{cluster}")).output();
        ran.expect_stdout("could not be read, but may still exist; its annotations or labels are on ");
        ran.expect_no_stdout("gone, but");
    }
}

/// An older version may have been installed, as the rule for this capture says.
#[test]
fn never_installed_package_is_named_with_its_version() {
    let from = "--from tests/clusters/version-changed-while-uninstalling";
    let ran = run(&format!("status gpu-tune {from}")).output();
    let rows = ran.stdout.lines().filter(|l| l.contains("2.1.0 never installed"));
    assert_eq!(rows.count(), 3, "{}", ran.transcript());
}

/// The total counts selected nodes; packages on other nodes are only mentioned.
#[test]
fn packages_are_counted_on_selected_nodes() {
    let package = json!({"driver": {"version": "1.0.0", "image": "example.com/driver"}});
    let mut skyhook = NODEWRIGHT.skyhook("complete", package);
    skyhook["spec"]["nodeSelectors"] = json!({"matchLabels": {"pool": "gpu"}});
    let node = |name: &str, pool: &str| {
        let mut node = NODEWRIGHT.node(name, "complete", &["driver|1.0.0 config complete"]);
        node["metadata"]["labels"] = json!({"pool": pool});
        node
    };
    let nodes = [node("gpu-1", "gpu"), node("gpu-2", "gpu"), node("gpu-3", "other")];
    let mut items = vec![skyhook, NODEWRIGHT.operator()];
    items.extend(nodes.clone());
    let json = run("status -o json --from -").stdin(list(items)).output().json();
    let item = &json["items"][0];
    assert_eq!(item["nodes"]["leftBehind"], 1, "{item:#}");
    let driver = &item["packages"][0];
    assert_eq!((&driver["complete"], &driver["nodes"]), (&json!(2), &json!(2)));
    assert_eq!(driver["stages"][0]["nodes"], 2, "{item:#}");

    // Of a deleted custom resource, only the leftovers count.
    let mut items = vec![NODEWRIGHT.operator()];
    items.extend(nodes);
    let other = json!({"driver": {"version": "1.0.0", "image": "example.com/driver"}});
    let mut other = NODEWRIGHT.skyhook("complete", other);
    other["metadata"]["name"] = "other".into();
    items.push(other);
    let json = run("status -o json --from -").stdin(list(items)).output().json();
    let gone = json["items"].as_array().expect("items").iter();
    let gone = gone.filter(|item| item["exists"] == false);
    let nodes: Vec<&Value> = gone.map(|item| &item["packages"][0]["nodes"]).collect();
    assert_eq!(nodes, [&json!(3)]);
}

/// An image digest has no version, but the operator exists.
#[test]
fn operator_without_a_version_is_not_reported_absent() {
    let mut operator = NODEWRIGHT.operator();
    operator["spec"]["template"]["spec"]["containers"][0]["image"] =
        "ghcr.io/nvidia/nodewright/operator@sha256:0123".into();
    let package = json!({"driver": {"version": "1.0.0", "image": "example.com/driver"}});
    let cluster = list(vec![NODEWRIGHT.skyhook("complete", package), operator]);
    for words in ["status", "version"] {
        let ran = run(&format!("{words} --from -")).stdin(cluster.clone()).output();
        ran.expect_stdout("neither the image nor the labels of its Deployment contain a version");
    }
}

/// An uninstall that is paused or stalled is not in progress.
#[test]
fn stalled_uninstall_is_blocked() {
    let package = json!({"driver": {
        "version": "1.0.0", "image": "example.com/driver", "uninstall": {"enabled": true, "apply": true},
    }});
    let uninstall = |stage: &str, paused: bool, suspended: bool, job: bool| {
        let place =
            PackageRun { node: "gpu-1", stage: "uninstall", job: Some("job-1"), ..PackageRun::default() };
        let mut skyhook = NODEWRIGHT.skyhook("in_progress", package.clone());
        if paused {
            skyhook["metadata"]["annotations"] = json!({NODEWRIGHT.0.key("pause"): "true"});
        }
        let entry = format!("driver|1.0.0 {stage} in_progress");
        let mut items = vec![
            skyhook,
            NODEWRIGHT.operator(),
            NODEWRIGHT.node("gpu-1", "in_progress", &[&entry]),
            // With a Job of another node, the input contains Jobs, so that the Job of this node is known to be absent.
            NODEWRIGHT.job(
                &PackageRun { node: "gpu-2", job: Some("job-2"), stage: "apply", ..place },
                json!({"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]}),
            ),
            NODEWRIGHT.pod(
                "pod-2",
                &PackageRun { node: "gpu-2", job: Some("job-2"), stage: "apply", ..place },
                "Succeeded",
                &["driver-apply done"],
            ),
        ];
        if job {
            let mut job = NODEWRIGHT.job(&place, json!({"startTime": "2026-11-20T11:50:00Z", "active": 1}));
            job["spec"]["suspend"] = suspended.into();
            items.push(job);
        }
        let json =
            run("status gpu -o json --now 2026-11-20T11:51:00Z --from -").stdin(list(items)).output().json();
        let row = &json["items"][0]["uninstalls"][0];
        let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        (text("phase"), text("message"))
    };
    let in_progress = ("InProgress".to_owned(), String::new());
    assert_eq!(uninstall("uninstall", false, false, true), in_progress);
    // Until the operator suspends the Job, the uninstall of a paused custom resource runs.
    assert_eq!(uninstall("uninstall", true, false, true), in_progress);
    let blocked = |why: &str| ("Blocked".to_owned(), why.to_owned());
    assert_eq!(uninstall("uninstall", true, true, true), blocked("the custom resource is paused"));
    assert_eq!(
        uninstall("uninstall-interrupt", false, false, false),
        blocked(
            "SKY102: the uninstall of package driver waits for an interrupt that is no longer in the spec"
        )
    );
}

/// A stage that nothing runs has not started, a pod that outlives its record has not ended, and on a node that is no
/// longer selected nothing happens.
#[test]
fn an_uninstall_is_in_progress_only_while_something_runs() {
    let package = json!({"driver": {
        "version": "1.0.0", "image": "example.com/driver", "uninstall": {"enabled": true, "apply": true},
    }});
    let mut skyhook = NODEWRIGHT.skyhook("in_progress", package);
    skyhook["spec"]["nodeSelectors"] =
        json!({"matchExpressions": [{"key": "old", "operator": "DoesNotExist"}]});
    let run_on = |node: &'static str| PackageRun {
        node,
        stage: "uninstall",
        job: Some(node),
        ..PackageRun::default()
    };
    let job = |node| NODEWRIGHT.job(&run_on(node), json!({"startTime": "2026-11-20T11:50:00Z", "active": 1}));
    let entry = ["driver|1.0.0 uninstall in_progress"];
    let mut deselected = NODEWRIGHT.node("gpu-4", "in_progress", &entry);
    deselected["metadata"]["labels"]["old"] = json!("yes");
    let items = list(vec![
        skyhook,
        NODEWRIGHT.operator(),
        NODEWRIGHT.node("gpu-1", "in_progress", &entry),
        job("gpu-1"),
        NODEWRIGHT.node("gpu-2", "in_progress", &entry),
        NODEWRIGHT.node("gpu-3", "complete", &[]),
        job("gpu-3"),
        deselected,
    ]);
    let ran = run("status gpu -o json --now 2026-11-20T11:51:00Z --from -").stdin(items).output();
    let rows = ran.json()["items"][0]["uninstalls"].take();
    let rows = rows.as_array().expect("rows").iter().map(|row| {
        let text = |key: &str| row[key].as_str().unwrap_or_default();
        format!("{} {} {}", text("node"), text("phase"), text("message"))
    });
    assert_eq!(
        Vec::from_iter(rows),
        [
            "gpu-1 InProgress ",
            "gpu-2 Due ",
            "gpu-3 Ending job/nodewright/gpu-3 has not ended",
            "gpu-4 NotStarted the node is no longer selected"
        ]
    );
}

/// Nothing is recorded for an uninstall whose drain is refused.
#[test]
fn uninstall_that_cannot_start_is_blocked() {
    let from = "--now 2026-11-20T10:00:00Z --from tests/rules/drain_blocked.yaml";
    let json = run(&format!("status old -o json {from}")).output().json();
    let row = &json["items"][0]["uninstalls"][0];
    assert_eq!(
        (&row["phase"], &row["message"]),
        (
            &json!("Blocked"),
            &json!(
                "SKY401: PodDisruptionBudget apps/single allows no evictions, so the node cannot be drained for the \
                 interrupt of package driver; until the node can be drained, the operator does nothing on the other nodes of this custom resource"
            )
        )
    );
}

/// Each node has its own history, from events on the node or the custom resource; the last stage that started
/// counts.
#[test]
fn package_history_is_shown_per_node() {
    let package = json!({"driver": {
        "version": "2.0.1", "image": "registry.example/driver", "uninstall": {"enabled": true, "apply": true},
    }});
    let mut skyhook = NODEWRIGHT.skyhook("complete", package);
    skyhook["metadata"]["generation"] = 3.into();
    skyhook["metadata"]["creationTimestamp"] = "2026-11-20T08:00:00Z".into();
    let event = |n: u32, kind: &str, name: &str, at: &str, message: &str| {
        json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": format!("e{n}"), "namespace": "default"},
            "reason": "Apply", "message": message, "lastTimestamp": format!("2026-11-20T{at}Z"),
            "involvedObject": {"kind": kind, "name": name, "uid": "uid-1"},
        })
    };
    skyhook["metadata"]["uid"] = "uid-1".into();
    let from = format!("from [{}:gpu]", NODEWRIGHT.0.name());
    let kind = skyhook["kind"].as_str().expect("a kind").to_owned();
    let apply_message = |stage: &str| format!("Applying package [driver:2.0.1] {from} stage [{stage}]");
    let uninstalled_on_own = "Applying package [driver:2.0.1] to node [gpu-2] stage [uninstall]";
    let items = [
        event(1, "Node", "gpu-1", "09:00:00", &apply_message("apply")),
        event(2, "Node", "gpu-1", "09:10:00", &apply_message("uninstall")),
        event(3, "Node", "gpu-1", "09:10:09", &format!("Package [driver:2.0.1] state complete on {from}")),
        event(4, &kind, "gpu", "09:10:00", uninstalled_on_own),
        event(5, "Node", "gpu-3", "09:00:00", &apply_message("uninstall")),
        event(6, "Node", "gpu-3", "09:10:00", &apply_message("apply")),
    ];
    let nodes = ["gpu-1", "gpu-2", "gpu-3", "gpu-4"].map(|name| NODEWRIGHT.node(name, "complete", &[]));
    let all = [skyhook, NODEWRIGHT.operator()].into_iter().chain(nodes).chain(items);
    let json = run("status gpu -o json --now 2026-11-20T10:00:00Z --from -")
        .stdin(list(all.collect()))
        .output()
        .json();
    let rows = json["items"][0]["uninstalls"].as_array().expect("rows").iter();
    let shown: Vec<(&Value, &Value)> = rows.map(|r| (&r["phase"], &r["message"])).collect();
    let node_3 = "it was once installed on this node (event/Apply of node/gpu-3); nothing shows that it was uninstalled";
    let expected = [
        ("Uninstalled", format!("event/Apply of node/gpu-1: {}", apply_message("uninstall"))),
        ("Uninstalled", format!("event/Apply of nodewright/gpu: {uninstalled_on_own}")),
        ("Absent", node_3.to_owned()),
        ("Absent", "it was once installed (event/Apply of node/gpu-1)".to_owned()),
    ]
    .map(|(uninstall, reason)| (json!(uninstall), json!(reason)));
    assert_eq!(shown, expected.each_ref().map(|(a, b)| (a, b)));
}

#[test]
fn unreadable_nodes_are_an_error() {
    let cluster = TestCluster::captured_with_operator("apply-erroring");
    cluster.fake.on("LIST nodes").reply(403);
    let ran = cluster.run("status");
    ran.expect_code(1);
    ran.expect_stderr("cannot read nodes");
}

/// An uninstall that `diagnose stuck` reports as held by its batch is blocked in `status NAME`, too.
#[test]
fn an_uninstall_that_waits_for_a_failing_node_of_its_batch_is_blocked() {
    let files = r#"apiVersion: skyhook.nvidia.com/v1alpha1
kind: Skyhook
metadata: {name: base, uid: u-1, finalizers: [skyhook.nvidia.com/skyhook]}
spec: {packages: {driver: {version: 1.0.0, image: i, uninstall: {enabled: true, apply: true}}}}
status:
  status: unknown
  nodePriority: {node-1: "2026-11-20T09:00:00Z"}
  compartmentStatuses: {__default__: {matched: 2, ceiling: 2, inProgress: 0, completed: 0, progressPercent: 0}}
---
apiVersion: v1
kind: Node
metadata:
  name: node-1
  annotations:
    skyhook.nvidia.com/status_base: erroring
    skyhook.nvidia.com/nodeState_base: '{"driver|1.0.0":{"name":"driver","version":"1.0.0","image":"i","stage":"uninstall","state":"erroring"}}'
---
apiVersion: v1
kind: Node
metadata:
  name: node-2
  annotations:
    skyhook.nvidia.com/status_base: waiting
    skyhook.nvidia.com/nodeState_base: '{"driver|1.0.0":{"name":"driver","version":"1.0.0","image":"i","stage":"uninstall","state":"in_progress"}}'
"#;
    let status = run("status base -o json --from -").stdin(files).output();
    let rows = status.json()["items"][0]["uninstalls"].take();
    let uninstalls = [&rows[0]["phase"], &rows[1]["phase"]];
    assert_eq!(uninstalls, ["Failing", "Blocked"], "{}", status.transcript());
    assert_eq!(
        rows[1]["message"],
        "SKY305: the node fails and keeps its slot in the batch of skyhook/base, so no other node joins the batch"
    );
}

#[test]
fn work_that_is_held_up_is_to_come_once_its_causes_are_fixed() {
    let pages = [
        ["gpu-tune", "apply-erroring"],
        ["gpu-tune", "image-pull-back-off"],
        ["gpu", "modelled-drain-blocked"],
        ["gpu-tune", "in-progress"],
    ];
    let pages = pages.map(|[name, capture]| {
        run(&format!("status {name} --from tests/clusters/{capture}")).output().transcript()
    });
    insta::assert_snapshot!(pages.join("\n"));
}

/// An upgrade that goes on is not an installation.
#[test]
fn the_page_says_what_is_still_to_come() {
    let from = "--from tests/clusters/upgrade-in-progress";
    let ran = run(&format!("status gpu-tune {from}")).output();
    insta::assert_snapshot!(ran.transcript());
    let item = run(&format!("status gpu-tune -o json {from}")).output().json()["items"][0].take();
    insta::assert_snapshot!(serde_json::to_string_pretty(&item["toCome"]).expect("JSON"));
}
