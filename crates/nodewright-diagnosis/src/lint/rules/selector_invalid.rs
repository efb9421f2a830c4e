use super::syntax::selector_errors;
use super::{Input, LintFindings, Severity};
use crate::api::LabelSelector;
use crate::lint::Manifest;

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
    for (manifest, skyhook) in input.skyhooks() {
        selector(manifest, &["spec", "nodeSelectors"], &skyhook.spec.node_selectors, findings);
    }
    // The webhook does not check these labels.
    let mut later = LintFindings::of(&RULE);
    for (manifest, skyhook) in input.skyhooks() {
        let labels = &skyhook.spec.pod_non_interrupt_labels;
        let path = ["spec", "podNonInterruptLabels"];
        selector(manifest, &path, labels, &mut later);
    }
    for mut finding in later.into_vec() {
        finding.severity(Severity::Warning);
        finding.message += "; the webhook accepts the selector, but the operator fails on it";
        findings.add(finding);
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
