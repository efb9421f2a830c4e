//! Nodes are left out, so that the others continue.

use super::{Finding, Grade};
use crate::api::Skyhook;
use crate::cluster::Cluster;
use crate::plan::build::batches;

/// The remedy that makes the operator ignore these nodes, and takes them out of the batch where an ignored node keeps its
/// place in it.
pub fn leave_out(
    finding: &mut Finding,
    cluster: &Cluster,
    skyhook: &Skyhook,
    nodes: &[&str],
    title: &str,
) {
    let in_batch = |node: &&str| skyhook.status.node_priority.contains_key(*node);
    let holds = cluster.blocked_nodes_keep_places() && nodes.iter().any(in_batch);
    let (grade, flag) = if holds {
        (batches::grade_of_next(skyhook), Some("--leave-batch"))
    } else {
        (Grade::B1, None)
    };
    let words = ["node", "ignore"].into_iter();
    let argv = words.chain(nodes.iter().copied()).chain(flag);
    let next = if holds {
        "; the next batch starts immediately"
    } else {
        ""
    };
    let alone = if nodes.len() == 1 {
        "the node"
    } else {
        "the nodes"
    };
    let until = if nodes.len() == 1 {
        "it is"
    } else {
        "they are"
    };
    finding.remedy(grade, title, argv).caveat(format!(
        "the operator skips {alone} for every custom resource until {until} unignored{next}"
    ));
}
