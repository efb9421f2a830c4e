use super::{Findings, Severity, Subject};
use crate::api::{Entry, Stage, State};
use crate::cluster::{Certainty, Cluster};

rule! {
    /// A node has annotations or labels of a custom resource that no longer exists.
    ///
    /// # What it means
    ///
    /// Annotations or labels of the operator name a custom resource that does not exist. They are
    /// no longer maintained, and a new custom resource of the same name would treat them as its own.
    /// A node with any such annotation or label no longer counts as new, so it is not tainted automatically.
    ///
    /// # What causes it
    ///
    /// The finalizer was stripped by hand; or the node had left the selection before the deletion;
    /// or the operator is older than v0.16.0, whose finalizer removes no keys. Where packages were
    /// not uninstalled, newer operators leave node state and version on purpose, as a marker that
    /// their files are still on the host: this is only informational.
    ///
    /// # How to confirm
    ///
    /// Keys such as `status_NAME` or `nodeState_NAME` on the node, and no custom resource NAME. The
    /// node conditions of a deleted custom resource always stay and do not count.
    ///
    /// # How to fix
    ///
    /// Review the leftovers, then clean them up.
    ///
    /// # Affected versions
    ///
    /// All operators.
    ///
    /// # Severity
    ///
    /// Info if the capture has no custom resources at all and no other problem is found. If the capture has
    /// some custom resources but no list of only that kind, it may not have all of them: then records without
    /// a cordon or a running stage are not reported.
    SKY701 "leftovers-of-deleted-skyhook" Warning needs Skyhooks Nodes, also Pods Jobs
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let absence = cluster.skyhooks_absence();
    if absence == Certainty::Unknown {
        return;
    }
    let package_runs = findings.package_runs();
    for name in cluster.names_on_nodes() {
        if cluster.skyhook(name).is_some() {
            continue;
        }
        // An input without custom resources may just omit them: only a cordon or a running pod justifies more
        // than a hint.
        let cordons = cluster.tracked(name).any(|(node, on)| on.cordon && node.cordoned() == Some(true));
        let runs = package_runs.any_alive(name);
        let odd = absence != Certainty::Presumed || cordons || runs;
        if !odd && !cluster.skyhooks.items().is_empty() {
            findings.undetermined(format!(
                "nodes have annotations or labels of {name}, which may just be missing from the capture"
            ));
            continue;
        }
        for (node, on) in cluster.tracked(name).filter(|(_, on)| on.has_keys()) {
            // The rule orphaned-uninstall-complete reports this case.
            let orphaned = |e: &Entry| e.stage == Stage::Uninstall && e.state == State::Complete;
            if !odd && on.entries().iter().any(orphaned) {
                continue;
            }
            let marker = on.is_marker();
            let finding = findings.report(
                Subject::node(&node.name, Some(name)),
                match (absence, marker) {
                    (Certainty::Presumed, _) => {
                        format!("the node has annotations or labels of {name}, which is not in the capture")
                    }
                    (_, true) => format!(
                        "the node has package records of {name}, which no longer exists: package files may still be on the host"
                    ),
                    (_, false) => {
                        format!("the node has annotations or labels of {name}, which no longer exists; nothing will remove them")
                    }
                },
            );
            if marker || !odd {
                finding.severity(Severity::Info);
            }
            finding.evidence(node, "keys", on.remaining_keys().join(", "));
            for entry in on.entries() {
                finding.entry(&node.name, entry);
            }
            if absence == Certainty::Presumed {
                finding.not_in_input(cluster, name);
            }
            finding.remove_leftovers(marker);
        }
    }
}
