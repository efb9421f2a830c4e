//! The operator's behavior where its versions differ, as facts for rules and planners: they ask what the operator does, not
//! which version it has. An unknown version counts as the newest of its API.

use crate::cluster::Cluster;

/// Whether the operator supports deployment policies and their resets.
pub fn knows_policies(cluster: &Cluster) -> bool {
    !cluster.operator_before(0, 8)
}

/// Whether the operator supports the annotations that pause and disable a custom resource.
pub fn knows_pause(cluster: &Cluster) -> bool {
    !cluster.operator_before(0, 8)
}

/// Whether the operator works on nodes in batches, which it records.
pub fn records_batches(cluster: &Cluster) -> bool {
    !cluster.operator_before(0, 15)
}

/// Whether the operator continues a package that is recorded as skipped; `None` if its version is unknown. Up to v0.16 it
/// does on no node (upstream issue 270).
pub fn continues_skipped_packages(cluster: &Cluster) -> Option<bool> {
    match &cluster.active_api.operator_version {
        Some(version) => Some(version.at_least(0, 17)),
        None => (!cluster.operator_before(0, 18)).then_some(true),
    }
}

/// Whether the operator deletes a package pod that differs from the one that it created, and waits for its end before
/// anything else (operator `ValidateRunningPackages`).
pub fn replaces_changed_pods(cluster: &Cluster) -> bool {
    cluster.operator_before(0, 18)
}

/// Whether `serial: true` loses the node states of all nodes but one.
pub fn serial_loses_states(cluster: &Cluster) -> bool {
    cluster.operator_before(0, 18)
}

/// Whether a package without dependencies starts only where fewer packages are complete than there are such packages
/// (upstream issue 387).
pub fn strands_late_packages(cluster: &Cluster) -> bool {
    cluster.operator_before(0, 18)
}

/// Whether the operator ends its pass at once if the cluster has no nodes, and removes no finalizers.
pub fn ends_pass_without_nodes(cluster: &Cluster) -> bool {
    cluster.operator_before(0, 18)
}

/// Whether the operator does not correct the counters of a batch whose nodes are no longer complete (upstream issue 588).
pub fn keeps_batch_counters(cluster: &Cluster) -> bool {
    cluster.operator_before(0, 20)
}

/// Whether ignored nodes, and nodes blocked by a taint, keep their places in the batch: the operator does not form another
/// batch until all nodes of the current batch are complete (operator `getStickyBatchNodes`).
pub fn blocked_nodes_keep_places(cluster: &Cluster) -> bool {
    cluster.operator_before(0, 20)
}

/// Whether the operator removes a cordon that it did not set.
pub fn removes_foreign_cordons(cluster: &Cluster) -> bool {
    cluster.operator_before(0, 20)
}

/// Whether a refused eviction ends the operator's pass, so that later nodes and custom resources are not processed. Newer
/// operators continue if a budget refuses.
pub fn refused_eviction_ends_pass(cluster: &Cluster) -> bool {
    cluster.operator_before(0, 20)
}
