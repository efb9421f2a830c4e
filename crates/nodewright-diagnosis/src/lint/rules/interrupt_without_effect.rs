use super::{Input, LintFindings};
use crate::api::skyhook::Interrupt;
use crate::lint::Manifest;

lint_rule! {
    /// An interrupt restarts no service, or lists services that it ignores.
    ///
    /// # What it means
    ///
    /// An interrupt of type `service` restarts the listed services. Without a list the node is cordoned and drained,
    /// and nothing is restarted. Other types ignore the list.
    ///
    /// # How to fix
    ///
    /// List the services, or change the type.
    SKY853 "interrupt-without-effect" Warning
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, skyhook) in input.skyhooks() {
        for (name, package) in skyhook.packages() {
            let path = ["spec", "packages", name, "interrupt"];
            if let Some(interrupt) = &package.interrupt {
                interrupt_at(manifest, &path, interrupt, findings);
            }
            for (key, interrupt) in &package.config_interrupts {
                let path = ["spec", "packages", name, "configInterrupts", key];
                interrupt_at(manifest, &path, interrupt, findings);
            }
        }
    }
}

fn interrupt_at(manifest: &Manifest, path: &[&str], interrupt: &Interrupt, findings: &mut LintFindings) {
    if manifest.violates_schema(path) {
        return;
    }
    let listed = interrupt.services.iter().any(|service| !service.trim().is_empty());
    match interrupt.kind.as_str() {
        "service" if !listed => {
            let message =
                "interrupt type service without services: the node is drained, but nothing is restarted";
            findings.report(manifest, path, message).fix("List the services, or remove the interrupt");
        }
        kind @ ("reboot" | "noop" | "restartAllServices") if listed => {
            let message = format!("interrupt type {kind} ignores services");
            let path = [path, &["services"]].concat();
            findings.report(manifest, &path, message).fix("Remove services, or use type service");
        }
        _ => {}
    }
}
