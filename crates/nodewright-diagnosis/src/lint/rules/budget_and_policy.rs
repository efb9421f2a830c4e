use super::{Input, LintFindings, spec_errors};
use crate::model::spec_errors::SpecErrorKind;

lint_rule! {
    /// `interruptionBudget` and `deploymentPolicy` are both set.
    ///
    /// # What it means
    ///
    /// The webhook rejects the object: a policy has its own budgets.
    ///
    /// # How to fix
    ///
    /// Remove one of the two.
    SKY816 "budget-and-policy" Error
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, _, error) in spec_errors(input, SpecErrorKind::BudgetAndPolicy) {
        findings
            .report(
                manifest,
                &error.path_with_key(),
                "interruptionBudget and deploymentPolicy are mutually exclusive",
            )
            .fix("Remove one of the two");
    }
}
