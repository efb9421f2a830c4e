use super::support::evidence::some_of;
use super::{Blocks, Findings, Grade, Severity, Subject};
use crate::api::Skyhook;
use crate::cluster::{Certainty, Cluster, Read};

rule! {
    /// The CRD of the operator is being deleted, and its deletion does not end.
    ///
    /// # What it means
    ///
    /// A deleted CRD takes all its custom resources with it, and waits until they are gone. Each of them
    /// waits until the operator removes its finalizer. If the operator was removed first, nothing removes the
    /// finalizer.
    ///
    /// # What causes it
    ///
    /// `kubectl delete crd`, or a deletion of the chart with its CRDs, after the operator was uninstalled or while its
    /// packages still have to be uninstalled.
    ///
    /// # How to confirm
    ///
    /// The CRD has a `deletionTimestamp`, the condition `Terminating` is true, and custom resources exist
    /// with the operator's finalizer. Captures show this if they contain the CRDs, as those of `collect` do.
    ///
    /// # How to fix
    ///
    /// Strip the finalizers of the custom resources; then the CRD is deleted. An operator cannot be installed before
    /// that: its CRD would be deleted, too.
    ///
    /// # Affected versions
    ///
    /// All operators.
    SKY515 "crd-being-deleted" Error needs Skyhooks, also Operator Restrictions,
        blocks Deletion Reconcile
}

/// The blocked operations while an operator runs.
const OF_DELETION: &[Blocks] = &[Blocks::Deletion];

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let Some(definition) = cluster.deleted_definition() else {
        if let Read::Unreadable(why) = &cluster.installation.definitions {
            findings.undetermined(format!("CRDs cannot be read: {why}"));
        }
        return;
    };
    let (name, since) = (&definition.metadata.name, definition.metadata.deletion_timestamp);
    let held: Vec<&Skyhook> = cluster.skyhooks.iter().filter(|s| s.has_finalizer()).collect();
    let names: Vec<&str> = held.iter().map(|skyhook| skyhook.name()).collect();
    let gone = cluster.operator().is_absent();
    let why = match (held.is_empty(), gone) {
        (true, _) => String::new(),
        (false, true) => {
            format!(", and waits for {}: no operator is running to remove the finalizer", some_of(&names))
        }
        (false, false) => {
            format!(", and waits until the operator has removed the finalizer of {}", some_of(&names))
        }
    };
    let finding = findings.report(
        Subject::object("CustomResourceDefinition", name),
        format!("CRD {name} is being deleted, with all its custom resources{why}"),
    );
    finding.since(since).evidence(format!("crd/{name}"), "deletionTimestamp", since.unwrap_or_default());
    if gone {
        finding.evidence("deployments", "running the operator", "none");
    } else {
        // An operator at work may still end the deletion.
        finding.blocks_only(OF_DELETION);
        finding.warning_if(!cluster.is_stale(since) || cluster.operators.absence() == Certainty::Unknown);
    }
    for skyhook in &held {
        finding.finalizers(skyhook, &skyhook.metadata);
    }
    finding.kubectl(Grade::B0, "See what the deletion of the CRD waits for", ["describe", "crd", name]);
    for skyhook in held.iter().filter(|_| gone) {
        finding
            .remedy("Strip the finalizer; the CRD is then deleted", ["finalizer", "strip", skyhook.name()])
            .caveat("uninstall.sh does not run on any node; afterwards run `kubectl skyhook leftovers`");
    }
    if held.is_empty() {
        finding.severity(Severity::Warning);
    }
}
