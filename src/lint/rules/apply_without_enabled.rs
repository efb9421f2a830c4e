use super::{Input, LintFindings};

lint_rule! {
    /// `uninstall.apply` is set without `uninstall.enabled`.
    ///
    /// # What it means
    ///
    /// The webhook rejects the object.
    ///
    /// # How to fix
    ///
    /// Set `uninstall.enabled: true` as well if the package should be uninstalled. Otherwise remove `apply`.
    SKY819 "apply-without-enabled" Error
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, skyhook) in input.skyhooks() {
        for (name, package) in skyhook.packages() {
            let uninstall = package.uninstall();
            if uninstall.apply && !uninstall.enabled {
                let path = ["spec", "packages", name, "uninstall", "apply"];
                findings
                    .report(
                        manifest,
                        &path,
                        "uninstall.apply requires uninstall.enabled: true",
                    )
                    .fix("Set uninstall.enabled: true, or remove uninstall.apply");
            }
        }
    }
}
