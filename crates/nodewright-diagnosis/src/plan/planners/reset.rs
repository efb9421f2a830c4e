//! The plan of a reset, for `reset` and `node reset`. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{batches, merge, node, pause_guard, refuse_held, refuse_unmigrated, refuse_unreadable};
use crate::api::{Entry, NodeState, Skyhook, keys};
use crate::cluster::placement::is_uninstalled;
use crate::cluster::{Cluster, Node, NodeRecord};
use crate::error::Result;
use crate::model::Model;
use crate::plan::{
    Change, Consequences, Edit, Metadata, OnConflict, Plan, PlanStage, Refusal, RemovedEntry, Step, Target,
    some_nodes,
};
use crate::text::plural;

/// The scope of a reset.
#[derive(Debug)]
pub struct ResetRequest<'a> {
    pub name: &'a str,
    pub nodes: Vec<&'a Node>,
    /// A package, optionally at one version.
    pub package: Option<(&'a str, Option<&'a str>)>,
    pub failed_only: bool,
    /// Whether the rollout's batches restart.
    pub batches: bool,
    pub retaint: bool,
    pub no_pause: bool,
    pub force: bool,
}

/// The plan of a reset.
///
/// # Errors
///
/// A [`Refusal`]; without a NAME, that of any custom resource refuses all. `commands/reset.rs` adds only errors of usage.
/// While planning, [`refuse_held`] and the refusals of a pause last:
///
/// - `Unmigrated`: only the older API has the custom resource ([`refuse_unmigrated`]);
/// - `UnreadableState`: with `--package`, if the state of a selected node cannot be read ([`refuse_unreadable`]);
/// - `WouldBeSkipped`: with `--package`, if the operator would never run it again ([`refuse_skipped`]);
/// - `StagesOfDeleted`: without `--force`, while stages of a deleted custom resource still run on a selected node
///   ([`pause_guard::refuse_running_leftovers`]);
/// - `HeldByOlderApi`: without `--force`, while unfinished objects of the older API hold the operator ([`refuse_held`]);
/// - `PausedByCommand`: without `--no-pause`, if the reset needs a pause ([`pause_guard::is_needed`]) but another command,
///   which may still be running, has paused the custom resource ([`pause_guard::refuse_held_by_command`]);
/// - `PauseHidesFailures`: without `--no-pause`, if the reset needs a pause but a Job has failed permanently on a node that
///   is not reset, and a stage runs on one that is ([`pause_guard::around`]);
/// - `NoCopyOfState`: only with `--unreadable`, which otherwise has only `HeldByOlderApi` ([`restore`]).
///
/// As every change:
///
/// - `OtherApi`: when objects are read, with `--api`, if the operator acts only on the other API (`refuse_other_api` in
///   `ctx/execute.rs`);
/// - `TooManyNodes`: with `--max-nodes` (`within` in `ctx/execute.rs`);
/// - `NotConfirmed`, `NobodyToAsk`, `NotEnough`: without `--confirm`, by the answer, or without a terminal (`ctx/process.rs`);
/// - `ChangedSincePreview`: after the answer, if the effects have grown ([`growth`](crate::plan::growth)) or a spec has
///   changed; before the first write, also with `--confirm`, if a precondition no longer holds (`apply/precondition.rs`).
pub fn plan<'a>(cluster: &'a Cluster, request: &'a ResetRequest<'a>) -> Result<Plan> {
    refuse_unmigrated(cluster, request.name)?;
    refuse_stranding(cluster, request)?;
    if !request.force {
        pause_guard::refuse_running_leftovers(cluster, request.name, &request.nodes)?;
    }
    let mut making = ResetPlanner {
        cluster,
        request,
        skyhook: cluster.skyhook(request.name),
        steps: Vec::new(),
        touched: Vec::new(),
        reruns: Vec::new(),
        packages: BTreeSet::new(),
        unreadable: 0,
        recorded: 0,
        left_spec: BTreeMap::new(),
    };
    for node in request.nodes.iter().copied() {
        if request.failed_only && !making.record_on(node).is_some_and(NodeRecord::fails) {
            continue;
        }
        match request.package {
            Some((package, version)) => making.forget_package(node, package, version),
            None => making.forget_all(node),
        }
    }
    let mut plan = making.finish()?;
    // Leftovers of a deleted object do not concern the operator.
    if cluster.skyhook(request.name).is_some() {
        refuse_held(cluster, &mut plan, request.force)?;
    }
    Ok(plan)
}

/// Refuses to reset a single package on a node where the operator would never run it again.
fn refuse_stranding(cluster: &Cluster, request: &ResetRequest<'_>) -> Result<()> {
    let Some((name, version)) = request.package else {
        return Ok(());
    };
    refuse_unreadable(cluster, request.name, &request.nodes)?;
    let Some(skyhook) = cluster.skyhook(request.name) else {
        return Ok(());
    };
    let Some(spec) = skyhook.package(name) else {
        return Ok(());
    };
    // A package being uninstalled or deleted should not run again.
    if skyhook.deleting() || skyhook.uninstalls(spec) || version.is_some_and(|v| v != spec.version) {
        return Ok(());
    }
    let key = spec.entry_key(name);
    let targets: Vec<(&Node, &NodeRecord)> = request
        .nodes
        .iter()
        .filter_map(|node| Some((*node, cluster.on_node(node, request.name)?)))
        .filter(|(_, on)| on.entry(&key).is_some_and(|e| !e.stage.is_uninstall()))
        .filter(|(_, on)| !request.failed_only || on.fails())
        .collect();
    refuse_skipped(cluster, skyhook, name, &targets)
}

struct ResetPlanner<'a> {
    cluster: &'a Cluster,
    request: &'a ResetRequest<'a>,
    skyhook: Option<&'a Skyhook>,
    steps: Vec<Step>,
    touched: Vec<&'a Node>,
    /// Nodes on which packages run again.
    reruns: Vec<&'a Node>,
    /// Packages that lose an entry.
    packages: BTreeSet<&'a str>,
    /// Number of nodes whose state cannot be read.
    unreadable: usize,
    /// Number of nodes that lose an installation record and on which nothing runs again.
    recorded: usize,
    /// Installed packages that the spec lacks and that lose their record, with the number of nodes.
    left_spec: BTreeMap<&'a str, usize>,
}

impl<'a> ResetPlanner<'a> {
    fn record_on(&self, node: &'a Node) -> Option<&'a NodeRecord> {
        self.cluster.on_node(node, self.request.name)
    }

    /// Adds the removal of the keys that the custom resource left on a node. Conditions are removed only if
    /// the custom resource is deleted.
    fn forget_all(&mut self, node: &'a Node) {
        let mut change = node::clear_state(self.cluster, node, self.request.name);
        let conditions = self.without_orphaned_conditions(node);
        if change.is_empty() && conditions.is_none() {
            return;
        }
        if self.request.retaint && self.retaints(node) {
            let flavor = self.cluster.flavor();
            for taint in &node.keys(flavor).auto_taints {
                let key = flavor.key(&format!("autoTaint_{taint}"));
                change =
                    change.annotation(key, Edit::new(Some("true"), None).on_conflict(OnConflict::Overwrite));
            }
        }
        if let Some(on) = self.record_on(node) {
            self.unreadable += usize::from(on.is_malformed());
            let on_host = on.entries().iter().filter(|e| !is_uninstalled(self.skyhook, e));
            self.packages.extend(on_host.map(|e| e.name.as_ref()));
        }
        match self.runs_here(node) {
            Some(skyhook) => {
                if skyhook.packages().any(|(_, package)| !skyhook.uninstalls(package)) {
                    self.reruns.push(node);
                }
                self.count_left_spec(skyhook, node, |_| true);
            }
            None => {
                self.recorded += usize::from(self.record_on(node).is_some_and(|on| !on.entries().is_empty()))
            }
        }
        let why = match self.runs_here(node) {
            Some(_) => "packages run again from the start",
            None => "removes all state of the custom resource from the node",
        };
        self.step(node, change, why, None);
        if let Some(change) = conditions {
            let why = "the custom resource that the conditions belong to is gone";
            self.steps.push(Step::new(Target::of_node(node), change, why));
        }
    }

    /// Adds the removal of one package's entries on a node.
    fn forget_package(&mut self, node: &'a Node, package: &str, version: Option<&str>) {
        let Some(state) = self.record_on(node).and_then(|on| on.state.as_ref()) else {
            return;
        };
        let mut keys = Vec::new();
        let mut installed = false;
        for entry in state.entries() {
            let this = entry.name == package && version.is_none_or(|v| entry.version == v);
            if this && !keys.iter().any(|key| entry.key == *key) {
                if !is_uninstalled(self.skyhook, entry) {
                    installed = true;
                    self.packages.insert(&entry.name);
                }
                keys.push(entry.key.to_string());
            }
        }
        if keys.is_empty() {
            return;
        }
        let in_spec = self.skyhook.and_then(|s| s.spec.packages.get_key_value(package));
        let current = in_spec.filter(|(_, spec)| version.is_none_or(|v| v == spec.version));
        let mut why = "the record of the package is removed";
        match (self.runs_here(node), current) {
            (Some(skyhook), Some((_, spec))) if !skyhook.uninstalls(spec) => {
                self.reruns.push(node);
                why = "the package runs again from the start";
            }
            (None, _) => self.recorded += usize::from(installed),
            (Some(skyhook), _) => {
                self.count_left_spec(skyhook, node, |entry| keys.contains(&entry.key.to_string()))
            }
        }
        self.step(node, node::remove_entries(state, &keys), why, Some(&keys));
    }

    /// Counts the installed packages that the spec lacks, of the entries that the plan removes.
    fn count_left_spec(&mut self, skyhook: &Skyhook, node: &'a Node, removes: impl Fn(&Entry) -> bool) {
        let entries = self.record_on(node).into_iter().flat_map(NodeRecord::entries);
        let lost: BTreeSet<&str> = entries
            .filter(|e| removes(e) && skyhook.package(&e.name).is_none())
            .filter(|e| !is_uninstalled(Some(skyhook), e))
            .map(|e| e.name.as_ref())
            .collect();
        for package in lost {
            *self.left_spec.entry(package).or_default() += 1;
        }
    }

    /// Adds the step for a node's change, which removes these entries of the node state, or all entries.
    fn step(&mut self, node: &'a Node, mut change: Metadata, why: &str, keys: Option<&[String]>) {
        self.touched.push(node);
        if change.is_empty() {
            return;
        }
        let mut awaited = Vec::new();
        if let Some(skyhook) = self.skyhook.filter(|s| s.deleting()) {
            remove_even_if_updated(&mut change);
            let pending = self.cluster.pending_uninstalls_on(skyhook, node);
            let removed = pending.filter(|p| keys.is_none_or(|keys| keys.contains(&p.entry.key.to_string())));
            awaited.extend(removed.filter_map(|p| {
                let (annotation, _) = p.on.state.as_ref()?.annotation_of(&p.entry.key)?;
                Some(RemovedEntry { annotation: annotation.to_owned(), entry: p.entry.key.to_string() })
            }));
        }
        // Without an operator, nothing is written back.
        if !self.cluster.operator().may_write() {
            awaited.clear();
        }
        let step = Step::new(Target::of_node(node), Change::Metadata(change), why);
        self.steps.push(step.stays_removed(awaited));
    }

    /// The custom resource, if the operator would run its packages on the node.
    fn runs_here(&self, node: &Node) -> Option<&'a Skyhook> {
        let selects = |s: &&Skyhook| s.selects(node);
        self.skyhook.filter(|s| !s.deleting()).filter(selects)
    }

    /// Whether only this custom resource adds the runtime-required taint to the node.
    fn retaints(&self, node: &Node) -> bool {
        let taints = |s: &&Skyhook| s.spec.runtime_required && s.spec.auto_taint_new_nodes && s.selects(node);
        let mut all = self.cluster.skyhooks.iter().filter(taints);
        all.next().is_some_and(|s| s.name() == self.request.name) && all.next().is_none()
    }

    /// The change that removes the conditions of a deleted custom resource.
    fn without_orphaned_conditions(&self, node: &Node) -> Option<Change> {
        let gone = self.cluster.skyhooks.ok().is_some() && self.skyhook.is_none();
        node::without_conditions(node, &node::owned(self.cluster, self.request.name)).filter(|_| gone)
    }

    fn finish(self) -> Result<Plan> {
        let what = match self.request.package {
            Some((package, Some(version))) => {
                format!("{package} {version} of {}", self.request.name)
            }
            Some((package, None)) => format!("{package} of {}", self.request.name),
            None => self.request.name.to_owned(),
        };
        let batches = self.batches();
        let mut plan = Plan {
            title: match self.touched.len() {
                0 if batches.is_some() => format!("reset the batches of {}", self.request.name),
                touched => format!("reset {what} on {}", plural(touched, "node")),
            },
            subject: self.request.name.to_owned(),
            erroring: Some(format!("{}=erroring", keys::status(self.cluster.flavor(), self.request.name))),
            consequences: self.consequences(),
            ..Plan::default()
        };
        plan.stage(self.steps);
        plan.stages.extend(batches);
        let Some(skyhook) = self.skyhook else {
            return Ok(plan);
        };
        if !plan.stages.is_empty() {
            let package = self.request.package.map(|(name, _)| name);
            pause_guard::end_failing(self.cluster, skyhook, &self.touched, package, &mut plan);
            pause_guard::warn_of_halt(self.cluster, skyhook, &self.touched, package, &mut plan);
        }
        pause_guard::around_if_needed(self.cluster, plan, skyhook, &self.touched, self.request.no_pause)
    }

    /// The stage that restarts the batches; `None` if this is not requested or has no effect.
    fn batches(&self) -> Option<PlanStage> {
        let skyhook = self.skyhook?;
        let idle = self.steps.is_empty() && !batches::rollout_started(skyhook);
        if !self.request.batches || idle {
            return None;
        }
        let target = Target::of_skyhook(self.cluster.flavor(), skyhook);
        let change = Change::Status(batches::reset(skyhook)?);
        let step = Step::new(target, change, "the rollout starts again from the first batch");
        Some(PlanStage::of(vec![step.may_be_gone()]))
    }

    fn consequences(&self) -> Consequences {
        let mut consequences = Consequences::default();
        if self.steps.iter().any(|step| !step.stays_removed.is_empty()) {
            let checked =
                "afterwards, this command checks that the operator does not record the removed state again";
            consequences.notes.push(checked.to_owned());
        }
        if let Some(skyhook) = self.skyhook {
            if !skyhook.deleting() && !self.request.batches {
                batches::warn_of_counters(self.cluster, skyhook, &self.reruns, &mut consequences);
            }
            let bypassed = merge::bypassed_uninstalls(skyhook, &self.packages, &mut consequences);
            consequences.loses_record |= bypassed;
            if let Some((package, _)) = self.request.package
                && !self.reruns.is_empty()
            {
                let targets: Vec<(&Node, &NodeRecord)> =
                    self.touched.iter().filter_map(|node| Some((*node, self.record_on(node)?))).collect();
                merge::dependants_stay(skyhook, package, &targets, &mut consequences);
            }
            if self.request.retaint && !skyhook.spec.auto_taint_new_nodes {
                consequences
                    .warn(format!("--retaint has no effect: {skyhook} does not set autoTaintNewNodes"));
            }
        }
        if self.recorded > 0 {
            let nodes = plural(self.recorded, "node");
            let name = self.request.name;
            consequences.warn(match self.skyhook {
                None => format!(
                    "{name} does not exist: the only record of what it installed on {nodes} is removed"
                ),
                Some(s) if s.deleting() => format!(
                    "{name} is being deleted: the only record of what it installed on {nodes} is removed"
                ),
                Some(_) => format!(
                    "{name} no longer selects {nodes}: the only record of what it installed there is removed"
                ),
            });
        }
        for (package, nodes) in &self.left_spec {
            consequences.warn(format!(
                "{package} is not in the spec: the only record of what it installed on {} is removed",
                plural(*nodes, "node")
            ));
        }
        if self.unreadable > 0 {
            consequences.warn(format!(
                "the state on {} cannot be read: what is installed there is unknown, and the record is removed",
                plural(self.unreadable, "node")
            ));
        }
        consequences
    }
}

/// Refuses if the operator would never run the package again on one of the nodes.
///
/// # Errors
///
/// There is such a node.
pub fn refuse_skipped(
    cluster: &Cluster,
    skyhook: &Skyhook,
    package: &str,
    targets: &[(&Node, &NodeRecord)],
) -> Result<()> {
    // The operator may be paused now.
    let model = Model::unhindered(cluster);
    let stranded: Vec<&str> = targets
        .iter()
        .filter(|(node, _)| model.would_overlook(skyhook, node, package))
        .map(|(node, _)| node.name.as_str())
        .collect();
    if stranded.is_empty() {
        return Ok(());
    }
    Err(Refusal::WouldBeSkipped {
        package: package.to_owned(),
        nodes: some_nodes(&stranded),
        skyhook: skyhook.name().to_owned(),
        node: stranded[0].to_owned(),
    }
    .into())
}

/// Makes the edits remove entries even if the operator has updated them: during a deletion, the operator uninstalls the
/// node's other packages and retries failing packages.
pub fn remove_even_if_updated(change: &mut Metadata) {
    for edit in change.annotations.values_mut() {
        match &mut edit.on_conflict {
            OnConflict::MoveEntries(moves) => moves.iter_mut().for_each(|m| m.retried = true),
            on_conflict @ OnConflict::IfStillFailing => *on_conflict = OnConflict::Overwrite,
            _ => {}
        }
    }
}

/// The plan that restores the unreadable states of these nodes.
///
/// # Errors
///
/// A [`Refusal`]: `NoCopyOfState`; unless forced, `HeldByOlderApi`.
pub fn restore(cluster: &Cluster, skyhook: &Skyhook, nodes: &[&Node], force: bool) -> Result<Plan> {
    let mut plan = Plan::new("", skyhook.name());
    let mut steps = Vec::new();
    for node in nodes {
        let Some(on) = cluster.on_node(node, skyhook.name()).filter(|on| on.is_malformed()) else {
            continue;
        };
        let Some(change) = repaired(skyhook, node, on) else {
            let (skyhook, node) = (skyhook.name().to_owned(), node.name.to_string());
            return Err(Refusal::NoCopyOfState { skyhook, node }.into());
        };
        let why = "restores the state that the operator last read";
        steps.push(Step::new(Target::of_node(node), Change::Metadata(change), why));
    }
    plan.title = format!("restore the node state of {} on {}", skyhook.name(), plural(steps.len(), "node"));
    if !steps.is_empty() {
        plan.consequences.warn("the operator resumes work on every custom resource");
        plan.stage(steps);
    }
    refuse_held(cluster, &mut plan, force)?;
    Ok(plan)
}

/// Restores the malformed part of a node state from the operator's copy; `None` without a usable copy.
pub fn repaired(skyhook: &Skyhook, node: &Node, on: &NodeRecord) -> Option<Metadata> {
    let state = on.state.as_ref()?;
    let copy = skyhook.status.node_state.of(&node.name)?;
    let mut change = Metadata::default();
    let mut after = NodeState::default();
    for (key, text) in state.annotations() {
        let package = NodeState::package_of(key);
        let text = match state.malformed().iter().find(|m| m.annotation == key) {
            None => text.to_owned(),
            Some(malformed) => {
                let text = restored(&copy, package)?;
                let edit = Edit::new(Some(&malformed.text), Some(&text));
                change = change.annotation(key, edit);
                text
            }
        };
        after.add(key, package, &text);
    }
    after.malformed().is_empty().then_some(change)
}

/// The text of an annotation from the copy: the entries of all packages, or the entry of `package`.
fn restored(copy: &BTreeMap<String, Value>, package: Option<&str>) -> Option<String> {
    match package {
        None if copy.is_empty() => None,
        None => {
            let all: Map<String, Value> = copy.clone().into_iter().collect();
            Some(Value::Object(all).to_string())
        }
        Some(package) => copy.values().find(|e| e["name"] == package).map(Value::to_string),
    }
}
