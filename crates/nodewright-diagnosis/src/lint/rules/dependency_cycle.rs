use std::collections::BTreeSet;

use super::{Input, LintFindings};
use crate::model::dependencies::cycle_from;

lint_rule! {
    /// Packages depend on each other in a cycle.
    ///
    /// # What it means
    ///
    /// The webhook accepts the object, but the operator never runs these packages: each waits for the next.
    ///
    /// # How to fix
    ///
    /// Remove one of the dependencies.
    SKY830 "dependency-cycle-in-manifest" Error
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, skyhook) in input.skyhooks() {
        let mut seen = BTreeSet::new();
        for (name, _) in skyhook.packages() {
            if seen.contains(name) {
                continue;
            }
            let Some(cycle) = cycle_from(skyhook, name) else {
                continue;
            };
            seen.extend(cycle.iter().copied());
            let path = format!("{} -> {}", cycle.join(" -> "), cycle[0]);
            let message = format!("packages depend on each other in a cycle and never run: {path}");
            let finding = findings.report(manifest, &["spec", "packages", name, "dependsOn"], message);
            finding.fix("Remove one of the dependencies");
        }
    }
}
