use super::{Input, LintFindings};
use crate::cluster::Cluster;

lint_rule! {
    /// A custom resource precedes its DeploymentPolicy in the same file.
    ///
    /// # What it means
    ///
    /// kubectl applies documents in their order, and the webhook rejects a custom resource whose policy does not exist
    /// yet. A second `kubectl apply` succeeds. Kustomize sorts objects, so its resources are not checked.
    ///
    /// # How to fix
    ///
    /// Move the policy to the top of the file.
    SKY878 "policy-below" Warning
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    if input.documents.has_kustomization() {
        return;
    }
    for (manifest, skyhook) in
        input.skyhooks().filter(|(_, skyhook)| !skyhook.spec.deployment_policy.is_empty())
    {
        let name = &skyhook.spec.deployment_policy;
        let line = manifest.range(&[]).first;
        let first = input
            .policies()
            .filter(|(policy, _)| policy.name == *name && policy.file == manifest.file)
            .map(|(policy, _)| policy.range(&[]).first)
            .min();
        let lives = |cluster: &Cluster| cluster.policies.iter().any(|policy| policy.metadata.name == *name);
        if let Some(below) = first.filter(|below| *below > line && !input.cluster.is_some_and(lives)) {
            let message =
                format!("the webhook rejects the object: its policy {name} comes later, at line {below}");
            findings
                .report(manifest, &["spec", "deploymentPolicy"], message)
                .fix("Move the policy to the top of the file");
        }
    }
}
