//! The main custom resource, `Skyhook` or `NodeWright`: one shape in both APIs.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use jiff::Timestamp;
use serde::de::{Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::meta::without_status;
use super::{ApiFlavor, Condition, LabelSelector, ManagedFields, Meta, Name, Status, UnknownFields};

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
    pub deployment_policy_options: PolicyOptions,
    pub interruption_budget: Budget,
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

impl DrainConfig {
    /// Whether pods without a controller are not evicted.
    pub fn spares_unmanaged(&self) -> bool {
        self.force == Some(false)
    }
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

    /// Whether the operator starts new work, or will once this program ends its pause.
    pub fn will_act(&self) -> bool {
        !self.disabled() && (!self.paused() || self.hold().is_some())
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
        self.status
            .compartment_statuses
            .iter()
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

    /// The manager that last wrote the spec: not the operator, which also writes the status and only fills in defaults,
    /// unless there is no other. `None` without managedFields, and for a client without a user agent.
    pub fn last_spec_writer(&self) -> Option<&ManagedFields> {
        let writers = self.spec_writers();
        let is_operator = |writer: &ManagedFields| {
            self.metadata
                .managed_fields
                .iter()
                .any(|entry| entry.subresource == "status" && entry.manager == writer.manager)
        };
        let user = writers.iter().find(|writer| !is_operator(writer));
        user.or_else(|| writers.first()).copied().filter(|writer| writer.manager != "unknown")
    }

    /// The managers that own fields of the spec, the latest writer first. A later write of the same manager to other
    /// metadata counts, too.
    pub fn spec_writers(&self) -> Vec<&ManagedFields> {
        let managers = self.metadata.managed_fields.iter();
        let mut writers: Vec<&ManagedFields> =
            managers.filter(|m| m.subresource.is_empty() && !m.fields["f:spec"].is_null()).collect();
        writers.sort_by_key(|m| std::cmp::Reverse(m.time));
        writers
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
        let seen = self.status.conditions.iter().filter_map(|c| c.observed_generation).max();
        let seen = seen.unwrap_or(0).max(self.status.observed_generation);
        seen >= self.metadata.generation
    }

    /// Whether the operator has never finished a reconcile of the object: a reconcile sets a status, even if it is paused.
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
        self.metadata.finalizers.iter().filter(|f| ours.as_ref() != Some(f)).map(String::as_str).collect()
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

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SkyhookStatus {
    pub status: Option<Status>,
    pub observed_generation: i64,
    pub conditions: Vec<Condition>,
    /// The operator's copy of the node annotations. The annotations are authoritative.
    pub node_state: Mirror,
    #[serde(deserialize_with = "counts")]
    pub node_status: BTreeMap<Status, usize>,
    /// Nodes of the current batch, with the time at which each joined.
    pub node_priority: BTreeMap<Name, Option<Timestamp>>,
    pub node_order_offset: i64,
    pub config_updates: BTreeMap<String, Vec<String>>,
    pub compartment_statuses: BTreeMap<String, CompartmentStatus>,
    pub complete_nodes: String,
}

/// Deserializes a map from node to status into the number of nodes with each status.
fn counts<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<Status, usize>, D::Error> {
    let mut counts = BTreeMap::new();
    for status in BTreeMap::<String, Status>::deserialize(from)?.into_values() {
        *counts.entry(status).or_default() += 1;
    }
    Ok(counts)
}

/// The operator's copy of the node states, by node name. Many nodes have equal states, which are stored once.
#[derive(Debug, Clone, Default)]
pub struct Mirror(BTreeMap<Box<str>, Name>);

impl Mirror {
    /// Number of nodes with a record.
    pub fn nodes(&self) -> usize {
        self.0.len()
    }

    /// The record of one node: package states by `name|version`.
    pub fn of(&self, node: &str) -> Option<BTreeMap<String, Value>> {
        Some(serde_json::from_str(self.0.get(node)?).expect("the text was decoded as this map"))
    }

    /// Whether any node has a record of the package `name|version`.
    pub fn has(&self, key: &str) -> bool {
        let texts: HashSet<&str> = self.0.values().map(Name::as_str).collect();
        texts.into_iter().any(|text| {
            let packages: BTreeMap<String, IgnoredAny> =
                serde_json::from_str(text).expect("the text was decoded as this map");
            packages.contains_key(key)
        })
    }
}

impl<'de> Deserialize<'de> for Mirror {
    /// Checks each distinct text only once.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Mirror, D::Error> {
        let nodes = BTreeMap::<Box<str>, Box<RawValue>>::deserialize(deserializer)?;
        for text in nodes.values().map(|packages| packages.get()).collect::<HashSet<&str>>() {
            serde_json::from_str::<BTreeMap<String, IgnoredAny>>(text).map_err(D::Error::custom)?;
        }
        Ok(Mirror(nodes.into_iter().map(|(node, packages)| (node, packages.get().into())).collect()))
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CompartmentStatus {
    pub matched: i64,
    pub ceiling: i64,
    pub in_progress: i64,
    pub completed: i64,
    pub batch_state: Option<BatchState>,
}

#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BatchState {
    pub current_batch: i64,
    pub consecutive_failures: i64,
    pub completed_nodes: i64,
    pub failed_nodes: i64,
    pub should_stop: bool,
    pub last_batch_size: i64,
    pub last_batch_failed: bool,
}

impl<'de> Deserialize<'de> for Skyhook {
    /// Decodes the status directly from its text, without an intermediate JSON value: the status is most of
    /// the object, over a megabyte on a thousand nodes.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Skyhook, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        Skyhook::read(text.get()).map_err(D::Error::custom)
    }
}

impl Skyhook {
    fn read(text: &str) -> serde_json::Result<Skyhook> {
        let mut members: BTreeMap<String, &RawValue> = serde_json::from_str(text)?;
        let status = members.remove("status");
        let mut whole = Map::new();
        for (name, value) in members {
            let value = match name.as_str() {
                "metadata" => read_metadata(value.get())?,
                _ => serde_json::from_str(value.get())?,
            };
            whole.insert(name, value);
        }
        let mut whole = Value::Object(whole);
        let mut skyhook = Skyhook::deserialize(&whole)?;
        if let Some(status) = status {
            (skyhook.status, whole["status"]) = read_status(status.get())?;
        }
        Ok(Skyhook { whole, size: compact_len(text), ..skyhook })
    }
}

/// Decodes the metadata. Drops the status fields in `managedFields`, which name every node and every package.
fn read_metadata(text: &str) -> serde_json::Result<Value> {
    #[derive(Serialize, Deserialize)]
    struct Entry {
        #[serde(rename = "fieldsV1", default, deserialize_with = "without_status")]
        fields: Value,
        #[serde(flatten)]
        rest: Map<String, Value>,
    }
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(text)?;
    let mut metadata = Map::new();
    for (name, value) in members {
        let value = value.get();
        let entries = (name == "managedFields").then(|| serde_json::from_str::<Vec<Entry>>(value));
        let value = match entries {
            Some(Ok(entries)) => serde_json::to_value(entries)?,
            _ => serde_json::from_str(value)?,
        };
        metadata.insert(name, value);
    }
    Ok(metadata.into())
}

/// Decodes the status, and returns the part of it to keep as JSON.
fn read_status(text: &str) -> serde_json::Result<(SkyhookStatus, Value)> {
    let status: SkyhookStatus = serde_json::from_str(text)?;
    let mut kept = Map::new();
    if !status.config_updates.is_empty() {
        let updates = serde_json::to_value(&status.config_updates)?;
        kept.insert("configUpdates".to_owned(), updates);
    }
    Ok((status, kept.into()))
}

/// Length in bytes of a JSON text without kubectl's indentation.
fn compact_len(text: &str) -> usize {
    let lines = text.lines().map(str::trim_start);
    lines.map(|line| line.len() - usize::from(line.contains("\": "))).sum()
}

/// Name of the operator's compartment for nodes that no other compartment selects.
pub const DEFAULT_COMPARTMENT: &str = "__default__";

/// Display name of a compartment.
pub fn compartment_title(name: &str) -> &str {
    match name {
        DEFAULT_COMPARTMENT => "(default)",
        name => name,
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct DeploymentPolicy {
    pub metadata: Meta,
    pub spec: DeploymentPolicySpec,
    #[serde(skip)]
    pub unknown_fields: UnknownFields,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeploymentPolicySpec {
    pub default: PolicyDefault,
    pub compartments: Vec<Compartment>,
    pub reset_batch_state_on_completion: Option<bool>,
}

/// What a custom resource overrides of its policy.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PolicyOptions {
    /// Whether the operator resets the batch state once a rollout completes, and while a version changes.
    pub reset_batch_state_on_completion: Option<bool>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct PolicyDefault {
    pub budget: Budget,
    pub strategy: Option<serde_json::Value>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Compartment {
    pub name: String,
    pub selector: LabelSelector,
    pub budget: Budget,
    pub strategy: Option<serde_json::Value>,
}

/// A maximum number or percentage of nodes.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Budget {
    pub percent: Option<i64>,
    pub count: Option<i64>,
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

    #[test]
    fn white_space_does_not_count() {
        let value = serde_json::json!({"a b": ["c \" d", {"e\\": " "}], "f": null});
        let compact = value.to_string();
        let pretty = serde_json::to_string_pretty(&value).expect("JSON");
        assert_eq!(compact_len(&pretty), compact.len());
        assert_eq!(compact_len(&compact), compact.len());
    }

    #[test]
    fn of_the_status_what_only_the_operator_knows_is_kept_as_it_was() {
        let object = serde_json::json!({
            "metadata": {"name": "a"},
            "status": {
                "nodeState": {"n": {"b|1": {"state": "complete", "stage": "apply"}}},
                "configUpdates": {"b": ["k"]},
            },
        });
        let skyhook: Skyhook = serde_json::from_value(object.clone()).expect("an object");
        assert_eq!(skyhook.size, object.to_string().len());
        assert_eq!(skyhook.status.config_updates["b"], ["k"]);
        assert_eq!(skyhook.status.node_state.of("n").expect("a node")["b|1"]["stage"], "apply");
        let kept = serde_json::json!({"configUpdates": {"b": ["k"]}});
        assert_eq!(skyhook.whole["status"], kept);
    }

    #[test]
    fn who_wrote_the_status_is_known_and_not_what_of_it() {
        let fields = serde_json::json!({"f:metadata": {"f:annotations": {"f:a": {}}}});
        let mut read = fields.clone();
        read["f:status"] = serde_json::json!({"f:nodeState": {"f:n": {"f:b|1": {}}}});
        let entry = |fields| serde_json::json!({"fieldsV1": fields, "manager": "manager"});
        let object = serde_json::json!({"metadata": {"managedFields": [entry(read)], "name": "a"}});
        let skyhook: Skyhook = serde_json::from_value(object).expect("an object");
        let metadata = serde_json::json!({"managedFields": [entry(fields.clone())], "name": "a"});
        assert_eq!(skyhook.whole["metadata"], metadata);
        assert_eq!(skyhook.metadata.managed_fields[0].fields, fields);
        assert_eq!(skyhook.metadata.managed_fields[0].manager, "manager");
    }

    #[test]
    fn the_last_writer_of_a_spec_is_not_the_operator() {
        let entry = |manager: &str, subresource: &str, field: &str, time: &str| {
            serde_json::json!({
                "manager": manager, "subresource": subresource, "time": time, "fieldsV1": {field: {"f:a": {}}},
            })
        };
        let last = |entries: &[serde_json::Value]| {
            let object = serde_json::json!({"metadata": {"name": "a", "managedFields": entries}});
            let skyhook: Skyhook = serde_json::from_value(object).expect("an object");
            skyhook.last_spec_writer().map(|writer| writer.manager.clone())
        };
        let argo = entry("argocd-controller", "", "f:spec", "2026-11-20T10:00:00Z");
        let person = entry("kubectl-edit", "", "f:spec", "2026-11-20T11:00:00Z");
        let operator = entry("manager", "", "f:spec", "2026-11-20T12:00:00Z");
        let status = entry("manager", "status", "f:status", "2026-11-20T12:00:01Z");
        let pause = entry("kubectl-annotate", "", "f:metadata", "2026-11-20T13:00:00Z");
        let all = [argo, person, operator.clone(), status.clone(), pause.clone()];
        assert_eq!(last(&all).as_deref(), Some("kubectl-edit"));
        assert_eq!(last(&[operator, status]).as_deref(), Some("manager"));
        assert_eq!(last(&[entry("unknown", "", "f:spec", "2026-11-20T10:00:00Z")]), None);
        assert_eq!(last(&[pause]), None);
    }
}
