//! What keeps an install, an uninstall or a deletion from its end. The one place that says so. Pure.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use super::{Finding, Report, Severity};
use crate::api::Skyhook;
use crate::cluster::Cluster;

/// What is blocked as long as a finding exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Blocks {
    /// The custom resource does not become complete.
    Install,
    /// A package is not uninstalled, so a deletion that needs it to be waits, too.
    Uninstall,
    /// The finalizer is not removed, even where nothing is left to uninstall.
    Deletion,
    /// The operator's reconcile pass ends early, for every custom resource.
    Reconcile,
    /// Other workloads are not scheduled on the node.
    Workloads,
}

impl Blocks {
    /// What is blocked, in words.
    pub fn meaning(self) -> &'static str {
        match self {
            Blocks::Install => "installs",
            Blocks::Uninstall => "uninstalls, and deletions that wait for an uninstall",
            Blocks::Deletion => "the deletion",
            Blocks::Reconcile => "every reconcile, for all custom resources",
            Blocks::Workloads => "workloads on the node",
        }
    }
}

/// What somebody waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal<'a> {
    /// Every package is complete on every node.
    Install,
    /// A package, or every one whose uninstall was requested, is gone from all nodes.
    Uninstall(Option<&'a str>),
    /// The custom resource is gone.
    Deletion,
}

impl Finding {
    /// Whether something is blocked by it until somebody acts.
    pub fn blocks_for_good(&self) -> bool {
        self.lasts && self.severity >= Severity::Warning && !self.blocks.is_empty()
    }
}

/// The findings that keep a custom resource from a goal until somebody acts, with those of what it waits for.
pub fn blockers<'r>(
    cluster: &Cluster,
    report: &'r Report,
    skyhook: &Skyhook,
    goal: Goal<'_>,
) -> Vec<&'r Finding> {
    among(cluster, &report.findings, skyhook, goal)
}

/// The same among these findings.
pub(super) fn among<'r>(
    cluster: &Cluster,
    findings: &'r [Finding],
    skyhook: &Skyhook,
    goal: Goal<'_>,
) -> Vec<&'r Finding> {
    let mut found: Vec<&Finding> = Vec::new();
    let mut asked: BTreeSet<&str> = BTreeSet::from([skyhook.name()]);
    let mut next = vec![(skyhook, goal)];
    while let Some((skyhook, goal)) = next.pop() {
        let reach = Reach::of(cluster, skyhook, goal);
        for finding in findings
            .iter()
            .filter(|f| f.blocks_for_good() && reach.covers(f))
        {
            if found.iter().all(|known| !std::ptr::eq(*known, finding)) {
                found.push(finding);
            }
            let awaited = finding.waits_for.iter().map(|w| w.skyhook.as_str());
            for name in awaited.filter(|name| asked.insert(name)) {
                next.extend(cluster.skyhook(name).map(|cause| (cause, Goal::Install)));
            }
        }
    }
    // The cause of all comes first, then what is about this one.
    let everywhere = |f: &Finding| f.blocks_reconcile() && f.subject.skyhook.is_none();
    let own = |f: &Finding| f.subject.skyhook.as_deref() == Some(skyhook.name());
    found.sort_by_key(|f| (!everywhere(f), !own(f)));
    found
}

/// The findings about a deletion that may pass by themselves: they only slow it down.
pub fn delays<'r>(cluster: &Cluster, report: &'r Report, skyhook: &Skyhook) -> Vec<&'r Finding> {
    let reach = Reach::of(cluster, skyhook, Goal::Deletion);
    let all = report.findings.iter();
    all.filter(|f| !f.lasts && f.severity == Severity::Warning && reach.covers(f))
        .collect()
}

/// Makes what blocks a deletion for good an error, and says of every finding which deletions wait for it.
pub(super) fn mark_deletions<'f>(
    cluster: &Cluster,
    findings: impl IntoIterator<Item = &'f mut Finding>,
) {
    let deleting = cluster.skyhooks.items().iter().filter(|s| s.deleting());
    let deletions: Vec<_> = deleting
        .map(|s| (s.reference(), Reach::of(cluster, s, Goal::Deletion)))
        .collect();
    if deletions.is_empty() {
        return;
    }
    for finding in findings {
        if finding.severity < Severity::Warning {
            continue;
        }
        for (reference, reach) in &deletions {
            if !reach.covers(finding) {
                continue;
            }
            if finding.lasts {
                finding.severity = Severity::Error;
            }
            // The rules about deletions say it themselves.
            if finding.rule.blocks.first() != Some(&Blocks::Deletion) || !reach.owns(finding) {
                finding.evidence(reference, "deletion", "waits for this");
            }
        }
    }
}

/// Says of what keeps a custom resource with `runtimeRequired` from its end on a node that the node stays closed as long.
pub(super) fn mark_taints<'f>(
    cluster: &Cluster,
    findings: impl IntoIterator<Item = &'f mut Finding>,
) {
    for finding in findings {
        let blocks =
            finding.severity >= Severity::Warning && finding.blocks.contains(&Blocks::Install);
        let (Some(skyhook), Some(node)) = (&finding.subject.skyhook, &finding.subject.node) else {
            continue;
        };
        let waits = cluster
            .skyhook(skyhook)
            .is_some_and(|s| s.spec.runtime_required);
        let Some(node) = cluster.node(node).filter(|_| blocks && waits) else {
            continue;
        };
        let Some(taint) = cluster.runtime_required_taint(node) else {
            continue;
        };
        finding.evidence(
            node,
            format!("taint {}", taint.spelled()),
            "keeps workloads away until this is resolved",
        );
    }
}

/// Which findings concern a goal of a custom resource.
struct Reach<'a> {
    skyhook: &'a Skyhook,
    goal: Goal<'a>,
    /// The packages that are still to be uninstalled, with their nodes.
    left: Vec<(&'a str, &'a str)>,
}

impl<'a> Reach<'a> {
    fn of(cluster: &'a Cluster, skyhook: &'a Skyhook, goal: Goal<'a>) -> Reach<'a> {
        let left = match goal {
            Goal::Install => Vec::new(),
            Goal::Deletion => {
                let pending = cluster.pending_uninstalls(skyhook);
                let pending = pending.iter();
                pending.map(|p| (p.node.name.as_str(), p.name)).collect()
            }
            Goal::Uninstall(package) => to_uninstall(cluster, skyhook, package),
        };
        Reach {
            skyhook,
            goal,
            left,
        }
    }

    fn owns(&self, finding: &Finding) -> bool {
        finding.subject.skyhook.as_deref() == Some(self.skyhook.name())
    }

    fn covers(&self, finding: &Finding) -> bool {
        let blocks = |what| finding.blocks.contains(&what);
        let own = self.owns(finding);
        match self.goal {
            Goal::Install => {
                let going = blocks(Blocks::Install) || blocks(Blocks::Uninstall);
                let deleting = self.skyhook.deleting() && blocks(Blocks::Deletion);
                blocks(Blocks::Reconcile) || (own && (going || deleting))
            }
            Goal::Uninstall(_) => {
                blocks(Blocks::Reconcile)
                    || (own && blocks(Blocks::Uninstall) && self.left(finding))
            }
            Goal::Deletion => {
                let about = own || finding.subject.skyhook.is_none();
                let ours = self.skyhook.has_finalizer();
                (about && blocks(Blocks::Deletion))
                    || (ours && blocks(Blocks::Reconcile))
                    || (ours && own && blocks(Blocks::Uninstall) && self.left(finding))
            }
        }
    }

    /// Whether it is about a node and a package on which something is left to uninstall.
    fn left(&self, finding: &Finding) -> bool {
        let subject = &finding.subject;
        self.left.iter().any(|(node, package)| {
            let holds_up = finding.holds_up.iter().any(|n| n == node);
            let here = match &subject.node {
                Some(at) => at == node || holds_up,
                None => finding.holds_up.is_empty() || holds_up,
            };
            here && subject.package.as_ref().is_none_or(|p| p == package)
        })
    }
}

/// Where a package is still recorded or at work, or every one whose uninstall was requested.
fn to_uninstall<'a>(
    cluster: &'a Cluster,
    skyhook: &'a Skyhook,
    package: Option<&'a str>,
) -> Vec<(&'a str, &'a str)> {
    let requested = |name: &str| {
        let uninstall = skyhook.package(name).map(|p| p.uninstall());
        uninstall.is_some_and(|u| u.enabled && (u.apply || skyhook.deleting()))
    };
    let name = skyhook.name();
    let mut left = Vec::new();
    for (node, on) in cluster.tracked(name) {
        for entry in on.entries() {
            // One that is damaged still has its key.
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
        let package_runs = cluster.package_runs();
        let of_it = package_runs.all().iter();
        let of_it = of_it.filter(|e| e.skyhook == name && e.package == package);
        left.extend(of_it.map(|e| (e.node, package)));
    }
    left
}
