//! Remedies that name many nodes.

use serde_json::{Value, json};

use crate::support::run::run;

/// Twenty nodes on which an earlier custom resource fails, and these other nodes; the twenty hold, or would hold, the
/// batch of a later one.
fn held(others: usize) -> String {
    let mut items: Vec<Value> = [("first", 10), ("second", 20)]
        .iter()
        .map(|(name, priority)| {
            json!({
                "apiVersion": "nodewright.nvidia.com/v1alpha1", "kind": "NodeWright",
                "metadata": {"name": name},
                "spec": {
                    "priority": priority,
                    "interruptionBudget": {"count": 1},
                    "nodeSelectors": {"matchLabels": {*name: "yes"}},
                    "packages": {"tool": {"version": "1.0.0", "image": "registry.example/tool"}},
                },
            })
        })
        .collect();
    items[1]["status"] = json!({"nodePriority": {"gpu-01": "2026-11-20T10:00:00Z"}});
    let failing = r#"{"tool|1.0.0":{"name":"tool","version":"1.0.0","image":"registry.example/tool","stage":"apply","state":"erroring"}}"#;
    for n in 1..=20 {
        items.push(json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": format!("gpu-{n:02}"), "labels": {"first": "yes", "second": "yes"}, "annotations": {
                "nodewright.nvidia.com/status_first": "erroring",
                "nodewright.nvidia.com/status_second": "waiting",
                "nodewright.nvidia.com/nodeState_first": failing,
            }},
        }));
    }
    for n in 0..others {
        let name = format!("free-{n}");
        items.push(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"second": "yes"}}}));
    }
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

/// Up to a tenth of the nodes may be ignored until a problem is repaired; more would hide it.
#[test]
fn a_fleet_is_not_offered_to_be_ignored() {
    for (others, offered) in [(1, false), (179, false), (180, true)] {
        let found = run("diagnose stuck --all -o json --from -").stdin(held(others)).output();
        let ignores = found.stdout.contains("\"ignore\"");
        assert_eq!(ignores, offered, "{others}: {}", found.transcript());
    }
}

#[test]
fn many_nodes_to_ignore_are_one_folded_set() {
    let input = held(200);
    let found = run("diagnose stuck --rule SKY312 -o json --from -").stdin(input.clone()).output();
    let remedies = found.json()["causes"][0]["remedies"].clone();
    assert_eq!(
        remedies[1]["argv"],
        json!(["kubectl", "skyhook", "node", "ignore", "gpu-[01-20]"]),
        "{}",
        found.transcript()
    );
    let preview = run("node ignore gpu-[01-20] --dry-run --from -").stdin(input).output();
    preview.expect_code(0);
    preview.expect_stdout("ignore 20 nodes");
}
