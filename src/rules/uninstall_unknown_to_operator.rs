use super::{Findings, Grade, Severity, Subject};
use crate::api::{Skyhook, Version};
use crate::cluster::Cluster;

rule! {
    /// An uninstall is requested of an operator that knows none.
    ///
    /// # What it means
    ///
    /// The operator is older than explicit uninstall. It takes no notice of `uninstall.apply: true`:
    /// the package counts as wanted, is installed where it is missing, and stays where it is.
    ///
    /// # How it comes about
    ///
    /// The operator was rolled back while the request was in the spec.
    ///
    /// # How to confirm
    ///
    /// The operator's version is below v0.16.0, the condition `Ready` is missing or older than the spec, or a newer
    /// operator made its mark on the custom resource, and a package has `uninstall.apply: true`.
    ///
    /// # How to fix
    ///
    /// Upgrade the operator again. Or withdraw the request; taking the package out of the spec makes
    /// these operators uninstall it.
    ///
    /// # Since
    ///
    /// Operators before v0.16.0.
    SKY607 "uninstall-unknown-to-operator" Error needs Skyhooks, also Operator,
        blocks Uninstall
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    if !cluster.operator_before(0, 16) {
        return;
    }
    // Builds shortly before v0.16.0 may have it: the condition came with it, and is kept up to date there. One that a
    // newer operator left is not.
    let knows = |s: &Skyhook| {
        let ready = s.condition("Ready").and_then(|c| c.observed_generation);
        let version = s.generation().map(|g| g.key("version"));
        let version = version.and_then(|key| s.metadata.annotations.get(&key));
        let newer = version.and_then(|v| Version::parse(v));
        ready.is_some_and(|seen| seen >= s.metadata.generation)
            && !newer.is_some_and(|v| v.at_least(0, 16))
    };
    if !cluster.operator_before(0, 15) && cluster.skyhooks.items().iter().any(knows) {
        return;
    }
    for skyhook in cluster.skyhooks.items() {
        let requested = skyhook.packages().filter(|(_, p)| p.uninstall().apply);
        for (name, _) in requested {
            let finding = findings.report(
                Subject::skyhook(skyhook).package(name),
                format!("the uninstall of package {name} is requested, and this operator knows no uninstall"),
            );
            if skyhook.status.status.is_none() {
                finding.severity(Severity::Warning);
            }
            if let Some(version) = &cluster.ruling.operator_version {
                finding.evidence("operator", "version", version.to_string());
            }
            finding
                .evidence(
                    skyhook.reference(),
                    format!("spec.packages.{name}.uninstall.apply"),
                    "true",
                )
                .kubectl(
                    Grade::B2,
                    "Upgrade the operator, or edit the request",
                    ["edit", &cluster.generation().resource(), skyhook.name()],
                )
                .caveat("a package that leaves the spec is uninstalled by this operator");
        }
    }
}
