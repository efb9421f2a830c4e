//! A node, with the operator's keys on it decoded.

mod condition;
mod edit;
mod fields;
mod record;
mod system;
mod taint;

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::Deserialize;

use condition::ConditionObject;
pub use condition::{NodeCondition, READY};
pub use edit::NodeEdit;
pub use fields::{NodeBody, NodeFields};
pub use record::NodeRecord;
pub use system::{Allocatable, System};
pub use taint::Taint;

use super::annotations::Annotations;
use super::cordon_marks::Marks;
use super::managed::{LabelWrite, ManagedFields};
use super::owners::TaintKind;
use crate::api::keys::NodeKey;
use crate::api::{ApiFlavor, Labels, Name, NodeState, Object, Shared, UnknownFields, quantity};

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
    /// kubectl's reference to the node: `node/NAME`
    pub fn reference(&self) -> String {
        self.to_string()
    }

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
        let conditions = self.status.conditions.iter();
        let conditions = conditions.flat_map(|c| [c.last_transition_time, c.last_heartbeat_time]);
        conditions.chain(metadata).flatten().max()
    }
}

impl From<NodeObject> for Node {
    fn from(object: NodeObject) -> Node {
        let keys: [Shared<NodeKeys>; 2] = ApiFlavor::ALL.map(|flavor| NodeKeys::read(flavor, &object).into());
        let marks = Marks {
            annotations: &object.metadata.annotations.cordon_marks,
            labels: &object.metadata.labels,
            taints: object.spec.taints.iter().map(|t| t.key.as_str()).collect(),
            managed: &object.metadata.managed_fields,
            unschedulable: object.spec.unschedulable,
        };
        let conditions = object.status.conditions.into_iter();
        let gated = object.spec.taints.iter().any(|taint| taint.is(TaintKind::Startup));
        let conditions = conditions.filter(|condition| condition.is_used(gated));
        let body = NodeBody {
            cordon_holders: marks.holders().into(),
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
