//! The cordons by holder.

use std::collections::BTreeMap;

use crate::cluster::{Cluster, Node};
use crate::view::{NodeSet, Table, cells, count};

/// Maximum number of node-name ranges in a row.
const RUNS: usize = 20;

/// A table with one row per holder. A node with several holders is in several rows.
pub fn table(cluster: &Cluster) -> Table {
    let mut by_holder: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for node in cluster.nodes.items() {
        for holder in holders(cluster, node) {
            by_holder.entry(holder).or_default().push(&node.name);
        }
    }
    let mut table = Table::new(["held by", "count", "nodes"]);
    for (holder, nodes) in by_holder {
        table.row(cells![holder, count(nodes.len()), NodeSet::of(&nodes).limited(RUNS)]);
    }
    table
}

fn holders(cluster: &Cluster, node: &Node) -> Vec<String> {
    let keys = node.keys(cluster.flavor());
    let marked = keys.skyhooks.iter().filter(|(_, on)| on.cordon);
    let mut holders: Vec<String> = marked
        .map(|(name, _)| match cluster.skyhook(name) {
            Some(skyhook) if skyhook.selects(node) => skyhook.reference(),
            Some(skyhook) => format!("{} (does not select the node)", skyhook.reference()),
            None => format!("{name} (custom resource not found)"),
        })
        .collect();
    if keys.runtime_required_cordon {
        holders.push("runtime required, until someone releases the cordon".to_owned());
    }
    holders.extend(node.cordon_holders().iter().map(ToString::to_string));
    if node.cordoned() == Some(true) && holders.is_empty() {
        holders.push("someone outside the operator".to_owned());
    }
    if node.cordoned() != Some(true) {
        for holder in &mut holders {
            holder.push_str("; node is schedulable");
        }
    }
    holders
}
