//! `diagnose node`: why a node does not complete.

mod other_resources;
mod queue;

use kubectl_skyhook::api::keys;
use serde_json::{Value, json};

use crate::support::clusters;
use crate::support::fake_api::FakeApi;
use crate::support::object_builder::{NODEWRIGHT, PackageRun};
use crate::support::run::{RunOutput, run};
use crate::support::sample::some;

fn node(capture: &str, node: &str) -> RunOutput {
    let captured = clusters::named(capture);
    run(&format!("diagnose node {node} --from {}", captured.path())).output()
}

#[test]
fn node_output_matches_snapshots() {
    for (capture, name) in [
        ("apply-erroring", "node-2"),
        ("complete", "node-1"),
        ("two-priorities", "node-2"),
        ("v0.17-paused", "node-1"),
        ("runtime-required-and-ignored", "node-3"),
        ("in-progress", "node-2"),
        ("deleted-while-erroring", "node-1"),
        ("rollout-stopped", "node-3"),
    ] {
        insta::assert_snapshot!(format!("node_{capture}"), node(capture, name).transcript());
    }
}

#[test]
fn unknown_node_suggests_similar_names() {
    insta::assert_snapshot!(node("complete", "node-11").transcript());
}

/// The Job of the package on a node.
fn running_job(node: &str) -> PackageRun<'_> {
    PackageRun {
        node,
        package: "driver",
        stage: "apply",
        job: Some(node),
        at: "2026-11-20T11:55:00Z",
        ..PackageRun::default()
    }
}

/// On every node of every capture: if the report has an error for the node, `diagnose node` does not call it
/// fine.
#[test]
fn node_with_error_findings_is_never_fine() {
    for captured in some(clusters::all(), 12) {
        let from = captured.path();
        let report = run(&format!("diagnose stuck -o json --from {from}")).output().json();
        let findings = report["findings"].as_array().expect("findings");
        let errors = findings.iter().filter(|f| f["severity"] == "Error");
        let mut nodes: Vec<&str> = errors.filter_map(|f| f["subject"]["node"].as_str()).collect();
        nodes.sort_unstable();
        nodes.dedup();
        for node in nodes {
            let ran = run(&format!("diagnose node {node} -o json --from {from}")).output();
            assert_eq!(ran.code, Some(2), "{}: {node}\n{}", captured.name, ran.transcript());
        }
    }
}

/// Makes a node not ready since this time, with a taint as Kubernetes sets it.
fn not_ready(mut node: Value, since: &str) -> Value {
    node["status"]["conditions"][0] =
        json!({"type": "Ready", "status": "Unknown", "lastTransitionTime": since});
    node["spec"]["taints"] = json!([{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}]);
    node
}

fn list(items: Vec<Value>) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

/// The state of a node, the state of its first incomplete custom resource, and the exit code.
fn node_outcome(node: &str, cluster: &str) -> (String, String, Option<i32>) {
    let ran = run(&format!("diagnose node {node} -o json --now 2026-11-20T12:00:00Z --from -"))
        .stdin(cluster.to_owned())
        .output();
    let json = ran.json();
    let links = json["skyhooks"].as_array().expect("custom resources");
    let open = links.iter().find(|link| link["state"] != "Complete");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let link = open.map_or_else(String::new, |link| text(&link["state"]));
    (text(&json["state"]), link, ran.code)
}

fn expected_outcome(word: &str, code: i32) -> (String, String, Option<i32>) {
    (word.to_owned(), word.to_owned(), Some(code))
}

/// The outcome if an error keeps the node from completing.
fn stuck() -> (String, String, Option<i32>) {
    ("Stuck".to_owned(), "Blocked".to_owned(), Some(2))
}

/// The container of a pod that is being deleted runs until it ends.
#[test]
fn reboot_would_interrupt_the_container_of_a_terminating_pod() {
    let capture = "tests/clusters/v0.17-cancelled-uninstall-still-running";
    let ran = run(&format!("diagnose node node-2 --from {capture}")).output();
    ran.expect_stdout("a reboot now: interrupts stage uninstall of driver (gpu)");
    let ran =
        run("diagnose node undy-1 --from tests/clusters/nodewright-undying-pod-after-reset-wedged").output();
    ran.expect_stdout("a reboot now: interrupts stage config of alpha");
}

/// Only containers that run are interrupted; those of other living pods may start. Without pods, or of a node that is not
/// ready, that is unknown.
#[test]
fn reboot_interrupts_containers_that_run() {
    for (node, capture, expected) in [
        ("stimeout-1", "nodewright-stage-timeout", "no stage; the workloads on the node were not read"),
        (
            "node-2",
            "finalizer-stripped",
            "no stage; the workloads on the node were not read; stage uninstall of driver (gpu-tune) may start at any moment",
        ),
        (
            "prog-2",
            "nodewright-in-progress",
            "stage config of alpha (prog); the workloads on the node were not read",
        ),
    ] {
        let ran = run(&format!("diagnose node {node} --from tests/clusters/{capture}")).output();
        let line = ran.stdout.lines().find(|line| line.starts_with("a reboot now: ")).unwrap_or_default();
        assert_eq!(line, format!("a reboot now: interrupts {expected}"), "{capture}");
    }
    let file = "tests/clusters/nodewright-in-progress/cluster.json";
    let text = std::fs::read_to_string(file).expect("a capture");
    let mut cluster: Value = serde_json::from_str(&text).expect("JSON");
    let items = cluster["items"].as_array_mut().expect("items");
    items.retain(|item| item["kind"] != "Pod");
    let ran = run("diagnose node prog-2 --from -").stdin(cluster.to_string()).output();
    ran.expect_stdout("a reboot now: interrupts stage config of alpha (prog)");
}

/// A taint that Kubernetes removes when the node returns blocks neither running work nor a joining node; a
/// foreign taint does.
#[test]
fn rebooting_or_joining_node_is_not_stuck() {
    let rebooting = json!({"driver": {
        "version": "1.0.0", "image": "example.com/driver", "interrupt": {"type": "reboot"},
    }});
    let interrupt = PackageRun { stage: "interrupt", interrupt: true, ..running_job("gpu-01") };
    let mut tainted = NODEWRIGHT.node("gpu-04", "blocked", &[]);
    tainted["spec"]["taints"] = json!([{"key": "example.com/reserved", "effect": "NoSchedule"}]);
    let entry = ["driver|1.0.0 interrupt in_progress"];
    let cluster = list(vec![
        NODEWRIGHT.skyhook("in_progress", rebooting),
        NODEWRIGHT.operator(),
        not_ready(NODEWRIGHT.node("gpu-01", "in_progress", &entry), "2026-11-20T11:57:00Z"),
        NODEWRIGHT.job(&interrupt, json!({"active": 1})),
        not_ready(NODEWRIGHT.node("gpu-02", "", &[]), "2026-11-20T11:59:59Z"),
        not_ready(NODEWRIGHT.node("gpu-03", "blocked", &[]), "2026-11-20T10:00:00Z"),
        tainted,
    ]);
    assert_eq!(node_outcome("gpu-01", &cluster), expected_outcome("Running", 0));
    assert_eq!(node_outcome("gpu-02", &cluster), expected_outcome("Waiting", 0));
    assert_eq!(node_outcome("gpu-03", &cluster), expected_outcome("Suspended", 0));
    assert_eq!(node_outcome("gpu-04", &cluster), stuck());
}

/// The deadline deletes the interrupt's pod with its restart count; the node state keeps the count.
#[test]
fn interrupt_attempts_are_counted_without_a_pod() {
    let interrupt = PackageRun { stage: "interrupt", interrupt: true, ..running_job("gpu-01") };
    let failed = json!({"failed": 1, "conditions": [
        {"type": "Failed", "status": "True", "reason": "DeadlineExceeded"},
    ]});
    let mut node = NODEWRIGHT.node("gpu-01", "erroring", &["driver|1.0.0 interrupt erroring"]);
    let state = &mut node["metadata"]["annotations"][keys::node_state(NODEWRIGHT.0, "gpu")];
    *state = state.as_str().expect("a node state").replace("\"stage\"", "\"restarts\":10,\"stage\"").into();
    let package = json!({"driver": {
        "version": "1.0.0", "image": "example.com/driver", "interrupt": {"type": "reboot"},
    }});
    let cluster = list(vec![
        NODEWRIGHT.skyhook("erroring", package),
        NODEWRIGHT.operator(),
        node,
        NODEWRIGHT.job(&interrupt, failed),
    ]);
    let ran = run("diagnose stuck --from -").stdin(cluster).output();
    ran.expect_stdout("failed permanently (11 failed attempts)");
}

/// Without the custom resources it is unknown what the node waits for.
#[test]
fn unreadable_custom_resources_are_not_reported_complete() {
    let list =
        json!({"apiVersion": "v1", "kind": "List", "items": [NODEWRIGHT.node("gpu-01", "waiting", &[])]});
    let ran = run("diagnose node gpu-01 --from -").stdin(list.to_string()).output();
    ran.expect_code(1);
    assert_eq!(
        ran.stdout,
        "gpu-01: cannot tell which custom resources select it\n\n\
         gpu: unknown\n  it could not be read, so it may still exist\n\n\
         could not be read: custom resources: none in the capture\n"
    );
    let fake = clusters::named("complete").served();
    fake.on("LIST pods").reply(403);
    let served = fake.serve();
    let ran = run("diagnose node node-1").kubeconfig(&served.kubeconfig()).output();
    ran.expect_code(1);
    ran.expect_no_stdout("node-1: done");
}

/// The custom resource of the keys may just be missing from the capture.
#[test]
fn a_custom_resource_that_was_not_captured_is_unknown() {
    let mut other = NODEWRIGHT.skyhook("complete", json!({}));
    other["metadata"]["name"] = "other".into();
    other["spec"]["nodeSelectors"] = json!({"matchLabels": {"pool": "other"}});
    let node = NODEWRIGHT.node("gpu-01", "in_progress", &["driver|1.0.0 config in_progress"]);
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [other, node]});
    let ran = run("diagnose node gpu-01 --from -").stdin(list.to_string()).output();
    assert_eq!(
        ran.stdout,
        "gpu-01: unknown\n\
         not selected by other: requires pool=other, but the node has no such label\n\n\
         gpu: unknown\n  it is not in the capture but may still exist: its annotations or labels are on the node\n"
    );
}

/// Without the package pods the state of the stage is unknown, and is not reported as fine.
#[test]
fn unreadable_pods_are_not_reported_fine() {
    let package = json!({"driver": {"version": "1.0.0", "image": "example.com/driver"}});
    let cluster = || {
        vec![
            NODEWRIGHT.skyhook("in_progress", package.clone()),
            NODEWRIGHT.operator(),
            NODEWRIGHT.node("gpu-01", "in_progress", &["driver|1.0.0 apply in_progress"]),
        ]
    };
    let ran = run("diagnose node gpu-01 --from -").stdin(list(cluster())).output();
    ran.expect_no_stdout("nothing is wrong");
    ran.expect_no_stdout("Nothing to do");
    ran.expect_stdout("No problem was found, but the capture has no package pods or jobs");
    let mut fake = FakeApi::new().serving(NODEWRIGHT.0);
    for object in cluster() {
        fake = fake.with(object);
    }
    fake.on("LIST pods").reply(403);
    let served = fake.serve();
    let ran = run("diagnose node gpu-01").kubeconfig(&served.kubeconfig()).output();
    ran.expect_code(1);
    ran.expect_no_stdout("nothing is wrong");
    ran.expect_no_stdout("Nothing to do");
}

/// A pod that the kubelet has not acknowledged does not run, even if the node state is `in_progress`.
#[test]
fn pod_that_the_kubelet_has_not_acknowledged_does_not_run() {
    let package = json!({"driver": {"version": "1.0.0", "image": "example.com/driver"}});
    let mut pod = NODEWRIGHT.pod("driver-1", &running_job("gpu-01"), "Pending", &[]);
    pod["status"] = json!({"phase": "Pending"});
    let job = NODEWRIGHT.job(&running_job("gpu-01"), json!({"active": 1}));
    let cluster = |status: &str, entries: &[&str]| {
        list(vec![
            NODEWRIGHT.skyhook("in_progress", package.clone()),
            NODEWRIGHT.operator(),
            NODEWRIGHT.node("gpu-01", status, entries),
            job.clone(),
            pod.clone(),
        ])
    };
    let cluster = cluster("in_progress", &["driver|1.0.0 apply in_progress"]);
    let at = |time: &str| {
        run(&format!("diagnose node gpu-01 --now 2026-11-20T{time}Z --from -"))
            .stdin(cluster.clone())
            .output()
    };
    // The pod was created at 11:55; rules report it after ten minutes.
    let ran = at("12:02:00");
    ran.expect_no_stdout("has been running");
    ran.expect_stdout(
        "pod/nodewright/driver-1 was assigned to the node 7m ago, but the kubelet has not started it",
    );
    ran.expect_stdout("in progress: at stage apply, pod assigned 7m ago but not started by the kubelet");
    let ran = at("12:10:00");
    ran.expect_stdout("SKY205");
    ran.expect_no_stdout("for 15m");
}

/// The reason and the package's line name the same running stage, before the node state records it.
#[test]
fn stage_that_the_node_state_does_not_show_yet_is_named() {
    let ran = node("nodewright-drain-misattributed", "node-3");
    ran.expect_stdout("stage config of nic has been running for 0s");
    ran.expect_stdout("- nic 1.0.0 in progress: stage apply is done; stage config has started");
    ran.expect_no_stdout("the next stage has not started");
}

/// The reason mentions that the operator reports the node as erroring, instead of "nothing is wrong".
#[test]
fn node_that_the_operator_reports_erroring_is_not_called_fine() {
    let ran = node("v0.17-rough-reboot", "node-1");
    ran.expect_code(0);
    ran.expect_no_stdout("nothing is wrong");
    ran.expect_stdout("the operator still reports the node as erroring");
}

/// The reason explains why a node with complete packages is still cordoned and in progress.
#[test]
fn done_node_that_is_still_cordoned_says_so() {
    let ran = node("v0.17-rough-reboot", "node-3");
    ran.expect_code(0);
    ran.expect_stdout(
        "all of its packages are done, but the operator has not removed its cordon from the node yet",
    );
    let ran = node("v0.17-rough-reboot", "node-2");
    ran.expect_no_stdout("cordon");
}

/// A build with explicit uninstalls that reports v0.15 keeps the entry of the version before a downgrade.
#[test]
fn downgrade_is_complete_with_explicit_uninstalls() {
    let ran = node("removed-from-spec", "node-1");
    ran.expect_code(0);
    ran.expect_stdout("node-1: complete\n");
    let ran = run("status gpu-tune --from tests/clusters/removed-from-spec").output();
    ran.expect_stdout("3 nodes: 3 complete");
    ran.expect_no_stdout("Progressing");
}

#[test]
fn resource_that_does_not_select_the_node_says_what_it_wants() {
    let mut selecting = NODEWRIGHT.skyhook("complete", json!({}));
    selecting["spec"]["nodeSelectors"] = json!({
        "matchLabels": {"pool": "gpu"},
        "matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}],
    });
    let labelled = |name: &str, labels: Value| {
        let mut node = NODEWRIGHT.node(name, "", &[]);
        node["metadata"]["labels"] = labels;
        node
    };
    let items = list(vec![
        selecting,
        labelled("cpu-1", json!({"pool": "cpu", "zone": "a"})),
        labelled("gpu-1", json!({"pool": "gpu"})),
    ]);
    let ask = |words: &str| {
        let ran = run(&format!("{words} --now 2026-11-20T12:00:00Z --from -")).stdin(items.clone()).output();
        (ran.stdout, ran.code)
    };
    let expected = "\
cpu-1: no custom resource selects it
not selected by gpu: requires pool=gpu, but the label is \"cpu\"
";
    assert_eq!(ask("diagnose node cpu-1"), (expected.to_owned(), Some(0)));
    let expected = "\
gpu-1: no custom resource selects it
not selected by gpu: requires zone in (a,b), but the node has no such label
";
    assert_eq!(ask("diagnose node gpu-1"), (expected.to_owned(), Some(0)));
}
