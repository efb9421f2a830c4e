use super::{Input, LintFindings, did_you_mean};

lint_rule! {
    /// A custom resource names a DeploymentPolicy that does not exist.
    ///
    /// # What it means
    ///
    /// The webhook rejects the object. Checked with a cluster or capture only; policies among the manifests count as
    /// existing.
    ///
    /// # How to fix
    ///
    /// Create the policy first, or correct its name.
    SKY822 "policy-not-found" Error
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    let Some(policies) = input.cluster.and_then(|cluster| cluster.policies.ok()) else {
        return;
    };
    for (manifest, skyhook) in input.skyhooks() {
        let name = &skyhook.spec.deployment_policy;
        if name.is_empty() || input.policy(name).is_some() {
            continue;
        }
        let known = policies.iter().map(|policy| policy.metadata.name.as_str());
        let near = did_you_mean(name, known);
        let message = format!("deployment policy {name:?} does not exist{near}");
        findings.report(manifest, &["spec", "deploymentPolicy"], message);
    }
}
