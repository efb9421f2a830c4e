//! The version of Kubernetes, and the features that the operator loses on older versions without an error.

use super::{Cluster, Job, Pod};
use crate::api::{Executor, Version};

/// A feature of Kubernetes on which the operator relies.
#[derive(Debug)]
pub struct Feature {
    pub name: &'static str,
    /// The minor version of Kubernetes 1 from which on the feature is enabled by default.
    pub since: u64,
    /// What happens without the feature.
    pub loss: &'static str,
    /// The page that names the version.
    pub source: &'static str,
}

/// Sorted by version.
#[rustfmt::skip]
const FEATURES: [Feature; 4] = [
    Feature { name: "pod failure policy", since: 26, loss: "evictions and other disruptions count as failed attempts of a stage",
        source: "https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-failure-policy" },
    Feature { name: "unhealthyPodEvictionPolicy", since: 27, loss: "a disruption budget also protects pods that are not ready from a drain",
        source: "https://kubernetes.io/docs/tasks/run-application/configure-pdb/" },
    Feature { name: "podReplacementPolicy", since: 29, loss: "the next attempt of a stage may start while the last one is still ending",
        source: "https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-replacement-policy" },
    Feature { name: "sidecar containers", since: 29, loss: "an injected sidecar keeps the pod of a finished stage running",
        source: "https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/" },
];

/// The version of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kubernetes {
    pub version: Version,
    /// Whether this is the version of the newest kubelet, because that of the API server is unknown.
    pub of_kubelets: bool,
}

impl Cluster {
    /// The version of the API server, or else of the newest kubelet, which is never newer than the API server.
    pub fn kubernetes(&self) -> Option<Kubernetes> {
        let server = self.installation.server.ok().and_then(|text| Version::parse(text));
        let of_kubelets = server.is_none();
        let newest = || {
            let systems = self.nodes.indexed().iter().filter_map(|node| Some(&node.body()?.system));
            systems.filter_map(|system| Version::parse(&system.kubelet_version)).max()
        };
        Some(Kubernetes { version: server.or_else(newest)?, of_kubelets })
    }

    /// The features that this version of Kubernetes lacks. Only operators that run Jobs rely on them.
    pub fn missing_features(&self) -> Vec<&'static Feature> {
        let version = self.kubernetes().filter(|_| self.flavor().executor() == Executor::Job);
        let missing =
            |feature: &&Feature| version.as_ref().is_some_and(|v| !v.version.at_least(1, feature.since));
        FEATURES.iter().filter(missing).collect()
    }

    /// Whether Jobs count evictions as failed attempts, judged by the version.
    pub fn counts_evictions(&self) -> bool {
        self.missing_features().iter().any(|feature| feature.name == FEATURES[0].name)
    }
}

impl Job {
    /// The newest pod of a failed Job, if the kubelet evicted or rejected the pods of all attempts.
    pub fn failed_by_kubelet<'p>(&self, pods: &[&'p Pod]) -> Option<&'p Pod> {
        let mut failed = pods.iter().copied().filter(|pod| pod.status.phase == "Failed");
        let all = failed.clone().all(|pod| pod.evicted() || pod.rejected());
        failed.next().filter(|_| all && self.failed().is_some())
    }
}

impl Pod {
    /// Whether the kubelet evicted the pod because the node is short of a resource.
    pub fn evicted(&self) -> bool {
        self.status.phase == "Failed" && self.status.reason == "Evicted"
    }

    /// Whether the kubelet rejected the pod before it created a container: `OutOfcpu`, `NodeShutdown`.
    pub fn rejected(&self) -> bool {
        let status = &self.status;
        status.phase == "Failed"
            && status.init_container_statuses.is_empty()
            && status.container_statuses.is_empty()
            && !status.reason.is_empty()
            && !self.disrupted()
            && !self.metadata.deleting()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_sorted_and_have_sources() {
        assert!(FEATURES.is_sorted_by_key(|feature| feature.since));
        assert!(FEATURES.iter().all(|feature| feature.source.starts_with("https://kubernetes.io/")));
    }
}
