use super::{Input, LintFindings, Severity};
use crate::api::LabelSelector;
use crate::api::syntax::selector_errors;
use crate::lint::Manifest;
use crate::model::spec_errors::SpecErrorKind;

lint_rule! {
    /// A label selector is not valid.
    ///
    /// # What it means
    ///
    /// The webhook rejects the object. It does not check `podNonInterruptLabels`: there, the operator fails later.
    ///
    /// # How to fix
    ///
    /// `In` and `NotIn` require `values`, `Exists` and `DoesNotExist` take none. Keys and values follow the syntax of
    /// labels.
    SKY817 "selector-invalid" Error
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    findings.report_spec_errors(input, SpecErrorKind::NodeSelectors);
    for (manifest, error) in input.spec_errors(SpecErrorKind::ProtectedPods) {
        let message =
            format!("{}; the webhook accepts the selector, but the operator fails on it", error.message());
        findings
            .report(manifest, &error.whole_path(), message)
            .severity(Severity::Warning)
            .fix(error.kind.fix());
    }
    for (manifest, policy) in input.policies() {
        for (index, compartment) in policy.spec.compartments.iter().enumerate() {
            let path = ["spec", "compartments", &index.to_string(), "selector"];
            selector(manifest, &path, &compartment.selector, findings);
        }
    }
}

fn selector(manifest: &Manifest, path: &[&str], selector: &LabelSelector, findings: &mut LintFindings) {
    if manifest.violates_schema(path) {
        return;
    }
    for (below, why) in selector_errors(selector) {
        let below: Vec<&str> = below.iter().map(String::as_str).collect();
        let field = path.last().copied().unwrap_or_default();
        findings.report(manifest, &[path, &below].concat(), format!("{field}: {why}"));
    }
}
