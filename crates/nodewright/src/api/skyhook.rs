//! The main custom resource, `Skyhook` or `NodeWright`: one shape in both APIs.

mod decode;
mod status;

use std::collections::BTreeMap;
use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

pub use status::{BatchState, CompartmentStatus, Mirror, SkyhookStatus};

use super::{ApiFlavor, Condition, LabelSelector, Meta, UnknownFields};

/// A `Skyhook` or `NodeWright`. Unknown fields are only in `whole`; unknown enum values are kept.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(remote = "Self", default, rename_all = "camelCase")]
pub struct Skyhook {
    pub api_version: String,
    pub kind: String,
    pub metadata: Meta,
    pub spec: SkyhookSpec,
    pub status: SkyhookStatus,
    /// The object as JSON with its unknown fields, for recreating it. Of the status, which has an entry for
    /// every node, only the parts that the operator cannot recompute are kept.
    #[serde(skip)]
    pub whole: Value,
    /// Size of the object as compact JSON, in bytes.
    #[serde(skip)]
    pub size: usize,
    #[serde(skip)]
    pub unknown_fields: UnknownFields,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SkyhookSpec {
    pub serial: bool,
    /// Selector of pods that prevent an interrupt while they are running or pending on the node. Empty
    /// selects no pod.
    pub pod_non_interrupt_labels: LabelSelector,
    /// Selector of the nodes to work on. Empty selects every node.
    pub node_selectors: LabelSelector,
    pub deployment_policy: String,
    pub interruption_budget: super::deployment_policy::Budget,
    #[serde(deserialize_with = "packages")]
    pub packages: BTreeMap<String, Package>,
    pub additional_tolerations: Vec<Toleration>,
    pub runtime_required: bool,
    pub auto_taint_new_nodes: bool,
    pub priority: Option<i64>,
    pub sequencing: String,
    pub drain_config: DrainConfig,
}

/// A package of the spec, with its interrupts of the node.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Package {
    /// Optional in the newer API. The map key is the authoritative name; see [`Skyhook::packages`].
    pub name: String,
    pub version: String,
    pub image: String,
    pub interrupt: Option<Interrupt>,
    pub depends_on: BTreeMap<String, String>,
    pub config_interrupts: BTreeMap<String, Interrupt>,
    pub config_map: BTreeMap<String, String>,
    /// Resources of the package's containers, as in the spec.
    pub resources: Option<serde_json::Value>,
    pub uninstall: Option<Uninstall>,
    /// The package as in the spec, unknown fields included.
    #[serde(skip)]
    pub whole: serde_json::Value,
}

fn packages<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, Package>, D::Error> {
    let packages = BTreeMap::<String, serde_json::Value>::deserialize(from)?;
    let package = |(name, whole): (String, serde_json::Value)| {
        let package = Package::deserialize(&whole).map_err(D::Error::custom)?;
        Ok((name, Package { whole, ..package }))
    };
    packages.into_iter().map(package).collect()
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Interrupt {
    /// `service`, `reboot`, `noop` or `restartAllServices`.
    #[serde(rename = "type")]
    pub kind: String,
    pub services: Vec<String>,
}

/// Explicit uninstall: `enabled` means that the package can be uninstalled, `apply` requests it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Uninstall {
    pub enabled: bool,
    pub apply: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Toleration {
    pub key: String,
    pub operator: String,
    pub value: String,
    pub effect: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DrainConfig {
    pub disable_eviction: Option<bool>,
    /// Whether to evict pods with data in an `emptyDir`; true by default.
    pub delete_empty_dir_data: Option<bool>,
    /// Whether to evict pods without a controller, which are not recreated; true by default.
    pub force: Option<bool>,
    pub timeout: Option<String>,
}

/// Priority of a custom resource that sets none (lower runs first).
const DEFAULT_PRIORITY: i64 = 200;

/// Formats the object as `skyhook/NAME` or `nodewright/NAME`.
impl fmt::Display for Skyhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.to_lowercase(), self.name())
    }
}

impl Skyhook {
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// The API that the object belongs to, from its `apiVersion`.
    pub fn flavor(&self) -> Option<ApiFlavor> {
        ApiFlavor::of_group(self.api_version.split('/').next()?)
    }

    /// kubectl's reference to the object: `skyhook/NAME` or `nodewright/NAME`.
    pub fn reference(&self) -> String {
        self.to_string()
    }

    /// The packages of the spec by name. The map key is the name.
    pub fn packages(&self) -> impl Iterator<Item = (&str, &Package)> {
        self.spec.packages.iter().map(|(name, p)| (name.as_str(), p))
    }

    pub fn package(&self, name: &str) -> Option<&Package> {
        self.spec.packages.get(name)
    }

    /// The packages that depend on this one.
    pub fn dependants(&self, package: &str) -> Vec<&str> {
        self.packages().filter(|(_, p)| p.depends_on.contains_key(package)).map(|(name, _)| name).collect()
    }

    pub fn deleting(&self) -> bool {
        self.metadata.deleting()
    }

    /// Whether the annotation is exactly `true`, the only value that the operator recognizes.
    fn annotated_true(&self, suffix: &str) -> bool {
        self.flavor().is_some_and(|flavor| {
            self.metadata.annotations.get(&flavor.key(suffix)).map(String::as_str) == Some("true")
        })
    }

    pub fn paused(&self) -> bool {
        self.annotated_true("pause")
    }

    pub fn disabled(&self) -> bool {
        self.annotated_true("disable")
    }

    /// Whether the operator starts new work for the custom resource: it is neither paused nor disabled.
    pub fn is_active(&self) -> bool {
        !self.paused() && !self.disabled()
    }

    /// Whether later custom resources wait on all nodes until this one is complete on all nodes.
    pub fn blocks_all_nodes(&self) -> bool {
        self.spec.sequencing == "all"
    }

    /// Whether the operator currently selects nodes in batches. A deletion works on all nodes at once.
    pub fn has_batches(&self) -> bool {
        self.is_active() && !self.deleting() && !self.status.node_priority.is_empty()
    }

    /// Compartments whose rollout the operator has stopped after too many failures. Only a policy sets such a limit.
    pub fn stopped_compartments(&self) -> impl Iterator<Item = &str> {
        let limited = !self.spec.deployment_policy.is_empty();
        let compartments = self.status.compartment_statuses.iter();
        compartments
            .filter(move |(_, c)| limited && c.batch_state.as_ref().is_some_and(|b| b.should_stop))
            .map(|(name, _)| name.as_str())
    }

    /// `paused` or `disabled` if the operator starts no new work for the custom resource.
    pub fn stopped(&self) -> Option<&'static str> {
        match (self.paused(), self.disabled()) {
            (true, _) => Some("paused"),
            (_, true) => Some("disabled"),
            _ => None,
        }
    }

    /// Name of the object of the older API from which the operator created this object.
    pub fn mirrored_from(&self) -> Option<&str> {
        let key = self.flavor()?.key("mirrored-from");
        self.metadata.annotations.get(&key).map(String::as_str)
    }

    /// Sort key: priority (lower runs first), then name.
    pub fn order(&self) -> (i64, &str) {
        (self.spec.priority.unwrap_or(DEFAULT_PRIORITY), self.name())
    }

    /// A condition by its bare type. The copies whose type has the API's prefix are deprecated and ignored.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.status.conditions.iter().find(|c| c.kind == kind)
    }

    /// The condition of this type, if its status is `True`.
    pub fn true_condition(&self, kind: &str) -> Option<&Condition> {
        self.condition(kind).filter(|c| c.is_true())
    }

    /// Whether the operator has observed the current spec, according to the newest generation in the
    /// conditions and in `status.observedGeneration`. The operator sets the latter only when the custom
    /// resource is complete.
    pub fn is_observed(&self) -> bool {
        let conditions = self.status.conditions.iter();
        let seen = conditions.filter_map(|c| c.observed_generation).max();
        let seen = seen.unwrap_or(0).max(self.status.observed_generation);
        seen >= self.metadata.generation
    }

    /// Whether the operator has never finished a pass for the object: a pass sets a status, even if it is paused.
    pub fn is_untouched(&self) -> bool {
        self.status.status.is_none() && self.status.conditions.is_empty()
    }

    /// Whether the object has the operator's finalizer.
    pub fn has_finalizer(&self) -> bool {
        self.flavor().is_some_and(|flavor| self.metadata.finalizers.contains(&flavor.finalizer()))
    }

    /// Finalizers other than the operator's.
    pub fn third_party_finalizers(&self) -> Vec<&str> {
        let ours = self.flavor().map(ApiFlavor::finalizer);
        let all = self.metadata.finalizers.iter();
        all.filter(|f| ours.as_ref() != Some(f)).map(String::as_str).collect()
    }
}

impl Package {
    pub fn uninstall(&self) -> Uninstall {
        self.uninstall.unwrap_or_default()
    }

    /// `name|version`, the key of the package's entry in a node state.
    pub fn entry_key(&self, name: &str) -> String {
        format!("{name}|{}", self.version)
    }

    /// The type of the interrupt that would run next, if any.
    ///
    /// After a config change only a config interrupt counts whose key matches a changed key (operator
    /// `HasInterrupt`). `*` is the only special character in the key of a config interrupt.
    pub fn pending_interrupt(&self, config_updates: &[String]) -> Option<&str> {
        if config_updates.is_empty() {
            return self.interrupt.as_ref().map(|i| i.kind.as_str());
        }
        self.config_interrupts
            .iter()
            .find(|(pattern, _)| config_updates.iter().any(|key| glob_matches(pattern, key)))
            .map(|(_, interrupt)| interrupt.kind.as_str())
    }
}

/// The precedence of an interrupt's type if several are due (operator `fudgeInterruptWithPriority`): higher wins.
pub fn interrupt_strength(kind: &str) -> u8 {
    match kind {
        "reboot" => 3,
        "restartAllServices" => 2,
        "service" => 1,
        _ => 0,
    }
}

/// Whether the pattern of a config interrupt matches a key: only `*` is special.
pub fn glob_matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, tail)) => text.strip_prefix(head).is_some_and(|rest| {
            (0..=rest.len()).filter(|&at| rest.is_char_boundary(at)).any(|at| glob_matches(tail, &rest[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Status;

    #[test]
    fn a_config_change_decides_over_the_plain_interrupt() {
        let package: Package = serde_json::from_value(serde_json::json!({
            "version": "1.0.0",
            "interrupt": {"type": "reboot"},
            "configInterrupts": {"*.conf": {"type": "service"}},
        }))
        .expect("a package");
        assert_eq!(package.pending_interrupt(&[]), Some("reboot"));
        assert_eq!(package.pending_interrupt(&["a.conf".into()]), Some("service"));
        assert_eq!(package.pending_interrupt(&["a.sh".into()]), None);
    }

    #[test]
    fn unknown_words_and_fields_are_read() {
        let skyhook: Skyhook = serde_json::from_value(serde_json::json!({
            "apiVersion": ApiFlavor::NodeWright.api_version(),
            "kind": "NodeWright",
            "metadata": {"name": "a", "new": 1},
            "spec": {"sequencing": "later", "novel": {}},
            "status": {"status": "resting", "nodeStatus": {"n": "dreaming"}},
        }))
        .expect("a lenient read");
        assert_eq!(skyhook.status.status, Some(Status::Other("resting".into())));
        assert_eq!(skyhook.flavor(), Some(ApiFlavor::NodeWright));
    }
}
