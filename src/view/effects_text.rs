//! The predicted effects of a plan as text.

use crate::api::Stage;
use crate::model::{PackageChange, PackageDocument, Remaining, RolloutDocument};
use crate::view::text::Text;
use crate::view::{Table, cells, list, plural};

/// A paragraph for each custom resource with effects.
pub fn effects_text(packages: &[PackageDocument], rollouts: &[RolloutDocument]) -> Text {
    let mut body = Text::new();
    for rollout in rollouts {
        let mut table = Table::with_headings([rollout.skyhook.as_str(), "ONCE APPLIED"]).wrap_last();
        let packages: Vec<&PackageDocument> =
            packages.iter().filter(|p| p.skyhook == rollout.skyhook).collect();
        for package in &packages {
            table.row(cells![title(package), outcome(rollout, package)]);
        }
        let everywhere = packages.iter().any(|package| package.exceeds_budget(rollout));
        for (term, description) in node_rows(rollout, everywhere) {
            table.row(cells![term, description]);
        }
        if !table.is_empty() {
            body.blank().table(table);
        }
    }
    body
}

/// Formats a package and its version change: `driver 2.0.1 → 2.1.0`.
fn title(package: &PackageDocument) -> String {
    match (&package.from, &package.to) {
        (Some(from), Some(to)) => format!("{} {from} → {to}", package.package),
        _ => package.package.clone(),
    }
}

/// Describes the effects on nodes:
/// `upgrade and reboot on 870 nodes, ALL AT ONCE: the budget (10) does not apply to upgrades`.
fn outcome(rollout: &RolloutDocument, package: &PackageDocument) -> String {
    let runs = |stage: Stage| package.stages.iter().any(|s| *s == stage.to_string());
    let (verb, changes) = match package.change {
        PackageChange::Unchanged => return "unchanged".to_owned(),
        PackageChange::WithoutEffect | PackageChange::NotInstalled if rollout.stuck.is_some() => {
            return "nothing runs in the current state".to_owned();
        }
        PackageChange::WithoutEffect => {
            return "changed, but nothing runs on nodes where the package is complete".to_owned();
        }
        PackageChange::NotInstalled => return "not installed on any node".to_owned(),
        PackageChange::Removed => return "removed from the spec; no node has it".to_owned(),
        PackageChange::LeftSpec => {
            return "removed from the spec: stays installed and recorded, but new nodes do not get it"
                .to_owned();
        }
        PackageChange::Configure => (Some("configure"), "changes of a configMap"),
        PackageChange::Interrupt => (None, "interrupts"),
        // Of an uninstall that has run, only the interrupt is left.
        PackageChange::Uninstall => {
            let uninstalls = runs(Stage::Uninstall) || package.interrupt.is_none();
            let verb = if runs(Stage::Upgrade) { "upgrade, then uninstall" } else { "uninstall" };
            (uninstalls.then_some(verb), "uninstalls")
        }
        _ if runs(Stage::Upgrade) => (Some("upgrade"), "upgrades"),
        PackageChange::Reinstall => (Some("reinstall"), "installs"),
        PackageChange::CancelUninstall => (Some("reinstall"), "canceled uninstalls"),
        PackageChange::Downgrade => (Some("install the lower version"), "installs"),
        PackageChange::Install | PackageChange::Upgrade => (Some("install"), "installs"),
    };
    let interrupt = package.interrupt.as_deref().map(|kind| match kind {
        "reboot" => "reboot",
        "service" => "restart services",
        "restartAllServices" => "restart all services",
        _ => "interrupt",
    });
    // The interrupt itself may have run, so that only the stage after it remains.
    let after = (verb.is_none() && interrupt.is_none()).then_some("run post-interrupt");
    let verbs: Vec<&str> = verb.into_iter().chain(interrupt).chain(after).collect();
    let nodes = package.nodes.len();
    let pace = match (package.at_once, rollout.batch) {
        _ if nodes <= 1 => String::new(),
        (None, _) => String::new(),
        (Some(0 | 1), _) => ", one at a time".to_owned(),
        (_, Some(batch)) if package.exceeds_budget(rollout) => {
            format!(", ALL AT ONCE: the budget ({batch}) does not apply to {changes}")
        }
        (Some(at_once), _) if at_once == nodes => ", all at once".to_owned(),
        (Some(at_once), _) if rollout.batches_may_overlap => format!(", {at_once} at once"),
        (Some(at_once), _) => format!(", at most {at_once} at once"),
    };
    format!("{} on {}{pace}", verbs.join(" and "), plural(nodes, "node"))
}

/// Rows for drains, the budget unless a change ignores it and starts `everywhere`, waiting custom resources, and the
/// completion.
fn node_rows(rollout: &RolloutDocument, everywhere: bool) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if !rollout.deselected.is_empty() {
        let nodes = plural(rollout.deselected.len(), "node");
        lines.push((
            "selector",
            format!("{nodes} no longer selected: packages, cordons and taints stay on them"),
        ));
    }
    if !rollout.cordoned.is_empty() {
        let nodes = plural(rollout.cordoned.len(), "node");
        let mut drains = match rollout.evicted_pods {
            Some(pods) => format!("{nodes} cordoned, {} to evict", plural(pods, "pod")),
            None => format!("{nodes} cordoned; their pods were not read"),
        };
        for refusing in &rollout.refusing_budgets {
            drains += &format!(
                "; PodDisruptionBudget {} refuses evictions on {}",
                refusing.budget,
                plural(refusing.nodes.len(), "node")
            );
        }
        match rollout.interrupted_uncordoned.len() {
            0 => {}
            early if early == rollout.cordoned.len() => drains += "; the interrupt starts before the cordon",
            early => {
                drains += &format!("; on {}, the interrupt starts before the cordon", plural(early, "node"))
            }
        }
        lines.push(("drains", drains));
    }
    let overlaps =
        |batch: &usize| rollout.batches_may_overlap && !everywhere && rollout.cordoned.len() > *batch;
    if let Some(batch) = rollout.batch.filter(overlaps) {
        let twice = (2 * batch).min(rollout.cordoned.len());
        lines.push((
            "budget",
            format!("{batch}, but {twice} at times: without a deploymentPolicy, a second batch may start beside the first"),
        ));
    }
    if !rollout.untainted.is_empty() {
        let nodes = plural(rollout.untainted.len(), "node");
        lines.push(("taint", format!("runtime-required, removed from {nodes} once complete")));
    }
    match rollout.waiting.as_slice() {
        [] => {}
        [one] => lines.push(("later", format!("{one} waits for {}", rollout.skyhook))),
        all => lines.push(("later", format!("{} wait for {}", list(all), rollout.skyhook))),
    }
    if let Some(stuck) = &rollout.stuck {
        lines.push(("completes", format!("never in the current state: {stuck}")));
    } else if let (Some(seconds), Some(uncertainty)) = (rollout.estimate, rollout.uncertainty) {
        let remaining = Remaining { seconds, uncertainty };
        let time = format!("{remaining}, at the pace of earlier stages");
        lines.push(("time", time));
    }
    lines
}
