//! Remedies after which the operator continues: repaired node states, and reruns of stages, packages and pods.

use crate::api::{Entry, Skyhook};
use crate::cluster::package_run::PackageRun;
use crate::cluster::pod::Pod;
use crate::cluster::{Node, NodeRecord};
use crate::plan::planners::node_state;
use crate::rules::{Finding, Grade};

impl Finding {
    /// Adds remedies for a node state that cannot be read: a restore if the operator's own copy can be read, and a
    /// reset.
    pub fn repair_node_state(&mut self, skyhook: &Skyhook, node: &Node, on: &NodeRecord) -> &mut Self {
        if node_state::repaired(skyhook, node, on).is_ok() {
            let title = "Restore the node state from the status of the custom resource";
            let words = ["reset", skyhook.name(), "--unreadable", "--node", &node.name];
            self.remedy(title, words).caveat("the operator then continues for every custom resource");
        }
        let words = ["reset", skyhook.name(), "--node", &node.name];
        self.remedy("Reset the node", words).caveat(
            "the record of what is installed is lost: packages are installed again, and packages that a deletion \
             would have uninstalled stay on the host",
        )
    }

    /// Adds a remedy that makes the operator uninstall on this node: once other nodes have finished their part of a
    /// deletion, it works only on nodes in progress.
    pub fn set_in_progress(
        &mut self,
        title: &str,
        skyhook: &Skyhook,
        node: &str,
        package: &str,
    ) -> &mut Self {
        self.retry(title, skyhook.name(), node, package)
            .caveat("once other nodes have finished the uninstall, the operator works only on nodes with status in_progress")
    }

    /// Adds a remedy that runs a permanently failed stage again and keeps its record.
    pub fn retry(&mut self, title: &str, skyhook: &str, node: &str, package: &str) -> &mut Self {
        let words = ["package", "retry", package, "--skyhook", skyhook];
        self.remedy(title, words.into_iter().chain(["--node", node])).for_all_nodes(["--all-nodes"])
    }

    /// If the stage has failed permanently, adds a remedy that runs it again, and returns true.
    pub fn retry_given_up(
        &mut self,
        package_run: Option<&PackageRun<'_>>,
        skyhook: &Skyhook,
        node: &str,
        entry: &Entry,
    ) -> bool {
        let at_this_stage = |run: &&PackageRun<'_>| run.stage == entry.stage || run.interrupt;
        let given_up = package_run.filter(at_this_stage).is_some_and(PackageRun::given_up);
        if given_up {
            let title = "Once the cause is gone, retry the stage";
            self.retry(title, skyhook.name(), node, &entry.name);
        }
        given_up
    }

    /// Adds a remedy that runs a package again from its start. Returns false if that is impossible: the operator does not rerun a package with a requested uninstall, nor packages of a
    /// custom resource that is being deleted.
    pub fn rerun(&mut self, title: &str, skyhook: &Skyhook, node: &Node, package: &str) -> bool {
        let spec = skyhook.package(package);
        if skyhook.deleting() || spec.is_some_and(|p| skyhook.uninstalls(p)) {
            return false;
        }
        let words = ["package", "rerun", package, "--skyhook", skyhook.name(), "--node", &node.name];
        self.remedy(title, words);
        if let Some(kind) = spec.and_then(|p| skyhook.pending_interrupt(package, p)) {
            self.caveat(format!("its interrupt ({kind}) runs after the node is drained"));
        }
        true
    }

    /// Adds a remedy that deletes a pod, which the operator then recreates.
    pub fn delete_pod(&mut self, title: &str, pod: &Pod) -> &mut Self {
        // The new pod has the same name: without the flag, kubectl may wait for the deletion of both.
        let words = ["delete", "pod", "--wait=false", "-n", pod.namespace()];
        let words = words.into_iter().chain([pod.name()]);
        self.kubectl(Grade::B2, title, words)
    }
}
