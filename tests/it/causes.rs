//! Planted causes among thousands of nodes: each stands above what waits for it, and the report stays short.

use serde_json::{Value, json};

use crate::support::run::run;

const PREFIX: &str = "skyhook.nvidia.com";
const NODES: usize = 3000;
/// Nodes 0, 3, 6 … are of the first pool, 1, 4, 7 … of the second.
const POOLS: usize = 3;

/// `driver` fails on the nodes of one image, `tuning` on those of one zone, `storage` never gets its image; `last` waits
/// for all three.
fn cluster() -> Value {
    let mut items: Vec<Value> = ["driver", "tuning", "storage"]
        .iter()
        .enumerate()
        .map(|(at, name)| skyhook(name, 10 * (at + 1), json!({"pool": format!("p{at}")})))
        .collect();
    items.push(skyhook("last", 90, json!({"fleet": "yes"})));
    for n in 0..NODES {
        items.push(node(n));
        if n % POOLS == 2 && n < 30 {
            items.push(pod_without_image(n));
        }
    }
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

fn skyhook(name: &str, priority: usize, labels: Value) -> Value {
    json!({
        "apiVersion": format!("{PREFIX}/v1alpha1"), "kind": "Skyhook",
        "metadata": {"name": name, "uid": name},
        "spec": {
            "priority": priority,
            "nodeSelectors": {"matchLabels": labels},
            "packages": {name: {"version": "1.0.0", "image": format!("registry.example/{name}")}},
        },
    })
}

fn node(n: usize) -> Value {
    let pool = ["driver", "tuning", "storage"][n % POOLS];
    let image = if n.is_multiple_of(7) {
        "Ubuntu 24.04.4"
    } else {
        "Ubuntu 22.04.5"
    };
    let zone = if n.is_multiple_of(11) { "eu-c" } else { "eu-a" };
    let (stage, state) = match pool {
        "driver" if n.is_multiple_of(7) => ("apply", "erroring"),
        "tuning" if n.is_multiple_of(11) => ("config", "erroring"),
        "storage" if n < 30 => ("apply", "in_progress"),
        _ => ("config", "complete"),
    };
    let status = if state == "complete" {
        "complete"
    } else {
        state
    };
    let entry = json!({format!("{pool}|1.0.0"): {
        "name": pool, "version": "1.0.0", "image": format!("registry.example/{pool}"), "stage": stage, "state": state,
    }});
    let waiting = if state == "complete" {
        "complete"
    } else {
        "waiting"
    };
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": format!("gpu-{n:05}"),
            "creationTimestamp": "2026-11-01T00:00:00Z",
            "labels": {"pool": format!("p{}", n % POOLS), "fleet": "yes", "topology.kubernetes.io/zone": zone,
                "kubernetes.io/hostname": format!("gpu-{n:05}")},
            "annotations": {
                format!("{PREFIX}/nodeState_{pool}"): entry.to_string(),
                format!("{PREFIX}/status_{pool}"): status,
                format!("{PREFIX}/nodeState_last"): last_entry(state),
                format!("{PREFIX}/status_last"): waiting,
            },
        },
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"osImage": image, "kernelVersion": "6.8.0"},
        },
    })
}

fn last_entry(state: &str) -> String {
    if state != "complete" {
        return "{}".to_owned();
    }
    json!({"last|1.0.0": {
        "name": "last", "version": "1.0.0", "image": "registry.example/last", "stage": "config", "state": "complete",
    }})
    .to_string()
}

fn pod_without_image(n: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("storage-{n}"), "namespace": "skyhook", "creationTimestamp": "2026-11-01T00:00:00Z",
            "labels": {format!("{PREFIX}/name"): "storage", format!("{PREFIX}/package"): "storage-1.0.0"},
            "annotations": {format!("{PREFIX}/package"): json!({
                "name": "storage", "version": "1.0.0", "skyhook": "storage", "stage": "apply", "image": "registry.example/storage",
            }).to_string()},
        },
        "spec": {"nodeName": format!("gpu-{n:05}")},
        "status": {"phase": "Pending", "initContainerStatuses": [{
            "name": "storage-init",
            "state": {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}},
        }]},
    })
}

#[test]
fn the_causes_stand_first_with_what_waits_for_them() {
    let ran = run("diagnose stuck -o json --from -")
        .stdin(cluster().to_string())
        .go();
    let document = ran.json();
    let causes = document["causes"].as_array().expect("causes");
    let told: Vec<Value> = causes
        .iter()
        .map(|cause| {
            json!([
                cause["code"],
                cause["findings"].as_array().expect("findings").len(),
                cause["explains"].as_array().expect("effects").len(),
                cause["contrasts"][0]["attribute"],
                cause["contrasts"][0]["value"],
            ])
        })
        .collect();
    assert_eq!(
        told,
        [
            json!(["SKY201", 143, 143, "osImage", "Ubuntu 24.04.4"]),
            json!(["SKY201", 91, 91, "topology.kubernetes.io/zone", "eu-c"]),
            json!(["SKY202", 10, 10, null, null]),
        ]
    );
    let findings = document["findings"].as_array().expect("findings");
    for (at, finding) in findings.iter().enumerate() {
        let is_cause = finding.get("explainedBy").is_none();
        assert_eq!(is_cause, at < 143 + 91 + 10, "finding {at}");
    }
    assert_eq!((ran.stderr.as_str(), ran.code), ("", Some(2)));
}

#[test]
fn the_report_fits_on_a_screen() {
    let cluster = cluster().to_string();
    let short = run("diagnose stuck --from -").stdin(cluster.as_str()).go();
    insta::assert_snapshot!("causes_of_many_nodes", short.transcript());
    assert!(short.stdout.lines().count() <= 40);
    let all = run("diagnose stuck --all --from -").stdin(cluster).go();
    insta::assert_snapshot!("causes_of_many_nodes_unfolded", all.transcript());
}

/// Of what is equally grave, what stops the operator comes first, and what stops a custom resource before what fails on its
/// nodes, however many: nothing else helps before.
#[test]
fn what_stops_all_stands_before_what_fails_on_nodes() {
    let first = |kind: &str, change: Value| {
        let path = "tests/clusters/nodewright-uninstall-erroring/cluster.json";
        let text = std::fs::read_to_string(path).expect("a capture");
        let mut capture: Value = serde_json::from_str(&text).expect("JSON");
        let items = capture["items"].as_array_mut().expect("a list");
        let changed = items.iter_mut().filter(|item| item["kind"] == kind);
        for item in changed {
            json_patch::merge(item, &change);
        }
        let ran = run("diagnose stuck -o json --from -")
            .stdin(capture.to_string().into_bytes())
            .go();
        let report = ran.json();
        let of = |f: &Value| f["code"].as_str().expect("a code").to_owned();
        let findings = report["findings"].as_array().expect("a list");
        findings.iter().map(of).collect::<Vec<_>>()
    };
    let failing = ["SKY112", "SKY112"];
    assert_eq!(first("Event", json!({})), failing);
    let down =
        json!({"status": {"availableReplicas": 0, "readyReplicas": 0, "observedGeneration": 1}});
    assert_eq!(
        first("Deployment", down),
        [&["SKY501"], &failing[..]].concat()
    );
    let stopped = json!({"metadata": {
        "deletionTimestamp": "2026-11-22T01:03:47Z",
        "annotations": {"nodewright.nvidia.com/pause": "true"},
    }});
    assert_eq!(
        first("NodeWright", stopped),
        [&["SKY109"], &failing[..]].concat()
    );
}
