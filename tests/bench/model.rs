//! Measures the model of the operator with 15,000 nodes and 20 custom resources: one pass, and a whole
//! rollout.
//!
//! `cargo bench --bench model [NODES]`

use std::hint::black_box;
use std::time::Instant;

use kubectl_skyhook::api::ApiFlavor;
use kubectl_skyhook::cluster::Cluster;
use kubectl_skyhook::dump;
use kubectl_skyhook::model::Model;
use serde_json::{Value, json};

const RESOURCES: usize = 20;
/// The API group of this cluster's operator (the newer generation).
const GROUP: &str = "nodewright.nvidia.com";

#[allow(clippy::print_stdout)]
fn main() {
    let nodes = std::env::args().filter_map(|arg| arg.parse().ok()).next();
    let nodes = nodes.unwrap_or(15_000);
    let cluster = cluster(nodes);
    println!("{nodes} nodes, {RESOURCES} custom resources");
    measure("one pass", || {
        let model = Model::new(&cluster);
        for skyhook in &cluster.skyhooks {
            black_box(model.all_progress(skyhook.name()).count());
        }
    });
    measure("whole rollout", || {
        let timeline = Model::new(&cluster).estimates();
        assert!(timeline.stuck.is_empty());
        black_box(timeline.remaining("r19"));
    });
}

/// Prints the median duration of three runs.
#[allow(clippy::print_stdout)]
fn measure(name: &str, run: impl Fn()) {
    let mut times = [(); 3].map(|()| {
        let start = Instant::now();
        run();
        start.elapsed()
    });
    times.sort();
    println!("{name}: {:.2} s", times[1].as_secs_f64());
}

/// Builds a cluster in which every custom resource selects all nodes; the first one is complete on half of
/// them.
fn cluster(nodes: usize) -> Cluster {
    let key = |key: &str| format!("{GROUP}/{key}");
    let mut objects = vec![json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "operator", "namespace": "system", "labels": {"control-plane": "controller-manager"},
        },
        "spec": {"replicas": 1, "template": {"spec": {"containers": [
            {"name": "manager", "image": "example.com/nodewright-operator:v0.20.0"},
        ]}}},
        "status": {"availableReplicas": 1, "replicas": 1, "readyReplicas": 1},
    })];
    for number in 0..RESOURCES {
        let driver = json!({
            "version": "1.0.0", "image": "example.com/driver", "dependsOn": {"base": "1.0.0"},
            "interrupt": {"type": "reboot"},
        });
        objects.push(json!({
            "apiVersion": key("v1alpha1"), "kind": "NodeWright",
            "metadata": {"name": format!("r{number:02}"), "generation": 1},
            "spec": {
                "priority": number + 1,
                "interruptionBudget": {"count": nodes / 100 + 1},
                "packages": {"base": {"version": "1.0.0", "image": "example.com/base"}, "driver": driver},
            },
        }));
    }
    for number in 0..nodes {
        let name = format!("node-{number:05}");
        let mut annotations = serde_json::Map::new();
        if number < nodes / 2 {
            let entry = |package: &str, stage: &str| {
                json!({
                    "name": package, "version": "1.0.0", "image": format!("example.com/{package}"),
                    "stage": stage, "state": "complete",
                })
            };
            let state = json!({
                "base|1.0.0": entry("base", "config"), "driver|1.0.0": entry("driver", "post-interrupt"),
            });
            annotations.insert(key("status_r00"), json!("complete"));
            annotations.insert(key("nodeState_r00"), json!(state.to_string()));
            objects.extend(jobs(&name, number));
        }
        objects.push(json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "creationTimestamp": "2026-11-01T00:00:00Z", "annotations": annotations},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }));
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    let file = tempfile::Builder::new().suffix(".json").tempfile();
    let file = file.expect("a file");
    std::fs::write(file.path(), list).expect("written");
    dump::load(&[file.path().to_owned()], Some(ApiFlavor::NodeWright)).expect("a cluster")
}

/// Finished Jobs of the first custom resource on one node.
fn jobs(node: &str, number: usize) -> impl Iterator<Item = Value> {
    let stages = [
        ("base", "apply"),
        ("base", "config"),
        ("driver", "apply"),
        ("driver", "config"),
        ("driver", "interrupt"),
        ("driver", "post-interrupt"),
    ];
    let seconds = 20 + number as i64 % 7;
    stages.into_iter().zip(0..).map(move |((package, stage), at)| {
        let start = jiff::Timestamp::from_second(1_790_000_000 + at * seconds).expect("a time");
        let end = start + jiff::SignedDuration::from_secs(seconds - 1);
        let annotation = json!({
            "name": package, "version": "1.0.0", "skyhook": "r00", "stage": stage,
            "image": format!("example.com/{package}"),
        });
        json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {
                "name": format!("r00-{package}-{stage}-{node}"), "namespace": "system",
                "creationTimestamp": start.to_string(),
                "labels": {format!("{GROUP}/name"): "r00", format!("{GROUP}/package"): format!("{package}-1.0.0")},
                "annotations": {
                    format!("{GROUP}/package"): annotation.to_string(),
                    format!("{GROUP}/state-recorded"): "true",
                },
            },
            "spec": {"template": {"spec": {"nodeName": node}}},
            "status": {
                "succeeded": 1, "startTime": start.to_string(), "completionTime": end.to_string(),
                "conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": end.to_string()}],
            },
        })
    })
}
