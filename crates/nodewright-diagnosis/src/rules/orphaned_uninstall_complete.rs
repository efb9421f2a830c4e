use super::{Findings, Subject};
use crate::api::{Stage, State};
use crate::cluster::{Certainty, Cluster};

rule! {
    /// A node still records a finished uninstall of a deleted custom resource.
    ///
    /// # What it means
    ///
    /// The node state has an entry `uninstall/complete`, which the operator normally removes at once. If a
    /// custom resource of that name is created again, the operator takes the entry for a finished stage and
    /// runs one unwanted installation before it uninstalls.
    ///
    /// # What causes it
    ///
    /// The finalizer was stripped while an uninstall pod ran. When the pod ended there was no
    /// custom resource to look up, and the operator recorded only the outcome.
    ///
    /// # How to confirm
    ///
    /// The entry is at `uninstall` and `complete`.
    ///
    /// # How to fix
    ///
    /// Reset the package on the node before creating the custom resource again. If it has already been
    /// created again, this resolves itself after the unwanted installation.
    ///
    /// # Affected versions
    ///
    /// Operators with explicit uninstall (v0.16.0).
    SKY107 "orphaned-uninstall-complete" Warning needs Skyhooks Nodes
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    if cluster.skyhooks_absence() == Certainty::Unknown {
        return;
    }
    let presumed = cluster.skyhooks_absence() == Certainty::Presumed;
    for name in cluster.names_on_nodes() {
        let owner = match cluster.skyhook(name) {
            Some(_) => format!("a previous {name}"),
            None if presumed => format!("{name}, which is not in the capture"),
            None => format!("{name}, which is gone"),
        };
        for (node, on) in cluster.tracked(name) {
            for entry in
                on.entries().iter().filter(|e| e.stage == Stage::Uninstall && e.state == State::Complete)
            {
                let finding = findings.report(
                    Subject::node(&node.name, Some(name)).package(&entry.name),
                    format!(
                        "the uninstall of package {} is recorded as finished for {owner}: for a new {name}, the operator \
                         installs the package once, even if its uninstall is requested",
                        entry.name
                    ),
                );
                finding.entry(&node.name, entry);
                if presumed {
                    finding.not_in_input(cluster, name);
                }
                finding.reset_record(name, &node.name, entry).caveat(
                    "this command removes only the record of the package, which is already uninstalled",
                );
            }
        }
    }
}
