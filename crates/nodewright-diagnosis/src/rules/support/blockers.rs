//! Blockers of installs, uninstalls and deletions, for every command. Pure.

use std::cell::OnceCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use schemars::JsonSchema;
use serde::Serialize;

use super::causes::{Cause, Causes, common_message};
use crate::api::{ApiFlavor, Skyhook};
use crate::cluster::Cluster;
use crate::model::{Action, Model, ProgressState, WaitReason};
use crate::plan::Condition;
use crate::rules::{Finding, Remedy, Severity};
use crate::text::plural;

/// An operation that is blocked while a finding exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, JsonSchema)]
pub enum Blocks {
    /// The custom resource does not become complete.
    Install,
    /// A package is not uninstalled; a deletion that requires the uninstall waits, too.
    Uninstall,
    /// The finalizer is not removed, even without pending uninstalls.
    Deletion,
    /// The operator's reconcile ends early, for every custom resource.
    Reconcile,
    /// The operator continues on no node of the custom resource.
    OtherNodes,
    /// The API server rejects every change to the spec and metadata of custom resources.
    Changes,
    /// Other workloads are not scheduled on the node.
    Workloads,
}

impl Blocks {
    /// The blocked operation, in words.
    pub fn meaning(self) -> &'static str {
        match self {
            Blocks::Install => "installs",
            Blocks::Uninstall => "uninstalls (and deletions that wait for them)",
            Blocks::Deletion => "the deletion of the custom resource",
            Blocks::Reconcile => "every reconcile of every custom resource",
            Blocks::OtherNodes => "the other nodes of the custom resource",
            Blocks::Changes => "every change to custom resources",
            Blocks::Workloads => "new workloads on the node",
        }
    }
}

impl Finding {
    /// Whether the finding may block several custom resources: it ends every reconcile, or blocks deletions
    /// without being about one custom resource.
    fn concerns_all(&self) -> bool {
        let deletions = self.subject.skyhook.is_none() && self.blocks.contains(&Blocks::Deletion);
        deletions || self.blocks_reconcile()
    }

    /// Whether the finding blocks an operation until someone intervenes.
    pub fn blocks_for_good(&self) -> bool {
        self.permanent && self.severity >= Severity::Warning && !self.blocks.is_empty()
    }
}

/// Indexes of the findings that block until someone intervenes, by the custom resources that they may block.
#[derive(Default)]
pub struct BlockingFindings {
    /// Findings that may block only their own custom resource, by its name.
    own: HashMap<String, Vec<usize>>,
    /// Findings that may block every custom resource.
    shared: Vec<usize>,
    causes: OnceCell<Causes>,
}

impl BlockingFindings {
    pub fn of(findings: &[Finding]) -> BlockingFindings {
        let mut blocking = BlockingFindings::default();
        for (at, finding) in findings.iter().enumerate().filter(|(_, f)| f.blocks_for_good()) {
            match &finding.subject.skyhook {
                _ if finding.concerns_all() => blocking.shared.push(at),
                Some(skyhook) => blocking.own.entry(skyhook.clone()).or_default().push(at),
                None => {}
            }
        }
        blocking
    }

    /// The findings that block a goal of a custom resource until someone intervenes, and their causes. `findings`
    /// must be the list that was passed to [`BlockingFindings::of`].
    pub fn of_goal<'r>(
        &self,
        findings: &'r [Finding],
        cluster: &Cluster,
        skyhook: &Skyhook,
        goal: &Condition,
    ) -> Vec<&'r Finding> {
        let reach = Reach::of(cluster, skyhook, goal);
        let causes = self.causes.get_or_init(|| Causes::of(findings));
        let blocks = |at: &usize| findings[*at].blocks_for_good();
        let mut next: Vec<usize> =
            self.concerning(skyhook).filter(|at| reach.covers(&findings[*at])).collect();
        let mut found: BTreeSet<usize> = next.iter().copied().collect();
        while let Some(at) = next.pop() {
            let explaining = causes.explaining(at).iter().copied().filter(blocks);
            next.extend(explaining.filter(|cause| found.insert(*cause)));
        }
        let mut found: Vec<&Finding> = found.into_iter().map(|at| &findings[at]).collect();
        // Common causes first, then findings about this custom resource, then causes elsewhere.
        let everywhere = |f: &Finding| f.comes_first() && f.subject.skyhook.is_none();
        let own = |f: &Finding| f.subject.skyhook.as_deref() == Some(skyhook.name());
        found.sort_by_key(|f| (!everywhere(f), !own(f)));
        found
    }

    fn concerning(&self, skyhook: &Skyhook) -> impl Iterator<Item = usize> {
        let own = self.own.get(skyhook.name()).map_or(&[][..], Vec::as_slice);
        self.shared.iter().chain(own).copied()
    }
}

/// Warnings that delay a deletion and may resolve themselves.
pub fn delays<'r>(cluster: &Cluster, findings: &'r [Finding], skyhook: &Skyhook) -> Vec<&'r Finding> {
    let reach = Reach::of(cluster, skyhook, &Condition::Gone);
    findings.iter().filter(|f| !f.permanent && f.severity == Severity::Warning && reach.covers(f)).collect()
}

/// Raises permanent blockers of a deletion from warnings to errors, and adds the waiting deletions as
/// evidence.
pub(in crate::rules) fn mark_deletions(cluster: &Cluster, findings: &mut [Finding]) {
    let deleting = cluster.skyhooks.iter().filter(|s| s.deleting());
    let deletions: Vec<Reach<'_>> = deleting.map(|s| Reach::of(cluster, s, &Condition::Gone)).collect();
    if deletions.is_empty() {
        return;
    }
    for finding in findings.iter_mut().filter(|f| f.severity >= Severity::Warning) {
        let waiting: Vec<&Reach<'_>> = deletions.iter().filter(|d| d.covers(finding)).collect();
        if finding.permanent && !waiting.is_empty() {
            finding.severity = Severity::Error;
        }
        // Findings about a deletion already name it.
        let about_deletion = finding.rule.blocks.first() == Some(&Blocks::Deletion);
        let others: Vec<&Skyhook> =
            waiting.iter().filter(|d| !about_deletion || !d.owns(finding)).map(|d| d.skyhook).collect();
        for skyhook in others.iter().take(DELETIONS) {
            finding.evidence(skyhook, "deletion", "waits until this is resolved");
        }
        if others.len() > DELETIONS {
            let more = plural(others.len() - DELETIONS, "more custom resource");
            finding.evidence(more, "deletion", "waits until this is resolved");
        }
    }
}

/// Maximum number of deletions in the evidence of one finding.
const DELETIONS: usize = 20;
/// Adds a caveat to remedies that change custom resources if the API server rejects such changes for now.
pub(in crate::rules) fn mark_rejected(flavor: ApiFlavor, findings: &mut [Finding]) {
    let rejects = |f: &Finding| f.severity == Severity::Error && f.blocks.contains(&Blocks::Changes);
    let Some(code) = findings.iter().find(|f| rejects(f)).map(|f| f.rule.code) else {
        return;
    };
    let mark = |remedies: &mut Vec<Remedy>| {
        for remedy in remedies.iter_mut().filter(|remedy| remedy.changes_custom_resources(flavor)) {
            let note = format!(
                "the API server rejects this until {code} is fixed: kubectl skyhook diagnose stuck --rule {code}"
            );
            remedy.caveat = Some(remedy.caveat.iter().fold(note, |note, caveat| format!("{note}; {caveat}")));
        }
    };
    for finding in findings.iter_mut().filter(|f| f.rule.code != code) {
        finding.change_remedies(mark);
        finding.compact();
    }
}

/// Adds the runtime-required taint as evidence to blockers on a node: the taint stays until they are
/// resolved.
pub(in crate::rules) fn mark_taints(cluster: &Cluster, findings: &mut [Finding]) {
    for finding in findings.iter_mut().filter(|f| f.severity >= Severity::Warning && f.blocks_installs()) {
        let (Some(skyhook), Some(node)) = (&finding.subject.skyhook, &finding.subject.node) else {
            continue;
        };
        let waits = cluster.skyhook(skyhook).is_some_and(|s| s.spec.runtime_required);
        let node = cluster.node(node).filter(|_| waits);
        if let Some((node, taint)) = node.and_then(|node| Some((node, cluster.runtime_required().on(node)?)))
        {
            let field = format!("taint {}", taint.kubectl_notation());
            finding.evidence(node, field, "keeps workloads away until this is resolved");
        }
    }
}

/// A goal of a custom resource, with the pending uninstalls that determine which findings block it.
struct Reach<'a> {
    skyhook: &'a Skyhook,
    goal: &'a Condition,
    /// Packages with a pending uninstall, by node.
    left: HashMap<&'a str, BTreeSet<&'a str>>,
}

impl<'a> Reach<'a> {
    fn of(cluster: &'a Cluster, skyhook: &'a Skyhook, goal: &'a Condition) -> Reach<'a> {
        let pending = match goal {
            Condition::Gone => {
                cluster.pending_uninstalls(skyhook).iter().map(|p| (p.node.name.as_str(), p.name)).collect()
            }
            Condition::Uninstalled { package, .. } => to_uninstall(cluster, skyhook, package.as_deref()),
            _ => Vec::new(),
        };
        let mut left: HashMap<&str, BTreeSet<&str>> = HashMap::new();
        for (node, package) in pending {
            left.entry(node).or_default().insert(package);
        }
        Reach { skyhook, goal, left }
    }

    fn owns(&self, finding: &Finding) -> bool {
        finding.subject.skyhook.as_deref() == Some(self.skyhook.name())
    }

    fn covers(&self, finding: &Finding) -> bool {
        let blocks = |what| finding.blocks.contains(&what);
        let own = self.owns(finding);
        let reconciled = finding.blocks_reconcile();
        match self.goal {
            Condition::Complete => {
                let going = blocks(Blocks::Install) || blocks(Blocks::Uninstall);
                let deleting = self.skyhook.deleting() && blocks(Blocks::Deletion);
                reconciled || (own && (going || deleting))
            }
            Condition::Uninstalled { .. } => {
                reconciled || (own && blocks(Blocks::Uninstall) && self.has_pending_uninstall(finding))
            }
            Condition::Gone => {
                let about = own || finding.subject.skyhook.is_none();
                let ours = self.skyhook.has_finalizer();
                (about && blocks(Blocks::Deletion))
                    || (ours && reconciled)
                    || (ours && own && blocks(Blocks::Uninstall) && self.has_pending_uninstall(finding))
            }
            // Findings block neither a failure nor a state that the operator reports at once.
            _ => false,
        }
    }

    /// Whether the finding concerns a package with a pending uninstall on one of its nodes: the node of its
    /// subject and the nodes that it blocks, or all nodes if it has neither, or keeps the operator from all. A finding without a package
    /// concerns all packages.
    fn has_pending_uninstall(&self, finding: &Finding) -> bool {
        let subject = &finding.subject;
        let of_it = |packages: &BTreeSet<&str>| match subject.package.as_deref() {
            Some(package) if !finding.blocks_other_nodes() => packages.contains(package),
            _ => !packages.is_empty(),
        };
        let mut named = subject.node.iter().chain(&finding.blocked_nodes);
        finding.concerns_all_nodes() && self.left.values().any(of_it)
            || named.any(|node| self.left.get(node.as_str()).is_some_and(of_it))
    }
}

/// Node and package of each pending uninstall. For a given package: every node on which it is recorded or has
/// a run. For `None`: every recorded package that is in an uninstall stage or whose uninstall was requested.
fn to_uninstall<'a>(
    cluster: &'a Cluster,
    skyhook: &'a Skyhook,
    package: Option<&'a str>,
) -> Vec<(&'a str, &'a str)> {
    let requested = |name: &str| skyhook.package(name).is_some_and(|package| skyhook.uninstalls(package));
    let name = skyhook.name();
    let mut left = Vec::new();
    for (node, on) in cluster.tracked(name) {
        for entry in on.entries() {
            // Even a malformed entry has its key.
            let recorded = entry.key.split('|').next().unwrap_or_default();
            let wanted = match package {
                Some(package) => recorded == package,
                None => entry.stage.is_uninstall() || requested(recorded),
            };
            if wanted {
                left.push((node.name.as_str(), recorded));
            }
        }
    }
    if let Some(package) = package {
        let package_runs = cluster.package_runs_for(name);
        let of_it = package_runs.of(name).filter(|run| run.package == package);
        left.extend(of_it.map(|run| (run.node, package)));
    }
    left
}

/// Causes with the nodes that they block.
#[derive(Debug, Default)]
pub struct Impact<'a> {
    /// In the order of [`Causes::ranked`].
    pub causes: Vec<CauseImpact<'a>>,
    /// Number of nodes that custom resources select, or that causes block.
    pub selected: usize,
    /// See [`Impact::about`].
    about: HashMap<String, Vec<usize>>,
}

/// A cause, and the nodes that it blocks.
#[derive(Debug)]
pub struct CauseImpact<'a> {
    pub cause: Cause,
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
        let failing = ranked.iter().flat_map(|cause| &cause.findings).map(|at| &findings[*at].subject);
        let failing = failing.filter_map(|s| Some((s.skyhook.as_deref()?, s.node.as_deref()?))).collect();
        let places = Places::of(cluster, model, &failing);
        let closures: Vec<HashSet<Place<'a>>> = ranked
            .iter()
            .map(|cause| {
                places.closure(cause.findings.iter().flat_map(|at| places.seeds(cluster, &findings[*at])))
            })
            .collect();
        // Also count the effects that no closure reaches: the model may not know the reason of a wait that a
        // rule explains.
        let explained: HashSet<Place<'a>> = closures.iter().flatten().copied().collect();
        let causes = ranked.into_iter().zip(closures).map(|(cause, mut closure)| {
            let seeds = cause.effects.iter().map(|at| &findings[*at]).flat_map(|effect| {
                let seeds = places.seeds(cluster, effect).into_iter().filter(|place| places.is_held(place));
                // A batch waits for each of its nodes, of which the model names one.
                let listed = !effect.blocked_nodes.is_empty();
                seeds.filter(|place| listed || !explained.contains(place)).collect::<Vec<_>>()
            });
            closure.extend(places.closure(seeds));
            let mut blocked: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
            for (skyhook, node) in closure {
                blocked.entry(skyhook).or_default().insert(node);
            }
            let message = common_message(cause.findings.iter().map(|at| &findings[*at])).into_owned();
            CauseImpact { message, blocked, cause }
        });
        let causes: Vec<CauseImpact<'_>> = causes.collect();
        let concerned: HashSet<&str> = causes.iter().flat_map(CauseImpact::nodes).collect();
        let selected = places.selected.union(&concerned).count();
        let mut impact = Impact { causes, selected, about: HashMap::new() };
        impact.index(findings);
        impact
    }

    fn index(&mut self, findings: &[Finding]) {
        self.about.clear();
        for (at, cause) in self.causes.iter().enumerate() {
            for name in cause.custom_resources(findings) {
                self.about.entry(name.to_owned()).or_default().push(at);
            }
        }
    }

    /// Counts only these nodes, `selected` of which custom resources select, and puts causes that are only on other nodes
    /// last, among causes of the same severity.
    pub fn limit_to(&mut self, findings: &[Finding], nodes: &[String], selected: usize) {
        let nodes: HashSet<&str> = nodes.iter().map(String::as_str).collect();
        for cause in &mut self.causes {
            cause.blocked.values_mut().for_each(|blocked| blocked.retain(|node| nodes.contains(node)));
            cause.blocked.retain(|_, blocked| !blocked.is_empty());
        }
        let is_elsewhere = |at: &usize| {
            let node = findings[*at].subject.node.as_deref();
            node.is_some_and(|node| !nodes.contains(node))
        };
        let elsewhere = |cause: &CauseImpact<'_>| cause.cause.findings.iter().all(is_elsewhere);
        // Evidence and commands are those of the first node.
        self.causes.iter_mut().for_each(|cause| cause.cause.findings.sort_by_key(is_elsewhere));
        self.causes.sort_by_key(|cause| (Reverse(cause.severity()), elsewhere(cause)));
        self.selected = selected;
        self.index(findings);
    }

    /// The indexes of the causes that are about a custom resource, or block it on a node.
    pub fn about(&self, name: &str) -> &[usize] {
        self.about.get(name).map_or(&[], Vec::as_slice)
    }

    /// Number of causes with this severity.
    pub fn count(&self, severity: Severity) -> usize {
        let of = |cause: &&CauseImpact<'_>| cause.severity() == severity;
        self.causes.iter().filter(of).count()
    }

    /// Number of nodes that causes of this severity block.
    pub fn blocked_nodes(&self, severity: Severity) -> usize {
        let nodes: HashSet<&str> =
            self.causes.iter().filter(|c| c.severity() == severity).flat_map(CauseImpact::nodes).collect();
        nodes.len()
    }
}

impl<'a> CauseImpact<'a> {
    /// The custom resources that have the problem, or that it blocks on a node.
    fn custom_resources<'f>(&'f self, findings: &'f [Finding]) -> BTreeSet<&'f str> {
        let own = self.cause.findings.iter().filter_map(|at| findings[*at].subject.skyhook.as_deref());
        own.chain(self.blocked.keys().copied()).collect()
    }

    pub fn severity(&self) -> Severity {
        self.cause.severity
    }

    /// Whether the cause blocks until someone intervenes.
    pub fn lasts(&self, findings: &[Finding]) -> bool {
        self.severity() == Severity::Error || findings[self.cause.findings[0]].blocks_for_good()
    }

    /// The blocked nodes of all custom resources.
    pub fn nodes(&self) -> BTreeSet<&'a str> {
        self.blocked.values().flatten().copied().collect()
    }
}

/// The model's state of each custom resource on each node.
#[derive(Default)]
struct Places<'a> {
    /// Places that are not complete.
    open: HashMap<Place<'a>, Standing<'a>>,
    /// For each place, the places that wait for it.
    waiting: HashMap<Place<'a>, Vec<Place<'a>>>,
    /// Open places by custom resource.
    of_skyhook: HashMap<&'a str, Vec<Place<'a>>>,
    selected: HashSet<&'a str>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing<'a> {
    Held,
    /// The operator acts in its next reconcile, and starts a stage of this package.
    Due(Option<&'a str>),
    /// A stage runs.
    Running,
}

impl<'a> Places<'a> {
    /// `failing`: places with a problem of their own, which wait for no other node of the batch.
    fn of(cluster: &'a Cluster, model: &Model<'a>, failing: &HashSet<(&str, &str)>) -> Places<'a> {
        let mut places = Places::default();
        for skyhook in &cluster.skyhooks {
            let name = skyhook.name();
            for (node, progress) in model.all_progress(name) {
                let place = (name, node.name.as_str());
                places.selected.insert(place.1);
                let standing = match (progress.state, &progress.reason) {
                    (ProgressState::Complete, _) => continue,
                    (ProgressState::Running, WaitReason::Nothing) => {
                        Standing::Due(match progress.next_action {
                            Some(Action::StartStage { package, .. }) => Some(package),
                            _ => None,
                        })
                    }
                    (ProgressState::Running, _) => Standing::Running,
                    _ => Standing::Held,
                };
                places.open.insert(place, standing);
                places.of_skyhook.entry(name).or_default().push(place);
                let awaited = match progress.reason {
                    WaitReason::Earlier { skyhook, node, .. } => Some((skyhook.name(), node)),
                    WaitReason::MalformedState { skyhook, node } => Some((skyhook.name(), node)),
                    WaitReason::Batch { node, .. } => node.map(|node| (name, node)),
                    WaitReason::BatchSibling(_) if failing.contains(&place) => None,
                    WaitReason::BatchSibling(node) | WaitReason::Deletion(node) => Some((name, node)),
                    _ => None,
                };
                if let Some((skyhook, node)) = awaited {
                    let awaited = (skyhook, node.name.as_str());
                    places.waiting.entry(awaited).or_default().push(place);
                }
            }
        }
        places
    }

    fn is_held(&self, place: &Place<'a>) -> bool {
        self.open.get(place) == Some(&Standing::Held)
    }

    /// The places that a finding blocks directly.
    fn seeds(&self, cluster: &'a Cluster, finding: &Finding) -> Vec<Place<'a>> {
        let subject = &finding.subject;
        // The operator tries again and again to start a package that always fails.
        let fails = finding.severity == Severity::Error && finding.blocks_for_good();
        let held = |place: &&Place<'a>| match self.open.get(place) {
            Some(Standing::Held) => true,
            Some(Standing::Due(next)) => {
                fails && subject.package.as_deref().is_none_or(|package| *next == Some(package))
            }
            _ => false,
        };
        let node = |name: &str| cluster.node(name).map(|node| node.name.as_str());
        let skyhook = subject.skyhook.as_deref().and_then(|s| cluster.skyhook(s));
        let skyhook = skyhook.map(|skyhook| skyhook.name());
        let own = subject.node.as_deref().and_then(node);
        if finding.blocks_reconcile() || finding.blocks_other_nodes() {
            let open = self.of_skyhook.values().flatten().copied();
            let idle = open.filter(|place| {
                self.open[place] != Standing::Running && finding.blocks_reconcile_of(place.0)
            });
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
                self.of_skyhook.get(skyhook).into_iter().flatten().filter(held).copied().collect()
            }
            (None, Some(node)) => {
                let skyhooks = cluster.skyhooks.iter().map(|s| (s.name(), node));
                skyhooks.filter(|place| self.is_held(place)).chain([("", node)]).collect()
            }
            (None, None) if finding.refuses_installs() => self
                .open
                .iter()
                .filter(|(_, standing)| matches!(standing, Standing::Due(_)))
                .map(|(place, _)| *place)
                .collect(),
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
