//! Reads one finished node and its context, without other nodes.

use futures::join;

use super::sources::Reader;
use super::{Needs, Now, wanted};
use crate::api::ApiFlavor;
use crate::cluster::{Cluster, ClusterBuilder, Job, Pod, Read, Source};
use crate::model::Model;

/// Reads one finished node and its pods.
///
/// Returns `None` if the node is not finished, or other nodes are needed. `builder` then contains the data
/// read so far; its `served` is empty if the served APIs are unknown. A successful list of custom resources
/// proves that their API is served.
pub(super) async fn read<'a>(
    reader: &mut Reader<'a>,
    needs: &[Source],
    node: &'a [String],
    builder: &mut ClusterBuilder,
    now: Now<'_>,
) -> Option<Cluster> {
    let [old, new] = ApiFlavor::ALL.map(Reader::skyhooks_list);
    reader.named_nodes = node;
    let (old, new, deployments, nodes) =
        join!(reader.list(&old), reader.list(&new), reader.deployments(), reader.nodes());
    reader.named_nodes = &[];
    let mut served = Vec::new();
    for (flavor, list) in ApiFlavor::ALL.into_iter().zip([old, new]) {
        match list {
            Ok(mut listed) => {
                Reader::name_kind(&mut listed.items, flavor);
                builder.skyhooks[flavor as usize] = listed.into();
                served.push(flavor);
            }
            Err(failure) if failure.is_absence() => {}
            // Leave it to discovery to find out whether the API is served.
            Err(_) => {
                builder.skyhooks = [Read::NotRequested, Read::NotRequested];
                return None;
            }
        }
    }
    (builder.served, builder.deployments) = (served, deployments);
    builder.taken_at = now();
    if crate::cluster::installation::undecided(&builder.operators().collect::<Vec<_>>()) {
        return None;
    }
    let asked_for = builder.asked_for;
    if asked_for.is_some_and(|flavor| !builder.served.contains(&flavor))
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
    let model = Model::new(&cluster);
    let done = node.iter().all(|name| cluster.node(name).is_some_and(|node| model.is_done_with(node)));
    if !done {
        let (ours, other) = (cluster.flavor(), cluster.flavor().other());
        builder.skyhooks[ours as usize] = cluster.skyhooks;
        builder.skyhooks[other as usize] = cluster.legacy;
        return None;
    }
    reader.named_nodes = node;
    let of_jobs = cluster.flavor() == ApiFlavor::NodeWright;
    let (pods, jobs, admission) =
        join!(reader.pods(&deployments), wanted(of_jobs, reader.jobs(&deployments)), reader.admission());
    cluster.pods = pods;
    cluster.jobs = jobs.map(|mut jobs| {
        jobs.retain(|job| node.contains(&job.spec.template.spec.node_name));
        jobs
    });
    cluster.admission = admission;
    // Events are only needed to explain a stage that has not succeeded.
    let over = |pod: &Pod| pod.status.phase == "Succeeded";
    let complete = |job: &Job| job.finished().is_some() && job.failed().is_none();
    let at_work = !cluster.pods.items().iter().all(over) || !cluster.jobs.items().iter().all(complete);
    cluster.events = wanted(at_work, reader.events(&deployments)).await;
    Some(cluster)
}
