//! Who besides the operator wants a node to stay cordoned, as far as the node itself tells.
//!
//! An uncordon is a message to some of them: NVSentinel takes it for "cancel the repair", and a node that is about to be
//! shut down gets new pods.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use schemars::JsonSchema;
use serde::Serialize;

use super::managed::ManagedFields;
use crate::api::Labels;

/// Beginnings of annotation keys that stand on a node only while their owner keeps it cordoned.
const ANNOTATIONS: [(&str, &str); 3] = [
    ("quarantineHealthEvent", "NVSentinel"),
    ("weave.works/kured-reboot-in-progress", "Kured"),
    (
        "flatcar-linux-update.v1.flatcar-linux.net/reboot-in-progress",
        "the Flatcar update operator",
    ),
];
/// Beginnings of the keys of taints that say that a node is going, or in maintenance.
const TAINTS: [(&str, &str); 8] = [
    ("node.kubernetes.io/out-of-service", "an administrator"),
    ("node.cloudprovider.kubernetes.io/", "the cloud provider"),
    ("ToBeDeletedByClusterAutoscaler", "the cluster autoscaler"),
    ("karpenter.sh/disrupt", "Karpenter"),
    (
        "aws-node-termination-handler/",
        "the AWS node termination handler",
    ),
    (
        "cloud.google.com/impending-node-termination",
        "the cloud provider",
    ),
    ("medik8s.io/", "Medik8s"),
    ("kubevirt.io/drain", "KubeVirt"),
];
const MEDIK8S: &str = "medik8s.io";
/// An annotation that says what a node can do, and stands on every node.
const MEDIK8S_ALWAYS: &str = "is-reboot-capable.";
const MACHINE_CONFIG: &str = "machineconfiguration.openshift.io/desiredDrain";
/// A driver upgrade by the GPU or network operator: the states in which the node is not cordoned for it.
const DRIVER_UPGRADE: &str = "-driver-upgrade-state";
const NOT_CORDONED: [&str; 4] = ["", "unknown", "upgrade-required", "upgrade-done"];

/// What of a node tells who holds its cordon.
pub(super) struct Marks<'a> {
    /// Those of [`is_annotation`].
    pub annotations: &'a BTreeMap<String, String>,
    pub labels: &'a Labels,
    /// The keys of its taints.
    pub taints: Vec<&'a str>,
    pub managed: &'a ManagedFields,
}

/// Whether an annotation may tell who holds the cordon, as far as its key says.
pub(super) fn is_annotation(key: &str) -> bool {
    owner(key).is_some()
}

/// Whose annotation it is, of those that keep nodes cordoned.
fn owner(key: &str) -> Option<&'static str> {
    match ANNOTATIONS.iter().find(|(start, _)| key.starts_with(start)) {
        Some((_, by)) => Some(by),
        None if key.contains(MEDIK8S) && !key.starts_with(MEDIK8S_ALWAYS) => Some("Medik8s"),
        None if key == MACHINE_CONFIG => Some("the Machine Config Operator"),
        None => None,
    }
}

/// Somebody outside the operator who wants a node to stay cordoned.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, JsonSchema)]
pub struct Holder {
    /// `NVSentinel`; where only managed fields tell, the field manager that cordoned the node: `kubectl-cordon`.
    pub name: String,
    /// The annotation, label or taint that shows it; none for a field manager.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark: Option<String>,
}

impl Display for Holder {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match &self.mark {
            Some(mark) => write!(f, "{name} ({mark})"),
            None => write!(f, "someone using {name} (see the node's managedFields)"),
        }
    }
}

impl Marks<'_> {
    /// Everyone outside the operator, each with one mark that shows it.
    pub fn holders(&self) -> Vec<Holder> {
        let mut holders = Vec::new();
        let mut add = |name: &str, mark: Option<String>| {
            holders.push(Holder {
                name: name.to_owned(),
                mark,
            });
        };
        for (key, value) in self.annotations {
            match owner(key) {
                Some(by) if key != MACHINE_CONFIG || value.starts_with("drain") => {
                    add(by, Some(format!("annotation {key}")));
                }
                _ => {}
            }
        }
        for (key, value) in self.labels.iter() {
            if key.ends_with(DRIVER_UPGRADE) && !NOT_CORDONED.contains(&value.as_str()) {
                add("a driver upgrade", Some(format!("label {key}={value}")));
            }
        }
        for key in &self.taints {
            if let Some((_, by)) = TAINTS.iter().find(|(start, _)| key.starts_with(start)) {
                add(by, Some(format!("taint {key}")));
            }
        }
        if let Some(manager) = self.managed.cordoned_by() {
            add(manager, None);
        }
        holders.dedup_by(|later, first| later.name == first.name);
        holders
    }
}
