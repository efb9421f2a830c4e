use super::{Input, LintFindings};

lint_rule! {
    /// A field that only works with `runtimeRequired` is set without it.
    ///
    /// # What it means
    ///
    /// The operator ignores `autoTaintNewNodes` and `runtimeRequiredCordonAfter` without `runtimeRequired`: new nodes
    /// are open to workloads before the packages are installed.
    ///
    /// # How to fix
    ///
    /// Set `runtimeRequired: true`, or remove the field.
    SKY854 "runtime-required-missing" Warning
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, skyhook) in input.skyhooks() {
        for field in ["autoTaintNewNodes", "runtimeRequiredCordonAfter"] {
            let path = ["spec", field];
            let set = manifest.get(&path).and_then(serde_json::Value::as_bool);
            if set == Some(true) && !skyhook.spec.runtime_required {
                findings
                    .report(manifest, &path, format!("{field} has no effect without runtimeRequired: true"))
                    .fix(format!("Set runtimeRequired: true, or remove {field}"));
            }
        }
    }
}
