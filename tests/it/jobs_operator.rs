//! The operator of the Jobs generation: how it handles deleted Jobs, rejected pods, canceled uninstalls and
//! batches.

use kubectl_skyhook::api::keys;
use serde_json::{Value, json};

use crate::support::object_builder::{NAME, NODEWRIGHT, PackageRun};
use crate::support::run::{RunOutput, run};

const NOW: &str = "2026-11-20T12:00:00Z";

fn driver() -> Value {
    json!({"driver": {"version": "1.0.0", "image": "example.com/driver", "uninstall": {"enabled": true, "apply": false}}})
}

/// A custom resource with one node at this stage, and the operator.
fn at(stage: &str, packages: Value) -> Vec<Value> {
    let entry = format!("driver|1.0.0 {stage}");
    vec![
        NODEWRIGHT.skyhook("in_progress", packages),
        NODEWRIGHT.node("node-1", "in_progress", &[&entry]),
        NODEWRIGHT.operator(),
    ]
}

fn over(items: &[Value], command: &str) -> RunOutput {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    run(&format!("{command} --from - --now {NOW}")).stdin(list.to_string()).output()
}

fn job(stage: &str) -> PackageRun<'_> {
    PackageRun {
        stage,
        job: Some("gpu-driver-1-0-0-apply-node-1-1"),
        at: "2026-11-20T11:59:40Z",
        ..PackageRun::default()
    }
}

fn no_pods() -> Value {
    json!({"apiVersion": "v1", "kind": "PodList", "items": []})
}

/// A Job that was deleted a minute ago and is kept by a foreign finalizer.
fn kept_job() -> Value {
    let mut kept = NODEWRIGHT.job(&job("apply"), json!({}));
    kept["metadata"]["deletionTimestamp"] = "2026-11-20T11:59:00Z".into();
    kept["metadata"]["finalizers"] = json!(["example.com/audit"]);
    kept
}

/// Kubernetes removes its own finalizer from a pod that has ended, so only the finalizers of others are to be repaired.
#[test]
fn a_pod_that_hangs_on_a_dead_node_is_force_deleted() {
    let hanging = |finalizer: &str| {
        let mut pod = NODEWRIGHT.pod("gpu-1-x", &job("apply"), "Running", &["driver-apply running"]);
        pod["metadata"]["deletionTimestamp"] = "2026-11-20T10:00:00Z".into();
        pod["metadata"]["finalizers"] = json!([finalizer]);
        let mut items = at("apply in_progress", driver());
        items.extend([NODEWRIGHT.job(&job("apply"), json!({"active": 1})), pod]);
        over(&items, "diagnose stuck --rule SKY211").stdout
    };
    for (finalizer, deleted) in [("batch.kubernetes.io/job-tracking", true), ("example.com/audit", false)] {
        let page = hanging(finalizer);
        assert!(page.contains("SKY211"), "{page}");
        assert_eq!(page.contains("Force-delete the pod"), deleted, "{page}");
    }
}

#[test]
fn a_job_deleted_by_hand_stops_its_own_stage_only() {
    let mut items = at("apply in_progress", driver());
    items.extend([kept_job(), no_pods()]);
    let ran = over(&items, "diagnose stuck --rule SKY217");
    insta::assert_snapshot!(ran.transcript());
    let finding = &over(&items, "diagnose stuck -o json --rule SKY217").json()["findings"][0];
    assert_eq!(finding["blocks"], json!(["Install", "Uninstall"]));
    // After a reset the operator waits for the Job before it does anything else.
    items[1] = NODEWRIGHT.node("node-1", "in_progress", &[]);
    let ran = over(&items, "diagnose stuck --rule SKY217");
    ran.expect_stdout("the operator does nothing for any custom resource");
}

/// A pod of the Job that the kubelet rejected, or that it has not seen yet.
fn attempt(number: usize, at: &str, rejected: bool) -> Value {
    let place = PackageRun { at, ..job("apply") };
    let name = format!("gpu-driver-1-0-0-apply-node-1-1-{number}");
    let mut pod = NODEWRIGHT.pod(&name, &place, "Pending", &[]);
    pod["status"] = if rejected {
        json!({"phase": "Failed", "reason": "OutOfcpu", "message": "Node didn't have enough resource: cpu", "startTime": at})
    } else {
        json!({"phase": "Pending"})
    };
    pod
}

fn gave_up(at: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": format!("gave-up-{at}"), "namespace": "nodewright"},
        "involvedObject": {"kind": "Job", "name": "gpu-driver-1-0-0-apply-node-1-1"}, "type": "Warning",
        "reason": "BackoffLimitExceeded", "message": "Job has reached the specified backoff limit",
        "firstTimestamp": at, "lastTimestamp": at, "count": 1,
    })
}

#[test]
fn rejected_pods_are_one_steady_finding() {
    let running = json!({"active": 1});
    let failed = json!({"failed": 2, "conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded",
        "lastTransitionTime": "2026-11-20T11:59:52Z"}]});
    let job = |status: &Value| NODEWRIGHT.job(&job("apply"), status.clone());
    let first = || attempt(1, "2026-11-20T11:59:41Z", true);
    let rounds = || [gave_up("2026-11-20T11:59:10Z"), gave_up("2026-11-20T11:59:25Z")];
    let phases: [(&str, Vec<Value>); 6] = [
        ("the first pod is rejected", vec![job(&running), first()]),
        ("the second is made", vec![job(&running), first(), attempt(2, "2026-11-20T11:59:51Z", false)]),
        ("and rejected", vec![job(&running), first(), attempt(2, "2026-11-20T11:59:51Z", true)]),
        ("the job gives up", vec![job(&failed), first(), attempt(2, "2026-11-20T11:59:51Z", true)]),
        ("it is swept", [rounds().to_vec(), vec![no_pods()]].concat()),
        (
            "and made again",
            [rounds().to_vec(), vec![job(&running), attempt(3, "2026-11-20T11:59:59Z", false)]].concat(),
        ),
    ];
    for (phase, objects) in phases {
        let mut items = at("apply in_progress", driver());
        items.extend(objects);
        let document = over(&items, "diagnose stuck -o json --rule SKY204").json();
        let found: Vec<_> = document["findings"].as_array().expect("findings").iter().collect();
        assert_eq!(found.len(), 1, "{phase}: {document}");
        // Jobs that were replaced have used up their limit: nothing changes by itself.
        let replaced = phase == "it is swept" || phase == "and made again";
        assert_eq!(found[0]["severity"], if replaced { "Error" } else { "Warning" }, "{phase}");
        assert_eq!(
            found[0]["message"],
            "the kubelet rejects the pods for stage apply of package driver, and the job keeps retrying",
            "{phase}"
        );
    }
    // After ten minutes of rejections the finding is an error.
    let mut items = at("apply in_progress", driver());
    items.extend([gave_up("2026-11-20T11:48:00Z"), gave_up("2026-11-20T11:59:25Z"), no_pods()]);
    items.extend([gave_up("2026-11-20T11:55:00Z")]);
    items.push(attempt(1, "2026-11-20T11:48:41Z", true));
    items.push(job(&running));
    let ran = over(&items, "diagnose stuck --rule SKY204");
    ran.expect_code(2);
    ran.expect_stdout("error SKY204 ended-pod-blocks-stage");
}

#[test]
fn canceling_a_running_uninstall_does_not_warn_of_what_older_operators_do() {
    let mut packages = driver();
    packages["driver"]["uninstall"]["apply"] = true.into();
    let mut items = at("uninstall in_progress", packages);
    items.push(NODEWRIGHT.job(&job("uninstall"), json!({"active": 1})));
    items.push(attempt(1, "2026-11-20T11:59:41Z", false));
    let ran = over(&items, "uninstall gpu driver --cancel --dry-run");
    ran.expect_no_stdout("SKY105");
    ran.expect_stdout("the operator deletes job/nodewright/gpu-driver-1-0-0-apply-node-1-1 on node-1");
}

#[test]
fn a_node_in_progress_keeps_its_place_in_the_batch() {
    let mut items = at("apply in_progress", driver());
    items[0]["spec"]["deploymentPolicy"] = "slow".into();
    items[0]["status"]["nodePriority"] =
        json!({"node-1": "2026-11-20T11:58:00Z", "node-2": "2026-11-20T11:58:00Z"});
    items.push(NODEWRIGHT.node("node-2", "erroring", &["driver|1.0.0 apply erroring"]));
    let starts = "the next batch may start immediately";
    let keeps = "node-1: status in_progress; the operator chooses such nodes first, so the next batch includes it again";
    let flat = |ran: RunOutput| ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let ran = flat(over(&items, "deployment-policy reset gpu --node node-1 --dry-run"));
    assert!(ran.contains(keeps) && !ran.contains(starts), "{ran}");
    let ran = flat(over(&items, "deployment-policy reset gpu --node node-2 --dry-run"));
    assert!(ran.contains(starts) && !ran.contains("chooses such nodes first"), "{ran}");
    // With a deployment policy, waiting nodes keep their slots as well; each status has its own sentence.
    items.push(NODEWRIGHT.node("node-3", "waiting", &[]));
    items[0]["status"]["nodePriority"]["node-3"] = "2026-11-20T11:58:00Z".into();
    let ran = flat(over(&items, "deployment-policy reset gpu --node node-1 --node node-3 --dry-run"));
    assert!(
        ran.contains(keeps)
            && ran.contains(&keeps.replace("node-1: status in_progress", "node-3: status waiting")),
        "{ran}"
    );
}

#[test]
fn the_migration_hold_comes_first_on_a_node() {
    let older = kubectl_skyhook::api::ApiFlavor::Skyhook;
    let newer = NODEWRIGHT.0;
    let spec = json!({"packages": {"driver": {"version": "1.0.0", "image": "example.com/driver"}},
        "nodeSelectors": {"matchLabels": {"none": "yes"}}});
    let old = |name: &str, status: &str| {
        json!({"apiVersion": older.api_version(), "kind": older.kind(), "metadata": {"name": name, "uid": name},
            "spec": spec, "status": {"status": status}})
    };
    let new = |name: &str| {
        let mut new = NODEWRIGHT.skyhook("unknown", driver());
        new["metadata"]["name"] = name.into();
        new
    };
    let mut paused = new("rest");
    paused["metadata"]["annotations"] =
        json!({newer.key("pause"): "true", newer.key("mirrored-from"): "rest"});
    let mut busy = new("busy");
    busy["metadata"]["annotations"] = json!({newer.key("mirrored-from"): "busy"});
    busy["spec"]["nodeSelectors"] = json!({"matchLabels": {"none": "yes"}});
    let entry = json!({"driver|1.0.0": {"name": "driver", "version": "1.0.0", "image": "example.com/driver",
        "stage": "config", "state": "in_progress"}});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "annotations": {
        keys::status(older, "rest"): "paused", keys::node_state(older, "rest"): entry.to_string()}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let note = json!({"name": "driver", "version": "1.0.0", "skyhook": "rest", "stage": "config", "image": "example.com/driver"});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "old", "namespace": "nodewright",
        "creationTimestamp": "2026-11-20T11:59:00Z",
        "labels": {older.key("name"): "rest", older.key("package"): "driver-1.0.0"},
        "annotations": {older.key("package"): note.to_string()}},
        "spec": {"nodeName": "node-1"}, "status": {"phase": "Running"}});
    let items =
        [old("busy", "in_progress"), old("rest", "paused"), paused, busy, node, pod, NODEWRIGHT.operator()];
    let ran = over(&items, "diagnose node node-1");
    insta::assert_snapshot!(ran.transcript());
    let first = ran.stdout.split("what to do next\n").nth(1).unwrap_or_default();
    assert!(first.starts_with("1. See which version of the operator is running"), "{}", ran.stdout);
}

#[test]
fn a_finalizer_of_someone_else_is_an_error_after_two_minutes() {
    let deleted_at = |at: &str| {
        let mut skyhook = NODEWRIGHT.skyhook("complete", driver());
        skyhook["metadata"]["deletionTimestamp"] = at.into();
        skyhook["metadata"]["finalizers"] = json!(["example.com/audit"]);
        let items = [skyhook, NODEWRIGHT.node("node-1", "", &[]), NODEWRIGHT.operator()];
        let ran = over(&items, &format!("diagnose stuck {NAME}"));
        (ran.code, ran.stdout.lines().nth(2).unwrap_or_default().to_owned())
    };
    let (code, found) = deleted_at("2026-11-20T11:59:00Z");
    assert_eq!((code, &found[..14]), (Some(0), "warning SKY113"));
    let (code, found) = deleted_at("2026-11-20T11:57:00Z");
    assert_eq!((code, &found[..12]), (Some(2), "error SKY113"));
}
