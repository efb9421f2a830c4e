//! A node, with the operator's keys on it decoded.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::cordon::{self, Holder};
use super::kubernetes::Annotations;
use super::owners::{self, LabelWrite, ManagedFields, TaintKind, TaintOwner};
use crate::api::keys::NodeKey;
use crate::api::skyhook::Toleration;
use crate::api::{
    ApiFlavor, Entry, Labels, Name, NodeState, Object, Shared, Skyhook, State, Status, UnknownFields,
    quantity,
};

/// A node: its Kubernetes status and the operator's keys of each API.
///
/// There may be thousands of nodes, so shared values are stored once.
#[derive(Debug, Clone, Deserialize, PartialEq)]
#[serde(from = "NodeObject")]
pub struct Node {
    pub name: Name,
    pub uid: Option<Box<str>>,
    pub created: Option<Timestamp>,
    pub deletion: Option<Box<NodeDeletion>>,
    pub labels: Labels,
    /// Time of the last write of the operator's annotations, from `managedFields`.
    pub annotated: Option<Timestamp>,
    /// Time of the last write of labels, taints or the cordon, from `managedFields`.
    pub selectable: Option<Timestamp>,
    /// The last writes of programs that own labels, from `managedFields`; empty unless the operator has cordoned the node.
    pub labelled: Box<[LabelWrite]>,
    /// Whether the field managers are known: `kubectl get` omits them, and a patch can empty them.
    pub has_managers: bool,
    keys: [Shared<NodeKeys>; 2],
    /// `None` if it was not read.
    unschedulable: Option<bool>,
    /// `None` if it was not read.
    body: Option<NodeBody>,
    unknown_fields: UnknownFields,
}

impl Object for Node {
    fn key(&self) -> (&str, &str) {
        ("", &self.name)
    }

    fn unknown_fields(&self) -> &UnknownFields {
        &self.unknown_fields
    }

    fn set_unknown_fields(&mut self, fields: UnknownFields) {
        self.unknown_fields = fields;
    }
}

/// The requested deletion of a node, which lasts until its finalizers are removed.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeDeletion {
    pub at: Timestamp,
    pub finalizers: Vec<String>,
}

/// The operator's keys of one API on a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct NodeKeys {
    /// Records by the name of the custom resource.
    pub skyhooks: BTreeMap<String, NodeRecord>,
    /// Keys of the runtime-required taints that the operator put on the node.
    pub auto_taints: Vec<String>,
    pub runtime_required_cordon: bool,
    /// The value of the ignore label; only `true` counts.
    pub ignore: Option<String>,
}

/// Formats the node as `node/NAME`.
impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node/{}", self.name)
    }
}

impl Node {
    /// The operator's keys of an API.
    pub fn keys(&self, flavor: ApiFlavor) -> &NodeKeys {
        &self.keys[flavor as usize]
    }

    /// Edits the node state of one custom resource, to simulate a change.
    pub(super) fn simulate(&mut self, flavor: ApiFlavor, skyhook: &str, change: impl FnOnce(&mut NodeState)) {
        self.keys[flavor as usize].change(|keys| {
            let on = keys.skyhooks.get_mut(skyhook);
            if let Some(state) = on.and_then(|on| on.state.as_mut()) {
                state.change(change);
            }
        });
    }

    /// Whether the node carries the ignore label.
    pub fn ignored(&self, flavor: ApiFlavor) -> bool {
        self.keys(flavor).ignore.as_deref() == Some("true")
    }
}

/// A decoded node, with fields that are only used for files.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeObject {
    pub kind: Option<String>,
    pub api_version: Option<String>,
    metadata: NodeMeta,
    spec: Spec,
    status: NodeStatus,
}

/// Metadata of a node. `managedFields` are half of a node, and there are thousands of nodes, so only the used
/// parts are kept.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct NodeMeta {
    name: Name,
    uid: Option<Box<str>>,
    creation_timestamp: Option<Timestamp>,
    deletion_timestamp: Option<Timestamp>,
    finalizers: Vec<String>,
    labels: Labels,
    annotations: Annotations,
    managed_fields: ManagedFields,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Spec {
    unschedulable: bool,
    taints: Shared<Vec<Taint>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NodeStatus {
    conditions: Vec<ConditionObject>,
    capacity: Capacity,
    allocatable: Shared<Allocatable>,
    #[serde(rename = "nodeInfo")]
    system: Shared<System>,
}

/// The relevant parts of a node's capacity.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Capacity {
    #[serde(rename = "nvidia.com/gpu", deserialize_with = "quantity::count")]
    gpus: u64,
}

impl NodeObject {
    pub fn is_named(&self) -> bool {
        !self.metadata.name.is_empty()
    }

    /// The newest time in the node: of its creation, its deletion, or a condition.
    pub fn newest(&self) -> Option<Timestamp> {
        let metadata = [self.metadata.creation_timestamp, self.metadata.deletion_timestamp];
        let conditions =
            self.status.conditions.iter().flat_map(|c| [c.last_transition_time, c.last_heartbeat_time]);
        conditions.chain(metadata).flatten().max()
    }
}

impl From<NodeObject> for Node {
    fn from(object: NodeObject) -> Node {
        let keys: [Shared<NodeKeys>; 2] = ApiFlavor::ALL.map(|flavor| NodeKeys::read(flavor, &object).into());
        let holders = cordon::holders(
            &object.metadata.annotations.cordon_marks,
            &object.metadata.labels,
            &object.spec.taints,
            &object.metadata.managed_fields,
            object.spec.unschedulable,
        );
        let conditions = object.status.conditions.into_iter();
        let gated = object.spec.taints.iter().any(|taint| taint.is(TaintKind::Startup));
        let conditions = conditions.filter(|condition| condition.is_used(gated));
        let body = NodeBody {
            cordon_holders: holders.into(),
            taints: object.spec.taints,
            conditions: conditions.map(NodeCondition::from).collect(),
            gpus: object.status.capacity.gpus,
            allocatable: object.status.allocatable,
            system: object.status.system,
        };
        let finalizers = object.metadata.finalizers;
        let cordons = keys.iter().any(|keys| keys.skyhooks.values().any(|on| on.cordon));
        let labelled = if cordons { object.metadata.managed_fields.labelled() } else { Vec::new() };
        let deletion = object.metadata.deletion_timestamp.map(|at| NodeDeletion { at, finalizers }.into());
        Node {
            deletion,
            has_managers: !object.metadata.managed_fields.is_empty(),
            annotated: object.metadata.managed_fields.annotated(),
            selectable: object.metadata.managed_fields.selectable(),
            labelled: labelled.into(),
            name: object.metadata.name,
            uid: object.metadata.uid,
            created: object.metadata.creation_timestamp,
            labels: object.metadata.labels,
            keys,
            unschedulable: Some(object.spec.unschedulable),
            body: Some(body),
            unknown_fields: UnknownFields::default(),
        }
    }
}

impl NodeKeys {
    /// The record of a custom resource.
    pub fn of(&self, skyhook: &str) -> Option<&NodeRecord> {
        self.skyhooks.get(skyhook)
    }

    fn read(flavor: ApiFlavor, object: &NodeObject) -> NodeKeys {
        let mut keys = NodeKeys::default();
        let mut states: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
        for (key, value) in &object.metadata.annotations.operator {
            match NodeKey::parse(flavor, key) {
                Some(NodeKey::NodeState { skyhook, .. }) => {
                    states.entry(skyhook).or_default().push((key, value));
                }
                Some(key) => keys.annotate(&key, Some(value)),
                None => {}
            }
        }
        for (skyhook, annotations) in states {
            keys.record_mut(skyhook).state = Some(NodeState::of(&annotations));
        }
        for (key, value) in object.metadata.labels.beginning_with(flavor.group()) {
            if let Some(key) = NodeKey::parse(flavor, key) {
                keys.label(&key, Some(value));
            }
        }
        for condition in &object.status.conditions {
            let key = NodeKey::parse(flavor, &condition.kind);
            if let Some(NodeKey::Condition { skyhook, kind }) = key {
                keys.record_mut(skyhook).conditions.push(kind.to_owned());
            }
        }
        keys
    }

    fn record_mut(&mut self, skyhook: &str) -> &mut NodeRecord {
        self.skyhooks.entry(skyhook.to_owned()).or_default()
    }
}

#[cfg(test)]
mod tests;

/// New values of a node. `None` removes an annotation or a label; annotations and labels that are not listed stay.
#[derive(Debug, Default)]
pub struct NodeEdit<'e> {
    pub annotations: Vec<(&'e str, Option<&'e str>)>,
    pub labels: Vec<(&'e str, Option<&'e str>)>,
    pub unschedulable: Option<bool>,
    pub taints: Option<Vec<Taint>>,
}

impl Node {
    pub fn edit(&mut self, edit: NodeEdit<'_>) {
        for flavor in ApiFlavor::ALL {
            let parsed = |list: &[(&'_ str, Option<&'_ str>)]| {
                list.iter().any(|(key, _)| NodeKey::parse(flavor, key).is_some())
            };
            if parsed(&edit.annotations) || parsed(&edit.labels) {
                self.keys[flavor as usize].change(|keys| keys.edit(flavor, &edit));
            }
        }
        if !edit.labels.is_empty() {
            let kept =
                self.labels.iter().filter(|(key, _)| edit.labels.iter().all(|(k, _)| *k != key.as_str()));
            let set =
                edit.labels.iter().filter_map(|(key, value)| Some((Name::from(*key), Name::from((*value)?))));
            let mut labels: Vec<(Name, Name)> =
                kept.map(|(key, value)| (key.clone(), value.clone())).chain(set).collect();
            labels.sort_by(|a, b| a.0.as_str().cmp(b.0.as_str()));
            self.labels = labels.into_iter().collect::<Labels>();
        }
        self.unschedulable = edit.unschedulable.or(self.unschedulable);
        if let (Some(taints), Some(body)) = (edit.taints, &mut self.body) {
            body.taints = taints.into();
        }
    }
}

impl NodeKeys {
    fn edit(&mut self, flavor: ApiFlavor, edit: &NodeEdit<'_>) {
        for (name, value) in &edit.annotations {
            match NodeKey::parse(flavor, name) {
                Some(NodeKey::NodeState { skyhook, .. }) => {
                    let on = self.record_mut(skyhook);
                    let others =
                        on.state.iter().flat_map(|state| state.annotations()).filter(|(key, _)| key != name);
                    let all: Vec<(&str, &str)> = others.chain(value.map(|text| (*name, text))).collect();
                    let state = (!all.is_empty()).then(|| NodeState::of(&all));
                    on.state = state;
                }
                Some(key) => self.annotate(&key, *value),
                None => {}
            }
        }
        for (name, value) in &edit.labels {
            if let Some(key) = NodeKey::parse(flavor, name) {
                self.label(&key, *value);
            }
        }
        self.skyhooks.retain(|_, on| on.has_keys() || !on.conditions.is_empty());
    }

    /// Sets or removes an annotation other than a node state.
    fn annotate(&mut self, key: &NodeKey<'_>, value: Option<&str>) {
        let owned = || value.map(str::to_owned);
        match *key {
            NodeKey::Status(skyhook) => self.record_mut(skyhook).status = value.map(Into::into),
            NodeKey::Cordon(skyhook) => {
                let on = self.record_mut(skyhook);
                on.cordon = value.is_some();
                on.cordon_value = owned();
            }
            NodeKey::Version(skyhook) => self.record_mut(skyhook).version = owned(),
            NodeKey::DrainStart(skyhook) => self.record_mut(skyhook).drain_start = owned(),
            NodeKey::DrainBlocked(skyhook) => self.record_mut(skyhook).drain_blocked = owned(),
            NodeKey::AutoTaint(taint) => {
                self.auto_taints.retain(|other| other != taint);
                self.auto_taints.extend(value.map(|_| taint.to_owned()));
            }
            NodeKey::RuntimeRequiredCordon => self.runtime_required_cordon = value.is_some(),
            _ => {}
        }
    }

    /// Sets or removes a label.
    fn label(&mut self, key: &NodeKey<'_>, value: Option<&str>) {
        match *key {
            NodeKey::Status(skyhook) => self.record_mut(skyhook).status_label = value.map(Into::into),
            NodeKey::Ignore => self.ignore = value.map(str::to_owned),
            _ => {}
        }
    }
}

/// Resources that pods may request in sum (`status.allocatable`), in thousandths of a core and of a byte.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct Allocatable {
    #[serde(deserialize_with = "quantity::optional_thousandths")]
    pub cpu: Option<u64>,
    #[serde(deserialize_with = "quantity::optional_thousandths")]
    pub memory: Option<u64>,
}

/// The machine (`status.nodeInfo`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct System {
    pub os_image: Name,
    pub kernel_version: Name,
    pub kubelet_version: Name,
    pub container_runtime_version: Name,
    pub architecture: Name,
}

impl System {
    /// Name and value of each field, with the names of `status.nodeInfo`.
    pub fn attributes(&self) -> [(&str, &str); 5] {
        [
            ("osImage", &self.os_image),
            ("kernelVersion", &self.kernel_version),
            ("kubeletVersion", &self.kubelet_version),
            ("containerRuntimeVersion", &self.container_runtime_version),
            ("architecture", &self.architecture),
        ]
        .map(|(name, value)| (name, value.as_str()))
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct Taint {
    pub key: String,
    pub value: String,
    pub effect: String,
    /// Time at which the taint was added; usually set only on taints that evict pods.
    #[serde(rename = "timeAdded")]
    pub time_added: Option<String>,
}

impl Taint {
    /// The program that sets or removes the taint, if it is known.
    pub fn owner(&self) -> Option<&'static TaintOwner> {
        owners::of_taint(&self.key)
    }

    /// Whether another program sets and removes the taint, so that it is not a matter of tolerations.
    pub fn of_lifecycle(&self) -> bool {
        self.owner().is_some_and(|owner| owner.kind != TaintKind::Reserved)
    }

    pub fn is(&self, kind: TaintKind) -> bool {
        self.owner().is_some_and(|owner| owner.kind == kind)
    }

    /// `key=value:effect`, as kubectl writes taints.
    pub fn kubectl_notation(&self) -> String {
        match self.value.as_str() {
            "" => format!("{}:{}", self.key, self.effect),
            value => format!("{}={value}:{}", self.key, self.effect),
        }
    }

    /// The taint as in the node's spec.
    pub fn document(&self) -> Value {
        let mut taint = json!({"key": self.key, "effect": self.effect});
        if !self.value.is_empty() {
            taint["value"] = json!(self.value);
        }
        if let Some(at) = &self.time_added {
            taint["timeAdded"] = json!(at);
        }
        taint
    }

    pub fn tolerated_by(&self, toleration: &Toleration) -> bool {
        let effect = toleration.effect.is_empty() || toleration.effect == self.effect;
        let key = toleration.key.is_empty() || toleration.key == self.key;
        let value = match toleration.operator.as_str() {
            "Exists" => true,
            "" | "Equal" => !toleration.key.is_empty() && toleration.value == self.value,
            _ => false,
        };
        effect && key && value
    }
}

/// The keys of one custom resource on one node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct NodeRecord {
    /// `None` without a node-state annotation.
    pub state: Option<Shared<NodeState>>,
    pub status: Option<Status>,
    pub status_label: Option<Status>,
    pub cordon: bool,
    /// The value of the cordon annotation; the operator checks only its presence.
    pub cordon_value: Option<String>,
    pub version: Option<String>,
    pub drain_start: Option<String>,
    pub drain_blocked: Option<String>,
    /// Types of the node conditions, without prefix and name: `NotReady`, `Erroring`.
    pub conditions: Vec<String>,
}

impl NodeRecord {
    /// The readable entries of the node state; empty if it is absent. A node state may be malformed only in
    /// part.
    pub fn entries(&self) -> &[Entry] {
        self.state.as_ref().map_or(&[], |s| s.entries())
    }

    /// Whether a package or the node is erroring, or the record cannot be read.
    pub fn fails(&self) -> bool {
        self.is_malformed()
            || self.status == Some(Status::Erroring)
            || self.entries().iter().any(|e| e.state == State::Erroring)
    }

    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.state.as_ref().and_then(|s| s.entry(key))
    }

    /// The entries of a package: first the version in the spec, then incomplete entries. During an upgrade,
    /// the former version stays recorded until the new version is installed.
    pub fn entries_of(&self, skyhook: Option<&Skyhook>, package: &str) -> Vec<&Entry> {
        let spec = skyhook.and_then(|s| s.package(package));
        let mut entries: Vec<&Entry> = self.entries().iter().filter(|e| e.identity().0 == package).collect();
        entries.sort_by_key(|e| {
            let in_spec = spec.is_some_and(|p| p.version == e.version);
            (!in_spec, e.state == State::Complete)
        });
        entries
    }

    /// Whether the node state exists and is unreadable.
    pub fn is_malformed(&self) -> bool {
        self.state.as_ref().is_some_and(|s| !s.malformed().is_empty())
    }

    /// Whether any annotation or label exists, conditions aside.
    ///
    /// The operator's finalizer does not remove the conditions, so conditions alone prove little.
    pub fn has_keys(&self) -> bool {
        !self.remaining_keys().is_empty()
    }

    /// Whether only the node state remains, apart from the version. The finalizer keeps it on purpose for
    /// packages whose files are still on the host.
    pub fn is_marker(&self) -> bool {
        let is_kept = |key: &str| matches!(key, "nodeState" | "version");
        !self.entries().is_empty() && self.remaining_keys().into_iter().all(is_kept)
    }

    /// Names of the remaining keys, conditions aside.
    pub fn remaining_keys(&self) -> Vec<&'static str> {
        let all = [
            (self.state.is_some(), "nodeState"),
            (self.status.is_some(), "status"),
            (self.status_label.is_some(), "status label"),
            (self.cordon, "cordon"),
            (self.version.is_some(), "version"),
            (self.drain_start.is_some(), "drainStart"),
            (self.drain_blocked.is_some(), "drainBlocked"),
        ];
        all.into_iter().filter_map(|(there, name)| there.then_some(name)).collect()
    }
}

/// Keys of taints that the kubelet or the node lifecycle controller sets, with the node condition that causes
/// each.
pub const CONDITIONS: [(&str, &str); 4] = [
    ("node.kubernetes.io/memory-pressure", "MemoryPressure"),
    ("node.kubernetes.io/disk-pressure", "DiskPressure"),
    ("node.kubernetes.io/pid-pressure", "PIDPressure"),
    ("node.kubernetes.io/network-unavailable", "NetworkUnavailable"),
];
/// The kubelet's readiness condition.
pub const READY: &str = "Ready";

#[derive(Debug, Clone, PartialEq)]
pub struct NodeCondition {
    text: Shared<ConditionText>,
    pub last_transition_time: Option<Timestamp>,
}

/// A condition without its time, which many nodes share.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ConditionText {
    pub kind: Name,
    pub status: Name,
    pub reason: Name,
    pub message: Name,
}

impl NodeCondition {
    /// Whether the condition's status is `True`.
    pub fn is_true(&self) -> bool {
        self.status == "True"
    }
}

impl Deref for NodeCondition {
    type Target = ConditionText;

    fn deref(&self) -> &ConditionText {
        &self.text
    }
}

/// A decoded condition, with a timestamp that is dropped afterwards.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ConditionObject {
    #[serde(rename = "type")]
    pub kind: Name,
    status: Name,
    reason: Name,
    message: Name,
    pub last_transition_time: Option<Timestamp>,
    pub last_heartbeat_time: Option<Timestamp>,
}

impl ConditionObject {
    /// Whether this program uses the condition. Kubelets and other controllers write many that it does not
    /// use. `gated`: whether a taint of the node waits for conditions of other controllers.
    pub fn is_used(&self, gated: bool) -> bool {
        let taints = || CONDITIONS.iter().any(|(_, kind)| self.kind == *kind);
        self.kind == READY
            || NodeKey::is_ours(&self.kind)
            || self.status == "True" && taints()
            || gated && self.status != "True" && self.kind.contains('/')
    }
}

impl From<ConditionObject> for NodeCondition {
    fn from(object: ConditionObject) -> NodeCondition {
        let text = ConditionText {
            kind: object.kind,
            status: object.status,
            reason: object.reason,
            message: object.message,
        };
        NodeCondition { text: text.into(), last_transition_time: object.last_transition_time }
    }
}

/// The fields of a node that are read, in order of the load on the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeFields {
    /// Labels, annotations and `managedFields`.
    Metadata,
    /// The metadata, and whether the node is cordoned.
    Cordons,
    #[default]
    All,
}

/// The parts of a node that are neither metadata nor the cordon.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeBody {
    pub taints: Shared<Vec<Taint>>,
    /// The Ready condition, conditions with taints, and the operator's conditions. Others are dropped.
    pub conditions: Box<[NodeCondition]>,
    /// `nvidia.com/gpu` in the node's capacity.
    pub gpus: u64,
    pub allocatable: Shared<Allocatable>,
    pub system: Shared<System>,
    /// Everyone besides the operator who wants the node to stay cordoned, whether or not the node is
    /// cordoned. Some of these holders can be seen only in the taints.
    pub cordon_holders: Shared<Vec<Holder>>,
}

impl Node {
    /// The fields of the node that were read.
    pub fn fields(&self) -> NodeFields {
        match (&self.body, self.unschedulable) {
            (Some(_), _) => NodeFields::All,
            (None, Some(_)) => NodeFields::Cordons,
            (None, None) => NodeFields::Metadata,
        }
    }

    /// Whether the node is cordoned; `None` if this was not read.
    pub fn cordoned(&self) -> Option<bool> {
        self.unschedulable
    }

    /// Taints, conditions and other parts; `None` if they were not read.
    pub fn body(&self) -> Option<&NodeBody> {
        self.body.as_ref()
    }

    /// Whether the Ready condition is true; `None` if conditions were not read. A node without the condition
    /// is not ready.
    pub fn ready(&self) -> Option<bool> {
        let conditions = &self.body()?.conditions;
        Some(conditions.iter().filter(|c| c.kind == READY).any(|c| c.is_true()))
    }

    /// Whether the kubelet has stopped reporting: the node controller then sets the Ready condition to Unknown.
    pub fn is_silent(&self) -> bool {
        self.conditions().iter().any(|condition| condition.kind == READY && condition.status == "Unknown")
    }

    /// The conditions; empty if they were not read.
    pub fn conditions(&self) -> &[NodeCondition] {
        self.body().map_or(&[], |body| &body.conditions)
    }

    /// The condition of this type; `None` if it is absent or was not read.
    pub fn condition(&self, kind: &str) -> Option<&NodeCondition> {
        self.conditions().iter().find(|c| *c.kind == *kind)
    }

    /// The taints; empty if they were not read.
    pub fn taints(&self) -> &[Taint] {
        self.body().map_or(&[], |body| &body.taints)
    }

    /// Everyone besides the operator who wants the node to stay cordoned; an unknown holder if holders were
    /// not read.
    pub fn cordon_holders(&self) -> Vec<Holder> {
        self.body().map_or_else(|| vec![Holder::unknown()], |body| body.cordon_holders.to_vec())
    }

    /// Number of GPUs in the capacity; 0 if the capacity was not read.
    pub fn gpus(&self) -> u64 {
        self.body().map_or(0, |body| body.gpus)
    }

    /// Drops everything but the metadata, and sets the cordon, which another list has shown. Servers without
    /// metadata lists return whole nodes.
    pub fn limit_to_metadata(&mut self, cordoned: Option<bool>) {
        self.body = None;
        self.unschedulable = cordoned;
    }
}
