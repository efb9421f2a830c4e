use super::{Findings, Grade, Subject};
use crate::cluster::Cluster;

rule! {
    /// An uninstall is requested, but the operator does not support uninstalls.
    ///
    /// # What it means
    ///
    /// The operator is older than explicit uninstall. It ignores `uninstall.apply: true`:
    /// the package is installed where it is missing, and stays installed where it is present.
    ///
    /// # What causes it
    ///
    /// The operator was rolled back while the request was in the spec.
    ///
    /// # How to confirm
    ///
    /// The operator's version is below v0.16.0, and a package has `uninstall.apply: true`. A build with version v0.15
    /// may support uninstall anyway: it does if the condition `Ready` is as recent as the spec, or if the nodes show
    /// an uninstall.
    ///
    /// # How to fix
    ///
    /// Upgrade the operator again. Or cancel the request; removing the package from the spec makes
    /// these operators uninstall it.
    ///
    /// # Affected versions
    ///
    /// Operators before v0.16.0.
    SKY607 "uninstall-unknown-to-operator" Error needs Skyhooks, also Operator,
        blocks Uninstall
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    if cluster.operator().knows_uninstall() {
        return;
    }
    for skyhook in &cluster.skyhooks {
        let requested = skyhook.packages().filter(|(_, p)| p.uninstall().apply);
        for (name, _) in requested {
            let finding = findings.report(
                Subject::skyhook(skyhook).package(name),
                format!("the uninstall of package {name} is requested, but this operator does not support uninstall"),
            );
            finding
                .warning_if(skyhook.status.status.is_none())
                .operator_version(cluster)
                .package_field(skyhook, name, "uninstall.apply", "true")
                .edit(Grade::B2, "Set uninstall.apply to false, or upgrade the operator", skyhook)
                .caveat("this operator uninstalls packages that are removed from the spec");
        }
    }
}
