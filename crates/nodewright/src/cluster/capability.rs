//! Capabilities of the operator, from its version or its traces in the cluster.

use super::{Cluster, Node};
use crate::api::{Skyhook, Stage, Status, Version};

impl Cluster {
    /// Whether the operator supports `uninstall` of packages.
    ///
    /// Supported since v0.16.0. Some builds that report v0.15 support it as well: for v0.15, look for traces
    /// of uninstalls in the cluster.
    pub fn knows_uninstall(&self) -> bool {
        if !self.operator_before(0, 16) {
            return true;
        }
        if self.operator_before(0, 15) {
            return false;
        }
        let all = self.skyhooks.items();
        // Operators with uninstall support keep the `Ready` condition current. A condition that a newer
        // operator left behind is stale.
        let mut ready_conditions = all.iter().filter_map(|s| Some((s, s.condition("Ready")?)));
        let current = |(s, ready): (&Skyhook, &crate::api::Condition)| {
            let seen = ready.observed_generation;
            seen.is_some_and(|seen| seen >= s.metadata.generation) && !is_of_newer(s)
        };
        if ready_conditions.clone().any(current) {
            return true;
        }
        ready_conditions.next().is_none() && all.iter().any(|s| !is_of_newer(s) && self.shows_uninstall(s))
    }

    /// Whether nodes have traces that only an operator with uninstall support leaves.
    fn shows_uninstall(&self, skyhook: &Skyhook) -> bool {
        let packages = skyhook.packages();
        let mut asked = packages.filter(|(_, p)| skyhook.uninstalls(p));
        asked.any(|(name, package)| {
            let key = package.entry_key(name);
            let shows = |node: &Node| {
                let on = self.on_node(node, skyhook.name());
                match on.and_then(|on| on.entry(&key)) {
                    Some(entry) => entry.stage.is_uninstall(),
                    // An operator without uninstall support would install the package before it reports the
                    // node complete.
                    None => on.is_some_and(|on| on.status == Some(Status::Complete)),
                }
            };
            self.selected(skyhook).any(shows)
        }) || self.tracked(skyhook.name()).any(|(_, on)| {
            let mut entries = on.entries().iter();
            entries.any(|e| e.stage == Stage::UninstallInterrupt)
        })
    }
}

/// Whether a newer operator wrote the object, so that its traces do not describe the running operator.
fn is_of_newer(skyhook: &Skyhook) -> bool {
    let version = skyhook.flavor().map(|flavor| flavor.key("version"));
    let version = version.and_then(|key| skyhook.metadata.annotations.get(&key));
    let newer = version.and_then(|v| Version::parse(v));
    newer.is_some_and(|v| v.at_least(0, 16))
}
