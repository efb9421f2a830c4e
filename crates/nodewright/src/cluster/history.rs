//! Traces of a package's history in the cluster.
//!
//! A package with a requested uninstall and no node state was either uninstalled or never installed: the
//! operator keeps no record. These traces distinguish the two.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use jiff::Timestamp;

use super::{Certainty, Cluster, Node, PackageRuns, Pod};
use crate::api::{ApiFlavor, Meta, Skyhook};

/// Evidence that a stage of some version of a package once ran, or could have run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StageTrace {
    pub version: String,
    /// Whether the stage was part of an uninstall.
    pub uninstalled: bool,
    /// Whether the trace is from the current generation of the spec or the one before, so that the spec had
    /// no other version in between.
    pub just_before: bool,
    /// The node of the run, if known.
    pub node: Option<String>,
    /// Time of the last start, if known.
    pub at: Option<Timestamp>,
    /// `kind/name` of the object with the evidence.
    pub object: String,
    pub field: &'static str,
    pub message: String,
}

/// The versions in these traces, with a verb: `version 1.0.0 is`, `versions 1.0.0, 1.1.0 are`.
pub fn versions(traces: &[StageTrace], [singular, plural]: [&str; 2]) -> String {
    let versions: BTreeSet<&str> = traces.iter().map(|t| t.version.as_str()).collect();
    let versions = Vec::from_iter(versions);
    match versions.as_slice() {
        [one] => format!("version {one} {singular}"),
        several => format!("versions {} {plural}", several.join(", ")),
    }
}

/// The conclusion from the traces of a package.
#[derive(Debug, Clone, PartialEq)]
pub enum History {
    /// There are traces of the version in the spec: it was installed at some time, or could have been.
    Present(Vec<StageTrace>),
    /// There are traces of other versions only, latest first: the version in the spec was certainly never
    /// installed.
    OnlyOther(Vec<StageTrace>),
    /// No version was ever installed; the text is the proof.
    Never(String),
    /// The history is unknown, for example because traces have expired; the text is the reason.
    Unknown(String),
}

impl History {
    /// Whether the version in the spec was certainly never installed.
    pub fn excludes_spec_version(&self) -> bool {
        matches!(self, History::Never(_) | History::OnlyOther(_))
    }

    /// Whether events that were not read could resolve an unknown history.
    pub fn may_be_in_events(&self, cluster: &Cluster) -> bool {
        matches!(self, History::Unknown(_)) && cluster.events.ok().is_none()
    }
}

/// Maximum number of seconds between the creation of a custom resource and its first event at which the
/// events count as complete.
const FIRST_EVENT_WITHIN: i64 = 60;

impl Cluster {
    /// The history of a package of a custom resource.
    pub fn history(&self, skyhook: &Skyhook, package: &str) -> History {
        self.history_among(&self.package_runs(), skyhook, package)
    }

    pub(super) fn history_among(
        &self,
        package_runs: &PackageRuns<'_>,
        skyhook: &Skyhook,
        package: &str,
    ) -> History {
        let Some(spec) = skyhook.package(package) else {
            return History::Unknown("the package is not in the spec".to_owned());
        };
        let traces = self.traces(package_runs, skyhook, package);
        let (same, mut other): (Vec<_>, Vec<_>) = traces.into_iter().partition(|t| t.version == spec.version);
        if !same.is_empty() {
            return History::Present(same);
        }
        if !other.is_empty() {
            other.sort_by_key(|t| Reverse((t.just_before, t.at)));
            let sure = self.events_cover_life(skyhook) || other.iter().any(|t| t.just_before);
            return if sure {
                History::OnlyOther(other)
            } else {
                let versions = versions(&other, ["is", "are"]);
                History::Unknown(format!("only {versions} recorded, and older records may have expired"))
            };
        }
        if let Some(older) = skyhook.mirrored_from() {
            return History::Unknown(format!(
                "the operator created the custom resource from the older {older}, whose history is unknown"
            ));
        }
        if let Some(why) = self.apply_was_there_from_the_start(skyhook, package) {
            return History::Never(why);
        }
        match self.events.absence() {
            Certainty::Proven if self.events_cover_life(skyhook) => History::Never(
                "the events cover the lifetime of the object, and none mentions the package".to_owned(),
            ),
            Certainty::Proven => History::Unknown("older events have expired".to_owned()),
            Certainty::Presumed => History::Unknown("the capture has no events".to_owned()),
            Certainty::Unknown => History::Unknown("events could not be read".to_owned()),
        }
    }

    fn traces(&self, package_runs: &PackageRuns<'_>, skyhook: &Skyhook, package: &str) -> Vec<StageTrace> {
        let mut traces = self.traces_in_events(skyhook, package);
        traces.extend(traces_in_status(skyhook, package));
        traces.extend(traces_in_last_applied(skyhook, package));
        for package_run in package_runs.of(skyhook.name()) {
            if package_run.package == package {
                traces.push(StageTrace {
                    version: package_run.version.clone(),
                    uninstalled: package_run.stage.is_uninstall(),
                    node: Some(package_run.node.to_owned()),
                    object: package_run.to_string(),
                    field: "stage",
                    message: package_run.stage.to_string(),
                    ..StageTrace::default()
                });
            }
        }
        for (node, on) in self.tracked(skyhook.name()) {
            for entry in on.entries().iter().filter(|e| e.name == package) {
                traces.push(StageTrace {
                    version: entry.version.to_string(),
                    uninstalled: entry.stage.is_uninstall(),
                    node: Some(node.name.to_string()),
                    object: node.to_string(),
                    field: "nodeState",
                    message: format!("{} {}/{}", entry.key, entry.stage, entry.state),
                    ..StageTrace::default()
                });
            }
        }
        traces
    }

    /// Events such as `Applying package [driver:2.0.1] to node [n] stage [uninstall]`, on the
    /// custom resource or on a node.
    fn traces_in_events(&self, skyhook: &Skyhook, package: &str) -> Vec<StageTrace> {
        let start = format!("[{package}:");
        let from = format!("[{}:{}]", self.flavor().name(), skyhook.name());
        let from_old = format!("[{}:{}]", ApiFlavor::Skyhook.name(), skyhook.name());
        let born = skyhook.metadata.creation_timestamp;
        let mut traces = Vec::new();
        for event in self.events_mentioning(skyhook.name()) {
            let ours = if event.kind == "Node" {
                event.message.contains(&from) || event.message.contains(&from_old)
            } else {
                event.name == skyhook.name() && skyhook.metadata.uid.as_deref() == Some(&event.uid)
            };
            // A deleted object of the same name left events on nodes as well.
            if !ours || event.last < born {
                continue;
            }
            let Some((_, rest)) = event.message.split_once(&start) else {
                continue;
            };
            let Some((version, _)) = rest.split_once(']') else {
                continue;
            };
            let node = if event.kind == "Node" {
                Some(event.name.as_str())
            } else {
                rest.split_once("to node [").and_then(|(_, rest)| rest.split_once(']')).map(|(node, _)| node)
            };
            traces.push(StageTrace {
                version: version.to_owned(),
                uninstalled: event.message.contains("stage [uninstall"),
                node: node.map(str::to_owned),
                at: event.last.filter(|_| event.message.contains("stage [")),
                object: format!("event/{} of {}/{}", event.reason, event.kind.to_lowercase(), event.name),
                field: "message",
                message: event.message.clone(),
                ..StageTrace::default()
            });
        }
        traces
    }

    /// Whether the events of the object reach back to its first minute.
    fn events_cover_life(&self, skyhook: &Skyhook) -> bool {
        let Some(born) = skyhook.metadata.creation_timestamp else {
            return false;
        };
        if skyhook.mirrored_from().is_some() {
            return false;
        }
        let first = self
            .events_about(&skyhook.kind, skyhook.name())
            .filter(|e| skyhook.metadata.uid.as_deref() == Some(&e.uid))
            .filter_map(|e| e.first)
            .min();
        first.is_some_and(|first| (first.as_second() - born.as_second()) <= FIRST_EVENT_WITHIN)
    }

    /// Proof that the package was never installed: its uninstall has been requested since the creation of the
    /// object.
    fn apply_was_there_from_the_start(&self, skyhook: &Skyhook, package: &str) -> Option<String> {
        let meta = &skyhook.metadata;
        let kind = &skyhook.kind;
        if meta.generation == 1 {
            return Some(format!("generation 1: the spec of the {kind} has not changed since its creation"));
        }
        let born = meta.creation_timestamp?;
        let writer = meta.managed_fields.iter().find(|m| {
            let uninstall = &m.fields["f:spec"]["f:packages"][format!("f:{package}")]["f:uninstall"];
            !uninstall["f:apply"].is_null()
        });
        if let Some(writer) = writer
            && writer.time.is_some_and(|t| (t.as_second() - born.as_second()).abs() <= 1)
        {
            return Some(format!(
                "managedFields: {} set uninstall.apply when it created the {kind}",
                writer.manager
            ));
        }
        // The older operator's first write fills in the names of packages, which counts as a change.
        let applied = skyhook.last_applied()?;
        let applied = &applied["spec"]["packages"][package];
        let named_by_operator = applied["name"].is_null();
        let asked_then = applied["uninstall"]["apply"].as_bool() == Some(true);
        (meta.generation == 2 && skyhook.flavor() == Some(ApiFlavor::Skyhook) && named_by_operator && asked_then)
            .then(|| "generation 2: only the operator has changed the spec since the object was created with uninstall.apply: true".to_owned())
    }
}

fn traces_in_status(skyhook: &Skyhook, package: &str) -> Option<StageTrace> {
    let condition = skyhook.condition("ApplyPackage")?;
    let (_, rest) = condition.message.split_once(&format!("[{package}:"))?;
    let (version, _) = rest.split_once(']')?;
    Some(StageTrace {
        version: version.to_owned(),
        just_before: condition.observed_generation? + 1 >= skyhook.metadata.generation,
        object: skyhook.to_string(),
        field: "condition ApplyPackage",
        message: condition.message.to_string(),
        ..StageTrace::default()
    })
}

/// The trace of a manifest that was applied without `apply: true`: the package could be installed at that
/// time.
fn traces_in_last_applied(skyhook: &Skyhook, package: &str) -> Option<StageTrace> {
    let applied = skyhook.last_applied()?;
    let applied = applied["spec"]["packages"].get(package)?;
    let version = applied["version"].as_str()?;
    if applied["uninstall"]["apply"].as_bool() == Some(true) {
        return None;
    }
    Some(StageTrace {
        version: version.to_owned(),
        object: skyhook.to_string(),
        field: "last-applied-configuration",
        message: format!("{package} {version} was applied without uninstall.apply: true"),
        ..StageTrace::default()
    })
}

impl Skyhook {
    /// The manifest of the last `kubectl apply`.
    pub fn last_applied(&self) -> Option<serde_json::Value> {
        let key = "kubectl.kubernetes.io/last-applied-configuration";
        serde_json::from_str(self.metadata.annotations.get(key)?).ok()
    }
}

/// The times of recorded changes that release the next action of a custom resource.
pub struct Changes<'a> {
    cluster: &'a Cluster,
    package_runs: Rc<PackageRuns<'a>>,
    /// The latest write of any spec, and the start of the operator.
    of_all: Option<Timestamp>,
    /// The latest transition of the operator's conditions on nodes, by custom resource.
    on_nodes: HashMap<&'a str, Timestamp>,
    /// The latest such transition of custom resources for which all later ones wait on all nodes.
    of_blocking: Option<Timestamp>,
    /// The workload pods of each node.
    workloads: HashMap<&'a str, Vec<&'a Pod>>,
}

impl<'a> Changes<'a> {
    pub fn new(cluster: &'a Cluster, package_runs: Rc<PackageRuns<'a>>) -> Changes<'a> {
        // A change of an earlier custom resource may release a later one.
        let specs = cluster.skyhooks.iter().flat_map(|skyhook| spec_writes(&skyhook.metadata));
        let mut changes = Changes {
            cluster,
            package_runs,
            of_all: latest(cluster, specs.chain(cluster.operator().started())),
            on_nodes: HashMap::new(),
            of_blocking: None,
            workloads: HashMap::new(),
        };
        let prefix = cluster.flavor().key("");
        for condition in cluster.nodes.iter().flat_map(Node::conditions) {
            let own = condition.kind.strip_prefix(&prefix).and_then(|kind| kind.split_once('/'));
            if let (Some((name, _)), Some(at)) = (own, condition.last_transition_time) {
                let newest = changes.on_nodes.entry(name).or_insert(at);
                *newest = at.max(*newest);
            }
        }
        let blocking = cluster.skyhooks.iter().filter(|skyhook| skyhook.blocks_all_nodes());
        changes.of_blocking =
            blocking.filter_map(|skyhook| changes.on_nodes.get(skyhook.name())).copied().max();
        for pod in &cluster.workloads {
            changes.workloads.entry(&pod.spec.node_name).or_default().push(pod);
        }
        changes
    }

    /// The latest change after which the operator should take the next action of a custom resource on each of its nodes.
    pub fn due_since<'c>(&'c self, skyhook: &'c Skyhook) -> impl Fn(&Node) -> Option<Timestamp> + 'c {
        let of_all = self.of_skyhook(skyhook);
        move |node| of_all.max(self.of_node(skyhook, node))
    }

    /// The latest change that concerns all nodes of a custom resource. Excludes the operator's own writes of the
    /// status: they continue while it fails on one node.
    pub fn of_skyhook(&self, skyhook: &Skyhook) -> Option<Timestamp> {
        let cluster = self.cluster;
        let meta = &skyhook.metadata;
        let conditions = skyhook.status.conditions.iter();
        let policy = cluster.policy(&skyhook.spec.deployment_policy);
        let policy = policy
            .into_iter()
            .flat_map(|policy| spec_writes(&policy.metadata).chain(policy.metadata.creation_timestamp));
        let times = conditions
            .filter_map(|condition| condition.last_transition_time)
            .chain(policy)
            .chain(self.on_nodes.get(skyhook.name()).copied())
            .chain(self.of_blocking)
            .chain(skyhook.status.node_priority.values().copied().flatten())
            .chain(cluster.selected(skyhook).filter_map(|node| node.created))
            .chain(meta.creation_timestamp)
            .chain(meta.deletion_timestamp)
            .chain(self.of_all);
        latest(cluster, times)
    }

    /// The latest change of a node, of the stages and pods on it, and of the budgets of these pods.
    fn of_node(&self, skyhook: &Skyhook, node: &Node) -> Option<Timestamp> {
        let cluster = self.cluster;
        let conditions = node.conditions().iter().filter_map(|condition| condition.last_transition_time);
        let moved = |pod: &Pod| {
            [pod.metadata.creation_timestamp, pod.metadata.deletion_timestamp].into_iter().flatten()
        };
        let runs = self.package_runs.on_node(&node.name).flat_map(|run| {
            let job = run.job.into_iter().flat_map(|job| {
                let conditions = job.status.conditions.iter().filter_map(|c| c.last_transition_time);
                conditions.chain(job.status.completion_time).chain(job.metadata.deletion_timestamp)
            });
            let pods = run.pods.iter().flat_map(|pod| {
                let containers = pod.status.init_container_statuses.iter();
                containers.filter_map(|c| c.state.terminated.as_ref()?.finished_at).chain(moved(pod))
            });
            job.chain(pods).chain(run.created()).collect::<Vec<_>>()
        });
        let on = cluster.on_node(node, skyhook.name());
        let workloads = self.workloads.get(node.name.as_str()).map_or(&[][..], Vec::as_slice);
        // Budgets matter only where a drain may wait for them.
        let drains = on.is_some_and(|on| on.draining_since().is_some()) || node.cordoned() == Some(true);
        let allowed = drains.then(|| cluster.evictions().allowed_since(workloads)).flatten();
        let times = conditions
            .chain(runs)
            .chain(workloads.iter().copied().flat_map(moved))
            .chain(allowed)
            .chain(node.annotated)
            .chain(node.selectable)
            .chain(on.and_then(|on| on.draining_since()));
        latest(cluster, times)
    }
}

/// Times of writes outside of the status.
fn spec_writes(meta: &Meta) -> impl Iterator<Item = Timestamp> {
    meta.managed_fields.iter().filter(|write| write.subresource != "status").filter_map(|write| write.time)
}

/// The latest of these times, without those of wrong clocks.
fn latest(cluster: &Cluster, times: impl Iterator<Item = Timestamp>) -> Option<Timestamp> {
    times.filter(|at| cluster.seconds_since(Some(*at)).is_some()).max()
}
