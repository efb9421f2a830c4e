//! Owners of a cordon outside the operator, found by marks on the node.
//!
//! Some owners react to an uncordon: NVSentinel cancels its repair. A node about to shut down would get new
//! pods.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};

use schemars::JsonSchema;
use serde::Serialize;

use super::managed::ManagedFields;
use super::owners::{self, DRIVER_UPGRADE};
use crate::api::Labels;

/// Prefixes of annotations that exist only while their owner keeps the node cordoned.
const ANNOTATIONS: [(&str, &str); 4] = [
    (owners::DRIVER_MANAGER_RECORD, owners::DRIVER_MANAGER),
    ("quarantineHealthEvent", "NVSentinel"),
    ("weave.works/kured-reboot-in-progress", "Kured"),
    ("flatcar-linux-update.v1.flatcar-linux.net/reboot-in-progress", "the Flatcar update operator"),
];
const MEDIK8S: &str = "medik8s.io";
/// Prefix of an annotation about a capability, which every node has.
const MEDIK8S_ALWAYS: &str = "is-reboot-capable.";
const MACHINE_CONFIG: &str = "machineconfiguration.openshift.io/desiredDrain";
/// States of a driver upgrade in which the node is not cordoned for the upgrade.
const NOT_CORDONED: [&str; 4] = ["", "unknown", "upgrade-required", "upgrade-done"];

/// The parts of a node that show who holds its cordon.
pub(super) struct Marks<'a> {
    /// Annotations that pass [`is_annotation`].
    pub annotations: &'a BTreeMap<String, String>,
    pub labels: &'a Labels,
    /// Keys of the node's taints.
    pub taints: Vec<&'a str>,
    pub managed: &'a ManagedFields,
    pub unschedulable: bool,
}

/// Name of an unknown holder: no field manager owns the cordon, as after a patch of `managedFields`.
const UNKNOWN: &str = "an unknown owner";
const NO_MANAGER: &str = "no field manager owns spec.unschedulable";

/// Whether an annotation may belong to a holder of the cordon, judged by its key.
pub(super) fn is_annotation(key: &str) -> bool {
    owner(key).is_some()
}

/// The tool whose annotation this is, if the tool keeps nodes cordoned.
fn owner(key: &str) -> Option<&'static str> {
    match ANNOTATIONS.iter().find(|(start, _)| key.starts_with(start)) {
        Some((_, by)) => Some(by),
        None if key.contains(MEDIK8S) && !key.starts_with(MEDIK8S_ALWAYS) => Some("Medik8s"),
        None if key == MACHINE_CONFIG => Some("the Machine Config Operator"),
        None => None,
    }
}

impl Holder {
    /// The holder of a cordon without any proof that the operator set it.
    pub fn unknown() -> Holder {
        Holder { name: UNKNOWN.to_owned(), mark: Some(NO_MANAGER.to_owned()) }
    }
}

/// A person or program other than the operator that keeps a node cordoned.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, JsonSchema)]
pub struct Holder {
    /// The name of the program, such as `NVSentinel`; without a mark, the field manager that cordoned the
    /// node, such as `kubectl-cordon`.
    pub name: String,
    /// The annotation, label or taint that identifies the program; absent for a field manager.
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
    /// Everyone outside the operator who holds the cordon, each with a mark or as a field manager.
    pub fn holders(&self) -> Vec<Holder> {
        let mut holders = Vec::new();
        let mut add = |name: &str, mark: Option<String>| {
            holders.push(Holder { name: name.to_owned(), mark });
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
            if let Some(by) = owners::holder_of_cordon(key) {
                add(by, Some(format!("taint {key}")));
            }
        }
        if let Some(manager) = self.managed.cordoned_by() {
            add(manager, None);
        } else if self.unschedulable && !self.managed.is_empty() && !self.managed.has_cordon() {
            holders.push(Holder::unknown());
        }
        let mut named = BTreeSet::new();
        holders.retain(|holder| named.insert(holder.name.clone()));
        holders
    }
}
