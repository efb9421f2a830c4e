use super::{Input, LintFindings};
use crate::model::{Effects, PackageChange};
use crate::rules::Severity;
use crate::text::plural;

lint_rule! {
    /// A change starts on all nodes at once, regardless of the budget.
    ///
    /// # What it means
    ///
    /// The operator applies budgets and policies to installations. A higher version, a changed `configMap`
    /// and a requested uninstall start on all selected nodes at once. The finding is a warning if the change
    /// interrupts the nodes, otherwise info.
    ///
    /// # How to fix
    ///
    /// Narrow `nodeSelectors` while the change is applied, and widen them step by step.
    SKY869 "change-on-all-nodes" Warning Effects
}

fn check(input: &Input<'_>, effects: &[Effects<'_>], findings: &mut LintFindings) {
    for (manifest, skyhook) in input.skyhooks() {
        let Some(effects) = effects.iter().find(|effects| effects.skyhook == skyhook.name()) else {
            continue;
        };
        // Nothing starts.
        if effects.stuck.is_some() && effects.stuck_on.is_none() {
            continue;
        }
        for package in effects.packages.iter().filter(|package| package.exceeds_budget(&effects.rollout)) {
            let (change, field) = match package.change {
                PackageChange::Configure => ("the change to configMap", "configMap"),
                PackageChange::Uninstall => ("the uninstall", "uninstall"),
                _ => ("the upgrade", "version"),
            };
            let interrupted = match package.interrupt.as_deref() {
                Some("reboot") => " and reboots them".to_owned(),
                Some("noop") | None => String::new(),
                Some(kind) => format!(" and interrupts them ({kind})"),
            };
            let severity = if interrupted.is_empty() { Severity::Info } else { Severity::Warning };
            let message = format!(
                "{change} starts on all {} at once{interrupted}: budgets and policies do not apply to it",
                plural(package.nodes.len(), "selected node")
            );
            findings
                .report(manifest, &["spec", "packages", &package.package, field], message)
                .severity(severity)
                .fix("Narrow nodeSelectors before you apply the change, and then widen them step by step");
        }
    }
}
