//! Lists with only the metadata of their items (`PartialObjectMetadataList`).

use serde_json::{Value, json};

use super::Logged;

const MEDIA_TYPE: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// Whether a request prefers the metadata of objects to whole objects.
pub fn requested(logged: &Logged) -> bool {
    let accept = logged.header("accept");
    let mut types = accept.split(',').map(str::trim);
    // Skip protobuf types, which this server does not support.
    let json = types.find(|media_type| media_type.starts_with("application/json"));
    json == Some(MEDIA_TYPE)
}

/// A list, reduced to the metadata of its items.
pub fn of_list(list: Value) -> Value {
    let items = list["items"].as_array().into_iter().flatten();
    let items: Vec<Value> = items
        .map(|item| {
            json!({
                "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": item["metadata"],
            })
        })
        .collect();
    json!({
        "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
        "metadata": list["metadata"], "items": items,
    })
}
