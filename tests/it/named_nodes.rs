//! Commands on one named node send few requests: other nodes are not read unless they matter.

use std::collections::BTreeSet;

use kubectl_skyhook::api::ApiFlavor;

use crate::support::clusters;
use crate::support::fake_api::FakeApi;
use crate::support::run::{RunOutput, without_time};
use crate::support::sample::{every_case, some};
use crate::support::test_cluster::{TestCluster, operator};

/// The most requests that a command may send for one named node.
const MAX_REQUESTS: usize = 8;

/// The queries of all node lists that were read.
fn lists(cluster: &TestCluster) -> Vec<String> {
    let lines = cluster.fake.lines().into_iter();
    let lists = lines.filter_map(|line| line.strip_prefix("GET /api/v1/nodes?").map(str::to_owned));
    lists.collect()
}

const ALL: &str = "limit=500";
const ONE: &str = "fieldSelector=metadata.name=node-1&limit=500";

/// Runs a read command, and asserts which node lists it reads.
fn reads(words: &str, expected: &[&str]) -> RunOutput {
    let cluster = TestCluster::captured_with_operator("apply-erroring");
    let ran = cluster.run(words);
    assert_eq!(lists(&cluster), expected, "{words}: {}", ran.stderr);
    if expected == [ONE] {
        let requests = cluster.fake.lines();
        assert!(requests.len() <= MAX_REQUESTS, "{words}: {requests:#?}");
    }
    ran
}

/// Commands on one named node read it alone and send few requests, with raw pods and with Jobs. Changes read all nodes
/// while a rollout is incomplete elsewhere.
#[test]
fn named_node_is_read_alone() {
    let table = [
        ("node status node-1", [7, 8]),
        ("node status node/node-1 -o json", [7, 8]),
        ("package status --skyhook gpu-tune --node node-1", [6, 7]),
        ("package status driver --skyhook gpu-tune --node node-1", [6, 7]),
        ("package logs driver --skyhook gpu-tune --node node-1", [6, 7]),
        ("node ignore node-1 --dry-run", [0, 8]),
        ("node unignore node-1 --dry-run", [0, 8]),
        ("node reset node-1 --skyhook gpu-tune --dry-run", [0, 8]),
        ("reset gpu-tune --unreadable --node node-1 --dry-run", [0, 5]),
        ("reset gpu-tune --node node-1 --dry-run", [0, 8]),
        ("reset gpu-tune --package driver --node node-1 --dry-run", [0, 8]),
        ("package rerun driver --skyhook gpu-tune --node node-1 --dry-run", [0, 8]),
        ("package retry driver --skyhook gpu-tune --node node-1 --dry-run", [0, 8]),
        ("leftovers --clean --node node-1 --dry-run", [0, 8]),
        ("diagnose node node-1", [7, 8]),
    ];
    let counted = table.map(|(words, _)| {
        let requests = ["apply-erroring", "modelled-complete"].map(|captured| {
            let cluster = TestCluster::serving(clusters::named(captured).served());
            let words = if captured == "apply-erroring" {
                cluster.fake.load(operator(1));
                words.to_owned()
            } else {
                words.replace("gpu-tune", "gpu")
            };
            let ran = cluster.run(&words);
            // Work on the other nodes may start after a change.
            let changes = words.contains("--dry-run") && captured == "apply-erroring";
            let expected: &[&str] = if changes { &[ONE, ALL] } else { &[ONE] };
            assert_eq!(lists(&cluster), expected, "{captured}: {words}: {}", ran.stderr);
            // Each log takes a request of its own.
            let lines = cluster.fake.lines().into_iter();
            let requests = lines.filter(|line| !line.contains("/log?")).count();
            if expected == [ONE] { requests } else { 0 }
        });
        assert!(requests.iter().all(|n| *n <= MAX_REQUESTS), "{words}: {requests:?}");
        (words, requests)
    });
    assert_eq!(counted, table);
}

#[test]
fn node_set_is_read_node_by_node() {
    let two = ONE.replace("node-1", "node-2");
    // What keeps an incomplete node may be on any other node.
    let _ = reads("node status node-[1-2] node-1", &[ONE, &two, ALL]);
    let _ = reads("node status node-[1,2]", &[ONE, &two, ALL]);
    let three = ONE.replace("node-1", "node-3");
    let _ = reads("node status node-1 node-3", &[ONE, &three]);
}

/// Suggestions, names that are only on other nodes, and expressions need all nodes.
#[test]
fn all_nodes_are_read_when_one_is_not_enough() {
    let _ = reads("node status", &[ALL]);
    let _ = reads("node status node-1*", &[ALL]);
    let _ = reads("node status --match node-1", &[ALL]);
    let _ = reads("diagnose stuck --node node-1", &[ALL]);
    // The blocker of an incomplete node may be on any other node.
    let _ = reads("diagnose node node-2", &[&ONE.replace("node-1", "node-2"), ALL]);
    let nowhere = ONE.replace("node-1", "node-9");
    let ran = reads("node status node-9", &[&nowhere, ALL]);
    assert!(ran.stderr.contains("node-9"), "{}", ran.stderr);
    assert_eq!(ran.code, Some(1));
    let _ = reads("node status node-1 --skyhook gpu-tune", &[ALL]);
    let ran = reads("node status node-1 --skyhook nowhere", &[ALL]);
    assert_eq!(ran.code, Some(1));
    let ran = reads("package status nowhere --skyhook gpu-tune --node node-1", &[ONE, ALL]);
    assert_eq!(ran.code, Some(1));
}

/// If both APIs are served and no operator runs, the keys on nodes determine the active API.
#[test]
fn all_nodes_are_read_to_detect_the_active_api() {
    let fake = FakeApi::new().serving(ApiFlavor::Skyhook).serving(ApiFlavor::NodeWright);
    for object in TestCluster::from_capture("apply-erroring").fake.objects() {
        fake.load(object);
    }
    fake.change(|state| state.store.forget("deployments", "skyhook", "skyhook-operator-controller-manager"));
    let cluster = TestCluster::serving(fake);
    let _ = cluster.run("node status node-1");
    assert_eq!(lists(&cluster), [ONE, ALL]);
}

/// A pause affects permanent failures on other nodes, so the preview depends on their state.
#[test]
fn change_beside_a_failed_job_reads_all_nodes() {
    let two = ONE.replace("node-1", "node-2");
    for (words, expected) in [
        ("node reset node-1 --skyhook gpu --dry-run", &[ONE, ALL][..]),
        ("node reset node-2 --skyhook gpu --dry-run", &[&two, ALL]),
        ("node status node-1 -o json", &[ONE]),
    ] {
        let cluster = TestCluster::serving(clusters::named("modelled-job-given-up").served());
        let ran = cluster.run(words);
        assert_eq!(lists(&cluster), expected, "{words}: {}", ran.stderr);
    }
}

/// The output for one node equals its part of the output for all nodes.
#[test]
fn answer_is_the_same_as_from_all_nodes() {
    for captured in ["apply-erroring", "nodewright-in-progress", "modelled-migration-hold"] {
        let captured = clusters::named(captured);
        let cluster = TestCluster::serving(captured.served());
        cluster.fake.started_now();
        let nodes: Vec<String> = cluster
            .fake
            .objects()
            .iter()
            .filter(|o| o["kind"] == "Node")
            .map(|o| o["metadata"]["name"].as_str().expect("a name").to_owned())
            .collect();
        let Some(node) = nodes.first() else { continue };
        for (words, all) in [
            ("node status NODE -o json", "node status NODE* -o json"),
            (
                "package status --skyhook gpu-tune --node NODE -o json",
                "package status --skyhook gpu-tune --node NODE* -o json",
            ),
            (
                "node reset NODE --skyhook gpu-tune --dry-run -o json",
                "node reset NODE* --skyhook gpu-tune --dry-run -o json",
            ),
            ("node unignore NODE --dry-run -o json", "node unignore NODE* --dry-run -o json"),
        ] {
            let [one, of_all] = [words, all].map(|words| cluster.run(&words.replace("NODE", node)));
            let untimed = |ran: &RunOutput| without_time(&ran.stdout);
            assert_eq!(
                (untimed(&one), &one.stderr, one.code),
                (untimed(&of_all), &of_all.stderr, of_all.code),
                "{}: {words}",
                captured.name
            );
        }
    }
}

/// Blockers may be anywhere, but a complete node has none.
#[test]
fn complete_node_is_explained_without_reading_others() {
    let mut alone = 0;
    for captured in some(clusters::all(), 6) {
        let cluster = TestCluster::serving(captured.served());
        // Ages are in hours here, so the time between the two calls does not show.
        cluster.fake.started(jiff::SignedDuration::from_mins(63 * 60 + 30));
        let objects = cluster.fake.objects();
        let nodes = objects.iter().filter(|o| o["kind"] == "Node");
        let nodes = nodes.map(|node| (node["metadata"]["name"].as_str().expect("a name"), node));
        // Nodes with the same records and spec are explained alike.
        let mut seen = BTreeSet::new();
        let nodes = nodes.filter(|(name, node)| {
            let records =
                [&node["metadata"]["annotations"], &node["spec"]].map(|v| v.to_string().replace(name, ""));
            seen.insert(records)
        });
        for (node, _) in nodes {
            let of_one = [ONE.replace("node-1", node)];
            let words = format!("diagnose node {node} -o json");
            let before = cluster.fake.lines().len();
            let one = cluster.run(&words);
            let lines = cluster.fake.lines().split_off(before);
            if lists(&cluster).ends_with(&of_one) {
                alone += 1;
                assert!(lines.len() <= 10, "{}: {words}: {lines:#?}", captured.name);
            }
            cluster.fake.on("LIST nodes").times(1).reply(403);
            let of_all = cluster.run(&words);
            assert!(lists(&cluster).ends_with(&[ALL.to_owned()]));
            let result = |ran: &RunOutput| {
                let mut document = ran.json();
                document["takenAt"].take();
                (document, ran.stderr.clone(), ran.code)
            };
            assert_eq!(result(&one), result(&of_all), "{}: {words}", captured.name);
        }
    }
    assert!(alone > if every_case() { 20 } else { 0 }, "{alone} nodes were read alone");
}
