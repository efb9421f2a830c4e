//! Remedies that reset a node or a package.

use std::collections::BTreeSet;

use super::retry::grade_of_stage;
use crate::api::Skyhook;
use crate::cluster::{Cluster, Node};
use crate::rules::{Finding, Grade};

impl Finding {
    /// Adds a remedy that resets all packages of a custom resource on a node, with the grade of the command's
    /// preview.
    pub fn reset_node(
        &mut self,
        title: &str,
        cluster: &Cluster,
        skyhook: &Skyhook,
        node: &Node,
    ) -> &mut Self {
        let on = cluster.on_node(node, skyhook.name());
        let entries = on.map_or(&[][..], |on| on.entries());
        let recorded = entries.iter().map(|e| e.name.as_ref()).collect();
        let packages: Vec<&str> = skyhook.packages().map(|(name, _)| name).collect();
        let (grade, reboots) = grade(skyhook, &packages, recorded);
        let words = ["reset", skyhook.name(), "--node", &node.name];
        self.remedy(grade, title, words)
            .reboots(reboots)
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

    /// Adds a remedy that resets one package of the spec on a node, with the grade of its own stages.
    pub fn reset_package(&mut self, skyhook: &Skyhook, node: &Node, name: &str, version: &str) -> &mut Self {
        let spec = skyhook.package(name);
        let interrupts = spec.is_some_and(|p| skyhook.pending_interrupt(name, p).is_some());
        let including = if interrupts { ", including its interrupt" } else { "" };
        let (grade, reboots) = grade(skyhook, &[name], BTreeSet::from([name]));
        let package = format!("{name}:{version}");
        let words = ["reset", skyhook.name(), "--node", &node.name];
        let words = words.into_iter().chain(["--package", &package]);
        self.remedy(grade, format!("Reset package {name} on the node"), words)
            .reboots(reboots)
            .caveat(format!("package {name} runs again{including}"))
    }
}

/// The grade of resetting these packages on a node with these recorded packages, and whether the node reboots.
fn grade(skyhook: &Skyhook, packages: &[&str], recorded: BTreeSet<&str>) -> (Grade, bool) {
    let reruns = skyhook.packages().filter(|(name, p)| packages.contains(name) && !skyhook.uninstalls(p));
    let grade = reruns.map(|(name, _)| grade_of_stage(skyhook, name)).max().unwrap_or(Grade::B2);
    let gated = |name: &&str| skyhook.package(name).is_some_and(|package| package.uninstall().enabled);
    let bypasses = recorded.iter().any(gated);
    (if bypasses { Grade::B4 } else { grade }, grade == Grade::B4)
}
