//! `diagnose node`: why a node does not complete.

use kubectl_skyhook::api::{ApiFlavor, keys};
use serde_json::{Value, json};

use crate::support::clusters;
use crate::support::fake_api::FakeApi;
use crate::support::object_builder::{NODEWRIGHT, PackageRun, SKYHOOK};
use crate::support::run::{RunOutput, run};

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

/// A rollout on ten nodes, two at a time by policy; two are in progress, and the others wait.
fn queue() -> Value {
    let mut skyhook = NODEWRIGHT
        .skyhook("in_progress", json!({"driver": {"version": "1.0.0", "image": "example.com/driver"}}));
    skyhook["spec"]["deploymentPolicy"] = "slow".into();
    skyhook["status"]["nodePriority"] =
        json!({"gpu-01": "2026-11-20T11:50:00Z", "gpu-02": "2026-11-20T11:50:00Z"});
    skyhook["status"]["compartmentStatuses"] =
        json!({"__default__": {"matched": 10, "ceiling": 2, "inProgress": 2}});
    let policy = json!({
        "apiVersion": NODEWRIGHT.0.api_version(), "kind": "DeploymentPolicy", "metadata": {"name": "slow"},
        "spec": {"default": {"budget": {"count": 2}}},
    });
    let mut items = vec![skyhook, policy, NODEWRIGHT.operator()];
    for n in 1..=10 {
        let (status, entries): (_, &[&str]) = match n {
            1 | 2 => ("in_progress", &["driver|1.0.0 apply in_progress"]),
            _ => ("waiting", &[]),
        };
        let node = format!("gpu-{n:02}");
        items.push(NODEWRIGHT.node(&node, status, entries));
        if n <= 2 {
            items.push(NODEWRIGHT.job(&running_job(&node), json!({"active": 1})));
        }
    }
    items.push(no_pods());
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

/// An empty PodList: proof that there are no pods.
fn no_pods() -> Value {
    json!({"apiVersion": "v1", "kind": "PodList", "items": []})
}

#[test]
fn queued_node_is_not_stuck() {
    let ran = run("diagnose node gpu-09 --from -").stdin(queue().to_string()).output();
    insta::assert_snapshot!(ran.transcript());
    let ran = run("diagnose node gpu-09 -o json --from -").stdin(queue().to_string()).output();
    let json = ran.json();
    assert_eq!((&json["state"], ran.code), (&json!("Waiting"), Some(0)));
    let because = json["skyhooks"][0]["reason"].as_str().expect("a sentence");
    assert!(because.contains("number 7 of 8 in the queue"), "{because}");
}

/// With a batch strategy, the strategy limits the nodes in progress, not the budget, although the operator
/// reports the budget as the ceiling.
#[test]
fn nodes_at_once_are_those_of_the_strategy() {
    let linear = json!({"linear": {"initialBatch": 1, "delta": 1}});
    let exponential = json!({"exponential": {"initialBatch": 1, "growthFactor": 2}});
    let batch_of_two = ", whose next batch has 2 nodes; ";
    // Nodes in progress, strategy, the column of `status`, its value in JSON, and the text of `diagnose
    // node`.
    for (in_progress, strategy, column, number, says) in [
        (2, Value::Null, "2", json!(2), batch_of_two),
        (2, json!({"fixed": {"initialBatch": 5}}), "5", json!(5), ", whose next batch has 5 nodes; "),
        (1, json!({"fixed": {"initialBatch": 1}}), "1", json!(1), ", whose next batch has 1 node; "),
        (2, linear, "grows", Value::Null, ", whose next batch has 3 nodes; "),
        (2, exponential, "grows", Value::Null, ", whose next batch has 4 nodes; "),
        // Another version starts on all nodes, outside of batches, so more nodes than a batch are in
        // progress.
        (2, json!({"fixed": {"initialBatch": 1}}), "unknown", Value::Null, ", whose next batch has 1 node; "),
    ] {
        let mut cluster = queue();
        let items = cluster["items"].as_array_mut().expect("items");
        items[0]["status"]["compartmentStatuses"]["__default__"]["inProgress"] = in_progress.into();
        items[1]["spec"]["default"]["strategy"] = strategy.clone();
        at_once_is(&cluster, &strategy, column, &number, says);
    }
    // Without the policy, the strategy is unknown.
    let mut cluster = queue();
    let items = cluster["items"].as_array_mut().expect("items");
    items.remove(1);
    at_once_is(&cluster, &Value::Null, "unknown", &Value::Null, "deployment policies were not read");
}

fn at_once_is(cluster: &Value, strategy: &Value, column: &str, number: &Value, says: &str) {
    let on = |line: &str| run(line).stdin(cluster.to_string()).output();
    let status = on("status gpu --from -");
    let row = |cells: &[&str]| {
        status.stdout.lines().any(|line| line.split_whitespace().take(cells.len()).eq(cells.iter().copied()))
    };
    assert!(row(&["(default)", "0", "0/10", column, "0", "running"]), "{strategy}: {}", status.stdout);
    let document = on("status -o json --from -").json();
    let compartment = &document["items"][0]["compartments"][0];
    assert_eq!(&compartment["atOnce"], number, "{strategy}");
    let node = on("diagnose node gpu-09 -o json --from -").json();
    let reason = node["skyhooks"][0]["reason"].as_str().expect("a sentence");
    assert!(reason.contains(says), "{strategy}: {reason}");
}

/// A failing node holds its batch, so no other node is chosen; the waiting node is not reported as fine.
#[test]
fn node_waiting_for_its_batch_names_the_node_that_holds_it() {
    let mut cluster = queue();
    let items = cluster["items"].as_array_mut().expect("items");
    items.retain(|o| o["metadata"]["name"] != "gpu-01" && o["metadata"]["name"] != "gpu-02");
    for n in 1..=2 {
        let entries = ["driver|1.0.0 apply erroring"];
        items.push(NODEWRIGHT.node(&format!("gpu-{n:02}"), "erroring", &entries));
    }
    let ran = run("diagnose node gpu-09 --from -").stdin(cluster.to_string()).output();
    ran.expect_no_stdout("nothing is wrong");
    insta::assert_snapshot!(ran.transcript());
}

/// Before v0.20 the operator does not continue on a batch node while another one is in progress, so a stuck
/// node holds the others.
#[test]
fn node_between_stages_names_the_node_it_waits_for() {
    let ran = run("diagnose node s-between --from tests/rules/batch_held_by_node.yaml").output();
    ran.expect_code(2);
    let says = "s-stuck: the node makes no progress (SKY202 image-not-pulled)";
    ran.expect_stdout(says);
    let ran = run("diagnose node u-between --from tests/rules/batch_held_by_node.yaml").output();
    let says = "the operator continues once node/u-working is no longer in progress";
    ran.expect_stdout(says);
    ran.expect_no_stdout("stuck");
}

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

/// On every node of every capture: if the report has an error for the node, `diagnose node` does not call it
/// fine.
#[test]
fn node_with_error_findings_is_never_fine() {
    for captured in clusters::all() {
        let from = captured.path();
        let report = run(&format!("diagnose stuck -o json --from {from}")).output().json();
        let findings = report["findings"].as_array().expect("findings");
        let errors = findings.iter().filter(|f| f["severity"] == "error");
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
    assert_eq!(node_outcome("gpu-04", &cluster), expected_outcome("Blocked", 2));
}

/// A stopped compartment does not affect nodes of another one.
#[test]
fn stopped_compartment_does_not_affect_other_compartments() {
    let mut cluster = queue();
    let items = cluster["items"].as_array_mut().expect("items");
    items[0]["status"]["compartmentStatuses"]["canary"] =
        json!({"matched": 2, "ceiling": 1, "batchState": {"shouldStop": true, "failedNodes": 1}});
    items[1]["spec"]["compartments"] = json!([{
        "name": "canary", "budget": {"count": 1}, "selector": {"matchLabels": {"ring": "canary"}},
    }]);
    items.retain(|o| o["metadata"]["name"] != "gpu-07" && o["metadata"]["name"] != "gpu-08");
    let failed = ["driver|1.0.0 apply erroring"];
    for (name, status, entries) in [("gpu-07", "erroring", &failed[..]), ("gpu-08", "waiting", &[])] {
        let mut node = NODEWRIGHT.node(name, status, entries);
        node["metadata"]["labels"] = json!({"ring": "canary"});
        items.push(node);
    }
    let cluster = cluster.to_string();
    assert_eq!(node_outcome("gpu-01", &cluster), expected_outcome("Running", 0));
    assert_eq!(node_outcome("gpu-09", &cluster), expected_outcome("Waiting", 0));
    assert_eq!(node_outcome("gpu-08", &cluster), expected_outcome("Blocked", 2));
    let ran = run("diagnose node gpu-09 --from -").stdin(cluster).output();
    ran.expect_no_stdout("SKY301");
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
    assert_eq!(node_outcome("gpu-01", &failing), expected_outcome("Blocked", 2));

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
         could not be read: custom resources: none in the input\n"
    );
    let fake = clusters::named("complete").served();
    fake.on("LIST pods").reply(403);
    let served = fake.serve();
    let ran = run("diagnose node node-1").kubeconfig(&served.kubeconfig()).output();
    ran.expect_code(1);
    ran.expect_no_stdout("node-1: done");
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
    ran.expect_stdout("No problem was found, but the input has no package pods or jobs");
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
            "\n  held: PodDisruptionBudget apps/single allows no evictions, so the node cannot be drained for the interrupt of package driver; until the node can be drained, every operator reconcile ends at this node\n",
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

/// A custom resource that waits for an earlier one is still stuck by its own failing package, as in
/// `uninstall status`.
#[test]
fn failing_package_behind_an_earlier_custom_resource_is_stuck() {
    let ran = run("diagnose node node-1 -o json --from tests/rules/deletion_not_progressing.yaml");
    let json = ran.output().json();
    let links = json["skyhooks"].as_array().expect("custom resources");
    let link = links.iter().find(|link| link["skyhook"] == "failing");
    let link = link.expect("the failing one");
    assert_eq!(link["state"], "Blocked", "{link}");
    let reason = link["reason"].as_str().expect("a sentence");
    assert!(reason.contains("skyhook/at-work"), "{reason}");
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
