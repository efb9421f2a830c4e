use super::{Findings, Severity, Subject};
use crate::api::State;
use crate::cluster::history::History;
use crate::cluster::{Cluster, Source};

rule! {
    /// The version of a package was changed while it was being uninstalled.
    ///
    /// # What it means
    ///
    /// The spec has a new version with `uninstall.apply: true`. The old version is gone from the nodes, the
    /// new one is absent, and the operator treats that as a finished uninstall: the new version is never
    /// installed.
    ///
    /// # What causes it
    ///
    /// While the uninstall runs, someone upgrades the version. The webhook rejects only downgrades. If the
    /// operator sees the change before the uninstall has finished, it first upgrades and then uninstalls the
    /// new version; if it sees the change afterwards, the new version is never installed.
    ///
    /// # How to confirm
    ///
    /// No node state contains the version of the spec, `apply` is still true, and every trace of the
    /// package is from another version.
    ///
    /// # How to fix
    ///
    /// Set `uninstall.apply: false`: the new version is installed. Request the uninstall again
    /// afterwards if it was intended.
    ///
    /// # Affected versions
    ///
    /// Operators with explicit uninstall (v0.16.0).
    SKY104 "version-changed-while-uninstalling" Error needs Skyhooks Nodes, also Pods Jobs Events,
        blocks Install
}

/// Caveat of a cancellation.
const INSTALLED: &str = "the version in the spec is then installed on every selected node";

fn detect(cluster: &Cluster, findings: &mut Findings) {
    for (skyhook, name, history) in cluster.absent_packages() {
        if history.may_be_in_events(cluster) {
            findings.depends_on(Source::Events);
        }
        let History::OnlyOther(traces) = history else {
            continue;
        };
        let version = &skyhook.spec.packages[name].version;
        let old = &traces[0].version;
        let finding = findings.report(
            Subject::skyhook(skyhook).package(name),
            format!(
                "package {name} was changed from {old} to {version} while it was being \
                 uninstalled: {version} will not be installed"
            ),
        );
        finding
            .evidence(skyhook, format!("spec.packages.{name}"), format!("version {version}, apply: true"))
            .absent_from_node_states(name);
        for trace in traces.iter().take(3) {
            finding.evidence(&trace.object, trace.field, &trace.message);
        }
        finding.cancel_uninstall("Cancel the uninstall", skyhook, name).caveat(INSTALLED);
    }
    for skyhook in cluster.skyhooks.iter().filter(|s| !s.deleting()) {
        for (name, package) in skyhook.packages().filter(|(_, p)| skyhook.uninstalls(p)) {
            let old = cluster.selected(skyhook).find_map(|node| {
                let on = cluster.on_node(node, skyhook.name())?;
                let current = on.entry(&package.entry_key(name));
                let old = on
                    .entries()
                    .iter()
                    .filter(|e| e.version != package.version)
                    .find(|e| e.name == name && e.stage.is_uninstall())?;
                let begun = current.is_none_or(|e| e.state != State::Complete && !e.stage.is_uninstall());
                begun.then_some((node, old, current))
            });
            if let Some((node, old, current)) = old {
                let finding = findings.report(
                    Subject::skyhook(skyhook).package(name),
                    format!(
                        "package {name} was changed from {} to {} while being uninstalled: the new version {}",
                        old.version,
                        package.version,
                        match current {
                            Some(_) => "is installed first, and then uninstalled",
                            None =>
                                "will be installed and then uninstalled, or never installed, depending on when the operator sees the change",
                        }
                    ),
                );
                finding.severity(Severity::Warning).entry(&node.name, old);
                if let Some(current) = current {
                    finding.entry(&node.name, current);
                }
                finding.cancel_uninstall("Cancel the uninstall", skyhook, name).caveat(INSTALLED);
            }
        }
    }
}
