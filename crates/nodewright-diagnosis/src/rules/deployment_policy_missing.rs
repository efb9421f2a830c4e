use super::{Findings, Grade, Subject};
use crate::cluster::Cluster;

rule! {
    /// The deployment policy that a custom resource names does not exist.
    ///
    /// # What it means
    ///
    /// Without its policy the custom resource has no compartments and no node is chosen: its status
    /// is `blocked`, even if it was complete. The webhook also rejects every change to it, including a
    /// pause or the removal of its finalizer, as long as the policy is missing.
    ///
    /// # What causes it
    ///
    /// The policy was never created, has another name, or was deleted while the webhooks were off.
    ///
    /// # How to confirm
    ///
    /// `spec.deploymentPolicy` names an object that does not exist; the condition
    /// `DeploymentPolicyNotFound` is true.
    ///
    /// # How to fix
    ///
    /// Create a policy with that name, or reference an existing one.
    ///
    /// # Affected versions
    ///
    /// Operators with deployment policies (v0.10.0).
    SKY303 "deployment-policy-missing" Error needs Skyhooks, also Policies,
        blocks Install Uninstall Deletion
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    for skyhook in &cluster.skyhooks {
        if !cluster.policy_missing(skyhook) {
            continue;
        }
        let policy = &skyhook.spec.deployment_policy;
        let flavor = cluster.flavor();
        let finding = findings.report(
            Subject::skyhook(skyhook),
            format!("deployment policy {policy} does not exist, so no further node is chosen for {skyhook}"),
        );
        finding.evidence(skyhook, "spec.deploymentPolicy", policy);
        if cluster.policies.ok().is_some() {
            finding.evidence(format!("deploymentpolicy/{policy}"), "exists", "no");
        }
        if let Some(condition) = skyhook.true_condition("DeploymentPolicyNotFound") {
            finding.condition(skyhook, condition, &condition.message);
        }
        let policies = format!("deploymentpolicies.{}", flavor.group());
        finding
            .kubectl(
                Grade::B0,
                "List the policies; create the missing one, or reference an existing one",
                ["get", &policies],
            )
            .edit_to_continue("Reference another policy", skyhook)
            .caveat("the rollout continues immediately, with the budget of that policy");
    }
}
