//! Other programs that act on nodes: the owners of well-known taints, labels and finalizers, and the annotations by which
//! pods refuse a disruption.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

use TaintKind::{Condition, Maintenance, Removal, Reserved, Startup};
use foldhash::fast::RandomState;
use jiff::Timestamp;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use super::hold::FIELD_MANAGER;
use crate::api::keys::NodeKey;
use crate::api::{Meta, Name, visit};

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
    "node.cloudprovider.kubernetes.io/uninitialized" "the cloud controller manager" Condition "once it has initialized the node" "https://kubernetes.io/docs/tasks/administer-cluster/running-cloud-controller/";
    "node.cloudprovider.kubernetes.io/" "the cloud controller manager" Condition "once the instance runs again" "https://kubernetes.io/docs/reference/labels-annotations-taints/";
    "node.cluster.x-k8s.io/uninitialized" "Cluster API" Startup "once it has set the labels of the node" "https://cluster-api.sigs.k8s.io/developer/providers/contracts/bootstrap-config";
    "ToBeDeletedByClusterAutoscaler" "the cluster autoscaler" Removal "when the scale-down ends or is canceled" "https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/utils/taints/taints.go";
    "DeletionCandidateOfClusterAutoscaler" "the cluster autoscaler" Removal "once the node is needed again" "https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/utils/taints/taints.go";
    "startup-taint.cluster-autoscaler.kubernetes.io/" "the agent that the taint is named after" Startup "once the agent is ready" "https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md";
    "ignore-taint.cluster-autoscaler.kubernetes.io/" "the agent that the taint is named after" Startup "once the agent is ready" "https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md";
    "karpenter.sh/unregistered" "Karpenter" Startup "once it has registered the node" "https://karpenter.sh/docs/concepts/nodepools/";
    "karpenter.sh/" "Karpenter" Removal "when the disruption ends or is canceled" "https://karpenter.sh/docs/concepts/disruption/";
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
    ("nvidia.com/gpu.present", "the NVIDIA GPU Operator, based on labels of Node Feature Discovery", "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/getting-started.html"),
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

/// A tool that applies an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applier<'a> {
    /// An Argo CD application, by name.
    ArgoCd(&'a str),
    /// A Flux Kustomization, by namespace and name.
    FluxKustomization(&'a str, &'a str),
    /// A Flux HelmRelease, by namespace and name.
    FluxHelmRelease(&'a str, &'a str),
    /// A Helm release without Flux, by namespace and name.
    Helm(&'a str, &'a str),
}

const ARGO_TRACKING: &str = "argocd.argoproj.io/tracking-id";
const ARGO_LABEL: &str = "argocd.argoproj.io/instance";
/// Label that Argo CD sets if it does not track objects by annotation. Charts set the label as well.
const INSTANCE: &str = "app.kubernetes.io/instance";
const FLUX_KUSTOMIZE: &str = "kustomize.toolkit.fluxcd.io";
const FLUX_HELM: &str = "helm.toolkit.fluxcd.io";
const HELM: &str = "meta.helm.sh";

impl Applier<'_> {
    /// The tool that applies the object, from its labels and annotations.
    pub fn of<'a>(meta: &'a Meta, kind: &str) -> Option<Applier<'a>> {
        argo_cd(meta, kind).or_else(|| flux(meta)).or_else(|| helm(meta))
    }

    /// The tool with the name of its object: `the Argo CD application platform`
    pub fn name(&self) -> String {
        match self {
            Applier::ArgoCd(name) => format!("the Argo CD application {name}"),
            Applier::FluxKustomization(namespace, name) => {
                format!("the Flux Kustomization {namespace}/{name}")
            }
            Applier::FluxHelmRelease(namespace, name) => {
                format!("the Flux HelmRelease {namespace}/{name}")
            }
            Applier::Helm(namespace, name) => format!("the Helm release {namespace}/{name}"),
        }
    }

    /// How the tool treats an edit of the spec, and where to edit instead.
    pub fn on_edits(&self) -> &'static str {
        match self {
            Applier::ArgoCd(_) => {
                "the next sync reverts the edit; make the change in the source (Git or chart values)"
            }
            Applier::FluxKustomization(..) => {
                "the next reconciliation reverts the edit; make the change in the source (Git)"
            }
            Applier::FluxHelmRelease(..) => {
                "the next upgrade or drift correction reverts the edit; make the change in the values of \
                 the HelmRelease"
            }
            Applier::Helm(..) => {
                "the next helm upgrade reverts the edit; make the change in the chart values"
            }
        }
    }

    /// How the tool treats a recreated object, and where to restore it instead.
    pub fn on_creation(&self) -> &'static str {
        match self {
            Applier::ArgoCd(_) => {
                "the next sync may delete the object again; first add the object to the source (Git or chart values)"
            }
            Applier::FluxKustomization(..) => {
                "the next reconciliation may delete the object again; first add the object to the source (Git)"
            }
            Applier::FluxHelmRelease(..) => {
                "the next upgrade may delete the object again; first add the object to the values of the HelmRelease"
            }
            Applier::Helm(..) => {
                "the next helm upgrade may delete the object again; first add the object to the chart values"
            }
        }
    }

    /// How the tool treats a deletion, and where to delete instead.
    pub fn on_deletion(&self) -> &'static str {
        match self {
            Applier::ArgoCd(_) => {
                "the next sync recreates the object if it is still in the source; first remove it from the source (Git or chart values)"
            }
            Applier::FluxKustomization(..) => {
                "the next reconciliation recreates the object if it is still in the source; first remove it from the source (Git)"
            }
            Applier::FluxHelmRelease(..) => {
                "the next upgrade or drift correction recreates the object if it is still in the chart; change the values of \
                 the HelmRelease, or delete the HelmRelease"
            }
            Applier::Helm(..) => {
                "the next helm upgrade may recreate the object if it is still in the chart; change the chart values, or uninstall the release"
            }
        }
    }
}

/// The Argo CD application from the tracking annotation, or else from labels. The annotation counts only if
/// it names this object: copies of an object inherit the annotation, and Argo CD ignores them.
fn argo_cd<'a>(meta: &'a Meta, kind: &str) -> Option<Applier<'a>> {
    let text = |map: &'a BTreeMap<String, String>, key: &str| {
        map.get(key).map(String::as_str).filter(|v| !v.is_empty())
    };
    let tracked = text(&meta.annotations, ARGO_TRACKING).and_then(|id| {
        // APPLICATION:GROUP/KIND:NAMESPACE/NAME
        let (application, rest) = id.split_once(':')?;
        let (of, place) = rest.split_once(':')?;
        let (_, of) = of.rsplit_once('/')?;
        let (_, name) = place.rsplit_once('/')?;
        (of == kind && name == meta.name).then_some(application)
    });
    let managed = || meta.managed_fields.iter().any(|m| m.manager.starts_with("argocd"));
    let labelled = || text(&meta.labels, INSTANCE).filter(|_| managed());
    tracked.or_else(|| text(&meta.labels, ARGO_LABEL)).or_else(labelled).map(Applier::ArgoCd)
}

fn flux(meta: &Meta) -> Option<Applier<'_>> {
    let pair = |group: &str| {
        let label = |key: &str| meta.labels.get(&format!("{group}/{key}")).map(String::as_str);
        Some((label("namespace")?, label("name")?))
    };
    if let Some((namespace, name)) = pair(FLUX_HELM) {
        return Some(Applier::FluxHelmRelease(namespace, name));
    }
    let (namespace, name) = pair(FLUX_KUSTOMIZE)?;
    // With these settings Flux leaves an existing object unchanged.
    let setting = |key: &str| annotation(meta, FLUX_KUSTOMIZE, key);
    let off =
        setting("reconcile") == Some("disabled") || matches!(setting("ssa"), Some("Ignore" | "IfNotPresent"));
    (!off).then_some(Applier::FluxKustomization(namespace, name))
}

fn helm(meta: &Meta) -> Option<Applier<'_>> {
    let by_helm = meta.labels.get("app.kubernetes.io/managed-by").is_some_and(|by| by == "Helm");
    let namespace = annotation(meta, HELM, "release-namespace")?;
    let name = annotation(meta, HELM, "release-name")?;
    by_helm.then_some(Applier::Helm(namespace, name))
}

fn annotation<'a>(meta: &'a Meta, group: &str, key: &str) -> Option<&'a str> {
    let annotations = &meta.annotations;
    annotations.get(&format!("{group}/{key}")).map(String::as_str)
}

/// Managers of labels, annotations, taints and the cordon, with the times of their last writes. Other fields
/// are skipped.
#[derive(Default, Deserialize)]
#[serde(transparent)]
pub struct ManagedFields(Vec<Manager>);

/// The last write of a program that owns labels of a node. It may have changed other fields of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelWrite {
    pub at: Timestamp,
    /// The field manager.
    pub by: Name,
    labels: LabelOwners,
}

impl LabelWrite {
    /// Whether the program owns labels with the usual owner of this label.
    pub fn is_of_owner(&self, label: &str) -> bool {
        self.labels.0 & LabelOwners::of(label).0 != 0
    }
}

/// The usual owners of labels, as bits of their rows in the table of owners.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct LabelOwners(u16);

impl LabelOwners {
    fn of(label: &str) -> LabelOwners {
        let row = LABELS.iter().position(|(start, ..)| label.starts_with(start));
        LabelOwners(row.map_or(0, |row| 1 << row))
    }
}

impl<'de> Deserialize<'de> for LabelOwners {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<LabelOwners, D::Error> {
        let fields = visit::entries::<_, String, IgnoredAny>(deserializer, "a map")?;
        let owners = fields.iter().filter_map(|(field, _)| Some(LabelOwners::of(field.strip_prefix("f:")?)));
        Ok(LabelOwners(owners.fold(0, |all, owners| all | owners.0)))
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Manager {
    manager: Name,
    time: Option<Timestamp>,
    #[serde(rename = "fieldsV1", deserialize_with = "known_fields")]
    fields: Fields,
}

/// Decoded fields by their JSON: a manager owns the same fields on many nodes.
#[derive(Default)]
struct Known {
    by_json: HashMap<Box<[u8]>, Fields, RandomState>,
    bytes: usize,
}

thread_local! {
    static KNOWN: RefCell<Known> = RefCell::default();
}

/// Maximum number of bytes of JSON to remember; then all are dropped. With so many different texts, the cache
/// saves little.
const MOST_KNOWN: usize = 1 << 19;

fn known_fields<'de, D: Deserializer<'de>>(from: D) -> Result<Fields, D::Error> {
    visit::embedded_json(from, |json| {
        KNOWN.with_borrow_mut(|known| {
            if let Some(fields) = known.by_json.get(json) {
                return Ok(*fields);
            }
            let fields = serde_json::from_slice(json)?;
            if known.bytes + json.len() > MOST_KNOWN {
                *known = Known::default();
            }
            known.bytes += json.len();
            known.by_json.insert(json.into(), fields);
            Ok(fields)
        })
    })
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct Fields {
    #[serde(rename = "f:metadata")]
    metadata: MetadataFields,
    #[serde(rename = "f:spec")]
    spec: SpecFields,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct SpecFields {
    #[serde(rename = "f:unschedulable")]
    unschedulable: Option<IgnoredAny>,
    #[serde(rename = "f:taints")]
    taints: Option<IgnoredAny>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct MetadataFields {
    /// Whether the manager owns annotations of the operator.
    #[serde(rename = "f:annotations", deserialize_with = "any_of_operator")]
    annotations_of_operator: bool,
    #[serde(rename = "f:labels")]
    labels: Option<LabelOwners>,
}

/// Whether any of the annotations is the operator's.
fn any_of_operator<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    let annotations = visit::entries::<_, String, IgnoredAny>(from, "a map")?;
    Ok(annotations.iter().any(|(field, _)| field.strip_prefix("f:").is_some_and(NodeKey::is_ours)))
}

impl ManagedFields {
    /// Time of the last write by a manager that owns annotations of the operator.
    pub fn annotated(&self) -> Option<Timestamp> {
        self.0.iter().filter(|m| m.is_of_operator()).filter_map(|m| m.time).max()
    }

    /// Time of the last write by a manager that owns labels, taints or the cordon. The write may have changed
    /// whether custom resources select the node, or whether the operator can work on it.
    pub fn selectable(&self) -> Option<Timestamp> {
        let owners = self.0.iter().filter(|m| {
            let (metadata, spec) = (&m.fields.metadata, &m.fields.spec);
            metadata.labels.is_some() || spec.taints.is_some() || spec.unschedulable.is_some()
        });
        owners.filter_map(|m| m.time).max()
    }

    /// Whether a field manager owns the cordon.
    pub fn has_cordon(&self) -> bool {
        self.0.iter().any(|m| m.fields.spec.unschedulable.is_some())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The field manager that cordoned the node, unless it is the operator or this program.
    pub fn cordoned_by(&self) -> Option<&str> {
        let mut owners = self.foreign().filter(|m| m.fields.spec.unschedulable.is_some());
        Some(&owners.next()?.manager)
    }

    /// The last writes by managers of labels other than the operator and this program.
    pub fn labelled(&self) -> Vec<LabelWrite> {
        let write = |m: &Manager| {
            Some(LabelWrite { at: m.time?, by: m.manager.clone(), labels: m.fields.metadata.labels? })
        };
        self.foreign().filter_map(write).collect()
    }

    /// The managers but the operator and this program.
    fn foreign(&self) -> impl Iterator<Item = &Manager> {
        let known = |name: &str| {
            let mut named = self.0.iter().filter(|m| m.manager == name);
            // People edit the operator's annotations with kubectl as well: owning such annotations does not
            // make kubectl the operator.
            let by_hand = name.starts_with("kubectl");
            name == FIELD_MANAGER || !by_hand && named.any(Manager::is_of_operator)
        };
        self.0.iter().filter(move |m| !m.manager.is_empty() && !known(&m.manager))
    }
}

impl Manager {
    /// Whether the manager owns annotations with the operator's prefix.
    fn is_of_operator(&self) -> bool {
        self.fields.metadata.annotations_of_operator
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

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

    fn applier(metadata: Value) -> String {
        let meta: Meta = serde_json::from_value(metadata).expect("metadata");
        Applier::of(&meta, "Skyhook").map_or("nobody".to_owned(), |a| a.name())
    }

    #[test]
    fn labels_and_annotations_say_who_applies_an_object() {
        let id = "platform:GROUP/Skyhook:skyhook/gpu";
        let tracked =
            |id: &str| json!({"name": "gpu", "annotations": {"argocd.argoproj.io/tracking-id": id}});
        let instance = |manager: &str| json!({"name": "gpu", "labels": {"app.kubernetes.io/instance": "platform"}, "managedFields": [{"manager": manager}]});
        let kustomize = |annotations: Value| {
            json!({"name": "gpu", "annotations": annotations, "labels": {
                "kustomize.toolkit.fluxcd.io/name": "infra", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}})
        };
        let release = json!({"meta.helm.sh/release-name": "gpus", "meta.helm.sh/release-namespace": "ops"});
        let helm = |labels: Value| json!({"name": "gpu", "annotations": release, "labels": labels});
        let argo = "the Argo CD application platform";
        for (metadata, who) in [
            (json!({"name": "gpu"}), "nobody"),
            (tracked(id), argo),
            // An application outside of Argo CD's own namespace.
            (tracked("team_platform:GROUP/Skyhook:/gpu"), "the Argo CD application team_platform"),
            (tracked("platform:GROUP/Skyhook:skyhook/other"), "nobody"),
            (tracked("platform:apps/Deployment:skyhook/gpu"), "nobody"),
            (tracked("nonsense"), "nobody"),
            (json!({"name": "gpu", "labels": {"argocd.argoproj.io/instance": "platform"}}), argo),
            (instance("argocd-controller"), argo),
            (instance("helm"), "nobody"),
            (kustomize(json!({})), "the Flux Kustomization flux-system/infra"),
            (kustomize(json!({"kustomize.toolkit.fluxcd.io/reconcile": "disabled"})), "nobody"),
            (kustomize(json!({"kustomize.toolkit.fluxcd.io/ssa": "IfNotPresent"})), "nobody"),
            (helm(json!({"app.kubernetes.io/managed-by": "Helm"})), "the Helm release ops/gpus"),
            (helm(json!({})), "nobody"),
            (
                helm(json!({
                    "app.kubernetes.io/managed-by": "Helm",
                    "helm.toolkit.fluxcd.io/name": "gpus",
                    "helm.toolkit.fluxcd.io/namespace": "ops",
                })),
                "the Flux HelmRelease ops/gpus",
            ),
        ] {
            assert_eq!(applier(metadata.clone()), who, "{metadata}");
        }
    }
}
