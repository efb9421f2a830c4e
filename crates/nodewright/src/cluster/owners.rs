//! Other programs that act on nodes: the owners of well-known taints, labels and finalizers, and the annotations by which
//! pods refuse a disruption.

use std::collections::BTreeMap;

/// A taint that a known program sets or removes.
#[derive(Debug)]
pub struct TaintOwner {
    /// The beginning of the key; after `*`, its end.
    key: &'static str,
    pub name: &'static str,
    pub kind: TaintKind,
    /// The event after which the taint is removed, as a clause that begins with `once` or `when`.
    pub until: &'static str,
    /// The page that documents the taint.
    pub source: &'static str,
}

/// The purpose of a taint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaintKind {
    /// A problem of the node, or of its network.
    Condition,
    /// An agent on the node is not ready yet.
    Startup,
    /// The node is about to be drained or deleted.
    Removal,
    /// Someone works on the node.
    Maintenance,
    /// The node is reserved for some pods. Its owner never removes the taint.
    Reserved,
}

use TaintKind::{Condition, Maintenance, Removal, Reserved, Startup};

macro_rules! taints {
    ($($key:literal $name:literal $kind:ident $until:literal $source:literal;)+) => {
        &[$(TaintOwner { key: $key, name: $name, kind: $kind, until: $until, source: $source }),+]
    };
}

/// Well-known taints; of several that match, the first counts.
#[rustfmt::skip]
const TAINTS: &[TaintOwner] = taints! {
    "node.kubernetes.io/not-ready" "the node lifecycle controller" Condition "once the node is Ready" "https://kubernetes.io/docs/reference/labels-annotations-taints/";
    "node.kubernetes.io/unreachable" "the node lifecycle controller" Condition "once the kubelet reports to the API server again" "https://kubernetes.io/docs/reference/labels-annotations-taints/";
    "node.kubernetes.io/unschedulable" "the node lifecycle controller" Condition "once the node is uncordoned" "https://kubernetes.io/docs/reference/labels-annotations-taints/";
    "node.kubernetes.io/network-unavailable" "the node lifecycle controller" Condition "once the network of the node is configured" "https://kubernetes.io/docs/reference/labels-annotations-taints/";
    "node.kubernetes.io/out-of-service" "an administrator" Maintenance "when the administrator removes it after the recovery of the node" "https://kubernetes.io/docs/concepts/cluster-administration/node-shutdown/";
    "node.kubernetes.io/" "the node lifecycle controller" Condition "once the shortage on the node is over" "https://kubernetes.io/docs/reference/labels-annotations-taints/";
    "node.cloudprovider.kubernetes.io/uninitialized" "the cloud provider (its cloud controller manager)" Condition "once it has initialized the node" "https://kubernetes.io/docs/tasks/administer-cluster/running-cloud-controller/";
    "node.cloudprovider.kubernetes.io/" "the cloud provider (its cloud controller manager)" Condition "once the instance runs again" "https://kubernetes.io/docs/reference/labels-annotations-taints/";
    "node.cluster.x-k8s.io/uninitialized" "Cluster API" Startup "once it has set the labels of the node" "https://cluster-api.sigs.k8s.io/developer/providers/contracts/bootstrap-config";
    "ToBeDeletedByClusterAutoscaler" "the cluster autoscaler" Removal "when the scale-down ends or is cancelled" "https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/utils/taints/taints.go";
    "DeletionCandidateOfClusterAutoscaler" "the cluster autoscaler" Removal "once the node is needed again" "https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/utils/taints/taints.go";
    "startup-taint.cluster-autoscaler.kubernetes.io/" "the agent that the taint is named after" Startup "once the agent is ready" "https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md";
    "ignore-taint.cluster-autoscaler.kubernetes.io/" "the agent that the taint is named after" Startup "once the agent is ready" "https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md";
    "karpenter.sh/unregistered" "Karpenter" Startup "once it has registered the node" "https://karpenter.sh/docs/concepts/nodepools/";
    "karpenter.sh/" "Karpenter" Removal "when the disruption ends or is cancelled" "https://karpenter.sh/docs/concepts/disruption/";
    "readiness.k8s.io/" "the Node Readiness Controller" Startup "once the conditions of its NodeReadinessRule are met" "https://kubernetes.io/blog/2026/02/03/introducing-node-readiness-controller";
    "node.cilium.io/" "Cilium" Startup "once its agent on the node is ready" "https://docs.cilium.io/en/stable/installation/taints/";
    "cni.istio.io/" "Istio" Startup "once its CNI agent on the node is ready" "https://istio.io/latest/docs/setup/additional-setup/cni/";
    "*/agent-not-ready" "the agent that the taint is named after, such as a CSI driver" Startup "once the agent on the node is ready" "https://github.com/kubernetes-sigs/aws-ebs-csi-driver/blob/master/docs/install.md";
    "nvidia.com/gpu-driver" "the NVIDIA driver manager" Startup "once the driver is loaded" "https://github.com/NVIDIA/k8s-driver-manager";
    "nvidia.com/gpu" "an administrator or the cloud provider" Reserved "when an administrator removes it" "https://cloud.google.com/kubernetes-engine/docs/how-to/gpus";
    "node-role.kubernetes.io/" "the installer of the cluster" Reserved "when an administrator removes it" "https://kubernetes.io/docs/reference/labels-annotations-taints/";
    "kured.dev/" "Kured" Maintenance "once the node has rebooted" "https://kured.dev/docs/configuration/";
    "weave.works/kured" "Kured" Maintenance "once the node has rebooted" "https://kured.dev/docs/configuration/";
    "UpdateInProgress" "the Machine Config Operator" Maintenance "once the update of the node is done" "https://github.com/openshift/machine-config-operator";
    "aws-node-termination-handler/" "the AWS node termination handler" Removal "when the instance ends or returns from its maintenance" "https://github.com/aws/aws-node-termination-handler";
    "cloud.google.com/impending-node-termination" "the cloud provider" Removal "when the instance ends" "https://cloud.google.com/kubernetes-engine/docs/how-to/gpus";
    "medik8s.io/" "Medik8s" Maintenance "once it has repaired the node" "https://www.medik8s.io/";
    "kubevirt.io/drain" "KubeVirt" Maintenance "once the virtual machines have left the node" "https://kubevirt.io/user-guide/cluster_admin/node_maintenance/";
};

/// The usual owners of labels by the beginning of the key, each with the page that documents its labels.
#[rustfmt::skip]
const LABELS: &[(&str, &str, &str)] = &[
    ("feature.node.kubernetes.io/", "Node Feature Discovery", "https://kubernetes-sigs.github.io/node-feature-discovery/stable/usage/features.html"),
    ("nvidia.com/gpu.present", "the NVIDIA GPU Operator, from labels of Node Feature Discovery", "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/getting-started.html"),
    ("nvidia.com/gpu.deploy.", "the NVIDIA GPU Operator", "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/getting-started.html"),
    ("nvidia.com/", "GPU feature discovery", "https://github.com/NVIDIA/k8s-device-plugin/tree/main/docs/gpu-feature-discovery"),
    ("amd.com/gpu", "the AMD node labeller", "https://github.com/ROCm/k8s-device-plugin"),
    ("topology.kubernetes.io/", "the cloud controller manager", "https://kubernetes.io/docs/reference/labels-annotations-taints/"),
    ("node.kubernetes.io/instance-type", "the cloud controller manager", "https://kubernetes.io/docs/reference/labels-annotations-taints/"),
    ("kubernetes.io/", "the kubelet", "https://kubernetes.io/docs/reference/labels-annotations-taints/"),
    ("karpenter.", "Karpenter", "https://karpenter.sh/docs/reference/instance-types/"),
    ("eks.amazonaws.com/", "Amazon EKS", "https://docs.aws.amazon.com/eks/latest/userguide/"),
    ("cloud.google.com/", "GKE", "https://cloud.google.com/kubernetes-engine/docs/how-to/creating-managing-labels"),
    ("kubernetes.azure.com/", "AKS", "https://learn.microsoft.com/azure/aks/use-labels"),
];

/// Owners of finalizers of nodes by the beginning of the finalizer, each with its source.
#[rustfmt::skip]
const FINALIZERS: &[(&str, &str, &str)] = &[
    ("karpenter.sh/", "Karpenter", "https://karpenter.sh/docs/concepts/disruption/"),
    ("wrangler.cattle.io/", "Rancher", "https://github.com/rancher/rancher"),
    ("controller.cattle.io/", "Rancher", "https://github.com/rancher/rancher"),
    ("foregroundDeletion", "the garbage collector", "https://kubernetes.io/docs/concepts/architecture/garbage-collection/"),
];

/// Annotations by which a pod refuses a disruption, with the refusing value and the source.
#[rustfmt::skip]
const REFUSALS: &[(&str, &str, &str)] = &[
    ("karpenter.sh/do-not-disrupt", "true", "https://karpenter.sh/docs/concepts/disruption/"),
    ("karpenter.sh/do-not-evict", "true", "https://karpenter.sh/v0.31/concepts/disruption/"),
    ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false", "https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md"),
];

/// Containers that injectors add to pods: the container, and the label or annotation by which a namespace is excluded, with
/// the verb of kubectl and the source.
#[rustfmt::skip]
const INJECTED: &[(&str, &str, &str, &str)] = &[
    ("istio-proxy", "label", "istio-injection=disabled", "https://istio.io/latest/docs/setup/additional-setup/sidecar-injection/"),
    ("linkerd-proxy", "annotate", "linkerd.io/inject=disabled", "https://linkerd.io/2/features/proxy-injection/"),
    ("kuma-sidecar", "label", "kuma.io/sidecar-injection=disabled", "https://kuma.io/docs/latest/production/dp-config/dpp-on-kubernetes/"),
    ("daprd", "label", "dapr.io/enabled=false", "https://docs.dapr.io/reference/arguments-annotations-overview/"),
];

/// End of the label with the state of a driver upgrade, by the GPU operator or the network operator.
pub(super) const DRIVER_UPGRADE: &str = "-driver-upgrade-state";
/// Replaces drivers, and cordons the node meanwhile (<https://github.com/NVIDIA/k8s-driver-manager>).
pub(super) const DRIVER_MANAGER: &str = "the NVIDIA driver manager";
/// Annotation with which the driver manager records whether a node was cordoned before: otherwise it uncordons the node in
/// the end (`CordonNode`, `UncordonNode`).
pub(super) const DRIVER_MANAGER_RECORD: &str = "nvidia.com/driver-manager.node-initial-state.unschedulable";
/// Value of `nvidia.com/gpu.deploy.*` labels while the driver manager replaces the driver.
const PAUSED_FOR_DRIVER: &str = "paused-for-driver-upgrade";

impl TaintOwner {
    /// The arguments of the kubectl command that shows the owner's condition for removing the taint; `None` if no object
    /// has it.
    pub fn shown_by(&self) -> Option<&'static [&'static str]> {
        match self.key {
            "readiness.k8s.io/" => Some(&["get", "nodereadinessrules", "-o", "yaml"]),
            "UpdateInProgress" => Some(&["get", "machineconfigpools"]),
            _ => None,
        }
    }

    fn owns(&self, key: &str) -> bool {
        match self.key.strip_prefix('*') {
            Some(end) => key.ends_with(end),
            None => key.starts_with(self.key),
        }
    }
}

/// The owner of a taint with this key, if it is known.
pub fn of_taint(key: &str) -> Option<&'static TaintOwner> {
    TAINTS.iter().find(|owner| owner.owns(key))
}

/// The program that keeps a node with this taint cordoned.
pub(super) fn holder_of_cordon(taint: &str) -> Option<&'static str> {
    const CLOUD: &str = "node.cloudprovider.kubernetes.io/";
    let owner = of_taint(taint)?;
    let holds = matches!(owner.kind, Removal | Maintenance) || taint.starts_with(CLOUD);
    // A candidate for a scale-down is not cordoned.
    (holds && !taint.starts_with("DeletionCandidate")).then_some(owner.name)
}

fn found(table: &[(&'static str, &'static str, &'static str)], key: &str) -> Option<&'static str> {
    table.iter().find(|(start, ..)| key.starts_with(start)).map(|(_, name, _)| *name)
}

/// The usual owner of a label of nodes.
pub fn of_label(key: &str) -> Option<&'static str> {
    found(LABELS, key)
}

/// The row of a label's usual owner.
pub(super) fn row_of_label(key: &str) -> Option<usize> {
    LABELS.iter().position(|(start, ..)| key.starts_with(start))
}

/// The owner of a finalizer of nodes.
pub fn of_finalizer(finalizer: &str) -> Option<&'static str> {
    found(FINALIZERS, finalizer)
}

/// The arguments of the kubectl command that excludes a namespace from the injector of a container, if it is known.
pub fn exclusion_from_injector<'a>(container: &str, namespace: &'a str) -> Option<[&'a str; 5]> {
    let (_, verb, setting, _) = INJECTED.iter().find(|(known, ..)| *known == container)?;
    Some([*verb, "namespace", namespace, *setting, "--overwrite"])
}

/// The annotation by which a pod refuses a disruption, as `KEY=VALUE`.
pub fn refusal(annotations: &BTreeMap<String, String>) -> Option<String> {
    let set =
        |(key, value, _): &&(&str, &str, &str)| annotations.get(*key).is_some_and(|found| found == value);
    REFUSALS.iter().find(set).map(|(key, value, _)| format!("{key}={value}"))
}

/// The program that uncordons nodes in the state that this label of a node shows.
pub fn uncordons(key: &str, value: &str) -> Option<&'static str> {
    if value == PAUSED_FOR_DRIVER {
        Some(DRIVER_MANAGER)
    } else {
        let upgrades = key.ends_with(DRIVER_UPGRADE) && !matches!(value, "" | "unknown");
        upgrades.then_some("a driver upgrade")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_has_a_source_and_is_reachable() {
        let key = |row: &TaintOwner| row.key.trim_start_matches('*').to_owned();
        for row in TAINTS {
            assert!(row.source.starts_with("https://"), "{row:?}");
            let first = TAINTS.iter().find(|other| other.owns(&key(row))).map(|row| row.key);
            assert_eq!(first, Some(row.key), "an earlier row hides {}", row.key);
        }
        for (container, verb, setting, source) in INJECTED {
            assert!(
                source.starts_with("https://") && ["label", "annotate"].contains(verb),
                "{container} {setting}"
            );
        }
        for (key, name, source) in LABELS.iter().chain(FINALIZERS).chain(REFUSALS) {
            assert!(source.starts_with("https://") && !name.is_empty(), "{key}");
        }
    }

    #[test]
    fn owners_are_found_by_key() {
        let owner = |key: &str| of_taint(key).map(|owner| (owner.name, owner.kind));
        assert_eq!(owner("ebs.csi.aws.com/agent-not-ready").map(|(_, kind)| kind), Some(Startup));
        assert_eq!(owner("karpenter.sh/disrupted"), Some(("Karpenter", Removal)));
        assert_eq!(owner("karpenter.sh/unregistered"), Some(("Karpenter", Startup)));
        assert_eq!(owner("nvidia.com/gpu").map(|(_, kind)| kind), Some(Reserved));
        assert_eq!(owner("dedicated"), None);
        assert_eq!(of_label("nvidia.com/gpu.product"), Some("GPU feature discovery"));
        assert_eq!(of_label("pool"), None);
        assert_eq!(of_finalizer("karpenter.sh/termination"), Some("Karpenter"));
    }
}
