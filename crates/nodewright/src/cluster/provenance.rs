//! Proof that the operator created an object with its label: anyone can set a label, in any namespace.

use std::fmt;

use serde_json::Value;

use super::{Cluster, ConfigMap, PackageRun, config_map};
use crate::api::{ApiFlavor, Meta};

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

impl Cluster {
    /// The reason why it is not proven that the operator created a pod or Job with the label of a package:
    /// namespace, owner, annotation and name must match.
    pub fn run_unproven(&self, meta: &Meta) -> Option<Unproven> {
        let Some((flavor, skyhook)) = labelled(meta, config_map::package_label) else {
            return Some(Unproven::Annotations);
        };
        let note = meta.annotations.get(&flavor.key("package"));
        let note: Option<Value> = note.and_then(|text| serde_json::from_str(text).ok());
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
        self.unproven(meta, owned, noted("skyhook") == skyhook, named)
    }

    /// The reason why it is not proven that the operator created a ConfigMap with a label of the operator.
    pub fn config_map_unproven(&self, map: &ConfigMap) -> Option<Unproven> {
        let meta = &map.metadata;
        let Some((flavor, skyhook)) = map.owner() else {
            return Some(Unproven::Annotations);
        };
        let annotation = |key: &str| meta.annotations.get(&flavor.key(key)).map(String::as_str);
        let named = if map.is_of_a_node() {
            annotation("Node.name").map(|node| is_safe_name(&meta.name, &[skyhook, node, "metadata"]))
        } else {
            let package = annotation("Package.Name").zip(annotation("Package.Version"));
            package.map(|(name, version)| meta.name == format!("{skyhook}-{name}-{version}").to_lowercase())
        };
        let noted = annotation("name") == Some(skyhook) && named.is_some();
        let owned = owned(meta, flavor, skyhook);
        self.unproven(meta, owned, noted, named.unwrap_or_default())
    }

    /// Whether an object is known to be outside of the operator's namespace.
    pub fn is_elsewhere(&self, meta: &Meta) -> bool {
        let namespaces = self.operator_namespaces();
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        !namespaces.is_empty() && !namespaces.contains(namespace)
    }

    fn unproven(&self, meta: &Meta, owned: bool, noted: bool, named: bool) -> Option<Unproven> {
        if self.is_elsewhere(meta) {
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
            let deployments_known = self.operators.was_asked() || !self.may_leave_out();
            let unknown = deployments_known && self.operator_namespaces().is_empty();
            unknown.then_some(Unproven::OperatorUnknown)
        }
    }
}

impl PackageRun<'_> {
    /// The reason why it is not proven that the operator created the run; such a run is not deleted.
    pub fn unproven(&self, cluster: &Cluster) -> Option<Unproven> {
        cluster.run_unproven(self.metadata()?)
    }
}

/// The API of an operator's label, and the custom resource that the label names.
fn labelled(meta: &Meta, label: fn(ApiFlavor) -> String) -> Option<(ApiFlavor, &str)> {
    ApiFlavor::ALL.into_iter().find_map(|flavor| {
        let name = meta.labels.get(&label(flavor))?;
        Some((flavor, name.as_str()))
    })
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

#[cfg(test)]
mod tests {
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
}
