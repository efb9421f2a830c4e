use super::{Input, LintFindings};
use crate::api::deployment_policy::Budget;
use crate::lint::Manifest;
use crate::model::spec_errors::SpecErrorKind;

lint_rule! {
    /// A budget sets both `percent` and `count`, or neither where one is required.
    ///
    /// # What it means
    ///
    /// The webhook rejects the object. An `interruptionBudget` has at most one of the two; each budget of a
    /// DeploymentPolicy has exactly one.
    ///
    /// # How to fix
    ///
    /// Set `percent` or `count`.
    SKY815 "budget-invalid" Error
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    findings.report_spec_errors(input, SpecErrorKind::Budget);
    for (manifest, policy) in input.policies() {
        budget(manifest, &["spec", "default", "budget"], &policy.spec.default.budget, findings);
        for (index, compartment) in policy.spec.compartments.iter().enumerate() {
            let path = ["spec", "compartments", &index.to_string(), "budget"];
            budget(manifest, &path, &compartment.budget, findings);
        }
    }
}

/// Reports a budget of a policy that does not have exactly one of percent and count.
fn budget(manifest: &Manifest, path: &[&str], budget: &Budget, findings: &mut LintFindings) {
    let (message, fix) = match (budget.percent, budget.count) {
        _ if manifest.violates_schema(path) => return,
        (Some(_), Some(_)) => ("the budget sets both percent and count", "Remove one of the two"),
        (None, None) => ("the budget sets neither percent nor count", "Set one of the two"),
        _ => return,
    };
    findings.report(manifest, path, message).fix(fix);
}
