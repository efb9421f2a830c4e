//! The fake API server of the tests behaves like the real one.

use http::{Method, Request};
use kubectl_skyhook::api::ApiFlavor;
use serde_json::{Value, json};

use crate::support::fake_api::{FakeApi, Problem};

const NODE: &str = "/api/v1/nodes/node-1";
const MERGE: &str = "application/merge-patch+json";
const JSON: &str = "application/json-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

fn node() -> FakeApi {
    FakeApi::new().with(json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": "node-1",
            "uid": "u-1",
            "resourceVersion": "7",
            "annotations": {"a": "1", "b": "2"},
            "labels": {"pool": "gpu"},
        },
        "spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]},
        "status": {"conditions": [
            {"type": "Ready", "status": "True"},
            {"type": "Old", "status": "True"},
        ]},
    }))
}

fn skyhook_path() -> String {
    let flavor = ApiFlavor::Skyhook;
    format!("/apis/{}/{}/gpu", flavor.api_version(), flavor.plural())
}

fn skyhook(finalizers: &[&str]) -> FakeApi {
    FakeApi::new().with(json!({
        "apiVersion": ApiFlavor::Skyhook.api_version(),
        "kind": ApiFlavor::Skyhook.kind(),
        "metadata": {
            "name": "gpu",
            "resourceVersion": "7",
            "generation": 3,
            "finalizers": finalizers,
        },
        "spec": {"priority": 1},
        "status": {"status": "complete"},
    }))
}

/// Sends a request through the real client; returns the response, or code, reason and message.
async fn send(
    fake: &FakeApi,
    method: Method,
    path: &str,
    content_type: &str,
    body: Value,
) -> Result<Value, (u16, String, String)> {
    let body = match body {
        Value::Null => Vec::new(),
        body => body.to_string().into_bytes(),
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content_type)
        .body(body)
        .expect("a request");
    match fake.client().request(request).await {
        Ok(answer) => Ok(answer),
        Err(kube::Error::Api(status)) => Err((status.code, status.reason, status.message)),
        Err(other) => panic!("{other}"),
    }
}

async fn patch(
    fake: &FakeApi,
    path: &str,
    content_type: &str,
    body: Value,
) -> Result<Value, (u16, String, String)> {
    send(fake, Method::PATCH, path, content_type, body).await
}

async fn get(fake: &FakeApi, path: &str) -> Value {
    let answer = send(fake, Method::GET, path, "", Value::Null).await;
    answer.expect("an object")
}

fn error<T>(problem: Problem) -> Result<T, (u16, String, String)> {
    Err((problem.code, problem.reason.to_owned(), problem.message))
}

async fn names(fake: &FakeApi, path: &str) -> Vec<String> {
    let list = get(fake, path).await;
    let items = list["items"].as_array().expect("items").iter();
    items.map(|i| i["metadata"]["name"].as_str().expect("a name").to_owned()).collect()
}

#[tokio::test]
async fn merge_patch_removes_nulls_and_bumps_the_version() {
    let fake = node();
    let body = json!({"metadata": {"annotations": {"a": null, "c": "3"}}});
    let node = patch(&fake, NODE, MERGE, body).await.expect("a patched node");
    assert_eq!(node["metadata"]["annotations"], json!({"b": "2", "c": "3"}));
    assert_eq!(node["metadata"]["resourceVersion"], "8");
    assert_eq!(get(&fake, NODE).await, node);
    // A patch that changes nothing is not stored.
    let body = json!({"metadata": {"annotations": {"c": "3"}}});
    let again = patch(&fake, NODE, MERGE, body).await;
    assert_eq!(again, Ok(node));
}

#[tokio::test]
async fn failed_json_patch_test_changes_nothing() {
    let fake = node();
    let step = |old: &str| {
        json!([
            {"op": "test", "path": "/metadata/annotations/a", "value": old},
            {"op": "remove", "path": "/metadata/annotations/a"},
        ])
    };
    let refused = patch(&fake, NODE, JSON, step("2")).await;
    assert_eq!(refused, error(Problem::rejected_patch()));
    assert_eq!(get(&fake, NODE).await["metadata"]["resourceVersion"], "7");
    let node = patch(&fake, NODE, JSON, step("1")).await.expect("a patched node");
    assert_eq!(node["metadata"]["annotations"], json!({"b": "2"}));
}

#[tokio::test]
async fn strategic_patch_merges_conditions_by_type() {
    let fake = node();
    let body = json!({"status": {"conditions": [
        {"type": "Old", "$patch": "delete"},
        {"type": "Ready", "status": "False"},
        {"type": "New", "status": "True"},
    ]}});
    let path = format!("{NODE}/status");
    let node = patch(&fake, &path, STRATEGIC, body).await.expect("a patched node");
    let expected = json!([
        {"type": "Ready", "status": "False"},
        {"type": "New", "status": "True"},
    ]);
    assert_eq!(node["status"]["conditions"], expected);
    // Taints have no merge key: the list is replaced.
    let body = json!({"spec": {"taints": []}});
    let node = patch(&fake, NODE, STRATEGIC, body).await.expect("a patched node");
    assert_eq!(node["spec"]["taints"], json!([]));
    let refused = patch(&skyhook(&[]), &skyhook_path(), STRATEGIC, json!({})).await;
    assert_eq!(refused.expect_err("custom resources take none").0, 415);
}

#[tokio::test]
async fn spec_and_status_are_separate_subresources() {
    let fake = skyhook(&[]);
    let body = json!({
        "metadata": {"annotations": {"a": "1"}},
        "spec": {"priority": 2},
        "status": {"status": "erroring"},
    });
    let main = patch(&fake, &skyhook_path(), MERGE, body.clone()).await.expect("a skyhook");
    assert_eq!(main["spec"], json!({"priority": 2}));
    assert_eq!(main["status"], json!({"status": "complete"}));
    assert_eq!(main["metadata"]["generation"], 4);

    let fake = skyhook(&[]);
    let path = format!("{}/status", skyhook_path());
    let status = patch(&fake, &path, MERGE, body).await.expect("a skyhook");
    assert_eq!(status["spec"], json!({"priority": 1}));
    assert_eq!(status["status"], json!({"status": "erroring"}));
    assert_eq!(status["metadata"]["annotations"], Value::Null);
    assert_eq!(status["metadata"]["generation"], 3);
}

#[tokio::test]
async fn stale_version_or_wrong_uid_is_a_conflict() {
    let message = "Operation cannot be fulfilled on nodes \"node-1\": the object has been \
                   modified; please apply your changes to the latest version and try again";
    let conflict: Result<Value, _> = error(Problem::new(409, "Conflict", message));
    for metadata in [json!({"resourceVersion": "6"}), json!({"uid": "u-2"})] {
        let body = json!({"metadata": metadata});
        assert_eq!(patch(&node(), NODE, MERGE, body).await, conflict);
    }
    let body = json!({"metadata": {"resourceVersion": "7", "uid": "u-1", "labels": null}});
    let node = patch(&node(), NODE, MERGE, body).await.expect("a patched node");
    assert_eq!(node["metadata"]["labels"], Value::Null);
}

#[tokio::test]
async fn object_is_removed_with_its_last_finalizer() {
    let fake = skyhook(&["a", "b"]);
    let path = skyhook_path();
    let marked = send(&fake, Method::DELETE, &path, "", Value::Null).await.expect("a skyhook");
    assert_eq!(marked["metadata"]["deletionTimestamp"], "2026-11-20T12:00:00Z");
    let remove = |finalizers: Value| json!({"metadata": {"finalizers": finalizers}});
    patch(&fake, &path, MERGE, remove(json!(["b"]))).await.expect("a skyhook");
    assert!(fake.get("skyhooks", "", "gpu").is_some());
    patch(&fake, &path, MERGE, remove(json!([]))).await.expect("a skyhook");
    assert_eq!(fake.get("skyhooks", "", "gpu"), None);
    let gone = send(&fake, Method::GET, &path, "", Value::Null).await;
    let message = format!("{} \"gpu\" not found", ApiFlavor::Skyhook.resource());
    assert_eq!(gone, error(Problem::new(404, "NotFound", message)));
}

#[tokio::test]
async fn dry_run_stores_nothing() {
    let fake = node();
    let before = get(&fake, NODE).await;
    let dry = format!("{NODE}?dryRun=All");
    let body = json!({"metadata": {"labels": {"pool": "cpu"}}});
    let node = patch(&fake, &dry, MERGE, body).await.expect("a patched node");
    assert_eq!(node["metadata"]["labels"], json!({"pool": "cpu"}));
    let deleted = send(&fake, Method::DELETE, &dry, "", Value::Null).await;
    assert_eq!(deleted.expect("a success")["status"], "Success");
    assert_eq!(get(&fake, NODE).await, before);
    let body = json!({"dryRun": ["All"]});
    let deleted = send(&fake, Method::DELETE, NODE, "application/json", body).await;
    assert_eq!(deleted.expect("a success")["status"], "Success");
    assert_eq!(get(&fake, NODE).await, before);
    // If a deletion has a body, its query is ignored.
    let body = json!({"propagationPolicy": "Background"});
    let deleted = send(&fake, Method::DELETE, &dry, "application/json", body).await;
    assert_eq!(deleted.expect("a success")["status"], "Success");
    let gone = send(&fake, Method::GET, NODE, "", Value::Null).await;
    assert!(gone.is_err(), "{gone:?}");
}

#[tokio::test]
async fn creating_twice_is_already_exists() {
    let fake = FakeApi::new();
    let path = "/api/v1/namespaces/shop/configmaps";
    let body = json!({"metadata": {"name": "a"}, "data": {"k": "v"}});
    let made = send(&fake, Method::POST, path, "application/json", body.clone()).await;
    let made = made.expect("a config map");
    assert_eq!((&made["kind"], &made["metadata"]["namespace"]), (&"ConfigMap".into(), &"shop".into()));
    let again = send(&fake, Method::POST, path, "application/json", body).await;
    let message = "configmaps \"a\" already exists";
    assert_eq!(again, error(Problem::new(409, "AlreadyExists", message)));
}

#[tokio::test]
async fn selectors_filter_lists() {
    let fake = FakeApi::new();
    for (name, labels, node) in [
        ("a", json!({"pool": "gpu", "tier": "1"}), "n-1"),
        ("b", json!({"pool": "cpu"}), "n-2"),
        ("c", json!({}), "n-1"),
    ] {
        fake.load(json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": format!("ns-{name}"), "labels": labels},
            "spec": {"nodeName": node},
        }));
    }
    for (selector, expected) in [
        ("labelSelector=pool", vec!["a", "b"]),
        ("labelSelector=%21pool", vec!["c"]),
        ("labelSelector=pool%3Dgpu", vec!["a"]),
        ("labelSelector=pool%21%3Dgpu", vec!["b", "c"]),
        ("labelSelector=pool%20in%20%28gpu%2Ccpu%29%2Ctier", vec!["a"]),
        ("labelSelector=pool+notin+(gpu)", vec!["b", "c"]),
        ("fieldSelector=spec.nodeName%3Dn-1", vec!["a", "c"]),
        ("fieldSelector=spec.nodeName%21%3Dn-1", vec!["b"]),
        ("fieldSelector=metadata.namespace%3Dns-b", vec!["b"]),
    ] {
        let path = format!("/api/v1/pods?{selector}");
        assert_eq!(names(&fake, &path).await, expected, "{selector}");
    }
    assert_eq!(names(&fake, "/api/v1/namespaces/ns-c/pods").await, ["c"]);
    let unknown = "/api/v1/pods?fieldSelector=spec.priority%3D1";
    let refused = send(&fake, Method::GET, unknown, "", Value::Null).await;
    let message = "field label not supported: spec.priority";
    assert_eq!(refused, error(Problem::bad_request(message)));
}

#[tokio::test]
async fn access_reviews_follow_the_rules() {
    let fake = node();
    fake.on("PATCH nodes").reply(403);
    fake.on("LIST pods").inside("shop").reply(403);
    let mut answers = Vec::new();
    for (verb, resource, namespace) in
        [("patch", "nodes", ""), ("get", "nodes", ""), ("list", "pods", "shop"), ("list", "pods", "farm")]
    {
        let attributes = json!({"verb": verb, "resource": resource, "namespace": namespace});
        let review = json!({"spec": {"resourceAttributes": attributes}});
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        let answer = send(&fake, Method::POST, path, "application/json", review).await;
        answers.push(answer.expect("an answer")["status"]["allowed"].clone());
    }
    assert_eq!(answers, [false, true, false, true]);
}

#[tokio::test]
async fn rules_count_requests_and_match_in_order() {
    let fake = node();
    fake.on("GET nodes node-1").nth(2).reply(500);
    fake.on("GET nodes").nth(2).reply(409);
    let mut codes = Vec::new();
    for _ in 0..4 {
        let answer = send(&fake, Method::GET, NODE, "", Value::Null).await;
        codes.push(answer.err().map(|(code, ..)| code));
    }
    // The first rule replies to request 2, so the second rule counts request 3 as its second one.
    assert_eq!(codes, [None, Some(500), Some(409), None]);
    fake.on("* *").reply(503);
    fake.heal();
    assert!(get(&fake, NODE).await.is_object());
}
