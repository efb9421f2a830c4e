//! One node that is asked about, and what bears on it where nothing is left to do there: then the others need not be read.

use futures::join;

use super::sources::Reader;
use super::{Needs, wanted};
use crate::api::ApiFlavor;
use crate::cluster::{Cluster, ClusterBuilder, Job, Pod, Read, Source};

/// Reads the node and what runs on it, if that is all that the answer takes.
///
/// Otherwise nothing, and what was read on the way is in the parts; no API is served by them where it is not known which. That
/// a list of custom resources is answered tells that their API is served, so that it is not asked for by itself.
pub(super) async fn read<'a>(
    reader: &mut Reader<'a>,
    needs: &[Source],
    node: &'a [String],
    builder: &mut ClusterBuilder,
) -> Option<Cluster> {
    let [old, new] = ApiFlavor::ALL.map(Reader::skyhooks_list);
    reader.only = node;
    let (old, new, deployments, nodes) = join!(
        reader.list(&old),
        reader.list(&new),
        reader.deployments(),
        reader.nodes()
    );
    reader.only = &[];
    let mut served = Vec::new();
    for (flavor, list) in ApiFlavor::ALL.into_iter().zip([old, new]) {
        match list {
            Ok(mut items) => {
                Reader::name_kind(&mut items, flavor);
                builder.skyhooks[flavor as usize] = Read::Ok(items);
                served.push(flavor);
            }
            Err(failure) if failure.is_absence() => {}
            // Whether it is served is found out as for any command.
            Err(_) => {
                builder.skyhooks = [Read::NotRequested, Read::NotRequested];
                return None;
            }
        }
    }
    (builder.served, builder.deployments) = (served, deployments);
    let asked_for = builder.asked_for;
    if asked_for.is_some_and(|g| !builder.served.contains(&g))
        || Needs::new(needs, builder).undecided
    {
        return None;
    }
    let active_api = builder.active_api()?;
    reader.served = builder.served.clone();
    let deployments = builder.deployments.clone();
    let mut cluster = ClusterBuilder {
        taken_at: builder.taken_at,
        served: builder.served.clone(),
        skyhooks: std::mem::take(&mut builder.skyhooks),
        deployments: builder.deployments.clone(),
        nodes,
        ..ClusterBuilder::default()
    }
    .assemble(active_api);
    let done = node.iter().all(|name| {
        let node = cluster.node(name);
        node.is_some_and(|node| cluster.is_done_with(node))
    });
    if !done {
        let (ours, other) = (cluster.flavor(), cluster.flavor().other());
        builder.skyhooks[ours as usize] = cluster.skyhooks;
        builder.skyhooks[other as usize] = cluster.legacy;
        return None;
    }
    reader.only = node;
    let of_jobs = cluster.flavor() == ApiFlavor::NodeWright;
    let (pods, jobs, admission) = join!(
        reader.pods(&deployments),
        wanted(of_jobs, reader.jobs(&deployments)),
        reader.admission()
    );
    cluster.pods = pods;
    cluster.jobs = jobs.map(|mut jobs| {
        jobs.retain(|job| node.contains(&job.spec.template.spec.node_name));
        jobs
    });
    cluster.admission = admission;
    // Events tell why something does not succeed.
    let over = |pod: &Pod| pod.status.phase == "Succeeded";
    let complete = |job: &Job| job.finished().is_some() && job.failed().is_none();
    let at_work =
        !cluster.pods.items().iter().all(over) || !cluster.jobs.items().iter().all(complete);
    cluster.events = wanted(at_work, reader.events(&deployments)).await;
    Some(cluster)
}
