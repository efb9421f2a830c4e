//! Whether a plan still has the side effects that its preview named.

use super::{Plan, ReadSpec};
use crate::cluster::Cluster;
use crate::view::plural;

/// What has changed since a plan was made, if it may make the plan's side effects worse; `None` if nothing
/// has.
///
/// `specs` are those that the plan was made from, and `cluster` was read since.
pub fn outdated(plan: &Plan, specs: &[ReadSpec], cluster: &Cluster) -> Option<String> {
    let now = ReadSpec::all(cluster);
    let changed = || specs.iter().find_map(|read| read.changed(&now));
    changed().or_else(|| worse(plan, cluster))
}

/// The side effects of a plan on this cluster, if they are worse than those that the plan names.
fn worse(plan: &Plan, cluster: &Cluster) -> Option<String> {
    let mut now = plan.clone();
    now.forecast(cluster);
    let grew = now.grade() > plan.grade() || now.consequences.nodes > plan.consequences.nodes;
    grew.then(|| {
        let (before, after) = (plan.grade(), now.grade());
        format!(
            "the effects of the plan have grown from {before} on {} to {after} ({}) on {}",
            plural(plan.consequences.nodes, "node"),
            now.consequences.at_worst(after),
            plural(now.consequences.nodes, "node")
        )
    })
}
