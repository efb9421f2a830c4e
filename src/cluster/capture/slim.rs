//! Removes the parts of nodes that no rule reads.

use serde_json::Value;

use crate::api::keys::NodeKey;

/// Removes the parts of a node that no rule reads, which is most of it: images, volumes, and foreign annotations.
pub fn slim(node: &mut Value) {
    if let Some(status) = node.get_mut("status").and_then(Value::as_object_mut) {
        for field in ["images", "volumesAttached", "volumesInUse", "config", "features"] {
            status.shift_remove(field);
        }
    }
    let Some(metadata) = node.get_mut("metadata") else {
        return;
    };
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.retain(|key, _| NodeKey::is_ours(key));
    }
    if let Some(managers) = metadata.get_mut("managedFields").and_then(Value::as_array_mut) {
        let annotates = |manager: &Value| {
            let fields = &manager["fieldsV1"]["f:metadata"]["f:annotations"];
            let mut fields = fields.as_object().into_iter().flatten();
            fields.any(|(field, _)| field.strip_prefix("f:").is_some_and(NodeKey::is_ours))
        };
        managers.retain(annotates);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::ApiFlavor;

    #[test]
    fn what_rules_go_by_stays() {
        let key = ApiFlavor::Skyhook.key("status_gpu");
        let field = format!("f:{key}");
        let mut node = json!({
            "metadata": {
                "name": "a",
                "labels": {"b": "c"},
                "annotations": {&key: "complete", "csi": "x"},
                "managedFields": [
                    {"manager": "kubelet", "fieldsV1": {"f:status": {}}},
                    {"manager": "op", "fieldsV1": {"f:metadata": {"f:annotations": {&field: {}}}}},
                ],
            },
            "spec": {"unschedulable": true},
            "status": {"images": [1, 2], "conditions": []},
        });
        slim(&mut node);
        assert_eq!(
            node,
            json!({
                "metadata": {
                    "name": "a",
                    "labels": {"b": "c"},
                    "annotations": {&key: "complete"},
                    "managedFields": [
                        {"manager": "op", "fieldsV1": {"f:metadata": {"f:annotations": {&field: {}}}}},
                    ],
                },
                "spec": {"unschedulable": true},
                "status": {"conditions": []},
            })
        );
    }
}
