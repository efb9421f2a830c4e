//! The remedy that makes the operator ignore nodes, so that the others continue.

use crate::api::Skyhook;
use crate::cluster::Cluster;
use crate::model::behavior;
use crate::plan::planners::batches;
use crate::rules::{Finding, Grade};
use crate::view::NodeSet;

/// Maximum number of nodes that are listed by name; more are folded to one node set.
const NAMED: usize = 8;

impl Finding {
    /// Adds a remedy that ignores these nodes, and removes them from the batch if ignored nodes keep their places.
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
