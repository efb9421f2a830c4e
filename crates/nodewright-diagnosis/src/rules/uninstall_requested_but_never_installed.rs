use super::{Findings, Severity, Subject};
use crate::cluster::history::History;
use crate::cluster::{Cluster, Source};

rule! {
    /// The uninstall of a package was requested, but the package was never installed.
    ///
    /// # What it means
    ///
    /// The spec has `uninstall.apply: true` for a package that is in no node state. The operator treats
    /// "absent" as "uninstalled", so it neither installs nor uninstalls the package, and reports the custom
    /// resource as complete. Nothing reports the reason.
    ///
    /// # What causes it
    ///
    /// A manifest from another cluster, where the package was being uninstalled, is applied here
    /// with `apply: true` still in it; or a package is added to a spec with `apply: true`.
    ///
    /// # How to confirm
    ///
    /// A finished uninstall looks the same on the nodes. Only the history can distinguish the two cases: the
    /// generation of the custom resource, the manifest that was applied, events, and leftover pods or Jobs.
    /// If these have expired, the rule reports this at info level.
    ///
    /// # How to fix
    ///
    /// If you want the package, set `uninstall.apply: false`: the operator installs it. If
    /// not, remove it from the spec.
    ///
    /// # Affected versions
    ///
    /// Operators with explicit uninstall (v0.16.0).
    SKY103 "uninstall-requested-but-never-installed" Error needs Skyhooks Nodes, also Pods Jobs Events,
        blocks Install
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    for (skyhook, name, history) in cluster.absent_packages() {
        if history.may_be_in_events(cluster) {
            findings.depends_on(Source::Events);
        }
        let (why, sure) = match history {
            History::Never(why) => (why, true),
            History::Unknown(why) => (why, false),
            History::Present(_) | History::OnlyOther(_) => continue,
        };
        let message = if sure {
            format!("the uninstall of package {name} is requested, but the package was never installed")
        } else {
            format!(
                "the uninstall of package {name} is requested, but no node has the package: either the \
                 uninstall has finished, or this version was never installed and will not be while the \
                 request exists"
            )
        };
        let finding = findings.report(Subject::skyhook(skyhook).package(name), message);
        if !sure {
            finding.severity(Severity::Info);
        }
        finding
            .package_field(skyhook, name, "uninstall", "enabled: true, apply: true")
            .absent_from_node_states(name)
            .evidence(skyhook, "history", why)
            .cancel_uninstall("If the package is needed, cancel the request", skyhook, name)
            .caveat("the package is then installed on every selected node");
    }
}
