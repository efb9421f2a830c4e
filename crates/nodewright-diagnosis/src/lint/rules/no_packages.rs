use super::{Input, LintFindings};

lint_rule! {
    /// A custom resource has no packages.
    ///
    /// # What it means
    ///
    /// The operator accepts it, does nothing on the nodes, and reports it as complete.
    ///
    /// # How to fix
    ///
    /// Add packages, or remove the object.
    SKY880 "no-packages" Warning
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, skyhook) in input.skyhooks() {
        let path = ["spec", "packages"];
        if skyhook.spec.packages.is_empty() && !manifest.violates_schema(&path) {
            findings
                .report(manifest, &path, "the custom resource has no packages, so nothing runs on its nodes")
                .fix("Add packages, or remove the object");
        }
    }
}
