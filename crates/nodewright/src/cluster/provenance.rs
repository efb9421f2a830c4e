//! Proof that the operator created an object with its label: anyone can set a label, in any namespace.

use std::fmt;

use serde_json::{Map, Value};

use super::kubernetes::package_label;
use super::operator::OperatorView;
use super::{Cluster, ConfigMap, PackageRun, Read};
use crate::api::{ApiFlavor, DeploymentPolicy, Meta, Object, Skyhook};

/// Number of characters to which the operator truncates names of pods and Jobs, before a hash of eight
/// digits.
const CUT: usize = 63 - 9;

/// The reason why it is not proven that the operator created an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unproven {
    /// The namespace in which the operator creates its objects is unknown.
    OperatorUnknown,
    /// The object is not in the operator's namespace.
    OtherNamespace,
    /// The custom resource named in the label does not control the object.
    Owner,
    /// The operator's annotations are missing, or name another custom resource.
    Annotations,
    /// The operator does not create objects with such a name.
    Name,
}

impl Unproven {
    /// Describes the object. If the operator's namespace is unknown, the operator may have created the
    /// object.
    pub fn verdict(&self) -> &'static str {
        match self {
            Unproven::OperatorUnknown => "labeled as the operator's, and possibly created by it",
            _ => "labeled as the operator's, but not created by it",
        }
    }
}

impl fmt::Display for Unproven {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unproven::OperatorUnknown => "the operator's namespace is unknown; use --namespace",
            Unproven::OtherNamespace => "not in the operator's namespace",
            Unproven::Owner => "no owner reference to its custom resource",
            Unproven::Annotations => "without the operator's annotations",
            Unproven::Name => "its name does not follow the operator's naming scheme",
        })
    }
}

/// The reason why it is not proven that the operator created a pod or Job with the label of a package:
/// namespace, owner, annotation and name must match.
pub(super) fn run_unproven(cluster: &Cluster, meta: &Meta) -> Option<Unproven> {
    let Some((flavor, skyhook)) = labelled(meta) else {
        return Some(Unproven::Annotations);
    };
    let note: Option<Value> =
        meta.annotations.get(&flavor.key("package")).and_then(|text| serde_json::from_str(text).ok());
    let note = note.unwrap_or_default();
    let noted = |key: &str| note[key].as_str().unwrap_or_default();
    let job = meta.controller().filter(|owner| owner.kind == "Job");
    let name = match job {
        Some(job) if meta.name.starts_with(&format!("{}-", job.name)) => &job.name,
        _ => &meta.name,
    };
    let named = if meta.labels.contains_key(&flavor.key("interrupt")) {
        is_safe_name(name, &[skyhook])
    } else {
        is_safe_name(name, &[skyhook, noted("name")])
    };
    let owned = job.is_some() || owned(meta, flavor, skyhook);
    unproven(cluster, meta, owned, noted("skyhook") == skyhook, named)
}

impl ConfigMap {
    /// The reason why it is not proven that the operator created a ConfigMap with a label of the operator.
    pub(super) fn unproven(&self, cluster: &Cluster) -> Option<Unproven> {
        let meta = &self.metadata;
        let Some((flavor, skyhook)) = self.owner() else {
            return Some(Unproven::Annotations);
        };
        let annotation = |key: &str| meta.annotations.get(&flavor.key(key)).map(String::as_str);
        let named = if self.is_of_a_node() {
            annotation("Node.name").map(|node| is_safe_name(&meta.name, &[skyhook, node, "metadata"]))
        } else {
            annotation("Package.Name")
                .zip(annotation("Package.Version"))
                .map(|(name, version)| meta.name == format!("{skyhook}-{name}-{version}").to_lowercase())
        };
        let noted = annotation("name") == Some(skyhook) && named.is_some();
        let owned = owned(meta, flavor, skyhook);
        unproven(cluster, meta, owned, noted, named.unwrap_or_default())
    }
}

impl OperatorView<'_> {
    /// Whether an object is known to be outside of the operator's namespace.
    pub fn is_elsewhere(self, meta: &Meta) -> bool {
        let namespaces = self.namespaces();
        let is_other = |namespace: &str| !namespaces.is_empty() && !namespaces.contains(namespace);
        meta.namespace.as_deref().is_some_and(is_other)
    }
}

fn unproven(cluster: &Cluster, meta: &Meta, owned: bool, noted: bool, named: bool) -> Option<Unproven> {
    if cluster.operator().is_elsewhere(meta) {
        Some(Unproven::OtherNamespace)
    } else if !owned {
        Some(Unproven::Owner)
    } else if !noted {
        Some(Unproven::Annotations)
    } else if !named {
        Some(Unproven::Name)
    } else {
        // Do not report an unknown namespace for files without Deployments: no command deletes objects in
        // files.
        let deployments_known = cluster.operators.was_asked() || !cluster.may_leave_out();
        let unknown = deployments_known && cluster.operator().namespaces().is_empty();
        unknown.then_some(Unproven::OperatorUnknown)
    }
}

impl PackageRun<'_> {
    /// The reason why it is not proven that the operator created the run; such a run is not deleted.
    pub fn unproven(&self, cluster: &Cluster) -> Option<Unproven> {
        run_unproven(cluster, self.metadata()?)
    }
}

/// The API of the label of packages, and the custom resource that the label names.
pub(super) fn labelled(meta: &Meta) -> Option<(ApiFlavor, &str)> {
    ApiFlavor::ALL
        .into_iter()
        .find_map(|flavor| Some((flavor, meta.labels.get(&package_label(flavor))?.as_str())))
}

/// Whether a custom resource with this name controls the object. A migration may have changed the API of the
/// owner.
fn owned(meta: &Meta, flavor: ApiFlavor, skyhook: &str) -> bool {
    meta.controller().is_some_and(|owner| {
        let kinds = [flavor, flavor.other()].map(ApiFlavor::kind);
        owner.name == skyhook && kinds.contains(&owner.kind.as_str())
    })
}

/// Whether the operator's `generateSafeName` may have built the name from these parts: joined with dashes,
/// with dots replaced, truncated if too long, and followed by more parts or a hash.
fn is_safe_name(name: &str, parts: &[&str]) -> bool {
    let joined = parts.join("-").replace('.', "-").to_lowercase();
    let cut = || name.len() >= CUT && joined.starts_with(&name[..CUT.min(name.len())]);
    let whole = || {
        let rest = name.strip_prefix(&joined);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    whole() || cut()
}

impl Cluster {
    /// The cluster after these objects are applied, before the operator acts on them. An existing object
    /// keeps its status.
    pub fn with_applied(&self, skyhooks: Vec<Skyhook>, policies: Vec<DeploymentPolicy>) -> Cluster {
        let mut cluster = self.clone();
        for mut skyhook in skyhooks {
            // The operator tries a stage again whose failed Job no longer matches its package.
            let live = self.skyhook(skyhook.name());
            let same = |name: &str| {
                let was = live.and_then(|live| live.package(name)).zip(skyhook.package(name));
                let fields = ["image", "containerSHA", "env", "resources"];
                was.is_none_or(|(was, is)| fields.iter().all(|field| was.whole[*field] == is.whole[*field]))
            };
            let runs = self.package_runs_for(skyhook.name());
            let edited = runs.of(skyhook.name()).filter(|run| !run.interrupt && !same(&run.package));
            let failed: Vec<_> =
                edited.filter_map(|run| run.job).filter(|job| job.gave_up()).map(Object::key).collect();
            if let Some(jobs) = cluster.jobs.available_mut() {
                jobs.retain(|job| !failed.contains(&job.key()));
            }
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
        let mut wanted = manifest[field].clone();
        // kubectl adds its own annotation to what it applies, so annotations of others stay.
        if field == "metadata" && !wanted.is_null() && wanted["annotations"].is_null() {
            wanted["annotations"] = Value::Object(Map::new());
        }
        if !wanted.is_null() {
            overlay(&mut object[field], &wanted, earlier);
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
    fn names_of_the_operator_are_made_of_their_parts() {
        let parts = ["gpu.tune", "driver"];
        for (name, ours) in [
            ("gpu-tune-driver-2-0-1-apply-node-2-a2c3b676", true),
            ("gpu-tune-driver", true),
            ("gpu-tune-drivers-2-0-1-apply-node-2", false),
            ("gpu-tune-debug", false),
            ("other-driver-2-0-1-apply-node-2-a2c3b676", false),
        ] {
            assert_eq!(is_safe_name(name, &parts), ours, "{name}");
        }
        let long = "p".repeat(60);
        let cut = format!("gpu-tune-{}-a2c3b676", &long[..45]);
        assert!(is_safe_name(&cut, &["gpu-tune", &long]));
    }

    /// kubectl records `annotations: {}` of a manifest without annotations.
    #[test]
    fn annotations_of_others_stay_where_the_manifest_has_none() {
        let earlier =
            json!({"metadata": {"annotations": {}, "labels": {"team": "a"}, "name": "gpu"}, "spec": {}});
        let live = json!({
            "metadata": {
                "name": "gpu", "labels": {"team": "a"},
                "annotations": {"by": "others", "kubectl.kubernetes.io/last-applied-configuration": earlier.to_string()},
            },
            "spec": {},
        });
        let live: Skyhook = serde_json::from_value(live).expect("a custom resource");
        let after = changeable(&applied(&live, &json!({"metadata": {"name": "gpu"}, "spec": {}})));
        assert_eq!(after, json!({"annotations": {"by": "others"}, "spec": {}}));
    }

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
