//! Nodes that wait for their turn: the queue, batches and compartments.

use serde_json::{Value, json};

use super::{expected_outcome, node_outcome, running_job, stuck};
use crate::support::object_builder::NODEWRIGHT;
use crate::support::run::run;

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
    let because = json["skyhooks"][0]["message"].as_str().expect("a sentence");
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
    let reason = node["skyhooks"][0]["message"].as_str().expect("a sentence");
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
    assert_eq!(node_outcome("gpu-08", &cluster), stuck());
    let ran = run("diagnose node gpu-09 --from -").stdin(cluster).output();
    ran.expect_no_stdout("SKY301");
}
