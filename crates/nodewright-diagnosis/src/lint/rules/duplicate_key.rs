use super::{Input, LintFindings};

lint_rule! {
    /// A key appears twice in one mapping.
    ///
    /// # What it means
    ///
    /// kubectl silently keeps the last value. Kustomize and Flux reject the file.
    ///
    /// # How to fix
    ///
    /// Remove one of the two.
    SKY803 "duplicate-key" Warning
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for manifest in input.manifests() {
        for (path, line) in manifest.duplicates() {
            let message = format!("{path} appears twice; kubectl silently keeps the last value");
            findings.report_line(manifest, line, message).path = path;
        }
    }
}
