use serde_json::Value;

use super::{Input, LintFindings, Severity};
use crate::api::LabelSelector;
use crate::api::name::selector_errors;
use crate::api::skyhook::{Budget, DEFAULT_COMPARTMENT};
use crate::lint::Manifest;
use crate::model::spec_errors::SpecErrorKind;

lint_rule! {
    /// The webhook of the operator refuses the object.
    ///
    /// # What it means
    ///
    /// The message names the value and the rule that it breaks:
    ///
    /// - the name of a package has 2 to 43 lower-case letters, digits and hyphens, and begins and ends with a letter; its
    ///   field `name` may only repeat the key;
    /// - the version is a semantic version, and also the tag of the image: tags such as `latest` are not possible;
    /// - of `cpuRequest`, `cpuLimit`, `memoryRequest` and `memoryLimit` all four are set or none; they are positive, and no
    ///   limit is below its request;
    /// - an `interruptionBudget` has at most one of `percent` and `count`, and is not combined with `deploymentPolicy`; each
    ///   budget of a DeploymentPolicy has exactly one of the two;
    /// - in selectors, `In` and `NotIn` require `values`, `Exists` and `DoesNotExist` take none; keys and values follow the
    ///   syntax of labels. `podNonInterruptLabels` is a warning: the webhook accepts it, and the operator fails later;
    /// - a package depends on packages of the spec, at their versions;
    /// - `uninstall.apply` requires `uninstall.enabled`;
    /// - each entry of `configInterrupts` matches a key of `configMap`;
    /// - durations are numbers with units, such as `90s` or `1h30m`, without days; timeouts are not negative;
    /// - each compartment has its own selector and name, other than `__default__`, and a strategy exactly one of `fixed`,
    ///   `linear` and `exponential`.
    ///
    /// # How to fix
    ///
    /// Correct the field as the message says.
    SKY811 "refused-by-webhook" Error
}

/// Errors of specs, by the codes under which they were reported before.
const SPEC_ERRORS: [(&str, SpecErrorKind); 10] = [
    ("SKY811", SpecErrorKind::PackageName),
    ("SKY812", SpecErrorKind::Version),
    ("SKY814", SpecErrorKind::Resources),
    ("SKY815", SpecErrorKind::Budget),
    ("SKY816", SpecErrorKind::BudgetAndPolicy),
    ("SKY817", SpecErrorKind::NodeSelectors),
    ("SKY818", SpecErrorKind::Dependency),
    ("SKY819", SpecErrorKind::ApplyWithoutEnabled),
    ("SKY820", SpecErrorKind::ConfigInterrupt),
    ("SKY821", SpecErrorKind::Duration),
];

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (code, kind) in SPEC_ERRORS {
        findings.fold(code);
        findings.report_spec_errors(input, kind);
    }
    findings.fold("SKY815");
    budgets(input, findings);
    findings.fold("SKY817");
    selectors(input, findings);
    findings.fold("SKY825");
    compartments(input, findings);
    findings.fold("SKY826");
    strategies(input, findings);
}

fn budgets(input: &Input<'_>, findings: &mut LintFindings) {
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

fn selectors(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, error) in input.spec_errors(SpecErrorKind::ProtectedPods) {
        let message =
            format!("{}; the webhook accepts the selector, but the operator fails on it", error.message());
        findings.report(manifest, &error.whole_path(), message).severity(Severity::Warning).fix(error.fix());
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

fn compartments(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, policy) in input.policies() {
        let compartments = &policy.spec.compartments;
        for (index, compartment) in compartments.iter().enumerate() {
            let at = index.to_string();
            let path = ["spec", "compartments", &at, "name"];
            if compartment.name == DEFAULT_COMPARTMENT {
                findings.report(manifest, &path, format!("the name {DEFAULT_COMPARTMENT} is reserved"));
            }
            let earlier = &compartments[..index];
            if earlier.iter().any(|other| other.name == compartment.name) {
                let message = format!("the name {:?} is used twice", compartment.name);
                findings.report(manifest, &path, message);
            }
            let path = ["spec", "compartments", &at, "selector"];
            let same = earlier.iter().find(|other| other.selector == compartment.selector);
            if let Some(other) = same.filter(|_| !manifest.violates_schema(&path)) {
                let message = format!("the selector is identical to that of compartment {}", other.name);
                findings.report(manifest, &path, message);
            }
        }
    }
}

fn strategies(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, policy) in input.policies() {
        let default = &policy.spec.default.strategy;
        strategy(manifest, &["spec", "default", "strategy"], default.as_ref(), findings);
        for (index, compartment) in policy.spec.compartments.iter().enumerate() {
            let path = ["spec", "compartments", &index.to_string(), "strategy"];
            strategy(manifest, &path, compartment.strategy.as_ref(), findings);
        }
    }
}

fn strategy(manifest: &Manifest, path: &[&str], strategy: Option<&Value>, findings: &mut LintFindings) {
    let Some(Value::Object(members)) = strategy else {
        return;
    };
    let kinds = ["fixed", "linear", "exponential"];
    let set: Vec<&str> =
        kinds.into_iter().filter(|kind| members.get(*kind).is_some_and(|v| !v.is_null())).collect();
    let message = match set.as_slice() {
        [_] => return,
        _ if manifest.violates_schema(path) => return,
        [] => "the strategy must have one of fixed, linear and exponential".to_owned(),
        many => format!("the strategy has {}; exactly one is allowed", many.join(" and ")),
    };
    findings.report(manifest, path, message);
}
