//! Preconditions of a whole plan: the custom resources and the operator, in the state that it was made for.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::edit::{lookup, pointer};
use super::step::is_as_made;
use super::{Change, Condition, Grade, Kind, Plan, Step, Target};
use crate::api::keys::NodeKey;
use crate::api::{ApiFlavor, Object, Skyhook};
use crate::cluster::hold::Hold;
use crate::cluster::{Certainty, Cluster, Deployment, Node};

/// The preconditions of a plan on objects that it does not change itself.
///
/// They are checked when a plan is loaded from a file, after the confirmation prompt, and before each stage and each
/// change of a node, a pod, a Job or a ConfigMap.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Preconditions {
    /// The custom resources whose data the plan changes, or that it deletes, releases or creates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<ResourceState>,
    /// The operator's state when the plan was made, if the plan relies on the operator not running; absent
    /// otherwise. The plan is refused or stopped once the operator is
    /// closer to running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator: Option<OperatorAvailability>,
}

impl Preconditions {
    pub fn is_empty(&self) -> bool {
        *self == Preconditions::default()
    }
}

/// A custom resource, present or absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceState {
    /// The custom resource. Without a uid, no custom resource with this name may exist.
    pub target: Target,
    /// Whether it is being deleted; absent if false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deleting: bool,
    /// The `metadata.generation`, if the plan runs packages or relies on the nodes that the spec does not select;
    /// absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// The command that holds it paused, as JSON; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
}

/// How close the operator is to running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "OperatorState")]
pub enum OperatorAvailability {
    /// No Deployment runs the operator.
    Absent,
    /// All Deployments of the operator are scaled to zero.
    ScaledDown,
    /// No replica of the operator is available.
    Unavailable,
    /// A replica is available, or may be.
    Running,
}

impl OperatorAvailability {
    /// The state of the Deployments that run the operator.
    pub fn of<'a>(deployments: impl IntoIterator<Item = &'a Deployment>) -> OperatorAvailability {
        let state = |deployment: &Deployment| match deployment {
            d if d.replicas() == 0 => OperatorAvailability::ScaledDown,
            d if d.observed() && d.ready_replicas() == 0 => OperatorAvailability::Unavailable,
            _ => OperatorAvailability::Running,
        };
        let operators = deployments.into_iter().filter(|d| d.runs_operator());
        operators.map(state).max().unwrap_or(OperatorAvailability::Absent)
    }

    /// Why a plan for an operator in this state no longer applies to one in the state `now`.
    pub fn changed(self, now: OperatorAvailability) -> Option<&'static str> {
        (now > self).then_some(match now {
            OperatorAvailability::Running => "a replica of the operator has become available",
            OperatorAvailability::Unavailable if self == OperatorAvailability::ScaledDown => {
                "the operator has been scaled up"
            }
            _ => "the operator has been installed",
        })
    }
}

impl ResourceState {
    /// The state of the object; null is no object.
    pub fn of_object(flavor: ApiFlavor, name: &str, object: &Value) -> ResourceState {
        let uid = object["metadata"]["uid"].as_str();
        ResourceState {
            target: Target::skyhook(flavor, name, uid),
            deleting: is_deleting(object),
            generation: None,
            holder: Hold::from_object(object, &flavor.key("pause")).map(|hold| hold.identity.to_owned()),
        }
    }

    /// The custom resources of the active API, with the generations of their specs.
    pub fn all(cluster: &Cluster) -> Vec<ResourceState> {
        let state = |skyhook: &Skyhook| ResourceState {
            generation: Some(skyhook.metadata.generation),
            holder: None,
            ..ResourceState::of_object(cluster.flavor(), skyhook.name(), &skyhook.whole)
        };
        cluster.skyhooks.iter().map(state).collect()
    }

    /// The custom resources whose specs determine the side effects of the plan: those that its steps name, or all if a
    /// step names none, and those with effects. Without custom resources that the plan deletes: it may be applied a
    /// second time to finish. Edits count if the plan runs something, as they may have effects that the model does not
    /// know, and if it does not itself edit the spec.
    pub fn of_plan(mut all: Vec<ResourceState>, plan: &Plan) -> Vec<ResourceState> {
        let names = plan.custom_resources();
        all.retain(|state| {
            let name = state.target.name.as_str();
            let concerned = names.as_ref().is_none_or(|names| names.contains(name))
                || plan.consequences.rollouts.iter().any(|rollout| rollout.skyhook == name);
            concerned && !plan.changes(&state.target, Change::removes)
        });
        let runs = plan.grade() > Grade::B1;
        for state in &mut all {
            let edits = plan.changes(&state.target, |change| matches!(change, Change::Spec(_)));
            state.generation = state.generation.filter(|_| runs && !edits);
        }
        all
    }

    /// Why the plan no longer applies to the current object; null is no object. Pauses of holders that
    /// `ignores` accepts do not count.
    pub fn changed(
        &self,
        plan: &Plan,
        object: &Value,
        ignores: impl Fn(&Hold<'_>) -> bool,
    ) -> Option<String> {
        let target = &self.target;
        let has_made = |change: &Change| matches!(change, Change::Create(made) if !object.is_null() && is_as_made(object, made));
        if plan.changes(target, has_made) {
            return None;
        }
        let goes = self.deleting || plan.changes(target, Change::removes);
        let uid = object["metadata"]["uid"].as_str();
        match target.uid.as_deref() {
            _ if object.is_null() => {
                return (target.uid.is_some() && !goes).then(|| format!("{target} has been deleted"));
            }
            None => return Some(format!("{target} exists now")),
            Some(planned) if uid != Some(planned) => {
                return Some(format!("{target} has been deleted and recreated"));
            }
            Some(_) => {}
        }
        if !goes && is_deleting(object) {
            return Some(format!("{target} is being deleted"));
        }
        let generation = object["metadata"]["generation"].as_i64().unwrap_or_default();
        if self.generation.is_some_and(|planned| planned != generation) {
            return Some(format!("the spec of {target} has been changed"));
        }
        let pause = ApiFlavor::ALL.into_iter().find(|flavor| target.kind == (*flavor).into())?.key("pause");
        let hold = Hold::from_object(object, &pause)?;
        let known = self.holder.as_deref() == Some(hold.identity) || ignores(&hold);
        (!known).then(|| format!("{target} has been paused by {}", hold.describe()))
    }
}

pub(super) fn is_deleting(object: &Value) -> bool {
    lookup(object, "/metadata/deletionTimestamp").is_some()
}

impl Step {
    /// The custom resources whose keys or conditions the step changes on a node, or the custom resource that
    /// it deletes, releases or creates.
    pub fn resource_names(&self) -> BTreeSet<&str> {
        match &self.change {
            Change::Metadata(metadata) if self.target.kind == Kind::Node => metadata
                .annotations
                .keys()
                .chain(metadata.labels.keys())
                .filter_map(|key| NodeKey::resource(key))
                .collect(),
            Change::Conditions { remove, restore } => remove
                .iter()
                .chain(restore)
                .filter_map(|c| c["type"].as_str())
                .filter_map(NodeKey::resource)
                .collect(),
            change if (change.creates() || change.removes()) && self.target.kind.is_skyhook() => {
                [self.target.name.as_str()].into()
            }
            _ => BTreeSet::new(),
        }
    }
}

impl Plan {
    /// Records the state of the custom resources and of the operator that the plan was made for.
    pub fn rely_on(&mut self, cluster: &Cluster) {
        let mut names: BTreeSet<String> = BTreeSet::new();
        for step in self.steps() {
            names.extend(step.resource_names().into_iter().map(str::to_owned));
            names.extend(owner(cluster, &step.target).map(str::to_owned));
        }
        let mut resources: Vec<ResourceState> = names.iter().flat_map(|name| states(cluster, name)).collect();
        // After an edit of the spec, later waves would run something else than the preview shows.
        let edits =
            |change: &Change| matches!(change, Change::Spec(_)) || change.creates() || change.removes();
        for state in resources
            .iter_mut()
            .filter(|state| self.grade() > Grade::B1 && !self.changes(&state.target, edits))
        {
            state.generation = cluster.skyhook(&state.target.name).map(|skyhook| skyhook.metadata.generation);
        }
        for step in self.stages.iter_mut().flat_map(|stage| &mut stage.steps) {
            let node = Some(&step.target).filter(|target| target.kind == Kind::Node);
            let Some(node) = node.and_then(|target| cluster.node(&target.name)) else {
                continue;
            };
            let named = step.resource_names().into_iter().filter_map(|name| cluster.skyhook(name));
            let unselected: Vec<&Skyhook> = named.filter(|skyhook| !skyhook.selects(node)).collect();
            for skyhook in unselected {
                resources
                    .iter_mut()
                    .filter(|state| state.target.name == skyhook.name())
                    .for_each(|state| state.generation = Some(skyhook.metadata.generation));
                for (pointer, value) in labels(skyhook, node) {
                    step.guard.values.insert(pointer, value);
                }
            }
        }
        let operator = (!resources.is_empty() && !self.needs_operator())
            .then(|| cluster.operators.ok().map(OperatorAvailability::of))
            .flatten();
        self.preconditions = Preconditions {
            resources,
            operator: operator.filter(|state| *state < OperatorAvailability::Running),
        };
    }

    /// Whether the plan expects the operator to act.
    fn needs_operator(&self) -> bool {
        let deletes =
            |step: &Step| matches!(step.change, Change::Delete { .. }) && step.target.kind.is_custom();
        let awaits = |condition: &Condition| !matches!(condition, Condition::Gone | Condition::Released(_));
        self.steps().any(|step| step.change.holds() || deletes(step))
            || self
                .stages
                .iter()
                .filter_map(|stage| stage.until.as_ref())
                .any(|until| awaits(&until.condition))
    }
}

/// The custom resources of this name: that of the active API, and without one also that of the other API,
/// each present or absent. Empty if they could not be read.
fn states(cluster: &Cluster, name: &str) -> Vec<ResourceState> {
    let active = cluster.flavor();
    if let Some(skyhook) = cluster.skyhook(name) {
        return vec![ResourceState::of_object(active, name, &skyhook.whole)];
    }
    let absent = |flavor: ApiFlavor| ResourceState::of_object(flavor, name, &Value::Null);
    let known = (cluster.skyhooks_absence() != Certainty::Unknown).then(|| absent(active));
    let other = match cluster.legacy_skyhook(name) {
        Some(legacy) => Some(ResourceState::of_object(active.other(), name, &legacy.whole)),
        None => (cluster.legacy.absence() == Certainty::Proven).then(|| absent(active.other())),
    };
    known.into_iter().chain(other).collect()
}

/// The custom resource that a pod, a Job or a ConfigMap belongs to.
fn owner<'a>(cluster: &'a Cluster, target: &Target) -> Option<&'a str> {
    fn find<'a, T: Object>(all: &'a [T], target: &Target) -> Option<&'a T> {
        let namespace = target.namespace.as_deref().unwrap_or_default();
        all.iter().find(|object| object.key() == (namespace, target.name.as_str()))
    }
    let labels = match target.kind {
        Kind::Pod => &find(cluster.pods.items(), target)?.metadata.labels,
        Kind::Job => &find(cluster.jobs.items(), target)?.metadata.labels,
        Kind::ConfigMap => {
            return cluster
                .config_maps
                .iter()
                .chain(&cluster.node_metadata)
                .filter(|map| Target::of(Kind::ConfigMap, &map.metadata).same_object_name(target))
                .find_map(|map| Some(map.owner()?.1));
        }
        _ => return None,
    };
    ApiFlavor::ALL.into_iter().find_map(|flavor| labels.get(&flavor.key("name"))).map(|name| &**name)
}

/// The values of the node's labels that the custom resource selects by, as guard values.
fn labels(skyhook: &Skyhook, node: &Node) -> Vec<(String, Value)> {
    let selector = &skyhook.spec.node_selectors;
    let expressions = selector.match_expressions.iter().map(|requirement| &requirement.key);
    let keys = selector.match_labels.keys().chain(expressions);
    // The server fails a test inside a missing map.
    if node.labels.is_empty() {
        return vec![(pointer(&["metadata", "labels"]), Value::Null)];
    }
    keys.map(|key| {
        (pointer(&["metadata", "labels", key]), json!(node.labels.get(key).map(|value| value.as_str())))
    })
    .collect()
}

/// Values that the object must have, by JSON pointer; null means absent.
///
/// A change itself tests the values that it replaces. The guard contains all other preconditions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Guard {
    pub values: BTreeMap<String, Value>,
}

impl Guard {
    /// Requires that the object is not being deleted.
    pub fn not_deleting(self) -> Guard {
        self.require("/metadata/deletionTimestamp", Value::Null)
    }

    /// Requires a value; null means absent.
    pub fn require(mut self, pointer: impl Into<String>, value: Value) -> Guard {
        self.values.insert(pointer.into(), value);
        self
    }

    /// The guard as a JSON Patch can test it on this object: the server fails a test inside a missing map, so the
    /// absence of the map is tested.
    pub fn testable(&self, object: &Value) -> Guard {
        let lift = |(pointer, expected): (&String, &Value)| {
            let mut at = pointer.as_str();
            while expected.is_null()
                && let Some((map, _)) = at.rsplit_once('/')
                && !map.is_empty()
                && lookup(object, map).is_none()
            {
                at = map;
            }
            (at.to_owned(), expected.clone())
        };
        Guard { values: self.values.iter().map(lift).collect() }
    }

    /// Checks every value; the error names the first difference.
    pub fn check(&self, object: &Value) -> Result<(), String> {
        check(object, &self.values)
    }
}

/// Checks every value; the error names the first difference.
pub(super) fn check<'a>(
    object: &Value,
    tests: impl IntoIterator<Item = (&'a String, &'a Value)>,
) -> Result<(), String> {
    for (pointer, expected) in tests {
        let found = lookup(object, pointer).unwrap_or(&Value::Null);
        if found != expected {
            let name = pointer.trim_start_matches("/metadata/").replace("~1", "/").replace("~0", "~");
            return Err(match (expected, found) {
                (Value::Null, _) => format!("{name} exists now"),
                (_, Value::Null) => format!("{name} is gone"),
                _ => format!("{name} has changed"),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_difference_is_named() {
        let guard = Guard::default()
            .not_deleting()
            .require("/metadata/annotations/example.com~1state", json!("a"))
            .require("/spec/priority", Value::Null);
        let object = |state: Value, priority: Value| json!({"metadata": {"annotations": {"example.com/state": state}}, "spec": {"priority": priority}});
        assert_eq!(guard.check(&object(json!("a"), Value::Null)), Ok(()));
        let wrong = |object: Value| guard.check(&object).expect_err("a difference");
        assert_eq!(wrong(object(json!("b"), Value::Null)), "annotations/example.com/state has changed");
        assert_eq!(wrong(json!({"spec": {}})), "annotations/example.com/state is gone");
        assert_eq!(wrong(object(json!("a"), json!(7))), "/spec/priority exists now");
        let mut deleted = object(json!("a"), Value::Null);
        deleted["metadata"]["deletionTimestamp"] = json!("2026-11-20T10:00:00Z");
        assert_eq!(wrong(deleted), "deletionTimestamp exists now");
    }

    /// A server fails a test inside a map that is missing.
    #[test]
    fn the_absence_of_a_value_in_a_missing_map_is_that_of_the_map() {
        let guard = Guard::default()
            .require("/metadata/annotations/a", Value::Null)
            .require("/metadata/labels/b", json!("x"));
        let tested = |object: Value| guard.testable(&object).values.into_keys().collect::<Vec<_>>();
        assert_eq!(tested(json!({"metadata": {}})), ["/metadata/annotations", "/metadata/labels/b"]);
        assert_eq!(
            tested(json!({"metadata": {"annotations": {"c": "y"}}})),
            ["/metadata/annotations/a", "/metadata/labels/b"]
        );
    }
}
