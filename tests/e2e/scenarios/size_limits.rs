//! Objects and clusters that exceed size limits. Their remedies only read.

use serde_json::{Value, json};

use super::remedies::execute;
use crate::{
    cluster::Cluster,
    manifest::{package, skyhook},
    operator,
};

/// Asserts that the finding has a single remedy, which only reads; returns its argv.
fn only_looks(finding: &Value) -> Vec<&str> {
    let remedies = finding["remedies"].as_array().expect("a list");
    let [remedy] = remedies.as_slice() else {
        panic!("not exactly one remedy: {finding:#}");
    };
    assert_eq!(remedy["grade"], "B0");
    let argv = remedy["argv"].as_array().into_iter().flatten();
    argv.filter_map(Value::as_str).collect()
}

/// SKY506: etcd stores what is a warning, and rejects what is an error.
pub fn status_too_large(cluster: &Cluster) {
    let gpu = cluster.apply(&skyhook("gpu").with(package("driver", "2.0.1")));
    let path = format!("{}/status", gpu.path());
    // Few large entries: the API server needs seconds for many small ones.
    let image = "i".repeat(4096);
    let entry = json!({"driver|2.0.1": {
        "name": "driver", "version": "2.0.1", "image": image, "stage": "config", "state": "complete",
    }});
    let size = serde_json::to_string(&entry).expect("the entry serializes to JSON").len();
    let holding = |bytes: usize| {
        let nodes = (0..bytes / (size + 16)).map(|n| (format!("gpu-node-{n:05}"), entry.clone()));
        let state: Value = nodes.collect::<serde_json::Map<_, _>>().into();
        cluster.api.merge(&path, &json!({"status": {"nodeState": state}}))
    };
    let limit = 1536 * 1024;
    holding(limit * 9 / 10).expect("etcd stores the status");
    cluster.capture("old-status-too-large");
    let report = cluster.report(&[]);
    let finding = report.has("SKY506", &json!({"name": "gpu"}));
    assert_eq!(finding["severity"], "Warning");
    execute(&gpu, finding, &only_looks(finding));
    let refused = holding(limit * 11 / 10).expect_err("etcd takes no more");
    assert!(refused.to_string().contains("too large"), "{refused}");
    holding(limit / 10).expect("etcd stores the status");
}

/// SKY507, until the memory limit exceeds the value in the message.
pub fn cluster_too_large_for_the_operator(cluster: &Cluster) {
    for n in 1..=801 {
        cluster.add_node(&format!("gpu-{n:03}"), json!({}));
    }
    let gpu = cluster.apply(&skyhook("gpu").with(package("driver", "2.0.1")));
    let limited = |memory: &str| {
        let container =
            json!({"name": "manager", "image": operator::IMAGE, "resources": {"limits": {"memory": memory}}});
        let patch = json!({"spec": {"template": {"spec": {"containers": [container]}}}});
        let path = operator::deployment(operator::NAMESPACE);
        let patched = cluster.api.merge(&path, &patch);
        patched.expect("a Deployment can be changed");
    };
    limited("512Mi");
    cluster.capture("old-operator-undersized");
    let report = cluster.report(&[]);
    let finding = report.has("SKY507", &json!({}));
    assert!(finding["message"].to_string().contains("643 MiB"), "{finding:#}");
    execute(&gpu, finding, &only_looks(finding));
    limited("1Gi");
    let report = cluster.report(&[]);
    assert!(report.with_code("SKY507").is_empty(), "{:#}", report.json);
}
