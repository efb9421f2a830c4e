use super::strategies::strategies;
use super::{Input, LintFindings};

lint_rule! {
    /// A strategy with `failureThreshold` has no `safetyLimit`.
    ///
    /// # What it means
    ///
    /// Failures stop the rollout only while its progress is below `safetyLimit`, which is 50 by default: in
    /// the second half, the rollout continues regardless of failures.
    ///
    /// # How to fix
    ///
    /// Set `safetyLimit: 100` to stop at failures in the whole rollout.
    SKY884 "failure-threshold-half" Info
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, policy) in input.policies() {
        for strategy in strategies(policy) {
            let set = |field: &str| !strategy.fields[field].is_null();
            if set("failureThreshold") && !set("safetyLimit") {
                let path = strategy.path(&["strategy", strategy.kind, "failureThreshold"]);
                let message =
                    "failures stop the rollout only while its progress is below 50%, the default safetyLimit";
                findings.report(manifest, &path, message).fix("Set safetyLimit");
            }
        }
    }
}
