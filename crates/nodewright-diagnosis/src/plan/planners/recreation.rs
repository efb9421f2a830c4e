//! The steps that recreate a custom resource. Pure.

use serde_json::{Value, json};

use crate::api::keys::NodeKey;
use crate::api::{ApiFlavor, NodeState, Skyhook};
use crate::cluster::{Certainty, Cluster, Node, Phase};
use crate::error::{Error, Result};
use crate::plan::planners::{node, pause_guard};
use crate::plan::recreate::as_new;
use crate::plan::{
    Change, Consequences, Field, Hold, Metadata, Plan, PlanStage, Step, Target, WaitCondition, WaitFor,
};
use crate::view::NodeSet;

/// Maximum wait for the deletion of the old object, in seconds.
const AT_MOST: u64 = 60;
/// Maximum wait for the operator to see the new object, in seconds.
const SEEN_WITHIN: u64 = 20;
/// The annotation for the reason of the recreation.
const REASON: &str = "kubectl-skyhook/undelete-reason";
/// Maximum number of node-name ranges in a warning.
const SHOWN: usize = 6;

/// A custom resource that is recreated.
pub struct Recreation<'a> {
    cluster: &'a Cluster,
    flavor: ApiFlavor,
    /// The new custom resource, with the status of the old one.
    pub skyhook: Skyhook,
    object: Value,
    stages: Vec<PlanStage>,
    /// The restored node states.
    states: Vec<(&'a str, NodeState)>,
    /// The end of our pause, which is on the old object or on the new one.
    release: Option<Hold>,
    pub effects: Consequences,
}

impl<'a> Recreation<'a> {
    /// # Errors
    ///
    /// The saved object is not a custom resource.
    pub fn of(cluster: &'a Cluster, was: &Value, reason: Option<&str>) -> Result<Recreation<'a>> {
        let flavor = cluster.flavor();
        let mut was = was.clone();
        was["apiVersion"] = json!(flavor.api_version());
        was["kind"] = json!(flavor.kind());
        // The new object is not being deleted.
        if let Some(metadata) = was["metadata"].as_object_mut() {
            metadata.shift_remove("deletionTimestamp");
        }
        let skyhook: Skyhook = serde_json::from_value(was.clone())
            .map_err(|e| Error::failed(format!("the saved object cannot be read: {e}")))?;
        let mut object = as_new(&was);
        if let Some(reason) = reason {
            object["metadata"]["annotations"][REASON] = json!(reason);
        }
        Ok(Recreation {
            cluster,
            flavor,
            skyhook,
            object,
            stages: Vec::new(),
            states: Vec::new(),
            release: None,
            effects: Consequences::default(),
        })
    }

    fn purpose(&self) -> String {
        format!("undelete {}", self.skyhook.name())
    }

    fn target(&self, uid: Option<&str>) -> Target {
        Target::skyhook(self.flavor, self.skyhook.name(), uid)
    }

    /// Adds steps that restore the keys removed from nodes. The wait of the creation relies on these steps: the
    /// operator must not see the new object before the keys are restored.
    pub fn restore(&mut self, steps: &[Step]) {
        let mut gone: Vec<&str> = Vec::new();
        let mut kept = Vec::new();
        for step in steps {
            let node = self.cluster.node(&step.target.name);
            let same =
                |n: &&Node| step.target.uid.is_none() || step.target.uid.as_deref() == n.uid.as_deref();
            let Some(node) = node.filter(same) else {
                gone.push(&step.target.name);
                continue;
            };
            self.note(node, &step.change);
            kept.push(step.clone());
        }
        if !gone.is_empty() {
            let set = NodeSet::of(gone);
            self.effects.warn(format!(
                "data removed from deleted or replaced nodes is not restored: {}",
                set.limited(SHOWN)
            ));
        }
        if !kept.is_empty() {
            self.stages.push(PlanStage::of(kept));
        }
    }

    /// Records the node state that a step restores.
    fn note(&mut self, node: &'a Node, change: &Change) {
        let Change::Metadata(metadata) = change else {
            return;
        };
        let mut state = NodeState::default();
        for (key, edit) in &metadata.annotations {
            let parsed = NodeKey::parse(self.flavor, key);
            if let (Some(NodeKey::NodeState { skyhook, package }), Some(text)) = (parsed, &edit.to)
                && skyhook == self.skyhook.name()
            {
                state.add(key, package, text);
            }
        }
        if !state.entries().is_empty() {
            self.states.push((&node.name, state));
        }
    }

    /// Pauses the old object if the operator may act on it, removes the operator's finalizer, and waits until
    /// the object is deleted.
    pub fn let_go(&mut self, old: &Skyhook, no_pause: bool) {
        if !no_pause
            && pause_guard::acts(self.cluster, old)
            && let Some([first, _]) = pause_guard::ends(self.cluster, old, &self.purpose())
        {
            self.stages.push(first);
            self.release = pause_guard::pair(self.cluster, old, &self.purpose()).map(|[_, end]| end);
        }
        let target = self.target(old.metadata.uid.as_deref());
        let entry = self.flavor.finalizer();
        let mut all = old.metadata.finalizers.iter();
        if let Some(index) = all.position(|f| *f == entry) {
            let change = Change::Finalizer { entry, index, was: Some(Box::new(old.whole.clone())) };
            let why = "the old object must be gone before the new one is created";
            self.stages.push(PlanStage {
                steps: vec![Step::new(target.clone(), change, why)],
                until: Some(WaitFor { target, condition: WaitCondition::Gone, at_most: AT_MOST }),
                ..PlanStage::default()
            });
        }
        self.effects.warn(format!(
            "Kubernetes cannot cancel a deletion: {} is removed and recreated immediately",
            old.reference()
        ));
        let package_runs = self.cluster.package_runs();
        let at_work = package_runs.all().iter();
        let at_work = at_work.filter(|run| run.skyhook == old.name() && run.alive());
        let on = NodeSet::of(at_work.map(|run| run.node));
        if !on.is_empty() {
            self.effects.warn(format!(
                "package pods are running on {}: removing the old object kills them while they modify the hosts",
                on.limited(SHOWN)
            ));
        }
    }

    /// Removes the status `in_progress` from nodes: the operator would work on all of them at once. A pause of
    /// the old object has replaced this status.
    pub fn clear_progress(&mut self) {
        if self.release.is_some() {
            return;
        }
        let name = self.skyhook.name();
        let mut steps = Vec::new();
        for node in self.cluster.nodes.items().iter().filter(|node| self.skyhook.selects(node)) {
            let mut change = Metadata::default();
            for (flavor, name) in node::owned(self.cluster, name) {
                if let Some(on) = node.keys(flavor).of(name) {
                    change = node::without_progress(change, flavor, name, on);
                }
            }
            if !change.is_empty() {
                let why = "otherwise the operator works on all nodes with this status at once";
                steps.push(Step::new(Target::of_node(node), Change::Metadata(change), why));
            }
        }
        if !steps.is_empty() {
            self.stages.push(PlanStage::of(steps));
        }
    }

    /// Creates the new object, with the part of the status that the operator cannot derive again.
    pub fn make(&mut self) {
        let target = self.target(None);
        let create = |object: Value, condition: WaitCondition| PlanStage {
            steps: vec![Step::new(
                target.clone(),
                Change::Create(Box::new(object)),
                "restores the saved object",
            )],
            until: Some(WaitFor { target: target.clone(), condition, at_most: SEEN_WITHIN }),
            ..PlanStage::default()
        };
        // Without `configUpdates` in the status, packages with only a changed configuration would be
        // interrupted again.
        let updates = self.skyhook.whole["status"]["configUpdates"].clone();
        if updates.as_object().is_none_or(|updates| updates.is_empty()) {
            self.stages.push(create(self.object.clone(), WaitCondition::Exists));
            return;
        }
        let status = |field: Field| {
            let why = "otherwise packages whose configuration has changed would run their interrupts again";
            PlanStage::of(vec![Step::new(target.clone(), Change::Status(vec![field]), why)])
        };
        if pause_guard::away(self.cluster) {
            let status_alone = json!({"configUpdates": updates});
            let field = Field::new(["status"], None, Some(status_alone));
            self.stages.push(create(self.object.clone(), WaitCondition::Exists));
            self.stages.push(status(field));
            return;
        }
        // Create the object paused: the operator then writes the rest of the status, and starts nothing yet.
        let mut held = self.object.clone();
        if pause_guard::acts(self.cluster, &self.skyhook) {
            let key = self.flavor.key("pause");
            let annotations = |key: &str| self.object["metadata"]["annotations"][key].as_str();
            let [hold, end] = Hold::around(&key, &self.purpose(), annotations, None);
            hold.mark(&mut held);
            self.release = Some(end);
        }
        let field = Field::new(["status", "configUpdates"], None, Some(updates));
        self.stages.push(create(held, WaitCondition::Seen));
        self.stages.push(status(field.with_any_old_value()));
    }

    pub fn plan(mut self, title: String) -> Plan {
        if let Some(end) = self.release.take() {
            let end = pause_guard::end(self.target(None), end);
            self.stages.push(end);
        }
        let (cluster, skyhook) = (self.cluster, &self.skyhook);
        let mut effects = self.effects;
        let rerun = cluster.selected(skyhook).any(|node| {
            let restored = self.states.iter().find(|(name, _)| *name == node.name).map(|(_, state)| state);
            let on = cluster.on_node(node, skyhook.name()).and_then(|on| on.state.as_deref());
            // Absent implies a requested uninstall.
            let done = |name| {
                matches!(skyhook.phase(cluster, name, restored.or(on)), Phase::Complete | Phase::Absent)
            };
            skyhook.packages().any(|(name, _)| !done(name))
        });
        if rerun {
            effects.warn("packages that were not complete, or whose uninstall had started, rerun as listed");
        }
        effects.warn("the uid, status and batch state are not preserved");
        let policy = &skyhook.spec.deployment_policy;
        let policies = cluster.policies.items();
        if !policy.is_empty()
            && cluster.policies.absence() == Certainty::Proven
            && policies.iter().all(|p| p.metadata.name != *policy)
        {
            effects.warn(format!(
                "deployment policy {policy} is gone: the operator rejects a custom resource that refers \
                 to it"
            ));
        }
        Plan { stages: self.stages, consequences: effects, ..Plan::new(title, skyhook.name()) }
    }
}
