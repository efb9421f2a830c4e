use super::{Input, LintFindings, is_uninstalled};

lint_rule! {
    /// A package with `uninstall.enabled` is removed before it is uninstalled.
    ///
    /// # What it means
    ///
    /// The webhook rejects the change. Checked with a cluster or capture only.
    ///
    /// # How to fix
    ///
    /// Set `uninstall.apply: true` and wait for completion before removing the package: `kubectl skyhook uninstall NAME PACKAGE`.
    SKY823 "enabled-package-removed" Error
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, skyhook) in input.skyhooks() {
        let Some(live) = input.live(manifest) else {
            continue;
        };
        for (name, package) in live.packages().filter(|(_, package)| package.uninstall().enabled) {
            if skyhook.package(name).is_none() && !is_uninstalled(live, name, package) {
                let message = format!("package {name} has uninstall.enabled and is still installed");
                let finding = findings.report(manifest, &["spec", "packages"], message);
                finding.subject.package = Some(name.to_owned());
                finding
                    .evidence(live, format!("spec.packages.{name}.version"), &package.version)
                    .fix(format!("Uninstall it first: `kubectl skyhook uninstall {} {name}`", live.name()));
            }
        }
    }
}
