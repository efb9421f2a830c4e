//! Simulation of applied manifests.

use crate::api::{DeploymentPolicy, Skyhook};
use crate::cluster::applied::applied as applied_object;
use crate::cluster::{Certainty, Cluster, Read, config_map, decode_leniently};
use crate::lint::{Input, LintFinding, LintReport, Manifest};
use crate::rules::Severity;

/// The valid manifests of the active API.
struct Accepted<'i> {
    /// The resulting objects: manifests merged into the objects of the cluster.
    skyhooks: Vec<Skyhook>,
    policies: Vec<&'i DeploymentPolicy>,
}

impl<'i> Accepted<'i> {
    fn of(input: &'i Input<'_>, report: &LintReport) -> Accepted<'i> {
        // A capture without custom resources does not show the active API.
        let known = input.cluster.filter(|c| !c.from_files || !c.skyhooks.items().is_empty());
        let flavor = known.map(Cluster::flavor);
        let refused = |manifest: &Manifest| {
            let mut errors = report.open().filter(|f| f.severity == Severity::Error);
            let own = |f: &LintFinding| (&f.file, &f.subject.name) == (&manifest.file, &manifest.name);
            flavor.is_some() && manifest.flavor() != flavor || errors.any(own)
        };
        let skyhooks = input.skyhooks().filter(|(manifest, _)| !refused(manifest));
        let policies = input.policies().filter(|(manifest, _)| !refused(manifest));
        Accepted {
            skyhooks: skyhooks.map(|(manifest, skyhook)| merged(input, manifest, skyhook)).collect(),
            policies: policies.map(|(_, policy)| policy).collect(),
        }
    }
}

/// A manifest merged into the live object, if there is one.
fn merged(input: &Input<'_>, manifest: &Manifest, skyhook: &Skyhook) -> Skyhook {
    let object = input.live(manifest).map(|live| applied_object(live, &manifest.value));
    let decoded = object.and_then(|object| decode_leniently(object).ok());
    decoded.unwrap_or_else(|| skyhook.clone())
}

/// The cluster after the manifests are applied, and the affected custom resources: they are in the manifests,
/// or use a policy in the manifests. `None` without a cluster, or if its package runs were not read.
pub fn applied(input: &Input<'_>, report: &LintReport) -> Option<(Cluster, Vec<String>)> {
    let cluster = input.cluster?;
    if cluster.certainty_of_no_package_run() == Certainty::Unknown {
        return None;
    }
    let accepted = Accepted::of(input, report);
    let own = accepted.skyhooks.iter();
    let own: Vec<String> = own.map(|skyhook| skyhook.name().to_owned()).collect();
    let policies = accepted.policies.iter().map(|p| p.metadata.name.as_str());
    let policies: Vec<&str> = policies.collect();
    let mut applied =
        cluster.with_applied(accepted.skyhooks, accepted.policies.iter().copied().cloned().collect());
    if applied.config_maps.ok().is_none() {
        // Assume that the operator has created the ConfigMaps of the live spec.
        let of_packages = cluster.skyhooks.items().iter().flat_map(|skyhook| {
            let packages = skyhook.packages().filter(|(_, package)| !package.config_map.is_empty());
            packages.map(|(name, package)| config_map::of_package(cluster.flavor(), skyhook, name, package))
        });
        applied.config_maps = Read::Ok(of_packages.collect());
    }
    let concerned = applied.skyhooks.items().iter().filter(|skyhook| {
        let policy = skyhook.spec.deployment_policy.as_str();
        own.iter().any(|name| name == skyhook.name()) || policies.contains(&policy)
    });
    let concerned = concerned.map(|skyhook| skyhook.name().to_owned()).collect();
    Some((applied, concerned))
}
