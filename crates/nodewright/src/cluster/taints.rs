//! Taints, and the tolerations of custom resources.

use jiff::Timestamp;

use super::node::{CONDITIONS, Taint};
use super::{Cluster, Node};
use crate::api::skyhook::Toleration;
use crate::api::{ApiFlavor, Skyhook};

/// Values of taints from this number on are times in seconds: 2017.
const FIRST_TIME: i64 = 1_500_000_000;
/// The taint that a node registers with, until the cloud controller manager has initialized it.
const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// The taint that keeps a node closed until the packages with `runtimeRequired` are complete.
#[derive(Clone, Copy)]
pub struct RuntimeRequired<'a>(pub(super) &'a Cluster);

impl Taint {
    /// The time in the value: the cluster autoscaler writes Unix time.
    fn time_in_value(&self) -> Option<Timestamp> {
        let seconds =
            self.value.parse().ok().filter(|seconds| (FIRST_TIME..FIRST_TIME * 2).contains(seconds))?;
        Timestamp::from_second(seconds).ok()
    }
}

impl Node {
    /// Time since which the node has a taint, if it is known from the taint, its condition or the node's age.
    pub fn tainted_since(&self, taint: &Taint) -> Option<Timestamp> {
        let added = taint.time_added.as_deref().and_then(|at| at.parse().ok()).or(taint.time_in_value());
        let condition = CONDITIONS.iter().find(|(key, _)| taint.key == *key);
        let changed = condition.and_then(|(_, kind)| {
            let condition = self.condition(kind)?;
            condition.last_transition_time.filter(|_| condition.is_true())
        });
        let registered = self.created.filter(|_| taint.key == UNINITIALIZED);
        added.or(changed).or(registered)
    }
}

impl<'a> RuntimeRequired<'a> {
    /// Key and effect of the runtime-required taints that the operator knows.
    ///
    /// Before v0.21, the newer operator also treats the default key of the older API as its own.
    pub fn taints(self) -> Vec<(String, String)> {
        const EFFECT: &str = "NoSchedule";
        let mut taints = vec![self.configured().unwrap_or_else(|| {
            let key = self.0.flavor().taint_key().to_owned();
            (key, EFFECT.to_owned())
        })];
        if self.0.flavor() == ApiFlavor::NodeWright && !self.0.operator().since(0, 21) {
            taints.push((ApiFlavor::Skyhook.taint_key().to_owned(), EFFECT.to_owned()));
        }
        taints
    }

    /// Key and effect of the taint that the operator is configured with.
    pub fn configured(self) -> Option<(String, String)> {
        let (key, _, effect) = self.setting()?;
        Some((key.to_owned(), effect.to_owned()))
    }

    /// The value of the runtime-required taint: package pods tolerate no other.
    pub fn value(self) -> &'a str {
        self.setting().map_or("runtime-required", |(_, value, _)| value)
    }

    /// The parts of `KEY=VALUE:EFFECT`.
    fn setting(self) -> Option<(&'a str, &'a str, &'a str)> {
        let text = self.0.operator().setting("RUNTIME_REQUIRED_TAINT")?;
        let (key_and_value, effect) = text.rsplit_once(':').unwrap_or((text, ""));
        let (key, value) = key_and_value.split_once('=').unwrap_or((key_and_value, ""));
        Some((key, value, effect))
    }

    /// The runtime-required taint on a node, if any.
    pub fn on(self, node: &'a Node) -> Option<&'a Taint> {
        if node.taints().is_empty() {
            return None;
        }
        let known = self.taints();
        node.taints().iter().find(|t| {
            known.iter().any(|(key, effect)| t.key == *key && (effect.is_empty() || t.effect == *effect))
        })
    }

    /// Whether a taint has the older default key under an operator that has dropped that key: it neither
    /// tolerates nor removes such a taint.
    pub fn is_dropped(self, taint: &Taint) -> bool {
        let known = self.taints();
        taint.key == ApiFlavor::Skyhook.taint_key()
            && self.0.operator().since(0, 21)
            && known.iter().all(|(key, _)| taint.key != *key)
    }

    /// A taint with the name or value `runtime-required`, but with a key that the operator does not know and
    /// therefore never removes. `None` if the operator is unknown.
    pub fn foreign(self, node: &'a Node) -> Option<&'a Taint> {
        if node.taints().is_empty() || self.0.operators.items().is_empty() {
            return None;
        }
        let known = self.taints();
        let closes = |t: &Taint| t.effect == "NoSchedule" || t.effect == "NoExecute";
        let named = |t: &Taint| {
            let name = t.key.rsplit('/').next().unwrap_or_default();
            [name, t.value.as_str()].contains(&"runtime-required")
        };
        node.taints()
            .iter()
            .filter(|t| closes(t) && named(t))
            .find(|t| known.iter().all(|(key, _)| t.key != *key))
    }
}

impl Cluster {
    /// Taints, of any effect, that keep the operator from selecting a node.
    ///
    /// The runtime-required taint is tolerated only with `runtimeRequired`, or with an additional toleration.
    pub fn untolerated_by<'a>(&self, skyhook: &Skyhook, node: &'a Node) -> Vec<&'a Taint> {
        if node.taints().is_empty() {
            return Vec::new();
        }
        let exists = |key: &str| Toleration {
            key: key.to_owned(),
            operator: "Exists".to_owned(),
            ..Toleration::default()
        };
        let mut tolerations = skyhook.spec.additional_tolerations.clone();
        tolerations.push(exists("node.kubernetes.io/unschedulable"));
        if skyhook.spec.runtime_required {
            let known = self.runtime_required().taints();
            tolerations.extend(known.iter().map(|(key, _)| exists(key)));
        }
        node.taints().iter().filter(|t| !tolerations.iter().any(|x| t.tolerated_by(x))).collect()
    }
}
