//! The discovery documents at `/version`, `/api` and `/apis`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::kind::{Kind, Kinds};

/// The document at a discovery path; `None` for other paths, and if nothing is served at the path.
pub fn document(kinds: &Kinds, path: &str) -> Option<Value> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    match parts.as_slice() {
        ["version"] => Some(json!({"major": "1", "minor": "36", "gitVersion": "v1.36.0"})),
        ["api"] => Some(json!({"kind": "APIVersions", "versions": ["v1"]})),
        ["api", version] => resources(kinds, "", version),
        ["apis"] => {
            let names: BTreeSet<&str> = kinds.0.iter().map(|k| k.group.as_str()).collect();
            let groups: Vec<Value> = names
                .into_iter()
                .filter(|name| !name.is_empty())
                .filter_map(|name| group(kinds, name))
                .collect();
            Some(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
        }
        ["apis", name] => {
            let mut group = group(kinds, name)?;
            group["kind"] = "APIGroup".into();
            group["apiVersion"] = "v1".into();
            Some(group)
        }
        ["apis", group, version] => resources(kinds, group, version),
        _ => None,
    }
}

fn group(kinds: &Kinds, name: &str) -> Option<Value> {
    let versions: BTreeSet<&str> =
        kinds.0.iter().filter(|k| k.group == name).map(|k| k.version.as_str()).collect();
    let versions: Vec<Value> = versions
        .into_iter()
        .map(|version| json!({"groupVersion": format!("{name}/{version}"), "version": version}))
        .collect();
    let preferred = versions.first()?.clone();
    Some(json!({"name": name, "versions": versions, "preferredVersion": preferred}))
}

fn resources(kinds: &Kinds, group: &str, version: &str) -> Option<Value> {
    let served: Vec<&Kind> = kinds.0.iter().filter(|k| k.group == group && k.version == version).collect();
    let resources: Vec<Value> =
        served.iter().flat_map(|kind| [resource(kind, ""), resource(kind, "/status")]).collect();
    Some(json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": served.first()?.api_version(),
        "resources": resources,
    }))
}

fn resource(kind: &Kind, suffix: &str) -> Value {
    let verbs: &[&str] = match suffix {
        "" => &["create", "delete", "get", "list", "patch", "update", "watch"],
        _ => &["get", "patch", "update"],
    };
    json!({
        "name": format!("{}{suffix}", kind.plural),
        "singularName": kind.kind.to_lowercase(),
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": verbs,
    })
}
