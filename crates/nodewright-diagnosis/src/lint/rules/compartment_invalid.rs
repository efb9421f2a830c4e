use super::{Input, LintFindings};
use crate::api::deployment_policy::DEFAULT_COMPARTMENT;

lint_rule! {
    /// Compartments of a DeploymentPolicy have a reserved or repeated name, or identical selectors.
    ///
    /// # What it means
    ///
    /// The webhook rejects the object.
    ///
    /// # How to fix
    ///
    /// Give each compartment its own name and selector.
    SKY825 "compartment-invalid" Error
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
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
