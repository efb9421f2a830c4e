//! The pods that block drains.

use kubectl_skyhook::api::ApiFlavor::Skyhook;
use kubectl_skyhook::cluster::{Read, Source};
use serde_json::{Value, json};

use super::{fleet, node, read, skyhook, unreadable};
use crate::support::fake_api::FakeApi;

const NEEDS: [Source; 3] = [Source::Skyhooks, Source::Nodes, Source::Workloads];

fn pod(name: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"nodeName": node},
    })
}

fn pod_requests(fake: &FakeApi) -> Vec<String> {
    let mut lines = fake.lines();
    lines.retain(|line| line.starts_with("GET /api/v1/pods"));
    lines
}

#[tokio::test]
async fn pods_of_few_waiting_nodes_are_read_per_node() {
    let fake = fleet(Skyhook).with(pod("busy", "node-1")).with(pod("far", "node-2"));
    let mut done = node("node-2");
    let state = json!({"driver|1.0.0": {
        "name": "driver",
        "version": "1.0.0",
        "stage": "post-interrupt",
        "state": "complete",
    }});
    let key = Skyhook.key("nodeState_gpu");
    done["metadata"]["annotations"] = json!({key: state.to_string()});
    let mut ignored = node("node-3");
    ignored["metadata"]["labels"] = json!({Skyhook.key("ignore"): "true"});
    fake.load(done);
    fake.load(ignored);
    let cluster = read(&fake, &NEEDS).await.expect("a cluster");
    let paths: Vec<String> = cluster.workloads.iter().map(|p| p.path()).collect();
    assert_eq!(paths, ["shop/busy"]);
    // An ignored node is drained, too, once it is no longer ignored.
    let expected =
        ["node-1", "node-3"].map(|n| format!("GET /api/v1/pods?fieldSelector=spec.nodeName={n}&limit=500"));
    assert_eq!(pod_requests(&fake), expected);
}

#[tokio::test]
async fn pods_of_many_waiting_nodes_are_read_in_one_list() {
    let fake = FakeApi::new().with(skyhook(Skyhook, "gpu"));
    for n in 0..51 {
        fake.load(node(&format!("node-{n}")));
    }
    fake.load(pod("busy", "node-50"));
    fake.load(pod("far", "elsewhere"));
    let cluster = read(&fake, &NEEDS).await.expect("a cluster");
    let paths: Vec<String> = cluster.workloads.iter().map(|p| p.path()).collect();
    assert_eq!(paths, ["shop/busy"]);
    assert_eq!(pod_requests(&fake), ["GET /api/v1/pods?limit=500"]);
}

#[tokio::test]
async fn pods_are_not_read_if_no_node_waits() {
    let fake = fleet(Skyhook);
    let mut paused = skyhook(Skyhook, "gpu");
    paused["metadata"]["annotations"] = json!({Skyhook.key("pause"): "true"});
    fake.load(paused);
    let cluster = read(&fake, &NEEDS).await.expect("a cluster");
    assert_eq!(cluster.source(Source::Workloads), Read::Ok(0));
    assert_eq!(pod_requests(&fake), Vec::<String>::new());
}

#[tokio::test]
async fn unreadable_nodes_make_workloads_unreadable() {
    let fake = fleet(Skyhook);
    fake.on("LIST nodes").reply(403);
    let cluster = read(&fake, &NEEDS).await.expect("a cluster");
    let why = "cannot tell which nodes are waiting for a drain: forbidden: user jane cannot list nodes at the \
               cluster scope";
    assert_eq!(cluster.source(Source::Workloads), unreadable(403, why));
}
