//! The commands that many rules propose, each spelled in one place.

use super::{Finding, Grade};
use crate::api::Skyhook;
use crate::cluster::{Cluster, Pod};

impl Finding {
    /// An edit of the custom resource by hand.
    pub fn edit(&mut self, grade: Grade, title: impl Into<String>, skyhook: &Skyhook) -> &mut Self {
        let resource = skyhook.flavor().map_or_else(String::new, |g| g.resource());
        self.kubectl(grade, title, ["edit", &resource, skyhook.name()])
    }

    /// The end of a deletion that nothing else ends.
    pub fn strip_finalizer(&mut self, title: &str, skyhook: &Skyhook) -> &mut Self {
        let words = ["finalizer", "strip", skyhook.name(), "--force"];
        self.remedy(Grade::B4, title, words)
            .caveat("uninstall.sh does not run on any node")
    }

    /// The Deployments among which the operator's is.
    pub fn list_operators(&mut self, title: &str) -> &mut Self {
        let label = "control-plane=controller-manager";
        let words = ["get", "deployments", "-A", "-l", label];
        self.kubectl(Grade::B0, title, words)
    }

    pub fn describe_pod(&mut self, title: &str, pod: &Pod) -> &mut Self {
        let words = ["describe", "pod", "-n", pod.namespace(), pod.name()];
        self.kubectl(Grade::B0, title, words)
    }

    pub fn describe_node(&mut self, title: impl Into<String>, node: &str) -> &mut Self {
        self.kubectl(Grade::B0, title, ["describe", "node", node])
    }

    /// For a pod that was told to go and stays.
    pub fn force_delete(&mut self, grade: Grade, title: &str, pod: &Pod) -> &mut Self {
        let pod = ["delete", "pod", "-n", pod.namespace(), pod.name()];
        let words = pod.into_iter().chain(["--force", "--grace-period=0"]);
        self.kubectl(grade, title, words)
    }

    /// A custom resource is not in the input, and may live nevertheless.
    pub fn not_in_input(&mut self, cluster: &Cluster, skyhook: &str) -> &mut Self {
        self.evidence("files", "custom resources", "none in the input")
            .kubectl(
                Grade::B0,
                "Check that the custom resource no longer exists",
                ["get", &cluster.flavor().resource(), skyhook],
            )
    }
}
