use std::cell::LazyCell;

use super::{Findings, Severity, Subject};
use crate::cluster::Cluster;
use crate::cluster::drain::{Drain, ObstacleReader};
use crate::model::{DrainRefusal, drain_state};
use crate::text::plural;

rule! {
    /// A custom resource is paused.
    ///
    /// # What it means
    ///
    /// Nothing new is started for it on any node. Older operators let running pods finish; newer ones suspend
    /// the Jobs. On nodes where it is not complete, custom resources that come later still wait, and the
    /// runtime-required taint stays.
    ///
    /// # What causes it
    ///
    /// Someone set the pause annotation, with this plugin or another tool.
    ///
    /// # How to confirm
    ///
    /// The annotation `pause` on the custom resource is exactly `true`.
    ///
    /// # How to fix
    ///
    /// Resume it when it may continue. If it is paused on purpose, there is nothing to do.
    ///
    /// # Affected versions
    ///
    /// Operators v0.8.0 and later.
    ///
    /// # Severity
    ///
    /// A warning while work is unfinished, because it waits until someone intervenes; otherwise a note.
    SKY308 "paused" Warning needs Skyhooks, also Nodes Workloads DisruptionBudgets,
        blocks Install Uninstall, finds LastingWaits
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let skyhooks = cluster.skyhooks.iter();
    let model = findings.model();
    let reader = LazyCell::new(|| ObstacleReader::new(cluster));
    for skyhook in skyhooks.filter(|s| s.paused() && !s.deleting()) {
        let Some(flavor) = skyhook.flavor().filter(|_| !cluster.left_paused(skyhook)) else {
            continue;
        };
        let finding = findings.report(
            Subject::skyhook(skyhook),
            match skyhook.hold() {
                None => format!("{skyhook} is paused: the operator starts no new work for it"),
                Some(hold) => format!(
                    "{skyhook} is temporarily paused by a kubectl skyhook command run by {}",
                    hold.describe()
                ),
            },
        );
        // A command ends its temporary pause itself.
        if skyhook.hold().is_some() || model.unfinished(skyhook).next().is_none() {
            finding.severity(Severity::Info);
        }
        finding.annotated(skyhook, flavor, "pause");
        finding.offer_resume(cluster, skyhook, "Resume the custom resource", "resume");
        // A drain that has begun meets the same obstacles again.
        let begun = cluster.tracked(skyhook.name()).filter(|(_, on)| on.draining_since().is_some());
        let mut refused = begun.filter_map(|(node, _)| {
            let drain = Drain { skyhook, node, package: "", begun: true, ignored: false };
            let obstacles = reader.of(&drain);
            let blocked = drain_state(cluster, &drain, &obstacles) == Some(DrainRefusal::Blocked);
            blocked.then(|| (node, obstacles.cause().0))
        });
        if let Some((node, cause)) = refused.next() {
            let more = match refused.count() {
                0 => String::new(),
                n => format!(" (and drains of {} more)", plural(n, "node")),
            };
            finding.evidence(node, "drain, refused again once resumed", cause + &more);
        }
    }
}
