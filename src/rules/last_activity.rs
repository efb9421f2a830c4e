//! When anything last happened for a custom resource.

use jiff::Timestamp;

use crate::api::Skyhook;
use crate::cluster::{Cluster, Node, PackageRuns};

/// The newest time of the operator's work for a custom resource, or of what may have started that work; the `open` nodes
/// count from when they were created.
pub fn last_activity(
    cluster: &Cluster,
    package_runs: &PackageRuns<'_>,
    skyhook: &Skyhook,
    open: &[&Node],
) -> Option<Timestamp> {
    let meta = &skyhook.metadata;
    let name = skyhook.name();
    let start = format!("{}/", cluster.flavor().key(name));
    let written = meta.managed_fields.iter().filter_map(|m| m.time);
    let conditions = skyhook.status.conditions.iter();
    let conditions = conditions.filter_map(|c| c.last_transition_time);
    let nodes = cluster.selected(skyhook).flat_map(|node| {
        let ours = node
            .conditions
            .iter()
            .filter(|c| c.kind.starts_with(&start));
        let ours = ours.filter_map(|c| c.last_transition_time);
        ours.chain(node.annotated).chain(node.selectable)
    });
    let new = open.iter().filter_map(|n| n.created);
    let of_it = package_runs.all().iter().filter(|e| e.skyhook == name);
    let worked = of_it.flat_map(|e| {
        let ended = e.job.and_then(|j| j.status.completion_time);
        let failed = e.job.and_then(|j| j.failed()?.last_transition_time);
        e.created().into_iter().chain(ended).chain(failed)
    });
    let events = cluster.events.items().iter();
    let events = events.filter(|e| e.name == name || e.message.contains(name));
    written
        .chain(conditions)
        .chain(nodes.collect::<Vec<_>>())
        .chain(new)
        .chain(worked.collect::<Vec<_>>())
        .chain(events.filter_map(|e| e.last))
        .chain(meta.creation_timestamp)
        .max()
}
