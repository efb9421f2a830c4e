//! Remedies that reset a node or a package.

use crate::api::Skyhook;
use crate::cluster::{Cluster, Node};
use crate::rules::Finding;

impl Finding {
    /// Adds a remedy that resets all packages of a custom resource on a node.
    pub fn reset_node(
        &mut self,
        title: &str,
        cluster: &Cluster,
        skyhook: &Skyhook,
        node: &Node,
    ) -> &mut Self {
        let on = cluster.on_node(node, skyhook.name());
        let entries = on.map_or(&[][..], |on| on.entries());
        let words = ["reset", skyhook.name(), "--node", &node.name];
        self.remedy(title, words)
            .caveat(match (skyhook.deleting(), entries.is_empty()) {
                (_, true) => {
                    "no package is recorded on the node yet: all packages run from their first stage, including interrupts"
                }
                (true, false) => {
                    "the record of what is installed is lost: packages that the deletion would have uninstalled stay on the host"
                }
                (false, false) => "all packages run again, including their interrupts",
            })
    }

    /// Adds a remedy that resets one package of the spec on a node.
    pub fn reset_package(&mut self, skyhook: &Skyhook, node: &Node, name: &str, version: &str) -> &mut Self {
        let spec = skyhook.package(name);
        let interrupts = spec.is_some_and(|p| skyhook.pending_interrupt(name, p).is_some());
        let including = if interrupts { ", including its interrupt" } else { "" };
        let package = format!("{name}:{version}");
        let words = ["reset", skyhook.name(), "--node", &node.name];
        let words = words.into_iter().chain(["--package", &package]);
        self.remedy(format!("Reset package {name} on the node"), words)
            .caveat(format!("package {name} runs again{including}"))
    }
}
