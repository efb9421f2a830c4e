//! A capture of `collect`, read with its index.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::api::ApiFlavor;
use crate::cluster::admission::WebhookConfiguration;
use crate::cluster::capture::Index;
use crate::cluster::{Clock, Cluster, ClusterBuilder, KeptLogs, Pod};
use crate::model::waiting_for_drain;

/// Builds the cluster as it would have been read from the server at the time of the capture.
pub fn finish(
    mut builder: ClusterBuilder,
    index: &Index,
    files: &BTreeSet<String>,
    logs: HashMap<String, Vec<String>>,
) -> Cluster {
    let lost = |file: &&String| !files.contains(*file);
    let lost: Vec<String> = index.files.iter().filter(lost).cloned().collect();
    builder.take_over(&index.sources, &lost);
    builder.collected = true;
    builder.kept_logs = Some(KeptLogs::new(index.logs.clone(), logs));
    builder.clock = Clock::Capture;
    builder.taken_at = index.taken_at;
    builder.served = ApiFlavor::ALL
        .into_iter()
        .filter(|flavor| index.served.iter().any(|group| group == flavor.group()))
        .collect();
    // Drop other webhooks: the capture contains them only for human readers.
    let webhooks = std::mem::take(&mut builder.admission.webhooks);
    builder.admission.webhooks = webhooks.selected(WebhookConfiguration::is_relevant);
    let Some(active_api) = builder.active_api() else {
        let mut cluster = builder.of_leftovers();
        cluster.from_files = true;
        cluster.collected = true;
        cluster.clock = Clock::Capture;
        return cluster;
    };
    let mut cluster = builder.assemble(active_api);
    cluster.holders.clone_from(&index.holders);
    let waiting: HashSet<String> = waiting_for_drain(&cluster).into_iter().map(str::to_owned).collect();
    if let Some(pods) = cluster.workloads.available_mut() {
        // Keep only the pods on nodes that wait for a drain: the file also contains the operator's own pods,
        // on any node.
        pods.retain(|pod: &Pod| waiting.contains(&pod.spec.node_name));
    }
    cluster
}
