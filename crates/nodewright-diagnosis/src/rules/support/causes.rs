//! The graph of findings, from causes to the findings that wait for them. Pure.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::rules::{Finding, Severity, Subject};
use crate::text::NodeSet;

/// A subject that a finding waits for. Findings about this subject are the causes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Awaited {
    /// The custom resource.
    pub skyhook: String,
    /// The node; `None` for all nodes of the custom resource.
    pub node: Option<String>,
    /// Whether problems on other nodes explain the wait, too. True if the custom resource is being deleted: a
    /// deletion ends on all nodes at once.
    pub on_all_nodes: bool,
}

/// For each finding of a list, the indexes of the findings that explain it.
#[derive(Debug, Clone, Default)]
pub struct Causes {
    explained_by: Vec<Vec<usize>>,
}

/// Number of custom resources or other objects from which the same problem of each is one cause: fewer are
/// shown one by one, each with its own remedies.
const MANY: usize = 4;

/// A cause with its direct and indirect effects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// Indexes of findings of one kind, on different nodes, and on different objects if they are many.
    pub findings: Vec<usize>,
    /// Indexes of the effects, in the order of the list.
    pub effects: Vec<usize>,
    /// The highest severity of its findings, and of the effects that no graver cause has.
    pub severity: Severity,
}

impl Causes {
    /// Determines which findings explain which. Linear in the number of findings and blocked nodes.
    pub fn of(findings: &[Finding]) -> Causes {
        let places = Places::of(findings);
        let explained_by =
            findings.iter().enumerate().map(|(at, finding)| places.explain(findings, at, finding));
        Causes { explained_by: explained_by.collect() }
    }

    /// Indexes of the findings that explain this finding; empty for a cause.
    pub fn explaining(&self, at: usize) -> &[usize] {
        &self.explained_by[at]
    }

    /// The causes with their effects, ordered by highest severity, then those that stop the whole operator, then others that
    /// have to be fixed first, then by number of findings.
    ///
    /// An effect of several causes is listed with each. Findings that explain only each other are all causes.
    /// A blocker of a whole custom resource comes before findings on its nodes.
    pub fn ranked(&self, findings: &[Finding]) -> Vec<Cause> {
        let mut explains: Vec<Vec<usize>> = vec![Vec::new(); findings.len()];
        for (at, causes) in self.explained_by.iter().enumerate() {
            causes.iter().for_each(|cause| explains[*cause].push(at));
        }
        let unexplained = |at: &usize| self.explained_by[*at].is_empty();
        let mut causes: Vec<Cause> = by_kind(findings, (0..findings.len()).filter(unexplained));
        let mut reached = vec![false; findings.len()];
        for cause in &mut causes {
            cause.reach(&explains, &mut reached);
        }
        let cycles = by_kind(findings, (0..findings.len()).filter(|at| !reached[*at]));
        causes.extend(cycles);
        let mut gravest = vec![Severity::Info; findings.len()];
        for cause in &causes {
            cause.effects.iter().for_each(|at| gravest[*at] = gravest[*at].max(cause.severity));
        }
        for cause in &mut causes {
            let own = cause.effects.iter().filter(|at| gravest[**at] == cause.severity);
            cause.severity = own.map(|at| findings[*at].severity).fold(cause.severity, Severity::max);
        }
        let mut heaviest: HashMap<&str, usize> = HashMap::new();
        for cause in &causes {
            let skyhook = findings[cause.findings[0]].subject.skyhook.as_deref();
            let most = heaviest.entry(skyhook.unwrap_or_default()).or_default();
            *most = cause.len().max(*most);
        }
        let weight = |cause: &Cause| {
            let first = &findings[cause.findings[0]];
            let whole =
                first.subject.skyhook.as_deref().filter(|_| first.stops_whole() && !first.blocks_reconcile());
            let hangs = whole.map_or(cause.len(), |name| heaviest[name]);
            let stops_all = first.blocks_reconcile() && first.subject.skyhook.is_none();
            (cause.severity, stops_all, first.comes_first(), hangs, whole.is_some())
        };
        // A stable sort: equal causes keep the order of the list.
        causes.sort_by_key(|cause| Reverse(weight(cause)));
        causes
    }
}

/// A message that is true of all findings of a cause: `the spec of skyhook/cr-[0-249] is invalid`.
pub fn common_message<'f>(findings: impl Iterator<Item = &'f Finding> + Clone) -> Cow<'f, str> {
    let Some(first) = findings.clone().next() else {
        return "".into();
    };
    if findings.clone().all(|f| f.message == first.message) {
        return (&*first.message).into();
    }
    if findings.clone().all(|f| f.trouble() == first.trouble()) {
        return first.trouble().into();
    }
    let names = findings.filter_map(|finding| finding.subject.skyhook.as_deref());
    renamed(first, &NodeSet::of(names).limited(NAMED))
}

/// Maximum number of ranges of names in a message.
const NAMED: usize = 3;

impl Cause {
    /// Findings without effects.
    pub fn alone(findings: Vec<usize>) -> Cause {
        Cause { findings, effects: Vec::new(), severity: Severity::Info }
    }

    /// Number of findings in the group, including effects.
    fn len(&self) -> usize {
        self.findings.len() + self.effects.len()
    }

    /// Collects all direct and indirect effects, and marks causes and effects as reached.
    fn reach(&mut self, explains: &[Vec<usize>], reached: &mut [bool]) {
        let mut seen: BTreeSet<usize> = self.findings.iter().copied().collect();
        let mut next = self.findings.clone();
        while let Some(at) = next.pop() {
            reached[at] = true;
            next.extend(explains[at].iter().filter(|effect| seen.insert(**effect)));
        }
        self.findings.iter().for_each(|own| {
            seen.remove(own);
        });
        self.effects = seen.into_iter().collect();
    }
}

/// Groups findings by [`kind`], and by [`problem`] if it is that of many objects, in the order of the list.
fn by_kind(findings: &[Finding], places: impl Iterator<Item = usize>) -> Vec<Cause> {
    let mut causes: Vec<Cause> = Vec::new();
    let mut kinds = HashMap::new();
    let mut problems: HashMap<_, Vec<usize>> = HashMap::new();
    for at in places {
        let cause = *kinds.entry(kind(at, &findings[at])).or_insert_with(|| {
            causes.push(Cause::alone(Vec::new()));
            problems.entry(problem(&findings[at])).or_default().push(causes.len() - 1);
            causes.len() - 1
        });
        causes[cause].findings.push(at);
    }
    for alike in problems.into_values().filter(|alike| alike.len() >= MANY) {
        for at in &alike[1..] {
            let more = std::mem::take(&mut causes[*at].findings);
            causes[alike[0]].findings.extend(more);
        }
    }
    causes.retain(|cause| !cause.findings.is_empty());
    // The most severe finding is first: it represents the group.
    for cause in &mut causes {
        cause.findings.sort_by_key(|at| Reverse(findings[*at].severity));
        cause.severity = findings[cause.findings[0]].severity;
    }
    causes
}

/// The rule about nodes that are down: the same problem for each custom resource.
const NODE_DOWN: &str = "SKY409";

/// Grouping key of findings: equal for the same problem on different nodes.
fn kind(at: usize, finding: &Finding) -> impl Eq + std::hash::Hash + use<'_> {
    let subject = &finding.subject;
    let alone = subject.node.is_none().then_some(at);
    let skyhook = subject.skyhook.as_ref().filter(|_| finding.rule.code != NODE_DOWN);
    (skyhook, problem(finding), alone)
}

/// Grouping key of findings: equal for the same problem of different objects.
fn problem(finding: &Finding) -> impl Eq + std::hash::Hash + use<'_> {
    let Subject { kind, package, compartment, node, skyhook, .. } = &finding.subject;
    let place = (kind, package, compartment, skyhook.is_some(), node.is_some());
    (finding.rule.code, finding.severity, place, renamed(finding, ""))
}

/// The message independent of the node, with another name for the finding's custom resource in its reference
/// `skyhook/NAME`.
fn renamed<'f>(finding: &'f Finding, name: &str) -> Cow<'f, str> {
    let trouble = finding.trouble();
    let Some(reference) = finding.subject.skyhook.as_ref().map(|own| format!("/{own}")) else {
        return trouble.into();
    };
    let continues = |rest: &str| rest.starts_with(|c: char| c.is_ascii_alphanumeric() || "-.".contains(c));
    match trouble.split_once(&reference) {
        Some((before, after)) if !continues(after) => format!("{before}/{name}{after}").into(),
        _ => trouble.into(),
    }
}

/// Whether a finding is about a package: it would also fail if nothing else kept the custom resource or the operator from
/// continuing.
fn fails_anyway(finding: &Finding) -> bool {
    finding.subject.package.is_some()
}

/// Indexes of findings by custom resource and node, and by the nodes that they block.
#[derive(Default)]
struct Places<'f> {
    on_node: HashMap<(&'f str, &'f str), Vec<usize>>,
    holding_up: HashMap<(&'f str, &'f str), Vec<usize>>,
    of_skyhook: BTreeMap<&'f str, Vec<usize>>,
    on_any_node: BTreeMap<&'f str, Vec<usize>>,
    /// Findings about a node without a custom resource.
    of_node: HashMap<&'f str, Vec<usize>>,
    /// Findings after which the operator does not continue.
    stopping: Vec<usize>,
}

impl<'f> Places<'f> {
    fn of(findings: &'f [Finding]) -> Places<'f> {
        let mut places = Places::default();
        for (at, finding) in findings.iter().enumerate() {
            let subject = &finding.subject;
            if finding.blocks_reconcile() || finding.blocks_other_nodes() {
                places.stopping.push(at);
            }
            match (subject.skyhook.as_deref(), subject.node.as_deref()) {
                (Some(skyhook), Some(node)) => {
                    places.on_node.entry((skyhook, node)).or_default().push(at);
                    places.on_any_node.entry(skyhook).or_default().push(at);
                }
                (Some(skyhook), None) => places.of_skyhook.entry(skyhook).or_default().push(at),
                (None, Some(node)) => places.of_node.entry(node).or_default().push(at),
                (None, None) => {}
            }
            for node in &finding.blocked_nodes {
                if let Some(skyhook) = subject.skyhook.as_deref() {
                    let held = (skyhook, node.as_str());
                    places.holding_up.entry(held).or_default().push(at);
                }
            }
        }
        places
    }

    /// The causes of a finding: findings of the rules in `effect_of`, and the findings closest to the awaited
    /// subjects. If there are none, the findings that end the operator's reconcile.
    fn explain(&self, findings: &[Finding], at: usize, finding: &Finding) -> Vec<usize> {
        let mut explained_by = BTreeSet::new();
        if !finding.effect_of.is_empty() {
            explained_by.extend(self.named(findings, finding));
        }
        for awaited in &finding.waits_for {
            explained_by.extend(self.nearest(findings, at, awaited));
        }
        let waits = !finding.waits_for.is_empty() && !fails_anyway(finding);
        if explained_by.is_empty() && waits && !finding.blocks_reconcile() {
            let own = finding.subject.skyhook.as_deref().unwrap_or_default();
            let stopping = self.stopping.iter().copied();
            explained_by.extend(stopping.filter(|at| findings[*at].blocks_reconcile_of(own)));
        }
        explained_by.remove(&at);
        explained_by.into_iter().collect()
    }

    /// Findings of the rules in `effect_of`: those that end the operator's reconcile, those about the node alone, and those
    /// about the same package or no package, on the same node or no node.
    fn named(&self, findings: &'f [Finding], finding: &'f Finding) -> Vec<usize> {
        let own = &finding.subject;
        let place = (own.skyhook.as_deref().unwrap_or_default(), own.node.as_deref().unwrap_or_default());
        let everywhere = self.of_skyhook.get(place.0).into_iter().flatten();
        let here = self.on_node.get(&place).into_iter().flatten().chain(everywhere).filter(|n| {
            let package = &findings[**n].subject.package;
            package.is_none() || *package == own.package
        });
        let named = |n: &&usize| finding.is_effect_of(&findings[**n]);
        let of_node = self.of_node.get(place.1).into_iter().flatten();
        here.chain(of_node).chain(&self.stopping).filter(named).copied().collect()
    }

    fn nearest(&self, findings: &[Finding], at: usize, awaited: &Awaited) -> Vec<usize> {
        let own = &findings[at];
        let skyhook = awaited.skyhook.as_str();
        let none = Vec::new();
        // A finding that declares this rule as its cause is an effect here.
        let other = |n: &&usize| {
            let rule = findings[**n].rule.code;
            **n != at && rule != own.rule.code && !findings[**n].is_effect_of(own)
        };
        let wrong = |n: &&usize| findings[**n].severity > Severity::Info;
        let about = self.of_skyhook.get(skyhook).filter(|_| !fails_anyway(own)).unwrap_or(&none);
        let Some(node) = awaited.node.as_deref() else {
            let on = self.on_any_node.get(skyhook).unwrap_or(&none);
            let all: Vec<usize> = about.iter().chain(on).copied().collect();
            let grave: Vec<usize> = all.iter().filter(other).filter(wrong).copied().collect();
            return if grave.is_empty() { self.waiting(findings, at, &all) } else { grave };
        };
        let elsewhere = Awaited { node: None, ..awaited.clone() };
        let blocking = |n: &&usize| wrong(n) && !findings[**n].blocks.is_empty();
        // A finding that lists the nodes that it blocks, such as the nodes of a compartment, concerns no
        // other node.
        let general = |n: &&usize| other(n) && findings[**n].blocked_nodes.is_empty();
        let here = self.on_node.get(&(skyhook, node)).unwrap_or(&none);
        let of_node = self.of_node.get(node).unwrap_or(&none);
        let held = self.holding_up.get(&(skyhook, node)).unwrap_or(&none);
        let stops =
            |n: &&usize| !findings[**n].blocks_reconcile() && findings[**n].blocks_reconcile_of(skyhook);
        // In this order: the node's own problem, its wait, blockers elsewhere, the custom resource's problem.
        let own_trouble: Vec<usize> =
            here.iter().chain(of_node).filter(other).filter(blocking).copied().collect();
        let near = [
            own_trouble,
            self.waiting(findings, at, here),
            held.iter().chain(self.stopping.iter().filter(stops)).filter(other).copied().collect(),
            about.iter().filter(general).filter(wrong).copied().collect(),
            about.iter().filter(general).copied().collect(),
        ];
        match near.into_iter().find(|tier| !tier.is_empty()) {
            Some(tier) => tier,
            None if awaited.on_all_nodes => self.nearest(findings, at, &elsewhere),
            None => Vec::new(),
        }
    }

    /// The findings that wait for something themselves. They may be of the same rule: custom resources can
    /// wait for each other in a chain.
    fn waiting(&self, findings: &[Finding], at: usize, places: &[usize]) -> Vec<usize> {
        let own = &findings[at];
        let waits = |n: &&usize| {
            let other = &findings[**n];
            **n != at && !other.waits_for.is_empty() && !other.is_effect_of(own)
        };
        places.iter().filter(waits).copied().collect()
    }
}
