use super::{Input, LintFindings, is_uninstalled};
use crate::api::keys::go_version;

lint_rule! {
    /// A package with `uninstall.enabled` is downgraded before it is uninstalled.
    ///
    /// # What it means
    ///
    /// The webhook rejects the change. Checked with a cluster or capture only.
    ///
    /// # How to fix
    ///
    /// Uninstall the package, wait until it is uninstalled from all nodes, and then change the version.
    SKY824 "enabled-package-downgraded" Error
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, skyhook) in input.skyhooks() {
        let Some(live) = input.live(manifest) else {
            continue;
        };
        for (name, package) in live.packages().filter(|(_, package)| package.uninstall().enabled) {
            let Some(wanted) = skyhook.package(name) else {
                continue;
            };
            let versions = (go_version(&wanted.version), go_version(&package.version));
            let lower = matches!(versions, (Some(wanted), Some(live)) if wanted < live);
            let uninstalled = package.uninstall().apply && is_uninstalled(live, name, package);
            if lower && !uninstalled {
                let message = format!(
                    "the version is lowered from {} to {}, but the package is not uninstalled",
                    package.version, wanted.version
                );
                findings
                    .report(manifest, &["spec", "packages", name, "version"], message)
                    .evidence(live, format!("spec.packages.{name}.version"), &package.version)
                    .fix(format!("Uninstall it first: `kubectl skyhook uninstall {} {name}`", live.name()));
            }
        }
    }
}
