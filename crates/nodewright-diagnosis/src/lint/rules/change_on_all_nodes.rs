use super::{Input, LintFindings};
use crate::api::Package;
use crate::model::spec_errors::go_version;
use crate::rules::Severity;
use crate::view::plural;

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
    SKY869 "change-on-all-nodes" Warning
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, skyhook) in input.skyhooks() {
        let nodes = input.selected(skyhook).map_or(0, |nodes| nodes.len());
        let runs = nodes > 1 && skyhook.is_active();
        let Some(live) = input.live(manifest).filter(|_| runs) else {
            continue;
        };
        for (name, package) in skyhook.packages() {
            let before = live.package(name);
            let Some((change, field, interrupt)) = before.and_then(|p| change(p, package)) else {
                continue;
            };
            let interrupted = match interrupt {
                Some("reboot") => " and reboots them".to_owned(),
                Some("noop") | None => String::new(),
                Some(kind) => format!(" and interrupts them ({kind})"),
            };
            let severity = if interrupted.is_empty() { Severity::Info } else { Severity::Warning };
            let message = format!(
                "{change} starts on all {} at once{interrupted}: budgets and policies do not apply to it",
                plural(nodes, "selected node")
            );
            findings
                .report(manifest, &["spec", "packages", name, field], message)
                .severity(severity)
                .fix("Narrow nodeSelectors while the change is applied, and widen it step by step");
        }
    }
}

/// A package change that interrupts or reruns the package: description, field, and type of the interrupt.
fn change<'a>(before: &Package, after: &'a Package) -> Option<(&'static str, &'static str, Option<&'a str>)> {
    if before.version != after.version {
        let raised = go_version(&after.version) > go_version(&before.version);
        return raised.then(|| ("the upgrade", "version", after.pending_interrupt(&[])));
    }
    if after.uninstall().apply && !before.uninstall().apply {
        return Some(("the uninstall", "uninstall", after.pending_interrupt(&[])));
    }
    if before.config_map == after.config_map || before.config_map.is_empty() {
        return None;
    }
    let new = after.config_map.iter();
    let changed: Vec<String> = new
        .filter(|(key, value)| before.config_map.get(*key) != Some(value))
        .map(|(key, _)| key.clone())
        .collect();
    // If keys were only removed, the operator runs the package's own interrupt.
    Some(("the change to configMap", "configMap", after.pending_interrupt(&changed)))
}
