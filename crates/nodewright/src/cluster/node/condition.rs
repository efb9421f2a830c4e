//! The conditions of a node.

use std::ops::Deref;

use jiff::Timestamp;
use serde::Deserialize;

use crate::api::keys::NodeKey;
use crate::api::{Name, Shared};
use crate::cluster::taints::CONDITIONS;

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
pub(super) struct ConditionObject {
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
