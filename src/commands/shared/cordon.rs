//! Who holds the cordon of a node, in words.

use crate::cluster::{Cluster, Node};

/// The custom resources, people and programs that hold the cordon of a node, or have left their mark on it; empty without
/// any.
pub fn holders(cluster: &Cluster, node: &Node) -> Vec<String> {
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
    holders
}
