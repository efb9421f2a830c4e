//! The remedy that makes the operator ignore nodes, so that the others continue.

use std::collections::HashMap;

use crate::api::Skyhook;
use crate::cluster::Cluster;
use crate::model::behavior;
use crate::plan::planners::batches;
use crate::rules::{Finding, Grade, Remedy};
use crate::view::{NodeSet, expand};

/// Remedies ignore at most one of this many nodes.
const MOST_IGNORED: usize = 10;
/// Maximum number of nodes that are listed by name; more are folded to one node set.
const NAMED: usize = 8;

/// Removes these remedies where they would ignore many nodes of a custom resource: ignoring a fleet repairs nothing.
pub fn withhold_from_many(cluster: &Cluster, findings: &mut [Finding]) {
    let ignored = |remedy: &Remedy| remedy.runs("node ignore");
    let mut nodes: HashMap<(&str, Option<String>), usize> = HashMap::new();
    let key = |finding: &Finding| (finding.rule.code, finding.subject.skyhook.clone());
    for finding in findings.iter() {
        if let Some(remedy) = finding.remedies().find(ignored) {
            let words = remedy.own().unwrap_or_default().iter().skip(2);
            let sets = words.filter_map(|word| expand(word)?.ok());
            *nodes.entry(key(finding)).or_default() += sets.map(|set| set.len()).sum::<usize>().max(1);
        }
    }
    nodes.retain(|(_, name), number| {
        let skyhook = name.as_deref().and_then(|name| cluster.skyhook(name));
        let selected =
            skyhook.map_or(cluster.nodes.items().len(), |skyhook| cluster.selected(skyhook).count());
        *number > (selected / MOST_IGNORED).max(1)
    });
    if nodes.is_empty() {
        return;
    }
    for finding in findings {
        if nodes.contains_key(&key(finding)) && finding.remedies().any(|remedy| ignored(&remedy)) {
            finding.change_remedies(|remedies| remedies.retain(|remedy| !ignored(remedy)));
            finding.compact();
        }
    }
}

impl Finding {
    /// Adds a remedy that ignores these nodes, and removes them from the batch if ignored nodes keep their places. Reports
    /// withhold it from many nodes: see [`withhold_from_many`].
    pub fn ignore_nodes(
        &mut self,
        cluster: &Cluster,
        skyhook: &Skyhook,
        nodes: &[&str],
        title: &str,
    ) -> &mut Self {
        let in_batch = nodes.iter().any(|node| skyhook.status.node_priority.contains_key(*node));
        let flag = (in_batch && behavior::blocked_nodes_keep_places(cluster)).then_some("--leave-batch");
        let (grade, next) = if in_batch {
            (batches::grade_of_next(skyhook), "; the next batch may start immediately")
        } else {
            (Grade::B1, "")
        };
        let (them, until) = match nodes {
            [_] => ("the node", "it is"),
            _ => ("the nodes", "they are"),
        };
        let set = NodeSet::of(nodes).to_string();
        let names = if nodes.len() > NAMED { &[&*set] } else { nodes };
        let words = ["node", "ignore"].iter().chain(names).copied().chain(flag);
        self.remedy(grade, title, words).caveat(format!(
            "the operator skips {them} for every custom resource until {until} unignored{next}"
        ))
    }
}
