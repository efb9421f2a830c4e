//! 1,000 nodes and a server with errors: exit code and result list of the binary.

use std::collections::BTreeMap;

use kubectl_skyhook::api::ApiFlavor;
use serde_json::{Value, json};

use super::TestCluster;
use crate::support::fake_api::Reply;
use crate::support::object_builder::SKYHOOK;
use crate::support::run::{RunOutput, run};

const NODES: usize = 1000;

/// The server's error for a node by its number, and how often it occurs; 1 in 20 nodes get each error.
fn error_of(number: usize) -> Option<(Reply, usize)> {
    const FOR_GOOD: usize = usize::MAX;
    Some(match number % 20 {
        0 => (Reply::from(409), 1),
        1 => (Reply::from(422), 1),
        // Each 429 delays all writes by a second.
        2 if number < 200 => (Reply::from(429), 1),
        3 => (Reply::from(500), 1),
        4 => (Reply::from(403), FOR_GOOD),
        5 => (Reply::Cut, 1),
        6 => (Reply::from(422), FOR_GOOD),
        7 => (Reply::from(409), FOR_GOOD),
        8 if number < 200 => (Reply::Hang, 1),
        _ => return None,
    })
}

/// Whether writes to a node always fail.
fn always_fails(number: usize) -> bool {
    matches!(number % 20, 4 | 6 | 7)
}

#[test]
#[ignore = "slow: `tests/run --all` and --include-ignored run it"]
fn reset_of_1000_nodes_survives_server_errors() {
    let driver = json!({"driver": {"version": "1.0.0", "image": "example.com/driver"}});
    let fake = crate::support::fake_api::FakeApi::new()
        .serving(ApiFlavor::Skyhook)
        .with(SKYHOOK.skyhook("complete", driver))
        .with(SKYHOOK.operator());
    for number in 0..NODES {
        let name = format!("node-{number:04}");
        let mut node = SKYHOOK.node(&name, "complete", &["driver|1.0.0 config complete"]);
        node["metadata"]["labels"] = json!({SKYHOOK.0.key("status_gpu"): "complete"});
        fake.load(node);
        if let Some((reply, times)) = error_of(number) {
            // Limit the number of errors, since a permanent 403 would fail the permission check.
            let times = times.min(1_000_000);
            fake.on(&format!("PATCH nodes {name}")).times(times).reply(reply);
        }
    }
    let served = fake.serve();
    let state = tempfile::tempdir().expect("a directory");
    let reset = || -> RunOutput {
        run("reset gpu --confirm -o json --request-timeout 1s")
            .kubeconfig(&served.kubeconfig())
            .env("XDG_STATE_HOME", state.path())
            .output()
    };
    let keys = |number: usize| {
        let node = fake.get("nodes", "", &format!("node-{number:04}")).expect("the node exists");
        let of = |map: &str| node["metadata"][map].as_object().map_or(0, |m| m.len());
        of("annotations") + of("labels")
    };

    let ran = reset();
    ran.expect_code(4);
    let json = ran.json();
    let results: BTreeMap<&str, &Value> = json["steps"]
        .as_array()
        .expect("steps")
        .iter()
        .map(|s| (s["target"].as_str().expect("a target"), &s["result"]))
        .collect();
    let mut failed = 0;
    for number in 0..NODES {
        let name = format!("node/node-{number:04}");
        if always_fails(number) {
            failed += 1;
            assert_eq!(*results[name.as_str()], json!("failed"), "{name}");
            assert_eq!(keys(number), 3, "{name} is half done");
        } else {
            assert_eq!(*results[name.as_str()], json!("applied"), "{name}");
            assert_eq!(keys(number), 0, "{name} is half done");
        }
    }
    assert_eq!(failed, 150);
    assert_eq!(json["counts"]["failed"], json!(failed));
    assert_eq!(json["counts"]["applied"], json!(NODES - failed));
    assert_eq!(json["counts"]["unchanged"], json!(1), "only the batches are unchanged");
    let version = |number: usize| {
        fake.get("nodes", "", &format!("node-{number:04}"))
            .expect("the node exists")["metadata"]["resourceVersion"]
            .clone()
    };
    let done: Vec<Value> = (0..NODES).map(version).collect();

    // Without errors, the same command changes only the remaining nodes.
    fake.heal();
    let again = reset();
    again.expect_code(0);
    assert_eq!(again.json()["counts"]["applied"], json!(failed));
    for (number, done) in done.iter().enumerate() {
        assert_eq!(keys(number), 0);
        assert_eq!(version(number) == *done, !always_fails(number), "node-{number:04} was written to twice");
    }
}

/// `undo` reads few changed nodes by name, and many from a metadata list of all nodes. To predict side
/// effects, it reads few nodes one by one, and many from the list of all nodes in four pages.
#[test]
#[ignore = "slow: `tests/run --all` and --include-ignored run it"]
fn undo_reads_only_the_affected_nodes() {
    const ALL: usize = 1_600;
    let fake = SKYHOOK.serve(json!({}));
    for number in 0..ALL {
        fake.load(SKYHOOK.node(&format!("node-{number:04}"), "complete", &[]));
    }
    let cluster = TestCluster::serving(fake);
    // Nodes, pages of metadata, GETs, and all pages: of metadata, of the nodes, and for side effects. The first page of metadata shows
    // how many nodes follow, and so whether GETs are cheaper than more pages.
    let mut found = Vec::new();
    for nodes in ["node-150?", "node-15*", "node-00[0-4]?", "node-*"] {
        cluster.run(&format!("node ignore {nodes} --confirm --max-nodes 2000")).expect_code(0);
        let before = cluster.fake.lines().len();
        cluster.run("undo --confirm --max-nodes 2000").expect_code(0);
        let lines = cluster.fake.lines().split_off(before);
        let requests = cluster.fake.requests().split_off(before);
        let pages = requests.iter().filter(|request| {
            request.path == "/api/v1/nodes" && !request.query.contains_key("fieldSelector")
        });
        let accepted: Vec<String> = pages.map(|page| page.header("accept")).collect();
        let metadata = accepted.iter().take_while(|a| a.contains("as=PartialObjectMetadataList"));
        let metadata = metadata.count();
        let reads = |start: &str| lines.iter().filter(|l| l.starts_with(start)).count();
        found.push((nodes, metadata, reads("GET /api/v1/nodes/"), reads("GET /api/v1/nodes?")));
    }
    assert_eq!(
        found,
        [
            ("node-150?", 1, 10, 1 + 10 + 4),
            ("node-15*", 4, 0, 4 + 4),
            ("node-00[0-4]?", 1, 0, 1 + 50 + 4),
            ("node-*", 4, 0, 4 + 4),
        ]
    );
}
