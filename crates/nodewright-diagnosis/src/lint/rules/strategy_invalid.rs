use serde_json::Value;

use super::{Input, LintFindings};
use crate::lint::Manifest;

lint_rule! {
    /// A strategy does not have exactly one of `fixed`, `linear` and `exponential`.
    ///
    /// # What it means
    ///
    /// The webhook rejects the object.
    ///
    /// # How to fix
    ///
    /// Keep one of the three.
    SKY826 "strategy-invalid" Error
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
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
