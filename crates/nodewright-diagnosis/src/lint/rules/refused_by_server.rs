use super::{Input, LintFindings};

lint_rule! {
    /// The API server refuses the object in a dry run.
    ///
    /// # What it means
    ///
    /// With `--server-dry-run`, lint asks the server about every object without errors. The message comes
    /// from the server: from a CEL rule, a quota, or a webhook or policy of the cluster.
    ///
    /// # How to fix
    ///
    /// Correct the object as the message says, or ask the owner of the webhook or policy.
    SKY829 "refused-by-server" Error
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (at, why) in &input.refusals {
        findings.report(&input.documents.manifests[*at], &[""; 0], why);
    }
}
