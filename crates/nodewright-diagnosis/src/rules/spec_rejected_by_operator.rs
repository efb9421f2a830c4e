use std::collections::HashMap;

use super::{Findings, Grade, Severity, Subject};
use crate::api::Skyhook;
use crate::api::skyhook::DeploymentPolicySpec;
use crate::cluster::{Cluster, Source};
use crate::model::spec_errors::{SpecError, rejections};

rule! {
    /// The operator rejects a stored spec, which stops it for all custom resources.
    ///
    /// # What it means
    ///
    /// The operator checks every stored custom resource in each reconcile. If one fails the check, the reconcile ends,
    /// and nothing is done for any other custom resource. A deployment policy in use has the same effect if it lacks
    /// the numbers from which its batches are calculated.
    ///
    /// # What causes it
    ///
    /// The custom resource was created or changed while the webhooks were off or not yet installed,
    /// or a newer operator validates more strictly. The webhooks also set defaults that a deployment policy
    /// leaves out.
    ///
    /// # How to confirm
    ///
    /// The evidence names the field and the rule that it violates; the operator's log shows the same.
    ///
    /// # How to fix
    ///
    /// Correct the field, or delete the custom resource.
    ///
    /// # Affected versions
    ///
    /// All operators.
    ///
    /// # Severity
    ///
    /// A policy that lacks only a `safetyLimit` is a warning until a batch has failed.
    SKY212 "spec-rejected-by-operator" Error needs Skyhooks, also Nodes Policies,
        blocks Install Uninstall Reconcile
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    for skyhook in &cluster.skyhooks {
        let broken: Vec<SpecError> = rejections(skyhook).collect();
        let Some(first) = broken.first() else {
            continue;
        };
        let (field, why) = (first.field(), &first.why);
        let finding = findings.report(
            Subject::skyhook(skyhook),
            format!(
                "the spec of {skyhook} is invalid, which stops the operator for all custom resources: {field} {why}"
            ),
        );
        for error in &broken {
            finding.evidence(skyhook, error.field(), &error.why);
        }
        finding
            .edit(Grade::B2, "Correct the spec", skyhook)
            .caveat("the operator then continues for every custom resource");
    }
    policies(cluster, findings);
}

/// Reports policies in use that lack the numbers for calculating batches, which ends the operator's reconcile.
fn policies(cluster: &Cluster, findings: &mut Findings) {
    let mut using: HashMap<&str, Vec<&Skyhook>> = HashMap::new();
    for skyhook in &cluster.skyhooks {
        if cluster.policy_not_read(skyhook) {
            findings.depends_on(Source::Policies);
        }
        if skyhook.is_active() {
            using.entry(&skyhook.spec.deployment_policy).or_default().push(skyhook);
        }
    }
    let model = findings.model();
    for policy in &cluster.policies {
        let name = &policy.metadata.name;
        let missing = missing_numbers(&policy.spec);
        let users = using.remove(name.as_str()).unwrap_or_default();
        let (Some(lacking), Some(user)) = (missing.first(), users.first()) else {
            continue;
        };
        // The operator reads `safetyLimit` only after a failed batch: a rollout without failures completes.
        let compartments = users.iter().flat_map(|s| s.status.compartment_statuses.values());
        let mut batches = compartments.filter_map(|c| c.batch_state.as_ref());
        let once_failed = missing.iter().all(|f| f.ends_with(".safetyLimit"))
            && !batches.any(|batch| batch.last_batch_failed || batch.failed_nodes > 0);
        let finding = findings.report(
            Subject::object("DeploymentPolicy", name),
            format!(
                "deployment policy {name} lacks {lacking}: the operator stops working on all custom resources {}",
                if once_failed {
                    "after the first failed batch"
                } else {
                    "as soon as it calculates a batch with this policy"
                }
            ),
        );
        if once_failed {
            finding.severity(Severity::Warning).blocks_only(&[]);
        }
        // Without unfinished nodes, the operator calculates no batch.
        finding.warning_if(
            cluster.nodes.ok().is_some() && users.iter().all(|s| model.unfinished(s).next().is_none()),
        );
        for field in &missing {
            finding.evidence(format!("deploymentpolicy/{name}"), field, "not set");
        }
        let resource = format!("deploymentpolicies.{}", cluster.flavor().group());
        finding
            .evidence(user, "spec.deploymentPolicy", name)
            .kubectl(Grade::B2, "Set the fields", ["edit", &resource, name])
            .caveat("the operator then continues for every custom resource");
    }
}

/// The missing numbers without which the operator cannot calculate a batch.
fn missing_numbers(spec: &DeploymentPolicySpec) -> Vec<String> {
    let default = ("spec.default.strategy".to_owned(), &spec.default.strategy);
    let compartments = spec.compartments.iter().map(|c| {
        let field = format!("spec.compartments[{}].strategy", c.name);
        (field, &c.strategy)
    });
    let mut missing = Vec::new();
    for (at, strategy) in std::iter::once(default).chain(compartments) {
        for (kind, numbers) in [
            ("fixed", &["initialBatch"][..]),
            ("linear", &["initialBatch", "delta", "safetyLimit"]),
            ("exponential", &["initialBatch", "growthFactor", "safetyLimit"]),
        ] {
            let Some(of) = strategy.as_ref().map(|s| &s[kind]).filter(|s| s.is_object()) else {
                continue;
            };
            let unset = numbers.iter().filter(|number| of[**number].is_null());
            missing.extend(unset.map(|number| format!("{at}.{kind}.{number}")));
        }
    }
    missing
}
