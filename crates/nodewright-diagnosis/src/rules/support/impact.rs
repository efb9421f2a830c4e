//! The nodes that each cause blocks, by custom resource.
//!
//! A finding names its own nodes. The model adds the nodes that wait for them: in the same batch, for an
//! earlier custom resource, or for the end of a deletion.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::causes::{Cause, Causes, common_message};
use crate::cluster::Cluster;
use crate::model::{Model, ProgressState, WaitReason};
use crate::rules::{Finding, Severity};

/// Causes with the nodes that they block.
#[derive(Debug, Default)]
pub struct Impact<'a> {
    /// In the order of [`Causes::ranked`].
    pub causes: Vec<CauseImpact<'a>>,
    /// Number of nodes that custom resources select.
    pub selected: usize,
    /// See [`Impact::about`].
    about: HashMap<String, Vec<usize>>,
}

/// A cause, and the nodes that it blocks.
#[derive(Debug)]
pub struct CauseImpact<'a> {
    pub cause: Cause,
    /// The highest severity of its findings and effects.
    pub severity: Severity,
    /// A message that is true of all of its findings.
    pub message: String,
    /// Blocked nodes by custom resource. The name is empty for a finding about a node without a custom
    /// resource.
    pub blocked: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

/// Names of a custom resource and a node.
type Place<'a> = (&'a str, &'a str);

impl<'a> Impact<'a> {
    pub fn new(cluster: &'a Cluster, model: &Model<'a>, findings: &[Finding]) -> Impact<'a> {
        let ranked = Causes::of(findings).ranked(findings);
        let places = Places::of(cluster, model);
        let closures: Vec<HashSet<Place<'a>>> = ranked
            .iter()
            .map(|cause| {
                let own = cause.findings.iter();
                places.closure(own.flat_map(|at| places.seeds(cluster, &findings[*at])))
            })
            .collect();
        // Also count the effects that no closure reaches: the model may not know the reason of a wait that a
        // rule explains.
        let explained: HashSet<Place<'a>> = closures.iter().flatten().copied().collect();
        let causes = ranked.into_iter().zip(closures).map(|(cause, mut closure)| {
            let effects = cause.effects.iter();
            let seeds = effects.flat_map(|at| places.seeds(cluster, &findings[*at]));
            let rest = seeds.filter(|place| places.is_held(place) && !explained.contains(place));
            closure.extend(places.closure(rest));
            let mut blocked: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
            for (skyhook, node) in closure {
                blocked.entry(skyhook).or_default().insert(node);
            }
            let all = cause.findings.iter().chain(&cause.effects);
            let severity = all.map(|at| findings[*at].severity).max();
            let message = common_message(cause.findings.iter().map(|at| &findings[*at])).into_owned();
            CauseImpact { severity: severity.unwrap_or(Severity::Info), message, blocked, cause }
        });
        let causes: Vec<CauseImpact<'a>> = causes.collect();
        let mut about: HashMap<String, Vec<usize>> = HashMap::new();
        for (at, cause) in causes.iter().enumerate() {
            for name in cause.custom_resources(findings) {
                about.entry(name.to_owned()).or_default().push(at);
            }
        }
        Impact { causes, selected: places.selected, about }
    }

    /// The indexes of the causes that are about a custom resource, or block it on a node.
    pub fn about(&self, name: &str) -> &[usize] {
        self.about.get(name).map_or(&[], Vec::as_slice)
    }

    /// Number of causes with this severity.
    pub fn count(&self, severity: Severity) -> usize {
        let of = |cause: &&CauseImpact<'_>| cause.severity == severity;
        self.causes.iter().filter(of).count()
    }

    /// Number of nodes that causes of this severity block.
    pub fn blocked_nodes(&self, severity: Severity) -> usize {
        let causes = self.causes.iter().filter(|c| c.severity == severity);
        let nodes: HashSet<&str> = causes.flat_map(CauseImpact::nodes).collect();
        nodes.len()
    }
}

impl<'a> CauseImpact<'a> {
    /// The custom resources that have the problem, or that it blocks on a node.
    fn custom_resources<'f>(&'f self, findings: &'f [Finding]) -> BTreeSet<&'f str> {
        let own = self.cause.findings.iter().filter_map(|at| findings[*at].subject.skyhook.as_deref());
        own.chain(self.blocked.keys().copied()).collect()
    }

    /// Whether the cause blocks until someone intervenes.
    pub fn lasts(&self, findings: &[Finding]) -> bool {
        self.severity == Severity::Error || findings[self.cause.findings[0]].blocks_for_good()
    }

    /// The blocked nodes of all custom resources.
    pub fn nodes(&self) -> BTreeSet<&'a str> {
        self.blocked.values().flatten().copied().collect()
    }
}

/// The model's state of each custom resource on each node.
struct Places<'a> {
    /// Places that are not complete.
    open: HashMap<Place<'a>, Standing>,
    /// For each place, the places that wait for it.
    waiting: HashMap<Place<'a>, Vec<Place<'a>>>,
    /// Open places by custom resource.
    of_skyhook: HashMap<&'a str, Vec<Place<'a>>>,
    selected: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    Held,
    /// The operator acts in its next reconcile.
    Due,
    /// A stage runs.
    Running,
}

impl<'a> Places<'a> {
    fn of(cluster: &'a Cluster, model: &Model<'a>) -> Places<'a> {
        let mut places =
            Places { open: HashMap::new(), waiting: HashMap::new(), of_skyhook: HashMap::new(), selected: 0 };
        let mut selected: HashSet<&str> = HashSet::new();
        for skyhook in cluster.skyhooks.items() {
            let name = skyhook.name();
            for (node, progress) in model.all_progress(name) {
                let place = (name, node.name.as_str());
                selected.insert(place.1);
                let standing = match (progress.state, &progress.reason) {
                    (ProgressState::Complete, _) => continue,
                    (ProgressState::Running, WaitReason::Nothing) => Standing::Due,
                    (ProgressState::Running, _) => Standing::Running,
                    _ => Standing::Held,
                };
                places.open.insert(place, standing);
                places.of_skyhook.entry(name).or_default().push(place);
                let awaited = match progress.reason {
                    WaitReason::Earlier { skyhook, node, .. } => Some((skyhook.name(), node)),
                    WaitReason::MalformedState { skyhook, node } => Some((skyhook.name(), node)),
                    WaitReason::Batch { node, .. } => node.map(|node| (name, node)),
                    WaitReason::BatchSibling(node) | WaitReason::Deletion(node) => Some((name, node)),
                    _ => None,
                };
                if let Some((skyhook, node)) = awaited {
                    let awaited = (skyhook, node.name.as_str());
                    places.waiting.entry(awaited).or_default().push(place);
                }
            }
        }
        places.selected = selected.len();
        places
    }

    fn is_held(&self, place: &Place<'a>) -> bool {
        self.open.get(place) == Some(&Standing::Held)
    }

    /// The places that a finding blocks directly.
    fn seeds(&self, cluster: &'a Cluster, finding: &Finding) -> Vec<Place<'a>> {
        let held = |place: &&Place<'a>| self.is_held(place);
        let subject = &finding.subject;
        let node = |name: &str| cluster.node(name).map(|node| node.name.as_str());
        let skyhook = subject.skyhook.as_deref().and_then(|s| cluster.skyhook(s));
        let skyhook = skyhook.map(|skyhook| skyhook.name());
        let own = subject.node.as_deref().and_then(node);
        if finding.blocks_reconcile() {
            let open = self.of_skyhook.values().flatten().copied();
            let idle = open.filter(|place| self.open[place] != Standing::Running);
            let own = own.map(|node| (skyhook.unwrap_or_default(), node));
            return idle.chain(own).collect();
        }
        match (skyhook, own) {
            (Some(skyhook), _) => {
                let named = finding.blocked_nodes.iter().filter_map(|name| node(name)).chain(own);
                let named: Vec<Place<'a>> = named.map(|node| (skyhook, node)).collect();
                if !named.is_empty() {
                    return named;
                }
                let open = self.of_skyhook.get(skyhook).into_iter().flatten();
                open.filter(held).copied().collect()
            }
            (None, Some(node)) => {
                let skyhooks = cluster.skyhooks.items().iter().map(|s| (s.name(), node));
                let held = skyhooks.filter(|place| self.is_held(place));
                held.chain([("", node)]).collect()
            }
            (None, None) if finding.refuses_installs() => {
                let due = self.open.iter().filter(|(_, standing)| **standing == Standing::Due);
                due.map(|(place, _)| *place).collect()
            }
            (None, None) => Vec::new(),
        }
    }

    /// The given places, and all places that wait for them directly or indirectly.
    fn closure(&self, seeds: impl Iterator<Item = Place<'a>>) -> HashSet<Place<'a>> {
        let mut next: Vec<Place<'a>> = seeds.collect();
        let mut reached: HashSet<Place<'a>> = next.iter().copied().collect();
        while let Some(place) = next.pop() {
            let waiting = self.waiting.get(&place).into_iter().flatten().copied();
            next.extend(waiting.filter(|place| reached.insert(*place)));
        }
        reached
    }
}
