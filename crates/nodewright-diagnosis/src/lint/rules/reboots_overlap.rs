use std::collections::HashSet;

use super::{Input, LintFindings};
use crate::api::Skyhook;
use crate::text::list;

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

/// Maximum number of other custom resources that a finding names.
const MOST_NAMED: usize = 3;

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    let all = input.selections(reboots);
    let names: HashSet<&str> = input.skyhooks().map(|(_, skyhook)| skyhook.name()).collect();
    for (manifest, skyhook) in input.skyhooks().filter(|(_, skyhook)| reboots(skyhook)) {
        // If both custom resources are manifests, only the later one gets the finding.
        let others = all.overlapping(skyhook).filter(|other| {
            let first = skyhook.order() < other.order();
            let earlier = if first { skyhook } else { other };
            !(earlier.blocks_all_nodes() || first && names.contains(other.name()))
        });
        let mut names: Vec<String> = others.take(MOST_NAMED + 1).map(ToString::to_string).collect();
        if names.is_empty() {
            continue;
        }
        let verb = if names.len() == 1 { "reboots" } else { "reboot" };
        if names.len() > MOST_NAMED {
            names[MOST_NAMED] = "others".to_owned();
        }
        let message = format!(
            "{} {verb} the same nodes: no budget counts the nodes of another custom resource, and each node \
             reboots once for each of them",
            list(&names)
        );
        findings.report(manifest, &["spec", "packages"], message).fix(
            "Put the packages into one custom resource, or set sequencing: all on the \
             earlier custom resource",
        );
    }
}

fn reboots(skyhook: &Skyhook) -> bool {
    let reboots = skyhook.packages().any(|(_, p)| p.interrupt.as_ref().is_some_and(|i| i.kind == "reboot"));
    reboots && !skyhook.disabled()
}
