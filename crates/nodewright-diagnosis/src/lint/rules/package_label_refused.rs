use super::{Input, LintFindings};
use crate::model::spec_errors::{is_package_name, is_version};
use crate::rules::invalid_label;

lint_rule! {
    /// The name and version of a package do not form a valid label.
    ///
    /// # What it means
    ///
    /// The operator labels each pod of a package with `NAME-VERSION`. The API server rejects the pod if that is longer
    /// than 63 characters or contains `+`, so the package never runs.
    ///
    /// # How to fix
    ///
    /// Use a shorter name or version, or a version without build metadata; tag the image with the same version.
    SKY849 "package-label-refused" Error
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, skyhook) in input.skyhooks() {
        for (name, package) in skyhook.packages() {
            let version = &package.version;
            if !is_package_name(name) || !is_version(version) {
                continue;
            }
            if let Some(why) = invalid_label(&format!("{name}-{version}")) {
                let message = format!("no pod can be created: the label {name}-{version} {why}");
                findings
                    .report(manifest, &["spec", "packages", name, "version"], message)
                    .fix("Use a version that gives a valid label, and tag the image with it");
            }
        }
    }
}
