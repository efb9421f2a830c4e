//! Lists: pages, restarts, lenient decoding.

use kubectl_skyhook::api::ApiFlavor;
use kubectl_skyhook::cluster::{Read, Source};
use serde_json::json;

use super::{fleet, node, read, unreadable};
use crate::support::fake_api::{FakeApi, Reply};

fn nodes(count: usize) -> FakeApi {
    let items: Vec<_> = (0..count).map(|n| node(&format!("node-{n:04}"))).collect();
    FakeApi::new().serving(ApiFlavor::Skyhook).with(json!({"kind": "List", "items": items}))
}

fn node_requests(fake: &FakeApi) -> Vec<String> {
    let mut lines = fake.lines();
    lines.retain(|line| line.starts_with("GET /api/v1/nodes"));
    lines
}

#[tokio::test]
async fn lists_are_read_in_pages_of_500() {
    let fake = nodes(1201);
    let cluster = read(&fake, &[Source::Nodes]).await.expect("a cluster");
    let names: Vec<&str> = cluster.nodes.iter().map(|n| n.name.as_str()).collect();
    let expected: Vec<String> = (0..1201).map(|n| format!("node-{n:04}")).collect();
    assert_eq!(names, expected);
    let expected = [
        "GET /api/v1/nodes?limit=500",
        r#"GET /api/v1/nodes?continue=["","node-0500"]&limit=500"#,
        r#"GET /api/v1/nodes?continue=["","node-1000"]&limit=500"#,
    ];
    assert_eq!(node_requests(&fake), expected);
}

/// Nodes so large that their pages are decoded during the next request.
fn large_nodes(count: usize) -> FakeApi {
    let text = "x".repeat(1000);
    let large = |n| {
        let mut node = node(&format!("node-{n:04}"));
        node["metadata"]["annotations"] = json!({"example.com/text": text});
        node
    };
    let items: Vec<_> = (0..count).map(large).collect();
    FakeApi::new().serving(ApiFlavor::Skyhook).with(json!({"kind": "List", "items": items}))
}

#[tokio::test]
async fn large_pages_are_complete_and_ordered() {
    let fake = large_nodes(1201);
    let cluster = read(&fake, &[Source::Nodes]).await.expect("a cluster");
    assert_eq!(cluster.source(Source::Nodes), Read::Ok(1201));
    assert_eq!(node_requests(&fake).len(), 3);
    let fake = large_nodes(1201);
    fake.on("LIST nodes").continued().nth(2).reply(410);
    let cluster = read(&fake, &[Source::Nodes]).await.expect("a cluster");
    assert_eq!(cluster.source(Source::Nodes), Read::Ok(1201));
    assert_eq!(node_requests(&fake).len(), 6);
    let fake = large_nodes(1201);
    fake.load(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-0003", "labels": 7}}));
    let cluster = read(&fake, &[Source::Nodes]).await.expect("a cluster");
    assert_eq!(cluster.source(Source::Nodes), Read::Ok(1201));
    let unknown = cluster.unknown_values(Source::Nodes);
    assert_eq!(unknown.len(), 1);
    assert_eq!(unknown[0].name, "node-0003");
    assert_eq!(unknown[0].fields[0].path, "metadata.labels");
}

#[tokio::test]
async fn expired_list_is_restarted() {
    let fake = nodes(501);
    fake.on("LIST nodes").continued().nth(1).reply(410);
    let cluster = read(&fake, &[Source::Nodes]).await.expect("a cluster");
    assert_eq!(cluster.source(Source::Nodes), Read::Ok(501));
    let (first, second) =
        ("GET /api/v1/nodes?limit=500", r#"GET /api/v1/nodes?continue=["","node-0500"]&limit=500"#);
    assert_eq!(node_requests(&fake), [first, second, first, second]);
}

#[tokio::test]
async fn repeatedly_expired_list_is_read_unpaged() {
    let fake = nodes(501);
    fake.on("LIST nodes").continued().reply(410);
    let cluster = read(&fake, &[Source::Nodes]).await.expect("a cluster");
    assert_eq!(cluster.source(Source::Nodes), Read::Ok(501));
    let (first, second) =
        ("GET /api/v1/nodes?limit=500", r#"GET /api/v1/nodes?continue=["","node-0500"]&limit=500"#);
    let expected = [first, second, first, second, "GET /api/v1/nodes"];
    assert_eq!(node_requests(&fake), expected);
}

#[tokio::test]
async fn missing_or_null_items_are_no_list() {
    let nodes = |rest: &str| format!(r#"{{"kind": "NodeList", "apiVersion": "v1"{rest}}}"#);
    let without = unreadable(None, "the response is a NodeList without items");
    for (body, outcome) in [
        (nodes(r#", "items": []"#), Read::Ok(0)),
        (nodes(r#", "items": null"#), without.clone()),
        (nodes(""), without),
    ] {
        let fake = fleet(ApiFlavor::Skyhook);
        fake.on("LIST nodes").reply(Reply::Body(body.clone()));
        let cluster = read(&fake, &[Source::Nodes]).await.expect("a cluster");
        assert_eq!(cluster.source(Source::Nodes), outcome, "{body}");
    }
}

#[tokio::test]
async fn rejected_values_are_named_and_nulls_are_accepted() {
    let fake = fleet(ApiFlavor::Skyhook);
    fake.load(json!({
        "apiVersion": ApiFlavor::Skyhook.api_version(),
        "kind": "Skyhook",
        "metadata": {"name": "nulls", "labels": null},
        "spec": {"packages": null, "priority": null, "additionalTolerations": [null]},
        "status": null,
    }));
    let cluster = read(&fake, &[Source::Skyhooks]).await.expect("a cluster");
    assert_eq!(cluster.source(Source::Skyhooks), Read::Ok(2));
    fake.load(json!({
        "apiVersion": ApiFlavor::Skyhook.api_version(),
        "kind": "Skyhook",
        "metadata": {"name": "odd"},
        "spec": {"packages": ["driver"]},
    }));
    let cluster = read(&fake, &[Source::Skyhooks, Source::Nodes]).await.expect("a cluster");
    assert_eq!(cluster.source(Source::Skyhooks), Read::Ok(3));
    let why = "skyhook/odd: spec.packages cannot be read (a list)";
    assert_eq!(cluster.undecoded(Source::Skyhooks).as_deref(), Some(why));
    assert_eq!(cluster.source(Source::Nodes), Read::Ok(1));
}

#[tokio::test]
async fn response_that_is_no_list_is_an_error() {
    let fake = fleet(ApiFlavor::Skyhook);
    fake.on("LIST nodes").reply(Reply::Body("<html>login</html>".into()));
    let cluster = read(&fake, &[Source::Nodes]).await.expect("a cluster");
    let why = "the response is not a list: expected value at line 1 column 1";
    assert_eq!(cluster.source(Source::Nodes), unreadable(None, why));
}

#[tokio::test]
async fn only_requested_sources_are_read() {
    let fake = fleet(ApiFlavor::Skyhook);
    read(&fake, &[Source::Policies]).await.expect("a cluster");
    let [old, new] = ApiFlavor::ALL.map(ApiFlavor::api_version);
    let expected = [
        format!("GET /apis/{old}"),
        format!("GET /apis/{new}"),
        "GET /apis/apps/v1/deployments?labelSelector=control-plane=controller-manager&limit=500".to_owned(),
        format!("GET /apis/{old}/deploymentpolicies?limit=500"),
    ];
    assert_eq!(fake.lines(), expected);
}
