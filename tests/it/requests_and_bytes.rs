//! Requests and received bytes grow no faster than the cluster, and many commands receive only the metadata
//! of nodes.

use std::fmt::Write as _;

use kubectl_skyhook::api::{ApiFlavor, keys};
use serde_json::{Map, Value, json};

use crate::support::fake_api::FakeApi;
use crate::support::test_cluster::{TestCluster, operator};

const API: ApiFlavor = ApiFlavor::Skyhook;
/// Nodes of the smaller cluster: more than a page.
const NODES: usize = 600;
/// Nodes of each custom resource.
const POOL: usize = 200;
const IMAGES: usize = 40;

/// Commands that read the cluster.
const COMMANDS: [&str; 13] = [
    "node status",
    "node status -o json",
    "node list --skyhook pool-0",
    "package status",
    "package status -o json",
    "status",
    "diagnose stuck --no-logs --all",
    "status pool-0",
    "leftovers",
    "fix --dry-run",
    "reset pool-0 --dry-run",
    "node status gpu-0003",
    "diagnose node gpu-0003",
];

fn state() -> Value {
    json!({"driver|1.0.0": {
        "name": "driver", "version": "1.0.0", "image": "example.com/driver", "stage": "config", "state": "complete",
    }})
}

fn node(number: usize) -> Value {
    let skyhook = format!("pool-{}", number / POOL);
    let images = (0..IMAGES).map(|image| {
        json!({"names": [format!("registry.example.com/component-{image:02}")], "sizeBytes": 123_456_789})
    });
    let owned = |key: String| (format!("f:{key}"), json!({}));
    let annotations = [keys::node_state(API, &skyhook), keys::status(API, &skyhook)];
    let annotations: Map<String, Value> = annotations.map(owned).into_iter().collect();
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": format!("gpu-{number:04}"), "uid": format!("uid-{number:04}"),
            "creationTimestamp": "2026-11-20T10:00:00Z",
            "labels": {"pool": skyhook, keys::status(API, &skyhook): "complete"},
            "annotations": {
                keys::node_state(API, &skyhook): state().to_string(), keys::status(API, &skyhook): "complete",
            },
            "managedFields": [{
                "manager": "manager", "operation": "Update", "apiVersion": "v1", "time": "2026-11-20T10:00:00Z",
                "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": {"f:annotations": annotations}},
            }],
        },
        "spec": {},
        "status": {
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-20T10:00:00Z"}],
            "images": images.collect::<Vec<_>>(),
        },
    })
}

fn skyhook(number: usize) -> Value {
    let nodes = number * POOL..(number + 1) * POOL;
    let each = |value: Value| -> Map<String, Value> {
        let names = nodes.clone().map(|node| format!("gpu-{node:04}"));
        names.map(|name| (name, value.clone())).collect()
    };
    json!({
        "apiVersion": API.api_version(), "kind": API.kind(),
        "metadata": {
            "name": format!("pool-{number}"), "uid": format!("uid-pool-{number}"), "generation": 1,
            "creationTimestamp": "2026-11-20T10:00:00Z", "finalizers": [API.finalizer()],
        },
        "spec": {
            "nodeSelectors": {"matchLabels": {"pool": format!("pool-{number}")}},
            "packages": {"driver": {
                "version": "1.0.0", "image": "example.com/driver", "uninstall": {"enabled": true},
            }},
        },
        "status": {
            "status": "complete", "observedGeneration": 1, "completeNodes": format!("{POOL}/{POOL}"),
            "nodeState": each(state()), "nodeStatus": each("complete".into()),
        },
    })
}

fn cluster(nodes: usize) -> TestCluster {
    let fake = FakeApi::new().serving(API).with(operator(1));
    (0..nodes).for_each(|number| fake.load(node(number)));
    (0..nodes / POOL).for_each(|number| fake.load(skyhook(number)));
    TestCluster::serving(fake)
}

/// Responses and received bytes by path.
type Received = std::collections::BTreeMap<String, [usize; 2]>;

fn received(words: &str, nodes: usize) -> Received {
    let cluster = cluster(nodes);
    let ran = cluster.run(words);
    assert!(matches!(ran.code, Some(0 | 2)), "{words}: {:?}\n{}", ran.code, ran.stderr);
    cluster.fake.answered()
}

/// Lists whose size in bytes follows from the number of nodes.
const LARGE: [&str; 2] = ["/api/v1/nodes", "/apis/skyhook.nvidia.com/v1alpha1/skyhooks"];

#[test]
#[ignore = "slow: `tests/run --all` and --include-ignored run it"]
fn requests_and_bytes_grow_no_faster_than_the_cluster() {
    let mut table = String::new();
    for words in COMMANDS {
        let [small, large] = [NODES, 2 * NODES].map(|nodes| received(words, nodes));
        writeln!(table, "{words}").expect("text");
        let paths = small.keys().chain(large.keys().filter(|path| !small.contains_key(*path)));
        for path in paths {
            let [few, many] = [&small, &large].map(|all| all.get(path).copied().unwrap_or_default());
            // Twice the bytes, plus 1 % because numbers have more digits.
            let is_linear = many[1] * 100 <= few[1] * 201 || !LARGE.contains(&path.as_str());
            assert!(is_linear, "{words}: {path}: {few:?}, then {many:?}");
            let pages = 2 * NODES.div_ceil(500) + 1;
            assert!(few[0] <= pages && many[0] <= 2 * few[0], "{words}: {path}: {few:?}, then {many:?}");
            let kilobytes = |[_, bytes]: [usize; 2]| bytes.div_ceil(1000);
            writeln!(
                table,
                "  {path}: {} requests, {} kB; of twice the nodes {} requests, {} kB",
                few[0],
                kilobytes(few),
                many[0],
                kilobytes(many)
            )
            .expect("text");
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn metadata_is_all_that_is_received_of_nodes() {
    let nodes = |words| received(words, NODES)["/api/v1/nodes"][1];
    let whole = nodes("node status -o json");
    for words in ["node list --skyhook pool-0", "package status"] {
        let metadata = nodes(words);
        assert!(metadata * 4 < whole, "{words}: {metadata} of {whole} bytes");
    }
}
