//! A taint of a node.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::skyhook::Toleration;
use crate::cluster::owners::{self, TaintKind, TaintOwner};

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
