//! Standstills of custom resources on nodes, for the rules about waiting batches and custom resources.

use std::collections::HashMap;
use std::hash::Hash;
use std::rc::Rc;

use jiff::Timestamp;

use super::evidence::fails_outside_reboot;
use crate::api::{Object, Skyhook, Status};
use crate::cluster::{Cluster, Node, PackageRuns, Pod, Source, UnknownValues};
use crate::model::{Batch, Model, profile};
use crate::rules::{ALL, Finding, Findings, Finds, Rule, Severity};

/// The reason why a node or a custom resource makes no progress.
#[derive(Debug, Clone)]
pub struct Trouble {
    /// A predicate without its subject: `is paused`.
    pub why: String,
    pub severity: Severity,
    /// Whether the problem lasts until someone intervenes.
    pub permanent: bool,
}

impl Trouble {
    fn new(why: impl Into<String>, (severity, permanent): Gravity) -> Trouble {
        Trouble { why: why.into(), severity, permanent }
    }
}

/// Severity of a standstill, and whether it lasts until someone intervenes.
type Gravity = (Severity, bool);

/// Raises the gravity under a key to that of a finding.
fn raise<K: Eq + Hash>(gravest: &mut HashMap<K, Gravity>, key: K, finding: &Finding) {
    let known = gravest.entry(key).or_insert(finding.gravity());
    *known = finding.gravity().max(*known);
}

impl Finding {
    fn gravity(&self) -> Gravity {
        (self.severity, self.permanent)
    }
}

/// The reason why a node of a batch does not finish without help; `None` if it may. A warning is uncertain.
pub fn stuck_in_batch(
    cluster: &Cluster,
    troubles: &NodeTroubles,
    skyhook: &Skyhook,
    node: &Node,
) -> Option<Trouble> {
    let on = cluster.on_node(node, skyhook.name());
    let status = cluster.status_on(skyhook, node);
    let holds_while_blocked = profile::blocked_nodes_keep_places(cluster);
    // Exclude nodes that are only in the middle of a reboot: their status is erroring as well.
    if status == Status::Erroring && on.is_some_and(|on| fails_outside_reboot(skyhook, on)) {
        // Only a warning for newer operators: it is uncertain which nodes they choose while a node fails, and
        // a Job may retry.
        let cause = troubles.gravest_on(skyhook.name(), &node.name);
        let fails = cause.is_some_and(|f| f.severity == Severity::Error);
        let severity = if holds_while_blocked && fails { Severity::Error } else { Severity::Warning };
        return Some(Trouble::new("fails", (severity, true)));
    }
    if node.ignored(cluster.flavor()) {
        return holds_while_blocked.then(|| Trouble::new("is ignored", (Severity::Error, true)));
    }
    if status == Status::Blocked && !cluster.untolerated_by(skyhook, node).is_empty() {
        return holds_while_blocked.then(|| Trouble::new("is blocked by a taint", (Severity::Error, true)));
    }
    let cause = troubles.gravest_on(skyhook.name(), &node.name)?;
    let why = format!("makes no progress ({} {})", cause.rule.code, cause.rule.name);
    Some(Trouble::new(why, cause.gravity()))
}

/// Whether no node of a compartment can make progress: apart from stuck nodes, none has running work, and
/// none of the batch is between two stages. Nodes that wait for an earlier custom resource, and nodes of
/// `Batch::passed_over`, which wait for nodes in progress, do not count as between two stages.
pub fn stands_still<'a>(
    cluster: &Cluster,
    model: &Model<'a>,
    troubles: &NodeTroubles,
    package_runs: &PackageRuns<'a>,
    skyhook: &Skyhook,
    batch: &Batch<'a>,
) -> bool {
    let moves = |node: &'a Node| {
        let on = cluster.on_node(node, skyhook.name());
        let work = on.is_some_and(|on| on.operator_status() == Status::InProgress)
            || package_runs.any_alive_on(skyhook.name(), &node.name);
        let next = skyhook.status.node_priority.contains_key(&node.name)
            && model.predecessor_on(skyhook, node).is_none()
            && batch.passed_over.iter().all(|n| n.name != node.name);
        (work || next) && stuck_in_batch(cluster, troubles, skyhook, node).is_none()
    };
    !batch.incomplete().any(moves)
}

/// Causes that keep custom resources waiting: problems on nodes, blocked batches and blocked deletions.
pub struct Standstill<'c> {
    model: Rc<Model<'c>>,
    troubles: Rc<NodeTroubles>,
    /// Nodes that are not chosen because a batch is blocked, by custom resource and node.
    held: HashMap<(String, String), Gravity>,
    /// Custom resources whose deletion makes no progress on some node. Finished nodes keep waiting for the
    /// deletion.
    deletions: HashMap<String, Gravity>,
}

impl<'c> Standstill<'c> {
    /// Collects the problems and the blocked nodes from the findings of other rules.
    pub fn of(cluster: &Cluster, findings: &Findings<'c>) -> Standstill<'c> {
        let troubles = findings.troubles();
        let mut deletions = HashMap::new();
        for finding in (0..troubles.all.len()).map(|at| troubles.finding(at)) {
            let skyhook = finding.subject.skyhook.as_deref().and_then(|name| cluster.skyhook(name));
            if let Some(skyhook) = skyhook.filter(|s| s.deleting()) {
                raise(&mut deletions, skyhook.name().to_owned(), finding);
            }
        }
        let mut standstill =
            Standstill { model: findings.model(), deletions, troubles, held: HashMap::new() };
        for rule in findings.other_rules(Finds::HeldNodes) {
            for finding in findings.of_rule(rule).iter() {
                standstill.hold(finding);
            }
        }
        standstill
    }

    pub fn troubles(&self) -> &NodeTroubles {
        &self.troubles
    }

    /// Records that the nodes blocked by a finding are not chosen for its custom resource.
    pub fn hold(&mut self, finding: &Finding) {
        let Some(skyhook) = &finding.subject.skyhook else {
            return;
        };
        for node in &finding.blocked_nodes {
            raise(&mut self.held, (skyhook.clone(), node.clone()), finding);
        }
    }

    /// The reason why an earlier custom resource makes no progress on a node; `None` if it makes progress.
    pub fn trouble(&self, cluster: &Cluster, root: &Skyhook, node: &Node) -> Option<Trouble> {
        let on = cluster.on_node(node, root.name());
        let status = cluster.status_on(root, node);
        let fails = on.is_some_and(|on| fails_outside_reboot(root, on));
        let cause = self.troubles.gravest_on(root.name(), &node.name);
        // Without a known cause, the failure may be retried or is about to be cleared.
        let own = cause.map_or((Severity::Warning, false), Finding::gravity);
        let (why, gravity) = if root.paused() {
            ("is paused", (Severity::Warning, true))
        } else if fails && status != Status::InProgress {
            ("fails there", own)
        } else if node.ignored(cluster.flavor()) {
            ("skips the ignored node", (Severity::Warning, true))
        } else if cluster.policy_missing(root) {
            ("is blocked", (Severity::Error, true))
        } else if status == Status::Blocked {
            ("is blocked", own)
        } else if self.model.is_stopped(root, node) {
            ("has a stopped rollout", (Severity::Error, true))
        } else if let Some(Finding { rule, .. }) = cause {
            return Some(Trouble::new(format!("makes no progress there ({} {})", rule.code, rule.name), own));
        } else if let Some(deletion) = self.deletions.get(root.name()) {
            ("is being deleted, but the deletion makes no progress on other nodes", *deletion)
        } else {
            let key = (root.name().to_owned(), node.name.to_string());
            ("does not choose the node because its current batch is blocked", *self.held.get(&key)?)
        };
        Some(Trouble::new(why, gravity))
    }
}

/// Findings that explain missing progress, by node and by custom resource.
#[derive(Debug, Default)]
pub struct NodeTroubles {
    /// Findings, as results of rules with indexes.
    all: Vec<(Rc<Vec<Finding>>, usize)>,
    /// The most severe finding per node and custom resource, and its index in `all`; of equals, the latest. "" for findings
    /// without a custom resource.
    on_nodes: HashMap<String, HashMap<String, (Gravity, usize)>>,
}

impl NodeTroubles {
    /// Collects the findings of rules about causes and lasting waits.
    pub(in crate::rules) fn of(found: impl Fn(&'static Rule) -> Rc<Vec<Finding>>) -> NodeTroubles {
        let mut troubles = NodeTroubles::default();
        // Skip rules about effects: they use this collection, so the recursion would not end.
        for rule in ALL {
            let least = match rule.finds {
                Finds::Causes => Severity::Error,
                Finds::LastingWaits => Severity::Warning,
                Finds::Effects | Finds::HeldNodes | Finds::Unexplained | Finds::Unknowns => {
                    continue;
                }
            };
            let findings = found(rule);
            for (at, finding) in findings.iter().enumerate().filter(|(_, f)| f.severity >= least) {
                if let Some(node) = &finding.subject.node {
                    let skyhook = finding.subject.skyhook.clone().unwrap_or_default();
                    let gravity = (finding.gravity(), troubles.all.len());
                    let here = troubles.on_nodes.entry(node.clone()).or_default();
                    let gravest = here.entry(skyhook).or_insert(gravity);
                    *gravest = gravity.max(*gravest);
                    troubles.all.push((Rc::clone(&findings), at));
                }
            }
        }
        troubles
    }

    fn finding(&self, at: usize) -> &Finding {
        let (findings, at) = &self.all[at];
        &findings[*at]
    }

    /// The most severe finding that explains why a custom resource makes no progress on a node.
    pub fn gravest_on(&self, skyhook: &str, node: &str) -> Option<&Finding> {
        let here = self.on_nodes.get(node)?;
        let (_, at) = [here.get(skyhook), here.get("")].into_iter().flatten().max()?;
        Some(self.finding(*at))
    }
}

/// The latest time at which the operator worked for a custom resource, or at which this work was triggered. For
/// `open` nodes, their creation is a trigger.
pub fn last_activity(
    cluster: &Cluster,
    package_runs: &PackageRuns<'_>,
    skyhook: &Skyhook,
    open: &[&Node],
) -> Option<Timestamp> {
    let meta = &skyhook.metadata;
    let name = skyhook.name();
    let start = format!("{}/", cluster.flavor().key(name));
    let written = meta.managed_fields.iter().filter_map(|m| m.time);
    let conditions = skyhook.status.conditions.iter().filter_map(|c| c.last_transition_time);
    let nodes = cluster.selected(skyhook).flat_map(|node| {
        let ours = node.conditions().iter().filter(|c| c.kind.starts_with(&start));
        let ours = ours.filter_map(|c| c.last_transition_time);
        let on = cluster.on_node(node, name);
        let drained = on.and_then(|on| on.draining_since());
        ours.chain(node.annotated).chain(node.selectable).chain(drained)
    });
    let new = open.iter().filter_map(|n| n.created);
    let of_it = package_runs.of(name);
    let worked = of_it.flat_map(|run| {
        let ended = run.job.and_then(|j| j.status.completion_time);
        let failed = run.job.and_then(|j| j.failed()?.last_transition_time);
        run.created().into_iter().chain(ended).chain(failed)
    });
    let events = cluster.events_mentioning(name);
    written
        .chain(conditions)
        .chain(nodes)
        .chain(new)
        .chain(worked)
        .chain(events.filter_map(|e| e.last))
        .chain(meta.creation_timestamp)
        .filter(|at| cluster.seconds_since(Some(*at)).is_some())
        .max()
}

/// A field that could not be read and may contain a newer time than [`last_activity`]; `None` if there is none.
pub fn unknown_activity(
    cluster: &Cluster,
    package_runs: &PackageRuns<'_>,
    skyhook: &Skyhook,
) -> Option<String> {
    let name = skyhook.name();
    let unknown = |object: &dyn Object, reference: String, prefix: &str| {
        let field = object.unknown_fields().iter().find(|field| field.path.starts_with(prefix))?;
        Some(format!("{reference}: {} cannot be read", field.path))
    };
    let mut nodes = cluster.selected(skyhook);
    let of_it = package_runs.all().iter().filter(|run| run.skyhook == name);
    let mut jobs = of_it.clone().filter_map(|run| run.job);
    let mut pods = of_it.flat_map(|run| &run.pods).copied();
    let mut events = cluster.events.iter().filter(|e| e.name == name || e.message.contains(name));
    unknown(skyhook, skyhook.to_string(), "")
        .or_else(|| nodes.find_map(|node| unknown(node, node.to_string(), "metadata.")))
        .or_else(|| jobs.find_map(|job| unknown(job, format!("job/{}", job.metadata.name), "")))
        .or_else(|| pods.find_map(|pod: &Pod| unknown(pod, pod.to_string(), "metadata.")))
        .or_else(|| events.find_map(|event| unknown(event, format!("event/{}", event.key().1), "")))
}

/// Turns errors into warnings if they concern an object with an unknown value on which they may depend.
pub fn downgrade_uncertain(cluster: &Cluster, findings: &mut [Finding]) {
    let mut unknown: Vec<UnknownValues<'_>> =
        Source::ALL.into_iter().flat_map(|source| cluster.unknown_values(source)).collect();
    unknown.retain(|object| object.undecoded.is_some());
    if unknown.is_empty() {
        return;
    }
    for finding in findings {
        if finding.severity < Severity::Error || finding.rule.finds == Finds::Unknowns {
            continue;
        }
        let concerned = unknown.iter().find(|object| concerns(cluster, finding, object));
        if let Some(object) = concerned {
            let why = object.undecoded.as_deref().unwrap_or_default();
            finding.severity(Severity::Warning).evidence(object, "unknown", why);
        }
    }
}

/// Whether a finding has an object as its subject or in its evidence, or is about a custom resource that
/// selects the node.
fn concerns(cluster: &Cluster, finding: &Finding, object: &UnknownValues<'_>) -> bool {
    let subject = &finding.subject;
    let mut evidence = finding.evidence.iter();
    let is_evidence = evidence.any(|evidence| {
        let kind = evidence.object.split('/').next().unwrap_or_default();
        let name = evidence.object.rsplit('/').next().unwrap_or_default();
        kind.eq_ignore_ascii_case(object.kind) && name == object.name
    });
    let is_subject = subject.kind == object.kind && subject.name == object.name;
    let concerns_all = || match (object.source, &subject.skyhook) {
        (Source::Skyhooks, Some(skyhook)) => skyhook == object.name,
        (Source::Nodes, skyhook) => {
            let selects = |name: &String| cluster.touches(name, object.name);
            subject.node.as_deref() == Some(object.name)
                || finding.blocked_nodes.iter().any(|node| node == object.name)
                || (subject.node.is_none() && skyhook.as_ref().is_some_and(selects))
        }
        _ => false,
    };
    is_evidence || is_subject || concerns_all()
}
