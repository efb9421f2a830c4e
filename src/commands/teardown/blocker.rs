//! The objects that a teardown deletes, their order, what blocks their deletion, and leftovers after it. Pure.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use super::Planned;
use crate::api::{Meta, Skyhook};
use crate::cluster::Cluster;
use crate::commands::shared::diagnosis::group::on_all_nodes;
use crate::commands::shared::grouped::grouped;
use crate::plan::{Condition, Target};
use crate::rules::support::blockers::BlockingFindings;
use crate::rules::{self, Blocks, Finding, Report, Scope};
use crate::view::{NodeSet, shell_words, some_of};

/// Maximum number of nodes, pods and jobs named before the rest is counted.
const SHOWN: usize = 4;

/// A problem that blocks a deletion, or a leftover after it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Blocker {
    /// The code of the rule that found the problem; absent if it was not found by a rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The name of the rule; absent without a code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The package concerned; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
    /// The nodes with the problem.
    pub nodes: Vec<String>,
    /// The problem.
    pub message: String,
    /// The least disruptive command that fixes the problem; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Blocker {
    fn unruled(message: String, remedy: String) -> Blocker {
        Blocker { message, remedy: Some(remedy), ..Blocker::default() }
    }

    /// The set of nodes, such as `gpu-[1-3]`; `None` without nodes.
    pub fn node_set(&self) -> Option<String> {
        (!self.nodes.is_empty()).then(|| NodeSet::of(&self.nodes).limited(SHOWN))
    }

    /// The remedy in parentheses, for a warning; empty without one.
    pub fn next(&self) -> String {
        self.remedy.as_ref().map_or(String::new(), |remedy| format!(" (`{remedy}`)"))
    }

    /// A short description: `SKY112 uninstall-failing: driver on node-2`.
    pub fn brief(&self) -> String {
        let (Some(code), Some(name)) = (&self.code, &self.name) else {
            return self.message.clone();
        };
        let mut on: Vec<&str> = self.package.as_deref().into_iter().collect();
        let nodes = self.node_set();
        if let Some(nodes) = &nodes {
            on.extend(["on", nodes]);
        }
        match on.as_slice() {
            [] => format!("{code} {name}"),
            on => format!("{code} {name}: {}", on.join(" ")),
        }
    }
}

/// Formats the problem: `SKY109 deletion of … is blocked`.
impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(code) = &self.code {
            write!(f, "{code} ")?;
            if let Some(nodes) = self.node_set() {
                write!(f, "on {nodes}: ")?;
            }
        }
        f.write_str(&self.message)
    }
}

/// The blockers of an object's deletion, most severe first. Unread sources may hide blockers. `foreseen`: the deletion is
/// not requested yet, and `cluster` is the state after the request.
pub fn of(
    cluster: &Cluster,
    report: &Report,
    blocking: &BlockingFindings,
    item: &Planned,
    foreseen: bool,
) -> Vec<Blocker> {
    let Some(found) = item.find(cluster) else {
        return Vec::new();
    };
    let entry = item.flavor.finalizer();
    let all = found.metadata.finalizers.iter();
    let (ours, others): (Vec<&str>, Vec<&str>) =
        all.map(String::as_str).partition(|f| *f == entry && found.skyhook.is_some());
    let name = &item.goal.target.name;
    let deleting = found.metadata.deleting();
    let mut blockers = Vec::new();
    if let Some(skyhook) = found.skyhook.filter(|_| !ours.is_empty()) {
        let findings = if item.flavor == cluster.flavor() {
            blocking.of_goal(&report.findings, cluster, skyhook, &Condition::Gone)
        } else if cluster.active_api.migrating() {
            // The newer operator removes the older finalizer as soon as the deletion is requested.
            let stops =
                |f: &&Finding| f.blocks_for_good() && f.blocks_reconcile() && f.subject.skyhook.is_none();
            report.findings.iter().filter(stops).take(1).collect()
        } else {
            let message = format!(
                "no operator for the {} API is running, so nothing removes the finalizer",
                item.flavor.kind()
            );
            let strip = strip(name) + " --api " + &item.flavor.to_string();
            blockers.push(Blocker::unruled(message, strip));
            Vec::new()
        };
        blockers.extend(folded(findings, deleting));
        if cluster.operator().is_absent() && item.flavor == cluster.flavor() {
            for blocker in &mut blockers {
                blocker.message += "; nothing removes the finalizer of the custom resource";
                blocker.remedy = Some(strip(name));
            }
        }
    }
    // Third-party finalizers block the deletion even after the operator has finished its work.
    if !others.is_empty() && (foreseen || !deleting || ours.is_empty() || !blockers.is_empty()) {
        let message = format!(
            "third-party finalizers block the deletion until their owners remove them: {}",
            others.join(", ")
        );
        let (group, _, plural) = item.goal.target.kind.resource();
        let see = format!("kubectl get {plural}.{group} {name} -o yaml");
        blockers.push(Blocker::unruled(message, see));
    }
    blockers
}

fn strip(name: &str) -> String {
    format!("kubectl skyhook finalizer strip {name}")
}

/// Merges equal findings on several nodes.
///
/// The mildest remedy comes first. Before a deletion is requested, no finalizer needs to be stripped.
fn folded<'f>(findings: impl IntoIterator<Item = &'f Finding>, may_strip: bool) -> Vec<Blocker> {
    let alike = findings.into_iter().enumerate().map(|(at, f)| {
        let alone = f.subject.node.is_none().then_some(at);
        ((f.rule.code, &f.message, &f.subject.package, alone), f)
    });
    let blockers = grouped(alike).into_iter().map(|(_, group)| {
        let finding = group[0];
        let remedy = finding.remedies().find(|r| may_strip || !r.argv.iter().any(|w| w == "strip"));
        let argv = remedy.map(|r| on_all_nodes(&group, &r).unwrap_or(r.argv));
        Blocker {
            code: Some(finding.rule.code.to_owned()),
            name: Some(finding.rule.name.to_owned()),
            package: finding.subject.package.clone(),
            nodes: group.iter().filter_map(|f| f.subject.node.clone()).collect(),
            message: finding.message.clone(),
            remedy: argv.map(|argv| shell_words(&argv)),
        }
    });
    blockers.collect()
}

/// The existing package pods and jobs, running or not: all, or those of the named custom resources.
pub fn package_runs(cluster: &Cluster, names: Option<&[&str]>) -> Vec<String> {
    let key = cluster.flavor().key("name");
    let is_meant = |meta: &Meta| {
        let name = meta.labels.get(&key).map(|name| name.as_str());
        names.is_none_or(|names| name.is_some_and(|name| names.contains(&name)))
    };
    let jobs = cluster.jobs.iter().map(|j| ("job", &j.metadata));
    let pods = cluster.pods.iter().map(|p| ("pod", &p.metadata));
    let all = jobs.chain(pods).filter(|(_, meta)| is_meant(meta)).map(|(kind, meta)| {
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        format!("{kind}/{namespace}/{}", meta.name)
    });
    all.collect()
}

/// The runtime-required taints that nothing will remove.
pub fn kept_taints(cluster: &Cluster) -> Vec<Blocker> {
    let scope = Scope { rules: vec![rules::find("SKY405").expect("the rule exists")], ..Scope::default() };
    folded(&rules::diagnose(cluster, &scope).findings, true)
}

/// The leftovers after the last deletion: first the leftovers that need the operator or keep workloads off
/// nodes, then all others on nodes.
pub fn leftovers(cluster: &Cluster) -> (Vec<Blocker>, Vec<Blocker>) {
    let mut left = Vec::new();
    let made = items(cluster, &[]).into_iter().map(|item| item.goal.target);
    let made: Vec<String> = made.map(|target| target.to_string()).collect();
    if !made.is_empty() {
        let message = format!(
            "{} {} recreated, possibly by a GitOps controller",
            some_of(&made, SHOWN),
            if made.len() == 1 { "was" } else { "were" }
        );
        let again = "kubectl skyhook teardown".to_owned();
        left.push(Blocker::unruled(message, again));
    }
    let runs = package_runs(cluster, None);
    if let Some([kind, namespace, name]) =
        runs.first().map(|run| run.split('/').collect::<Vec<_>>()).as_deref()
    {
        let message = some_of(&runs, SHOWN);
        let see = format!("kubectl describe {kind} -n {namespace} {name}");
        left.push(Blocker::unruled(message, see));
    }
    let report = rules::diagnose(cluster, &Scope::default());
    let (closed, leftovers): (Vec<&Finding>, Vec<&Finding>) = report
        .findings
        .iter()
        .filter(|f| f.subject.node.is_some())
        .partition(|f| f.blocks.contains(&Blocks::Workloads));
    left.extend(folded(closed, true));
    (left, folded(leftovers, true))
}

/// The objects to delete, in the order of their deletion.
///
/// Custom resources are deleted in reverse order of priority, because later ones build on earlier ones. Two
/// that share no node do not wait for each other, unless the earlier one has `sequencing: all`. While the
/// operator migrates, objects of the older API are deleted before the newer objects, which the operator would
/// otherwise recreate from them. Deployment policies are deleted last: nothing may refer to them. With `names`, only
/// these custom resources are deleted.
pub fn items(cluster: &Cluster, names: &[String]) -> Vec<Planned> {
    let mut items: Vec<Planned> = Vec::new();
    let (ours, other) = (cluster.flavor(), cluster.flavor().other());
    let apis =
        [(other, &cluster.legacy, &cluster.legacy_policies), (ours, &cluster.skyhooks, &cluster.policies)];
    for (flavor, skyhooks, _) in apis {
        let is_named =
            |skyhook: &&Skyhook| names.is_empty() || names.iter().any(|name| name == skyhook.name());
        for skyhook in skyhooks.iter().rev().filter(is_named) {
            let target = Target::of_skyhook(flavor, skyhook);
            items.push(Planned::new(target, flavor, &skyhook.metadata, Some(skyhook.order().0)));
        }
    }
    let older = items.iter().filter(|item| item.flavor == other).count();
    for at in older..items.len() {
        let earlier = cluster.skyhook(&items[at].goal.target.name);
        let goes_before = |at: &usize| match &items[*at] {
            older if older.flavor == other => cluster.active_api.migrating(),
            later => earlier
                .zip(cluster.skyhook(&later.goal.target.name))
                .is_some_and(|(earlier, later)| builds_on(cluster, later, earlier)),
        };
        items[at].follows = (0..at).filter(goes_before).collect();
    }
    let custom = items.len();
    for (flavor, _, policies) in apis.into_iter().filter(|_| names.is_empty()) {
        for policy in policies {
            let name = policy.metadata.name.as_str();
            let same = |at: &usize| items[*at].goal.target.name == name;
            let follows = (0..custom).chain((custom..items.len()).filter(same)).collect();
            let target = Target::policy(flavor, name, policy.metadata.uid.as_deref());
            items.push(Planned { follows, ..Planned::new(target, flavor, &policy.metadata, None) });
        }
    }
    for at in 0..items.len() {
        let before = items[at].follows.iter().map(|&other| &items[other]);
        let wave = 1 + before.clone().map(|item| item.wave).max().unwrap_or(0);
        let after = before.map(|item| item.goal.target.to_string()).collect();
        items[at] = Planned { wave, after, ..items[at].clone() };
    }
    items
}

/// Whether `later` follows `earlier` by priority on some node, or everywhere because of `sequencing: all`.
fn builds_on(cluster: &Cluster, later: &Skyhook, earlier: &Skyhook) -> bool {
    let shares = || match cluster.nodes.ok() {
        // If the nodes were not read completely, assume that both custom resources select a common node.
        None => true,
        Some(nodes) => nodes.iter().any(|n| {
            let of = |s: &Skyhook| s.selects(n);
            of(later) && of(earlier)
        }),
    };
    later.order().0 > earlier.order().0 && (earlier.blocks_all_nodes() || shares())
}
