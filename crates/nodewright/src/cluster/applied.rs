//! Predicts a cluster after manifests are applied to it.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{Cluster, Read};
use crate::api::{DeploymentPolicy, Skyhook};

impl Cluster {
    /// The cluster as if only these nodes had been read by name.
    pub fn limited_to(&self, nodes: &BTreeSet<&str>) -> Cluster {
        let mut cluster = self.clone();
        if let Some(all) = cluster.nodes.available_mut() {
            all.retain(|node| nodes.contains(node.name.as_str()));
        }
        cluster.limited_to_named_nodes = true;
        cluster
    }

    /// The cluster after these objects are applied, before the operator acts on them. An existing object
    /// keeps its status.
    pub fn with_applied(&self, skyhooks: Vec<Skyhook>, policies: Vec<DeploymentPolicy>) -> Cluster {
        let mut cluster = self.clone();
        for mut skyhook in skyhooks {
            let list = list_or_empty(&mut cluster.skyhooks);
            match list.iter_mut().find(|live| live.name() == skyhook.name()) {
                None => {
                    skyhook.metadata.generation = 1;
                    skyhook.metadata.creation_timestamp = Some(self.taken_at);
                    list.push(skyhook);
                }
                Some(live) => {
                    let changed = skyhook.whole["spec"] != live.whole["spec"];
                    live.metadata.generation += i64::from(changed);
                    live.metadata.labels = skyhook.metadata.labels;
                    live.metadata.annotations = skyhook.metadata.annotations;
                    live.spec = skyhook.spec;
                }
            }
        }
        for policy in policies {
            let list = list_or_empty(&mut cluster.policies);
            let same = |live: &&mut DeploymentPolicy| live.metadata.name == policy.metadata.name;
            match list.iter_mut().find(same) {
                None => list.push(policy),
                Some(live) => live.spec = policy.spec,
            }
        }
        cluster
    }
}

fn list_or_empty<T>(read: &mut Read<Vec<T>>) -> &mut Vec<T> {
    if read.available().is_none() {
        *read = Read::Ok(Vec::new());
    }
    read.available_mut().expect("the list was just created")
}

/// The object after `kubectl apply` or a Helm upgrade: the fields of the manifest replace those of the live
/// object, fields that an earlier apply set and the manifest lacks are removed, and all others are kept.
///
/// Without the annotation of an earlier apply, removes all fields of the spec that the manifest lacks, as
/// Helm and server-side apply do, except fields that the server or the operator may have set.
pub fn applied(live: &Skyhook, manifest: &Value) -> Value {
    let last = live.last_applied();
    let mut object = live.whole.clone();
    for field in ["spec", "metadata"] {
        let earlier = match &last {
            Some(last) => Some(&last[field]),
            // Labels and annotations have many writers: remove none.
            None => (field == "metadata").then_some(&Value::Null),
        };
        if !manifest[field].is_null() {
            overlay(&mut object[field], &manifest[field], earlier);
        }
    }
    object
}

/// Overlays a manifest on a live value key by key, and replaces lists. `earlier` is the value in the manifest
/// of an earlier apply, if known.
fn overlay(live: &mut Value, wanted: &Value, earlier: Option<&Value>) {
    let Value::Object(wanted) = wanted else {
        *live = wanted.clone();
        return;
    };
    if !live.is_object() {
        *live = Value::Object(Map::new());
    }
    let members = live.as_object_mut().expect("the live value is an object");
    members.retain(|key, value| {
        wanted.contains_key(key)
            || match earlier {
                Some(earlier) => earlier.get(key).is_none(),
                None => may_be_default(key, value),
            }
    });
    for (key, value) in wanted {
        if value.is_null() {
            members.remove(key);
            continue;
        }
        let at = members.entry(key).or_insert(Value::Null);
        overlay(at, value, earlier.map(|earlier| &earlier[key]));
    }
}

/// Whether the server or the operator may have set the value: it equals a schema default, or is the name of a
/// package.
fn may_be_default(key: &str, value: &Value) -> bool {
    key == "name" || *value == false || *value == 200 || *value == "node"
}

/// The part of an object that a manifest can change: labels, annotations and spec, with sorted keys.
pub fn changeable(object: &Value) -> Value {
    let mut kept = Map::new();
    for field in ["labels", "annotations"] {
        let mut members = object["metadata"][field].as_object().cloned().unwrap_or_default();
        // This annotation is kubectl's copy of the whole object.
        members.retain(|key, _| key != "kubectl.kubernetes.io/last-applied-configuration");
        if !members.is_empty() {
            kept.insert(field.to_owned(), sorted(&Value::Object(members)));
        }
    }
    kept.insert("spec".to_owned(), sorted(&object["spec"]));
    kept.into()
}

/// A value with sorted keys, so that a diff shows only changes.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(key, _)| *key);
            members.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect()
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        value => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_fields_of_an_earlier_apply_are_removed() {
        let mut live = json!({"a": 1, "b": {"c": 1, "d": 2}, "e": [1], "f": "default"});
        let wanted = json!({"b": {"c": 3}, "e": [2, 3]});
        let earlier = json!({"a": 1, "b": {"c": 1}, "e": [1]});
        overlay(&mut live, &wanted, Some(&earlier));
        assert_eq!(live, json!({"b": {"c": 3, "d": 2}, "e": [2, 3], "f": "default"}));
    }

    #[test]
    fn without_an_earlier_apply_defaults_are_kept() {
        let package = json!({"name": "driver", "version": "1.0.0", "interrupt": {"type": "reboot"}});
        let mut live = json!({
            "serial": false, "priority": 200, "sequencing": "node", "deploymentPolicy": "rollout",
            "packages": {"driver": package, "tools": {"version": "1.0.0"}},
        });
        let wanted = json!({"packages": {"driver": {"version": "1.1.0"}}});
        overlay(&mut live, &wanted, None);
        assert_eq!(
            live,
            json!({
                "serial": false, "priority": 200, "sequencing": "node",
                "packages": {"driver": {"name": "driver", "version": "1.1.0"}},
            })
        );
    }
}
