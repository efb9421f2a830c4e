use super::strategies::{KINDS, Strategy, strategies};
use super::{Input, LintFindings, Severity};
use crate::api::DeploymentPolicy;
use crate::api::name::selector_errors;
use crate::api::skyhook::DEFAULT_COMPARTMENT;
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

const SPEC_ERRORS: [SpecErrorKind; 10] = [
    SpecErrorKind::PackageName,
    SpecErrorKind::Version,
    SpecErrorKind::Resources,
    SpecErrorKind::Budget,
    SpecErrorKind::BudgetAndPolicy,
    SpecErrorKind::NodeSelectors,
    SpecErrorKind::Dependency,
    SpecErrorKind::ApplyWithoutEnabled,
    SpecErrorKind::ConfigInterrupt,
    SpecErrorKind::Duration,
];

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for kind in SPEC_ERRORS {
        findings.report_spec_errors(input, kind);
    }
    for (manifest, error) in input.spec_errors(SpecErrorKind::ProtectedPods) {
        let message =
            format!("{}; the webhook accepts the selector, but the operator fails on it", error.message());
        findings.report(manifest, &error.whole_path(), message).severity(Severity::Warning).fix(error.fix());
    }
    for (manifest, policy) in input.policies() {
        for strategy in strategies(policy) {
            budget(manifest, &strategy, findings);
            kind(manifest, &strategy, findings);
        }
        compartments(manifest, policy, findings);
    }
}

/// Reports a budget of a policy that does not have exactly one of percent and count.
fn budget(manifest: &Manifest, strategy: &Strategy<'_>, findings: &mut LintFindings) {
    let path = strategy.path(&["budget"]);
    let (message, fix) = match (strategy.budget.percent, strategy.budget.count) {
        _ if manifest.violates_schema(&path) => return,
        (Some(_), Some(_)) => ("the budget sets both percent and count", "Remove one of the two"),
        (None, None) => ("the budget sets neither percent nor count", "Set one of the two"),
        _ => return,
    };
    findings.report(manifest, &path, message).fix(fix);
}

fn kind(manifest: &Manifest, strategy: &Strategy<'_>, findings: &mut LintFindings) {
    let path = strategy.path(&["strategy"]);
    let set: Vec<&str> = KINDS.into_iter().filter(|kind| !strategy.whole[*kind].is_null()).collect();
    if set.len() == 1 || !strategy.whole.is_object() || manifest.violates_schema(&path) {
        return;
    }
    let message = match set.as_slice() {
        [] => "the strategy must have one of fixed, linear and exponential".to_owned(),
        many => format!("the strategy has {}; exactly one is allowed", many.join(" and ")),
    };
    findings.report(manifest, &path, message);
}

fn compartments(manifest: &Manifest, policy: &DeploymentPolicy, findings: &mut LintFindings) {
    let compartments = &policy.spec.compartments;
    for (index, compartment) in compartments.iter().enumerate() {
        let at = index.to_string();
        let earlier = &compartments[..index];
        let path = ["spec", "compartments", &at, "name"];
        if compartment.name == DEFAULT_COMPARTMENT {
            findings.report(manifest, &path, format!("the name {DEFAULT_COMPARTMENT} is reserved"));
        }
        if earlier.iter().any(|other| other.name == compartment.name) {
            let message = format!("the name {:?} is used twice", compartment.name);
            findings.report(manifest, &path, message);
        }
        let path = ["spec", "compartments", &at, "selector"];
        if manifest.violates_schema(&path) {
            continue;
        }
        if let Some(other) = earlier.iter().find(|other| other.selector == compartment.selector) {
            let message = format!("the selector is identical to that of compartment {}", other.name);
            findings.report(manifest, &path, message);
        }
        for (below, why) in selector_errors(&compartment.selector) {
            let path = path.into_iter().chain(below.iter().map(String::as_str)).collect::<Vec<_>>();
            findings.report(manifest, &path, format!("selector: {why}"));
        }
    }
}
