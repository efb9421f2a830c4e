//! The owners of a node's cordon.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::owners::{self, DRIVER_UPGRADE, ManagedFields};
use super::{Cluster, Node, Taint, lenient};
use crate::api::{ApiFlavor, Labels, keys};

/// Returns everyone outside the operator who holds the cordon of a node, given as JSON from the API server.
///
/// A cordon is the operator's if the field manager of the operator, or of this program, set it. Without
/// `managedFields` nothing proves that, so the holder is unknown. Files usually lack `managedFields`, because
/// kubectl omits it.
///
/// # Errors
///
/// Fails if the object cannot be decoded as a node.
pub fn holders_on(node: &Value) -> Result<Vec<Holder>, String> {
    let managed = &node["metadata"]["managedFields"];
    let unmanaged = managed.as_array().is_none_or(Vec::is_empty);
    let node: Node = lenient::decode(node.clone())?;
    let mut holders = node.cordon_holders();
    if node.cordoned() == Some(true) && unmanaged {
        holders.push(Holder::unknown());
    }
    Ok(holders)
}

impl Node {
    /// Programs that may have lifted a cordon of the node, each with the object that shows it.
    pub fn may_have_uncordoned(&self) -> Vec<String> {
        let by_label = self.labels.iter().filter_map(|(key, value)| {
            let name = owners::uncordons(key, value)?;
            Some(format!("{name} (label {key}={value})"))
        });
        let holders = self.body().map_or(&[][..], |body| &body.cordon_holders);
        let holders = holders.iter().filter_map(|holder| match &holder.mark {
            None => Some(format!("{} (owns spec.unschedulable)", holder.name)),
            Some(_) => (holder.name == owners::DRIVER_MANAGER).then(|| holder.to_string()),
        });
        by_label.chain(holders).collect()
    }
}

impl Cluster {
    /// Keys of the operator's cordons of the node, except the cordons of these owners: cordons of other custom
    /// resources of either API, and the runtime-required cordon.
    pub fn other_cordons(&self, node: &Node, owners: &[(ApiFlavor, &str)]) -> Vec<String> {
        let ours = |name: &str| owners.iter().any(|(_, owner)| *owner == name);
        let others = self.own_cordons(node).filter(|(_, name)| !ours(name));
        let mut others: Vec<String> = others.map(|(flavor, name)| keys::cordon(flavor, name)).collect();
        if node.keys(self.flavor()).runtime_required_cordon {
            others.push(self.flavor().key("runtimeRequiredCordon"));
        }
        others
    }

    /// The custom resources for which the operator has cordoned the node. A key of the API that is not active counts only
    /// while its custom resource exists.
    pub fn own_cordons<'n>(&'n self, node: &'n Node) -> impl Iterator<Item = (ApiFlavor, &'n str)> {
        let cordons = ApiFlavor::ALL.into_iter().flat_map(move |flavor| {
            let of_api = node.keys(flavor).skyhooks.iter().filter(|(_, on)| on.cordon);
            of_api.map(move |(name, _)| (flavor, name.as_str()))
        });
        cordons.filter(|(flavor, name)| *flavor == self.flavor() || self.legacy_skyhook(name).is_some())
    }
}

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

/// The state of a driver upgrade that keeps the node cordoned until somebody repairs it.
const FAILED: &str = "upgrade-failed";

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

/// Everyone outside the operator who holds the cordon of a node, each with a mark or as a field manager. `annotations` pass
/// [`is_annotation`].
pub(super) fn holders(
    annotations: &BTreeMap<String, String>,
    labels: &Labels,
    taints: &[Taint],
    managed: &ManagedFields,
    unschedulable: bool,
) -> Vec<Holder> {
    let mut holders = Vec::new();
    let mut add = |name: &str, mark: Option<String>| {
        holders.push(Holder { name: name.to_owned(), mark });
    };
    for (key, value) in annotations {
        match owner(key) {
            Some(by) if key != MACHINE_CONFIG || value.starts_with("drain") => {
                add(by, Some(format!("annotation {key}")));
            }
            _ => {}
        }
    }
    for (key, value) in labels.iter() {
        if key.ends_with(DRIVER_UPGRADE) && !NOT_CORDONED.contains(&value.as_str()) {
            let holder = if value == FAILED { "a failed driver upgrade" } else { "a driver upgrade" };
            add(holder, Some(format!("label {key}={value}")));
        }
    }
    for taint in taints {
        if let Some(by) = owners::holder_of_cordon(&taint.key) {
            add(by, Some(format!("taint {}", taint.key)));
        }
    }
    if let Some(manager) = managed.cordoned_by() {
        add(manager, None);
    } else if unschedulable && !managed.is_empty() && !managed.has_cordon() {
        holders.push(Holder::unknown());
    }
    let mut named = BTreeSet::new();
    holders.retain(|holder| named.insert(holder.name.clone()));
    holders
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn holders(node: Value) -> Vec<String> {
        holders_on(&node).expect("the JSON is a node").iter().map(Holder::to_string).collect()
    }

    fn annotated(key: &str, value: &str) -> Value {
        json!({"metadata": {"name": "gpu-1", "annotations": {key: value}}})
    }

    fn tainted(key: &str) -> Value {
        json!({"metadata": {"name": "gpu-1"}, "spec": {"taints": [{"key": key, "effect": "NoSchedule"}]}})
    }

    #[test]
    fn who_holds_a_cordon_shows_on_the_node() {
        let driver = "nvidia.com/gpu-driver-upgrade-state";
        let labelled = |value: &str| json!({"metadata": {"name": "gpu-1", "labels": {driver: value}}});
        for (node, by) in [
            (annotated("quarantineHealthEvent", "{}"), "NVSentinel"),
            (annotated("quarantineHealthEventIsCordoned", "True"), "NVSentinel"),
            (annotated("weave.works/kured-reboot-in-progress", "now"), "Kured"),
            (annotated("remediation.medik8s.io/node", "x"), "Medik8s"),
            (
                annotated("machineconfiguration.openshift.io/desiredDrain", "drain-abc"),
                "the Machine Config Operator",
            ),
            (annotated(owners::DRIVER_MANAGER_RECORD, "true"), owners::DRIVER_MANAGER),
            (labelled("drain-required"), "a driver upgrade"),
            (tainted("medik8s.io/drain"), "Medik8s"),
            (tainted("node.kubernetes.io/out-of-service"), "an administrator"),
            (tainted("node.cloudprovider.kubernetes.io/shutdown"), "the cloud controller manager"),
            (tainted("ToBeDeletedByClusterAutoscaler"), "the cluster autoscaler"),
            (tainted("karpenter.sh/disrupted"), "Karpenter"),
            (tainted("karpenter.sh/disruption"), "Karpenter"),
        ] {
            let found = holders(node.clone());
            assert_eq!(found.len(), 1, "{node}");
            assert!(found[0].starts_with(by), "{found:?}");
        }
    }

    #[test]
    fn the_driver_manager_may_have_lifted_a_cordon() {
        let suspects = |node: Value| {
            let node: Node = lenient::decode(node).expect("the JSON is a node");
            node.may_have_uncordoned()
        };
        let mark = format!("the NVIDIA driver manager (annotation {})", owners::DRIVER_MANAGER_RECORD);
        assert_eq!(suspects(annotated(owners::DRIVER_MANAGER_RECORD, "false")), [mark]);
        assert_eq!(suspects(annotated("weave.works/kured-reboot-in-progress", "now")), Vec::<String>::new());
    }

    #[test]
    fn marks_that_any_node_may_have_hold_nothing() {
        let driver = "nvidia.com/gpu-driver-upgrade-state";
        for node in [
            annotated("weave.works/kured-most-recent-reboot-needed", "then"),
            annotated("is-reboot-capable.self-node-remediation.medik8s.io", "true"),
            annotated("machineconfiguration.openshift.io/desiredDrain", "uncordon-abc"),
            json!({"metadata": {"name": "gpu-1", "labels": {driver: "upgrade-done"}}}),
            tainted("node.kubernetes.io/unschedulable"),
            tainted("nvidia.com/gpu"),
        ] {
            assert_eq!(holders(node.clone()), Vec::<String>::new(), "{node}");
        }
    }

    #[test]
    fn a_cordon_by_hand_shows_in_the_managed_fields() {
        let managed = |manager: &str, annotations: Value| {
            json!({"manager": manager, "operation": "Update", "fieldsV1": {
                "f:metadata": {"f:annotations": annotations}, "f:spec": {"f:unschedulable": {}}}})
        };
        let node = |managers: Value| json!({"metadata": {"name": "gpu-1", "managedFields": managers}, "spec": {"unschedulable": true}});
        let state = format!("f:{}", ApiFlavor::NodeWright.key("nodeState_gpu"));
        let state = json!({state: {}});
        for (managers, held) in [
            (json!([managed("kubectl-cordon", json!({}))]), true),
            (json!([managed("kubectl-skyhook", json!({}))]), false),
            (json!([managed("manager", state.clone())]), false),
            (json!([{"manager": "kubelet", "operation": "Update"}]), true),
            (json!([]), true),
            (json!(null), true),
            (json!([managed("kubectl", json!({})), managed("manager", state)]), true),
        ] {
            assert_eq!(!holders(node(managers.clone())).is_empty(), held, "{managers}");
        }
    }
}
