//! Packages that the operator would never run again.

use crate::api::{Skyhook, State};
use crate::cluster::{Cluster, Node, NodeRecord, Phase};
use crate::error::{Error, Result};
use crate::model::behavior;
use crate::plan::{Metadata, OnConflict};
use crate::view::NodeSet;

/// Refuses if the operator would never run the package again on one of the nodes.
///
/// Before v0.18, the operator considers packages without dependencies only while the number of complete packages does
/// not exceed the number of packages without dependencies (upstream #387, SKY209).
///
/// # Errors
///
/// There is such a node.
pub fn refuse(
    cluster: &Cluster,
    skyhook: &Skyhook,
    package: &str,
    targets: &[(&Node, &NodeRecord)],
) -> Result<()> {
    let free = skyhook.packages().filter(|(_, p)| p.depends_on.is_empty()).count();
    let is_free = skyhook.package(package).is_some_and(|p| p.depends_on.is_empty());
    if !is_free || !behavior::strands_late_packages(cluster) {
        return Ok(());
    }
    // An upper bound: placements, which are slow to look up, are needed only if the bound exceeds the limit.
    let recorded = |on: &NodeRecord| {
        let complete = on.entries().iter().filter(|e| e.state == State::Complete);
        complete.count()
    };
    let others = |node: &Node| {
        let names = skyhook.spec.packages.keys().filter(|name| *name != package);
        names.filter(|name| cluster.placement(skyhook, name, node).phase == Phase::Complete).count()
    };
    let stranded: Vec<&str> = targets
        .iter()
        .filter(|(node, on)| recorded(on) > free && others(node) > free)
        .map(|(node, _)| node.name.as_str())
        .collect();
    if stranded.is_empty() {
        return Ok(());
    }
    let nodes = NodeSet::of(&stranded);
    Err(Error::unchanged(format!(
        "rerunning {package} alone would strand it on {}: this operator version skips packages without \
         dependencies once complete packages outnumber them (SKY209)",
        nodes.limited(6)
    ))
    .hint(format!(
        "reset all packages there: kubectl skyhook reset {} --node {}",
        skyhook.name(),
        stranded[0]
    )))
}

/// Makes the edits remove entries even if the operator has updated them: during a deletion, the operator uninstalls the
/// node's other packages and retries failing packages.
pub fn remove_even_if_updated(change: &mut Metadata) {
    for edit in change.annotations.values_mut() {
        match &mut edit.on_conflict {
            OnConflict::MoveEntries(moves) => moves.iter_mut().for_each(|m| m.retried = true),
            on_conflict @ OnConflict::IfStillFailing => *on_conflict = OnConflict::Overwrite,
            _ => {}
        }
    }
}
