//! Faults of `node list`, `node status` and `package status`.

use serde_json::{Value, json};

use super::{TestCluster, complete_cluster, driver};
use crate::dropin::SKYHOOK;

fn packages() -> Value {
    json!({
        "a": {"version": "1.0.0", "image": "example.com/a"},
        "b": {"version": "1.0.0", "image": "example.com/b"},
        "c": {"version": "1.0.0", "image": "example.com/c", "interrupt": {"type": "reboot"}},
    })
}

fn list(cluster: &TestCluster) -> Value {
    cluster.ok("node list --skyhook gpu -o json").json()["nodes"].clone()
}

#[test]
fn s1_complete_is_measured_against_the_spec() {
    let cluster = TestCluster::serving(
        complete_cluster(packages())
            .with(SKYHOOK.node("node-1", "in_progress", &["a|1.0.0 config complete"]))
            .with(SKYHOOK.node("node-2", "in_progress", &["a|1.0.0 apply complete"]))
            .with(SKYHOOK.node("node-3", "blocked", &["c|1.0.0 config complete"])),
    );
    let nodes = list(&cluster);
    for (at, status, complete) in [(0, "in_progress", 1), (1, "in_progress", 0), (2, "blocked", 0)] {
        let node = &nodes[at];
        assert_eq!(node["status"], json!(status), "{node}");
        assert_eq!(
            (&node["packagesComplete"], &node["packagesTotal"]),
            (&json!(complete), &json!(3)),
            "{node}"
        );
    }
}

#[test]
fn s2_waiting_and_ignored_nodes_are_listed() {
    let mut ignored = SKYHOOK.node("node-2", "", &[]);
    ignored["metadata"]["labels"] = json!({SKYHOOK.0.key("ignore"): "true"});
    let cluster =
        TestCluster::serving(complete_cluster(driver()).with(SKYHOOK.node("node-1", "", &[])).with(ignored));
    let ran = cluster.ok("node list --skyhook gpu");
    assert_eq!(
        ran.parts(),
        (
            "NODE    STATUS   PACKAGES  NOTE\n\
             node-1  unknown  0/1       <none>\n\
             node-2  unknown  0/1       ignored\n",
            "2 nodes: 2 unknown\n",
            Some(0)
        )
    );
}

#[test]
fn s3_entries_of_old_versions_are_not_counted() {
    let entries = ["driver|0.9.0 config complete", "driver|1.0.0 apply skipped"];
    let cluster = TestCluster::serving(complete_cluster(driver()).with(SKYHOOK.node(
        "node-1",
        "in_progress",
        &entries,
    )));
    let node = &list(&cluster)[0];
    assert_eq!(node["status"], json!("in_progress"));
    assert_eq!((&node["packagesComplete"], &node["packagesTotal"]), (&json!(0), &json!(1)));
}

#[test]
fn s4_package_versions_are_sorted() {
    let entries =
        ["driver|1.0.0 apply in_progress", "driver|0.9.0 config complete", "driver|0.10.0 config complete"];
    let cluster = TestCluster::serving(complete_cluster(driver()).with(SKYHOOK.node(
        "node-1",
        "in_progress",
        &entries,
    )));
    let first = cluster.ok("package status driver --skyhook gpu -o json").json();
    assert_eq!(first.as_array().map(Vec::len), Some(3));
    for _ in 0..4 {
        let again = cluster.ok("package status driver --skyhook gpu -o json").json();
        assert_eq!(again, first);
    }
}

#[test]
fn s5_package_is_optional_but_must_exist() {
    let cluster = TestCluster::serving(complete_cluster(packages()).with(SKYHOOK.node("node-1", "", &[])));
    let all = cluster.ok("package status --skyhook gpu -o json").json();
    assert_eq!(all.as_array().map(Vec::len), Some(3));
    let ran = cluster.run("package status aa --skyhook gpu");
    assert_eq!((ran.stdout.as_str(), ran.code), ("", Some(1)));
    assert!(ran.stderr.starts_with("error: package \"aa\" not found\nhint: did you mean a"));
    let both = TestCluster::with_complete_nodes(&["node-1", "node-2", "node-3"]);
    let json = both.ok("package status driver --skyhook gpu --node node-1,node-2 -o json").json();
    assert_eq!(json.as_array().map(Vec::len), Some(2));
}

#[test]
fn s6_status_is_spelled_and_counted_consistently() {
    let cluster = TestCluster::serving(
        complete_cluster(driver())
            .with(SKYHOOK.node("node-1", "erroring", &["driver|1.0.0 apply erroring"]))
            .with(SKYHOOK.node("node-2", "", &[])),
    );
    let ran = cluster.ok("node list --skyhook gpu");
    assert_eq!(
        ran.parts(),
        (
            "NODE    STATUS    PACKAGES  NOTE\n\
             node-1  erroring  0/1       <none>\n\
             node-2  unknown   0/1       <none>\n",
            "2 nodes: 1 erroring, 1 unknown\n",
            Some(0)
        )
    );
}
