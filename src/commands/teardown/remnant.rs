//! What is left once everything is said to be gone. Pure.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use super::order::items;
use crate::api::ApiFlavor;
use crate::cluster::{Cluster, Node};
use crate::view::{NodeSet, plural};

/// Runs of node names before the rest is only counted.
const SHOWN: usize = 6;
/// Pods and jobs that are named before the rest is only counted.
const NAMED: usize = 3;

/// Something that is still there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Remnant {
    pub what: String,
    /// Whether the operator must not go yet, or something stays held for good.
    pub blocks: bool,
    /// What to type about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Everything that is still there, what blocks first.
pub fn of(cluster: &Cluster) -> Vec<Remnant> {
    let mut left: Vec<Remnant> = objects(cluster).into_iter().collect();
    left.extend(at_work(cluster));
    left.extend(cordons(cluster));
    left.extend(taints(cluster));
    left.extend(records(cluster));
    left
}

/// Custom resources and policies that somebody made in the meantime.
fn objects(cluster: &Cluster) -> Option<Remnant> {
    let items = items(cluster);
    let names: Vec<String> = items.iter().map(|i| i.target.to_string()).collect();
    (!names.is_empty()).then(|| Remnant {
        what: names.join(", "),
        blocks: true,
        next: Some("kubectl skyhook teardown".to_owned()),
    })
}

/// The package pods and jobs that are still there, whether they run or not.
pub fn package_runs(cluster: &Cluster) -> Vec<String> {
    let jobs = cluster.jobs.items().iter().map(|j| ("job", &j.metadata));
    let pods = cluster.pods.items().iter().map(|p| ("pod", &p.metadata));
    let named = |(kind, meta): (&str, &crate::api::Meta)| {
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        format!("{kind}/{namespace}/{}", meta.name)
    };
    jobs.chain(pods).map(named).collect()
}

fn at_work(cluster: &Cluster) -> Option<Remnant> {
    let all = package_runs(cluster);
    let first = all.first()?;
    let mut words = first.splitn(3, '/');
    let mut next = || words.next().unwrap_or_default();
    let (kind, namespace, name) = (next(), next(), next());
    let command = format!("kubectl describe {kind} -n {namespace} {name}");
    let more = all.len().saturating_sub(NAMED);
    let mut what = all
        .iter()
        .take(NAMED)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    if more > 0 {
        what += &format!(" and {more} more");
    }
    Some(Remnant {
        what: format!("{}: {what}", plural(all.len(), "package pod or job")),
        blocks: true,
        next: Some(command),
    })
}

/// Nodes that stay cordoned for custom resources that are gone.
fn cordons(cluster: &Cluster) -> Vec<Remnant> {
    let held = |n: &&Node| {
        let by = |g: ApiFlavor| {
            let keys = n.keys(g);
            let mut on = keys.skyhooks.values();
            on.any(|on| on.cordon) || keys.runtime_required_cordon
        };
        n.unschedulable && ApiFlavor::ALL.into_iter().any(by)
    };
    let nodes: Vec<&Node> = cluster.nodes.items().iter().filter(held).collect();
    if nodes.is_empty() {
        return Vec::new();
    }
    vec![Remnant {
        what: format!("cordons whose owner is gone, on {}", folded(&nodes)),
        blocks: true,
        next: Some("kubectl skyhook cordon release".to_owned()),
    }]
}

/// Nodes that stay tainted, with nobody to lift it.
fn taints(cluster: &Cluster) -> Vec<Remnant> {
    let mut left = Vec::new();
    let all = cluster.nodes.items().iter();
    let tainted: Vec<_> = all
        .filter_map(|n| Some((n, cluster.runtime_required_taint(n)?)))
        .collect();
    let spelled: BTreeSet<String> = tainted
        .iter()
        .map(|(_, t)| format!("{}:{}", t.key, t.effect))
        .collect();
    for taint in spelled {
        let with = |(_, t): &&(&Node, &crate::cluster::node::Taint)| {
            format!("{}:{}", t.key, t.effect) == taint
        };
        let nodes: Vec<&Node> = tainted.iter().filter(with).map(|(n, _)| *n).collect();
        let names: Vec<&str> = nodes.iter().map(|n| n.name.as_str()).collect();
        let whom = match names.len() {
            1..=NAMED => names.join(" "),
            _ => "NODE".to_owned(),
        };
        left.push(Remnant {
            what: format!(
                "the runtime-required taint, which nothing removes, on {}",
                folded(&nodes)
            ),
            blocks: true,
            next: Some(format!("kubectl taint node {whom} {taint}-")),
        });
    }
    left
}

/// What says that files may still be on hosts, and what else of the operator's stays on nodes.
fn records(cluster: &Cluster) -> Vec<Remnant> {
    let mut recorded: Vec<&Node> = Vec::new();
    let mut packages: BTreeSet<String> = BTreeSet::new();
    let mut marked: Vec<&Node> = Vec::new();
    for node in cluster.nodes.items() {
        let keys = ApiFlavor::ALL.map(|g| &node.keys(g).skyhooks);
        let all = || keys.iter().flat_map(|k| k.values());
        let entries = all().flat_map(|on| on.entries());
        let mut any = false;
        for entry in entries {
            let (name, version) = entry.identity();
            packages.insert(format!("{name} {version}"));
            any = true;
        }
        if any {
            recorded.push(node);
        } else if all().any(|on| on.has_keys() || !on.conditions.is_empty()) {
            marked.push(node);
        }
    }
    let next = Some("kubectl skyhook leftovers".to_owned());
    let mut left = Vec::new();
    if !recorded.is_empty() {
        let packages = packages.into_iter().collect::<Vec<_>>().join(", ");
        left.push(Remnant {
            what: format!(
                "the record that {packages} may still have files on the hosts of {}",
                folded(&recorded)
            ),
            blocks: false,
            next: next.clone(),
        });
    }
    if !marked.is_empty() {
        left.push(Remnant {
            what: format!("keys and conditions of the operator on {}", folded(&marked)),
            blocks: false,
            next,
        });
    }
    left
}

fn folded(nodes: &[&Node]) -> String {
    NodeSet::of(nodes.iter().map(|n| n.name.as_str())).limited(SHOWN)
}
