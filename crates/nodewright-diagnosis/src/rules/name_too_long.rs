use super::{Findings, Grade, Subject};
use crate::cluster::Cluster;
use crate::model::spec_errors::{SpecErrorKind, spec_errors};

rule! {
    /// The name of a custom resource is too long for its keys on nodes.
    ///
    /// # What it means
    ///
    /// The operator keeps its record in node annotations whose keys end in the name, and a key has at most 63
    /// characters. The API server rejects the operator's writes to nodes, its reconcile ends there, and custom
    /// resources that come later wait as well.
    ///
    /// # What causes it
    ///
    /// Nothing checks the length of the name when the custom resource is created.
    ///
    /// # How to confirm
    ///
    /// The name has more than 53 characters; with 54 to 56 it fails after the first pod, beyond that
    /// at once.
    ///
    /// # How to fix
    ///
    /// Create the custom resource again with a shorter name, and delete this one.
    ///
    /// # Affected versions
    ///
    /// All operators.
    SKY502 "name-too-long" Error needs Skyhooks,
        blocks Reconcile
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    for skyhook in &cluster.skyhooks {
        let errors = spec_errors(skyhook);
        let Some(error) = errors.iter().find(|error| error.kind == SpecErrorKind::ObjectName) else {
            continue;
        };
        findings
            .report(
                Subject::skyhook(skyhook),
                format!(
                    "the {}: the operator cannot record progress, and every reconcile ends with this error",
                    error.message()
                ),
            )
            .since(skyhook.metadata.creation_timestamp)
            .evidence(skyhook, "metadata.name", format!("{} characters", skyhook.name().len()))
            .show_manifest("Save the manifest to recreate the custom resource under a shorter name", skyhook)
            .kubectl(
                Grade::B3,
                "Then delete the custom resource",
                ["delete", &cluster.flavor().resource(), skyhook.name()],
            )
            .caveat("packages with uninstall enabled are uninstalled");
    }
}
