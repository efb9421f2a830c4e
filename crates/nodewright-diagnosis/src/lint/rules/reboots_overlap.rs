use super::{Input, LintFindings};
use crate::api::Skyhook;

lint_rule! {
    /// Two custom resources reboot the same nodes.
    ///
    /// # What it means
    ///
    /// Each custom resource counts only its own nodes: together they take down more nodes at once than either budget
    /// allows, and each node reboots twice.
    ///
    /// # How to fix
    ///
    /// Put the packages into one custom resource, or set `sequencing: all` on the earlier one.
    SKY857 "reboots-overlap" Warning
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    let all = input.all_skyhooks();
    let manifests: Vec<_> = input.skyhooks().collect();
    for (manifest, skyhook) in manifests.iter().filter(|(_, s)| reboots(s)) {
        let others = all.iter().filter(|other| other.name() != skyhook.name());
        for other in others.filter(|other| reboots(other)) {
            let first = skyhook.order() < other.order();
            let earlier = if first { skyhook } else { other };
            // If both custom resources are manifests, only the later one gets the finding.
            let reported = first && manifests.iter().any(|(_, s)| s.name() == other.name());
            if earlier.blocks_all_nodes() || reported || !input.share_nodes(skyhook, other) {
                continue;
            }
            let message = format!(
                "{other} reboots the same nodes: neither budget counts the other's nodes, and each node reboots twice"
            );
            findings.report(manifest, &["spec", "packages"], message).fix(
                "Put the packages into one custom resource, or set sequencing: all on the \
                 earlier custom resource",
            );
        }
    }
}

fn reboots(skyhook: &Skyhook) -> bool {
    let mut packages = skyhook.packages();
    let reboots = packages.any(|(_, p)| p.interrupt.as_ref().is_some_and(|i| i.kind == "reboot"));
    reboots && !skyhook.disabled()
}
