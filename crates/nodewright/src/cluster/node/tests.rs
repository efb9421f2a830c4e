//! Decoding and tolerations of nodes.

use serde_json::{Value, json};

use super::*;
use crate::api::skyhook::Toleration;

/// A node with as many labels, conditions and annotations as GPU nodes have.
fn typical(number: usize) -> Node {
    let key = |suffix: &str| ApiFlavor::Skyhook.key(suffix);
    let mut labels: BTreeMap<String, String> =
        (0..72).map(|feature| (format!("feature.example.com/{feature}"), "true".to_owned())).collect();
    labels.insert("kubernetes.io/hostname".to_owned(), format!("gpu-{number:05}"));
    labels.insert(key("status_tuning"), "complete".to_owned());
    let kinds = ["MemoryPressure", "Ready", "DiskPressure"].map(str::to_owned);
    let ours = ["tuning/NotReady", "tuning/Erroring"].map(key);
    let minute = format!("2026-11-20T16:{:02}:00Z", number % 60);
    let conditions = kinds
        .iter()
        .chain(&ours)
        .map(|kind| json!({"type": kind, "status": "False", "reason": "a", "lastTransitionTime": minute}));
    let state =
        json!({"driver|1": {"name": "driver", "version": "1", "stage": "config", "state": "complete"}});
    let node = json!({
        "metadata": {
            "name": format!("gpu-{number:05}"), "uid": format!("{number:036}"), "labels": labels,
            "creationTimestamp": minute, "annotations": {
                key("nodeState_tuning"): state.to_string(), key("status_tuning"): "complete",
            },
        },
        "spec": {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]},
        "status": {
            "conditions": conditions.collect::<Vec<Value>>(),
            "nodeInfo": {"osImage": "Ubuntu 24.04.2 LTS", "kernelVersion": "6.8.0-1024-aws"},
        },
    });
    serde_json::from_value(node).expect("a node")
}

/// There may be tens of thousands of nodes.
#[test]
fn a_node_holds_little_of_its_own() {
    let nodes: Vec<Node> = (0..100).map(typical).collect();
    let [first, other] = [&nodes[0], &nodes[99]];
    assert_eq!(first.labels.get("feature.example.com/71").map(|v| v.as_str()), Some("true"));
    assert_eq!(other.labels.get("kubernetes.io/hostname").map(|v| v.as_str()), Some("gpu-00099"));
    for flavor in ApiFlavor::ALL {
        assert!(std::ptr::eq(first.keys(flavor), other.keys(flavor)));
    }
    let [of_first, of_other] = [first, other].map(|node| node.body().expect("a whole node"));
    assert!(std::ptr::eq(&*of_first.system, &*of_other.system));
    assert!(std::ptr::eq(first.taints(), other.taints()));
    assert!(std::ptr::eq(&*first.conditions()[0], &*other.conditions()[0]));
    let names: Vec<&str> = other.conditions().iter().map(|c| c.kind.as_str()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
    let own = size_of::<Node>()
        + size_of_val(other.conditions())
        + other.labels.own_bytes()
        + other.uid.as_ref().map_or(0, |uid| uid.len());
    assert!(own <= 450, "{own} bytes");
}

#[test]
fn tolerations_cover_as_in_the_scheduler() {
    let taint = Taint { key: "a".into(), value: "1".into(), effect: "NoSchedule".into(), time_added: None };
    let toleration = |key: &str, operator: &str, value: &str, effect: &str| Toleration {
        key: key.into(),
        operator: operator.into(),
        value: value.into(),
        effect: effect.into(),
    };
    for (t, covers) in [
        (toleration("a", "Exists", "", ""), true),
        (toleration("", "Exists", "", ""), true),
        (toleration("a", "Equal", "1", "NoSchedule"), true),
        (toleration("a", "", "1", ""), true),
        (toleration("a", "Equal", "2", ""), false),
        (toleration("b", "Exists", "", ""), false),
        (toleration("a", "Exists", "", "NoExecute"), false),
    ] {
        assert_eq!(taint.tolerated_by(&t), covers, "{t:?}");
    }
}
