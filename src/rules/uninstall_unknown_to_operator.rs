use super::{Findings, Grade, Severity, Subject};
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
    /// The operator's version is below v0.16.0, and a package has `uninstall.apply: true`. A build that calls itself v0.15
    /// may know uninstall anyway: it does where the condition `Ready` is as new as the spec, or where the nodes show
    /// an uninstall.
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
    if cluster.knows_uninstall() {
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
            if let Some(version) = &cluster.active_api.operator_version {
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
                    "Set uninstall.apply to false, or upgrade the operator",
                    ["edit", &cluster.flavor().resource(), skyhook.name()],
                )
                .caveat("a package that leaves the spec is uninstalled by this operator");
        }
    }
}
