//! Records objects with every field that our binary reads, as the API server encodes them in JSON and
//! protobuf.
//!
//! `UPDATE=1 cargo test --test e2e -- encodings` rewrites the files, which a hermetic test decodes.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::{api::Api, cluster::Cluster};

const LISTS: [(&str, &str); 4] = [
    ("nodes", "/api/v1/nodes"),
    ("pods", "/api/v1/namespaces/recorded/pods"),
    ("jobs", "/apis/batch/v1/namespaces/recorded/jobs"),
    ("events", "/api/v1/namespaces/recorded/events"),
];
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const EARLY: &str = "2026-01-02T03:04:05Z";
const LATE: &str = "2026-01-02T03:04:06Z";

pub fn every_field_in_json_and_protobuf(cluster: &Cluster) {
    create(&cluster.api);
    for (name, path) in LISTS {
        let json = cluster.api.get(path).expect("a list can be read");
        let file = recorded(name, "json");
        if std::env::var_os("UPDATE").is_some() {
            let text = serde_json::to_string_pretty(&json).expect("the list serializes to JSON") + "\n";
            let protobuf = cluster.api.bytes(path, PROTOBUF);
            std::fs::write(file, text).expect("the file can be written");
            std::fs::write(recorded(name, "pb"), protobuf).expect("the file can be written");
            continue;
        }
        let text = std::fs::read_to_string(file).expect("the list was recorded");
        let was: Value = serde_json::from_str(&text).expect("the recorded list is JSON");
        assert_eq!(lasting(json), lasting(was), "{name} are not as they were recorded");
    }
}

/// A request for protobuf that is refused gets a protobuf response.
pub fn refusal_in_protobuf(cluster: &Cluster) {
    let refusal = cluster.user("restricted").bytes("/api/v1/nodes", PROTOBUF);
    let file = recorded("refused", "pb");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(file, refusal).expect("the file can be written");
    } else {
        assert_eq!(refusal, std::fs::read(file).expect("the refusal was recorded"));
    }
}

fn recorded(name: &str, suffix: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/protobuf");
    directory.join(format!("{name}.{suffix}"))
}

/// Keeps only what is the same in each run: no generated values, and nothing that controllers add later.
fn lasting(list: Value) -> Vec<Value> {
    let items = list["items"].as_array().cloned().unwrap_or_default();
    let lasting = |item: Value| {
        let (meta, spec) = (&item["metadata"], &item["spec"]);
        let fields = meta["managedFields"][0]["fieldsV1"].clone();
        let containers = spec["initContainers"].clone();
        json!([meta["name"], fields, spec["taints"], containers, item["message"]])
    };
    items.into_iter().map(lasting).collect()
}

fn create(api: &Api) {
    let post =
        |path: &str, body: Value| api.post(path, &body).unwrap_or_else(|refused| panic!("{path}: {refused}"));
    post("/api/v1/namespaces", json!({"metadata": {"name": "recorded"}}));
    for name in ["node-1", "node-2"] {
        let node = json!({"spec": {"unschedulable": name == "node-1"}, "metadata": {"annotations": {
            "skyhook.nvidia.com/nodeState_gpu": r#"{"driver|2.0.1":{"name":"driver","version":"2.0.1","image":"example.com/driver","stage":"config","state":"in_progress","restarts":2}}"#,
            "skyhook.nvidia.com/status_gpu": "in_progress",
            "quarantineHealthEvent": "{}",
            "empty": "",
        }, "managedFields": [{"manager": "manager", "operation": "Update", "apiVersion": "v1", "time": EARLY,
            "fieldsType": "FieldsV1", "subresource": "status", "fieldsV1": {
                "f:metadata": {"f:annotations": {"f:skyhook.nvidia.com/nodeState_gpu": {}}},
                "f:spec": {"f:unschedulable": {}}}}],
        "labels": {"skyhook.nvidia.com/status_gpu": "in_progress", "empty": ""}}});
        let path = format!("/api/v1/nodes/{name}");
        api.merge(&path, &node).expect("a node can be changed");
        let taints = json!({"spec": {"taints": [
            {"key": "a", "effect": "NoSchedule"},
            {"key": "b", "value": "1", "effect": "NoExecute", "timeAdded": EARLY},
        ]}});
        api.merge(&path, &taints).expect("a node can be tainted");
        let status = json!({"status": {"capacity": {"nvidia.com/gpu": "8", "cpu": "8"}, "conditions": [
            {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready",
             "lastHeartbeatTime": LATE, "lastTransitionTime": EARLY},
            {"type": "skyhook.nvidia.com/gpu/NotReady", "status": "True", "reason": "", "message": ""},
        ]}});
        let path = format!("{path}/status");
        api.merge(&path, &status).expect("a node's status can be changed");
    }
    let accounts = "/api/v1/namespaces/recorded/serviceaccounts";
    // The controller may have created the account already: ignore the conflict.
    let _ = api.post(accounts, &json!({"metadata": {"name": "default"}}));
    let pods = "/api/v1/namespaces/recorded/pods";
    let pod_spec = json!({
        // No node has this name, so the simulated kubelet does not write the status.
        "nodeName": "nowhere", "automountServiceAccountToken": false,
        "terminationGracePeriodSeconds": 0, "activeDeadlineSeconds": 3600,
        "tolerations": [{"operator": "Exists"},
            {"key": "a", "operator": "Equal", "value": "1", "effect": "NoExecute", "tolerationSeconds": 0}],
        "initContainers": [{"name": "apply", "image": "example.com/driver:1", "env": [
                {"name": "A", "value": "1"}, {"name": "B"},
                {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                {"name": "CPUS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
                {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": true}}},
            ],
            "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}, "requests": {"cpu": "0.25"}}}],
        "containers": [{"name": "pause", "image": "example.com/pause:1"}],
    });
    let owner =
        json!([{"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "0-0", "controller": true}]);
    post(
        pods,
        json!({"metadata": {"name": "driver", "labels": {"skyhook.nvidia.com/name": "gpu", "empty": ""},
        "annotations": {"skyhook.nvidia.com/package": "{}"}, "finalizers": ["example.com/held"], "ownerReferences": owner},
        "spec": pod_spec}),
    );
    let status = json!({"status": {
        "phase": "Failed", "reason": "Evicted", "message": "too little memory", "startTime": EARLY,
        "conditions": [{"type": "Ready", "status": "False", "reason": "r", "message": "m",
            "lastTransitionTime": EARLY, "observedGeneration": 1},
            {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": null}],
        "initContainerStatuses": [{"name": "apply", "image": "example.com/driver:1", "imageID": "", "ready": false, "restartCount": 3,
            "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "message": "killed", "startedAt": EARLY, "finishedAt": LATE}},
            "lastState": {"terminated": {"exitCode": -1, "reason": "Error", "finishedAt": null, "startedAt": null}}}],
        "containerStatuses": [
            {"name": "pause", "image": "example.com/pause:1", "imageID": "", "ready": false, "restartCount": 0,
             "state": {"waiting": {"reason": "PodInitializing", "message": "not yet"}},
             "lastState": {"running": {"startedAt": EARLY}}}],
    }});
    let path = format!("{pods}/driver/status");
    api.merge(&path, &status).expect("a pod's status can be changed");
    let path = format!("{pods}/driver?gracePeriodSeconds=0");
    api.delete(&path, &json!({})).expect("the pod can be deleted");
    let jobs = "/apis/batch/v1/namespaces/recorded/jobs";
    let mut template = pod_spec;
    template["restartPolicy"] = json!("Never");
    // `managedBy` names another controller, so the Job controller does not write the status.
    post(
        jobs,
        json!({"metadata": {"name": "driver"}, "spec": {"backoffLimit": 0, "activeDeadlineSeconds": 60,
        "suspend": true, "managedBy": "example.com/nobody", "template": {"spec": template}}}),
    );
    let status = json!({"status": {"startTime": EARLY, "active": 1, "failed": 2, "succeeded": 3, "terminating": 0,
        "conditions": [{"type": "Suspended", "status": "False", "reason": "r", "message": "m", "lastTransitionTime": EARLY}]}});
    let path = format!("{jobs}/driver/status");
    api.merge(&path, &status).expect("a Job's status can be changed");
    let events = "/api/v1/namespaces/recorded/events";
    let about = json!({"kind": "Pod", "namespace": "recorded", "name": "driver", "uid": "0-1"});
    post(
        events,
        json!({"metadata": {"name": "old"}, "involvedObject": about, "reason": "FailedCreate", "message": "no quota",
        "type": "Warning", "count": 7, "firstTimestamp": EARLY, "lastTimestamp": LATE}),
    );
    post(
        events,
        json!({"metadata": {"name": "new"}, "involvedObject": about, "reason": "Pulled", "message": "",
        "type": "Normal", "eventTime": "2026-01-02T03:04:05.123456Z", "action": "Pull", "reportingComponent": "kubelet",
        "reportingInstance": "node-1", "series": {"count": 3, "lastObservedTime": "2026-01-02T03:04:06.654321Z"}}),
    );
}
