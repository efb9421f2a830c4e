use super::{Findings, Grade, Subject};
use crate::api::ApiFlavor;
use crate::cluster::Cluster;

rule! {
    /// A DeploymentPolicy of the older API remains although no custom resource uses it.
    ///
    /// # What it means
    ///
    /// The operator has copied the policy to the newer API and no longer uses the original. It never deletes the
    /// original, and as long as it exists the older CustomResourceDefinition cannot be removed, as v0.21 requires.
    ///
    /// # What causes it
    ///
    /// The Skyhook objects were deleted after the migration, and their policies were not.
    ///
    /// # How to confirm
    ///
    /// The policy exists in the older API group, and no Skyhook names it in `spec.deploymentPolicy`.
    ///
    /// # How to fix
    ///
    /// Delete the policy while the operator runs, once no rollback is planned. Delete Skyhook objects first: the webhook
    /// rejects the deletion of a policy that a Skyhook uses.
    ///
    /// # Affected versions
    ///
    /// Operators v0.18.0 and later.
    SKY608 "legacy-policy-left" Info needs Skyhooks Legacy, also Policies
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    if let Some(why) = cluster.legacy_policies.unread() {
        findings.undetermined(format!("deployment policies of the older API could not be read: {why}"));
    }
    for policy in crate::cluster::active_api::unused_policies(cluster) {
        let name = policy.metadata.name.as_str();
        let resource = format!("deploymentpolicies.{}", ApiFlavor::Skyhook.group());
        findings
            .report(
                Subject::object("DeploymentPolicy", name),
                format!("deployment policy {name} of the older API remains, and no Skyhook uses it"),
            )
            .since(policy.metadata.creation_timestamp)
            .evidence(format!("{resource}/{name}"), "used by", "no Skyhook")
            .kubectl(Grade::B1, "Delete the policy once no rollback is planned", ["delete", &resource, name])
            .caveat("after a rollback, Skyhook objects that name this policy are blocked");
    }
}
