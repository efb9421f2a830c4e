//! The operator as far as commands wait for it.

use http::Request;
use http::header::CONTENT_TYPE;
use kube::Client;
use kubectl_skyhook::api::ApiFlavor;
use serde_json::{Value, json};

/// Writes the operator's acknowledgement into the status of each custom resource that was paused or resumed.
pub async fn acknowledge_pauses(client: &Client) {
    let flavor = ApiFlavor::Skyhook;
    for item in items(client, &skyhooks()).await {
        let requested = item["metadata"]["annotations"][flavor.key("pause")] == "true";
        if requested != (item["status"]["status"] == "paused") {
            let name = item["metadata"]["name"].as_str().unwrap_or_default();
            let status = if requested { "paused" } else { "in_progress" };
            let path = format!("{}/{name}/status", skyhooks());
            merge(client, &path, &json!({"status": {"status": status}})).await;
        }
    }
}

/// Removes the keys of a custom resource from all nodes, and then its finalizers.
pub async fn finish_deletion(client: &Client, name: &str) {
    let ends = format!("_{name}");
    for node in items(client, NODES).await {
        let keys = |part: &str| -> Value {
            let all = node["metadata"][part].as_object().into_iter().flatten();
            let own = all.filter(|(key, _)| key.ends_with(&ends));
            own.map(|(key, _)| (key.clone(), Value::Null)).collect()
        };
        let metadata = json!({"annotations": keys("annotations"), "labels": keys("labels")});
        let node = node["metadata"]["name"].as_str().unwrap_or_default();
        merge(client, &format!("{NODES}/{node}"), &json!({"metadata": metadata})).await;
    }
    let path = format!("{}/{name}", skyhooks());
    merge(client, &path, &json!({"metadata": {"finalizers": null}})).await;
}

const NODES: &str = "/api/v1/nodes";

fn skyhooks() -> String {
    format!("/apis/{}/skyhooks", ApiFlavor::Skyhook.api_version())
}

/// The items of a collection; none if it cannot be read.
async fn items(client: &Client, collection: &str) -> Vec<Value> {
    let list = Request::get(collection).body(Vec::new());
    let list = list.expect("a request of ASCII parts");
    let mut list = client.request::<Value>(list).await.unwrap_or_default();
    match list["items"].take() {
        Value::Array(items) => items,
        _ => Vec::new(),
    }
}

async fn merge(client: &Client, path: &str, patch: &Value) {
    let patch = Request::patch(path)
        .header(CONTENT_TYPE, "application/merge-patch+json")
        .body(patch.to_string().into_bytes());
    let patch = patch.expect("a request of ASCII parts");
    let patched = client.request::<Value>(patch).await;
    patched.expect("a patch of known parts is accepted");
}
