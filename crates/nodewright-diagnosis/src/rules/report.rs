//! Runs the rules over a cluster, and derives the verdict.

use std::collections::BTreeSet;
use std::mem;
use std::rc::Rc;

use schemars::JsonSchema;
use serde::Serialize;

use super::finding::FindingKey;
use super::findings::{RuleResult, RuleRun};
use super::remedies::usual;
use super::support::blockers::{self, CauseImpact, Impact};
use super::support::causes::Causes;
use super::support::mute::{LapsedMute, Mutes};
use super::support::standstill;
use super::{ALL, Finding, Finds, Rule, Severity};
use crate::cluster::{Cluster, NodeFields, Read, Source};
use crate::model::Model;
use crate::text::distinct;

/// The subjects and rules of a report. An empty list means all.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// Names of custom resources.
    pub skyhooks: Vec<String>,
    pub nodes: Vec<String>,
    /// The rules to run.
    pub rules: Vec<&'static Rule>,
}

/// A rule that could not be checked completely, and its unread sources.
#[derive(Debug, Clone)]
pub struct NotChecked {
    pub rule: &'static Rule,
    pub reason: String,
}

/// Number of rules, objects and causes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Number of rules that were run.
    pub rules: usize,
    /// Number of custom resources.
    pub skyhooks: usize,
    /// Number of nodes.
    pub nodes: usize,
    /// Number of pods.
    pub pods: usize,
    /// Number of Jobs.
    pub jobs: usize,
    /// Number of causes with the severity `error`.
    pub errors: usize,
    /// Number of causes with the severity `warning`.
    pub warnings: usize,
    /// Number of causes with the severity `info`.
    pub infos: usize,
    /// Number of muted causes.
    #[serde(rename = "mutedCauses")]
    pub muted: usize,
    /// Number of muted causes whose mute has no expiry.
    pub muted_without_expiry: usize,
}

/// The overall result of the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub enum Verdict {
    /// At least one finding is an error.
    Stuck,
    /// No finding is an error, but some work is blocked until someone intervenes.
    Blocked,
    /// No finding is an error, no work is blocked until someone intervenes, and every rule could run.
    Healthy,
    /// No finding is an error, no work is known to be blocked until someone intervenes, but some rules could
    /// not run.
    NotFullyChecked,
}

/// The result of all rules for a cluster.
#[derive(Debug, Clone)]
pub struct Report {
    pub verdict: Verdict,
    /// Causes in the order of [`Causes::ranked`], then their effects.
    pub findings: Vec<Finding>,
    pub not_checked: Vec<NotChecked>,
    pub counts: Counts,
    /// Muted findings, which count in neither the verdict nor the other counts.
    pub muted: Vec<Finding>,
    pub lapsed: Vec<LapsedMute>,
    /// Rules that found an error although some of their sources could not be read.
    partly_checked: Vec<NotChecked>,
}

impl Counts {
    fn with(self, findings: &[Finding]) -> Counts {
        let ranked = Causes::of(findings).ranked(findings);
        let of = |severity| ranked.iter().filter(|cause| cause.severity == severity).count();
        Counts {
            errors: of(Severity::Error),
            warnings: of(Severity::Warning),
            infos: of(Severity::Info),
            ..self
        }
    }
}

impl Report {
    /// Moves muted findings to `muted`, and updates counts and verdict.
    pub fn mute(mut self, cluster: &Cluster, mutes: &Mutes) -> Report {
        self.lapsed = mutes.mark(cluster, &mut self.findings);
        if self.findings.iter().all(|f| f.muted.is_none()) {
            return self;
        }
        let (muted, findings): (Vec<_>, Vec<_>) =
            mem::take(&mut self.findings).into_iter().partition(|f| f.muted.is_some());
        self.findings = findings;
        causes_first(&mut self.findings);
        let errors = codes_with_errors(&self.findings);
        self.not_checked
            .extend(self.partly_checked.extract_if(.., |partly| !errors.contains(partly.rule.code)));
        self.not_checked.sort_by_key(|n| n.rule.code);
        self.counts = self.counts.with(&self.findings);
        let causes = Causes::of(&muted).ranked(&muted);
        let mutes = causes.iter().filter_map(|cause| muted[cause.findings[0]].muted.as_deref());
        self.counts.muted = causes.len();
        self.counts.muted_without_expiry = mutes.filter(|mute| mute.until.is_none()).count();
        self.verdict = verdict(self.counts, &self.findings, &self.not_checked);
        self.muted = muted;
        self
    }

    /// All findings, including muted ones; causes first.
    pub fn all_findings(&self) -> Vec<Finding> {
        let mut all: Vec<Finding> = self.findings.iter().chain(&self.muted).cloned().collect();
        causes_first(&mut all);
        all
    }

    /// Limits the report to these blocking findings. The verdict is `Stuck` or `Blocked`, even if all are
    /// warnings.
    pub fn stuck_by(self, blockers: &BTreeSet<FindingKey>) -> Report {
        let mut findings = self.findings;
        findings.retain(|f| blockers.contains(&f.key()));
        let counts = self.counts.with(&findings);
        Report {
            verdict: if counts.errors > 0 { Verdict::Stuck } else { Verdict::Blocked },
            counts,
            findings,
            ..self
        }
    }
}

/// Runs the rules in scope over a cluster.
pub fn diagnose(cluster: &Cluster, scope: &Scope) -> Report {
    let rules = or_all(&scope.rules);
    let run = RuleRun::new(cluster);
    for rule in rules {
        run.of(rule);
    }
    let mut results = run.finish();
    // There may be a finding for each custom resource on each node: they are moved as rarely as possible.
    let mut findings = Vec::with_capacity(results.values().map(|result| result.findings.len()).sum());
    for rule in rules {
        let found = results.get_mut(rule.code).map(|result| mem::take(&mut result.findings));
        findings.extend(Rc::unwrap_or_clone(found.unwrap_or_default()));
    }
    blockers::mark_deletions(cluster, &mut findings);
    blockers::mark_taints(cluster, &mut findings);
    blockers::mark_rejected(cluster.flavor(), &mut findings);
    standstill::downgrade_uncertain(cluster, &mut findings);
    let mut kept = scope.concerned(cluster, &findings).into_iter();
    findings.retain(|_| kept.next() == Some(true));
    // If a rule found an error, its unread sources cannot change the verdict.
    let errors = codes_with_errors(&findings);
    let unread = |rule: &&'static Rule| {
        Some(NotChecked { rule, reason: unread(cluster, rule, results.get(rule.code)?)? })
    };
    let (partly_checked, not_checked): (Vec<_>, Vec<_>) =
        rules.iter().filter_map(unread).partition(|unread| errors.contains(unread.rule.code));
    usual::withhold_ignoring_many(cluster, &mut findings);
    findings.sort_by(|a, b| {
        b.severity
            .cmp(&a.severity)
            .then_with(|| a.rule.code.cmp(b.rule.code))
            .then_with(|| a.subject.cmp(&b.subject))
            .then_with(|| a.message.cmp(&b.message))
    });
    causes_first(&mut findings);
    let counts = Counts {
        rules: rules.len(),
        skyhooks: cluster.skyhooks.items().len(),
        nodes: cluster.nodes.items().len(),
        pods: cluster.pods.items().len(),
        jobs: cluster.jobs.items().len(),
        ..Counts::default()
    }
    .with(&findings);
    Report {
        verdict: verdict(counts, &findings, &not_checked),
        findings,
        not_checked,
        counts,
        muted: Vec::new(),
        lapsed: Vec::new(),
        partly_checked,
    }
}

fn codes_with_errors(findings: &[Finding]) -> BTreeSet<&'static str> {
    findings.iter().filter(|f| f.severity == Severity::Error).map(|f| f.rule.code).collect()
}

fn verdict(counts: Counts, findings: &[Finding], not_checked: &[NotChecked]) -> Verdict {
    if counts.errors > 0 {
        Verdict::Stuck
    } else if findings.iter().any(Finding::blocks_for_good) {
        Verdict::Blocked
    } else if not_checked.is_empty() {
        Verdict::Healthy
    } else {
        Verdict::NotFullyChecked
    }
}

/// Sorts the causes as [`Causes::ranked`] does, then the effects.
fn causes_first(findings: &mut [Finding]) {
    let ranked = Causes::of(findings).ranked(findings);
    let causes = ranked.iter().flat_map(|cause| &cause.findings);
    let effects = ranked.iter().flat_map(|cause| &cause.effects);
    // The place that each finding takes; an effect of several causes is listed once, with the first cause.
    let mut places = vec![usize::MAX; findings.len()];
    let mut next = 0..;
    for &at in causes.chain(effects) {
        if places[at] == usize::MAX {
            places[at] = next.next().unwrap_or_default();
        }
    }
    for at in 0..findings.len() {
        while places[at] != at {
            let to = places[at];
            findings.swap(at, to);
            places.swap(at, to);
        }
    }
}

/// The unread sources and unknown values that leave a rule undecided; `None` if it could be checked.
///
/// An optional source counts if reading it failed or the result depends on it, but not if the given files
/// lack it.
fn unread(cluster: &Cluster, rule: &Rule, result: &RuleResult) -> Option<String> {
    let counts = |s: &&Source| {
        let failed = !Source::EXPLANATORY.contains(s) && cluster.source(**s).unread().is_some();
        result.depends_on.contains(s) || failed
    };
    let undecoded = rule.needs.iter().chain(rule.optional_sources);
    let undecoded =
        undecoded.filter_map(|source| cluster.undecoded(*source)).filter(|_| rule.finds != Finds::Unknowns);
    let reason: Vec<String> = rule
        .needs
        .iter()
        .chain(rule.optional_sources.iter().filter(counts))
        .filter(|source| cluster.has(**source))
        .filter_map(|source| match cluster.source(*source) {
            Read::Ok(_) if *source == Source::Nodes && cluster.node_fields() < NodeFields::All => {
                Some(format!("{source}: only their metadata was read"))
            }
            Read::Ok(_) => None,
            Read::Incomplete(_, reason) | Read::Unreadable(reason) => Some(format!("{source}: {reason}")),
            Read::NotRequested if cluster.may_leave_out() => Some(match (source, &cluster.only_namespace) {
                (Source::Pods | Source::Workloads, Some(namespace)) => {
                    format!("{source}: the capture has only the pods of namespace {namespace}")
                }
                (Source::Skyhooks, _) => format!("the capture has no {} objects", cluster.flavor().kind()),
                (Source::Legacy, _) => {
                    format!("the capture has no {} objects", cluster.flavor().other().kind())
                }
                _ => format!("the capture does not include {source}"),
            }),
            Read::NotRequested => Some(format!("{source} were not read")),
        })
        .chain(undecoded)
        .chain(result.undetermined.iter().cloned())
        .collect();
    (!reason.is_empty()).then(|| reason.join("; "))
}

impl Scope {
    /// Whether a finding concerns something in scope.
    ///
    /// A finding about only a node concerns the custom resources that select the node; a finding about only a
    /// custom resource concerns the nodes that it selects. A finding about neither concerns everything, and
    /// so does a finding that stops the operator. A finding also concerns the nodes that it blocks.
    fn covers(&self, cluster: &Cluster, finding: &Finding) -> bool {
        let subject = &finding.subject;
        let skyhooks = match (&subject.skyhook, &subject.node) {
            (Some(name), _) => self.skyhooks.contains(name),
            (None, Some(node)) => self.skyhooks.iter().any(|s| cluster.touches(s, node)),
            (None, None) => true,
        };
        let nodes = match (&subject.node, &subject.skyhook) {
            (Some(name), _) if !finding.blocks_other_nodes() => self.nodes.contains(name),
            (_, Some(skyhook)) => self.nodes.iter().any(|n| cluster.touches(skyhook, n)),
            _ => true,
        };
        let held_up = || finding.blocked_nodes.iter().any(|name| self.nodes.contains(name));
        finding.blocks_reconcile()
            || (self.skyhooks.is_empty() || skyhooks) && (self.nodes.is_empty() || nodes || held_up())
    }

    /// Whether each finding concerns something in scope, or explains a finding or a wait in scope. Causes are
    /// found among all findings and filtered afterwards, so that no effect remains without its cause.
    pub fn concerned(&self, cluster: &Cluster, findings: &[Finding]) -> Vec<bool> {
        let mut kept: Vec<bool> = findings.iter().map(|finding| self.covers(cluster, finding)).collect();
        if self.skyhooks.is_empty() && self.nodes.is_empty() {
            return kept;
        }
        // A node may wait without a finding of its own.
        if !self.nodes.is_empty() {
            let impact = Impact::new(cluster, &Model::new(cluster), findings);
            let blocks = |cause: &&CauseImpact<'_>| {
                let skyhook =
                    |name: &str| self.skyhooks.is_empty() || self.skyhooks.iter().any(|s| s == name);
                let node = |name: &&str| self.nodes.iter().any(|n| n == name);
                let mut blocked = cause.blocked.iter().filter(|(name, _)| skyhook(name));
                cause.lasts(findings) && blocked.any(|(_, nodes)| nodes.iter().any(node))
            };
            for CauseImpact { cause, .. } in impact.causes.iter().filter(blocks) {
                // A cause with a finding in scope needs no findings about other nodes.
                if !cause.findings.iter().any(|at| kept[*at]) {
                    cause.findings.iter().for_each(|at| kept[*at] = true);
                }
            }
        }
        let causes = Causes::of(findings);
        let mut next: Vec<usize> = (0..findings.len()).filter(|at| kept[*at]).collect();
        while let Some(at) = next.pop() {
            for cause in causes.explaining(at) {
                if !mem::replace(&mut kept[*cause], true) {
                    next.push(*cause);
                }
            }
        }
        kept
    }

    /// The sources that the rules in scope read.
    pub fn needs(&self) -> Vec<Source> {
        distinct(or_all(&self.rules).iter().flat_map(|r| r.needs.iter().chain(r.optional_sources)).copied())
    }
}

fn or_all<'a>(rules: &'a [&'static Rule]) -> &'a [&'static Rule] {
    if rules.is_empty() { ALL } else { rules }
}
