//! The time of the last activity for a custom resource.

use jiff::Timestamp;

use crate::api::{Object, Skyhook};
use crate::cluster::{Cluster, Node, PackageRuns, Pod};

/// The latest time at which the operator worked for a custom resource, or at which this work was triggered. For
/// `open` nodes, their creation is a trigger.
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
        let ours = node.conditions().iter();
        let ours = ours.filter(|c| c.kind.starts_with(&start));
        let ours = ours.filter_map(|c| c.last_transition_time);
        let on = cluster.on_node(node, name);
        let drained = on.and_then(|on| on.draining_since());
        ours.chain(node.annotated).chain(node.selectable).chain(drained)
    });
    let new = open.iter().filter_map(|n| n.created);
    let of_it = package_runs.of(name);
    let worked = of_it.flat_map(|run| {
        let ended = run.job.and_then(|j| j.status.completion_time);
        let failed = run.job.and_then(|j| j.failed()?.last_transition_time);
        run.created().into_iter().chain(ended).chain(failed)
    });
    let events = cluster.events_mentioning(name);
    written
        .chain(conditions)
        .chain(nodes.collect::<Vec<_>>())
        .chain(new)
        .chain(worked.collect::<Vec<_>>())
        .chain(events.filter_map(|e| e.last))
        .chain(meta.creation_timestamp)
        .filter(|at| cluster.seconds_since(Some(*at)).is_some())
        .max()
}

/// A field that could not be read and may contain a newer time than [`last_activity`]; `None` if there is none.
pub fn unknown_activity(
    cluster: &Cluster,
    package_runs: &PackageRuns<'_>,
    skyhook: &Skyhook,
) -> Option<String> {
    let name = skyhook.name();
    let whole = |object: &dyn Object, reference: String| {
        let field = object.unknown_fields().iter().next()?;
        Some(format!("{reference}: {} cannot be read", field.path))
    };
    let metadata = |object: &dyn Object, reference: String| {
        let mut fields = object.unknown_fields().iter();
        let field = fields.find(|field| field.path.starts_with("metadata."))?;
        Some(format!("{reference}: {} cannot be read", field.path))
    };
    let nodes = cluster.selected(skyhook);
    let of_it = package_runs.all().iter().filter(|run| run.skyhook == name);
    let jobs = of_it.clone().filter_map(|run| run.job);
    let pods = of_it.flat_map(|run| &run.pods).copied();
    let events = cluster.events.items().iter();
    let events = events.filter(|e| e.name == name || e.message.contains(name));
    whole(skyhook, skyhook.reference())
        .or_else(|| { nodes }.find_map(|node| metadata(node, node.reference())))
        .or_else(|| { jobs }.find_map(|job| whole(job, format!("job/{}", job.metadata.name))))
        .or_else(|| { pods }.find_map(|pod: &Pod| metadata(pod, pod.reference())))
        .or_else(|| { events }.find_map(|event| whole(event, format!("event/{}", event.key().1))))
}
