use super::{Findings, Subject};
use crate::api::keys::go_version;
use crate::api::{Entry, Skyhook, Stage, State};
use crate::cluster::{Cluster, Node, Phase};

rule! {
    /// A package counts as complete at an older version, although an upgrade of it stopped midway.
    ///
    /// # What it means
    ///
    /// The node records the older version as complete and a newer one at stage `upgrade`, not complete. The
    /// operator counts the package as complete and runs nothing, so the host may be in a state between the
    /// two versions.
    ///
    /// # What causes it
    ///
    /// The version in the spec was lowered again while the upgrade ran or failed. The record of the older
    /// version is removed only once an upgrade succeeds; until then it still counts.
    ///
    /// # How to confirm
    ///
    /// The node state has two versions of the package: that of the spec is complete, and the newer one is at
    /// `upgrade` and `in_progress` or `erroring`. No pod or Job runs for it.
    ///
    /// # How to fix
    ///
    /// Reset the package on the node: both records are removed, and the version of the spec is installed
    /// again. If the host is known to be unchanged, reset only the newer version: this removes only its
    /// record.
    ///
    /// # Affected versions
    ///
    /// Operators v0.16.0 and later; older ones uninstall the newer version.
    SKY227 "upgrade-abandoned" Warning needs Skyhooks Nodes Pods Jobs
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let package_runs = findings.package_runs();
    for skyhook in cluster.skyhooks.iter().filter(|s| !s.deleting()) {
        for (node, entry) in abandoned(cluster, skyhook) {
            // Skip a package with a running pod: the operator is about to remove the pod, or it has just succeeded.
            let mut here = package_runs.of_skyhook_on(skyhook.name(), &node.name);
            if here.any(|run| run.alive() && run.package == *entry.name) {
                continue;
            }
            let (name, version) = entry.identity();
            let older = skyhook.package(name).map_or("", |p| &p.version);
            let finding = findings.report(
                Subject::skyhook_on_node(skyhook, node).package(name),
                format!(
                    "package {name} counts as complete at {older}, but its upgrade to {version} stopped midway: the \
                     host may have parts of both versions"
                ),
            );
            finding.entry(&node.name, entry).package_field(skyhook, name, "version", older);
            finding.remedy(
                format!("Install {older} again"),
                ["reset", skyhook.name(), "--node", &node.name, "--package", name],
            );
            finding.reset_record(skyhook.name(), &node.name, entry).by_choice().caveat(
                "this command removes only the record; run it only if the upgrade changed nothing on the host",
            );
        }
    }
}

/// The records of unfinished upgrades that the operator abandons with this spec, by node. The operator
/// removes pods that still run such an upgrade.
pub fn abandoned<'a>(
    cluster: &'a Cluster,
    skyhook: &'a Skyhook,
) -> impl Iterator<Item = (&'a Node, &'a Entry)> {
    let is_abandoned = move |node: &'a Node, entry: &Entry| {
        if !is_unfinished_upgrade(skyhook, entry) {
            return false;
        }
        let placement = cluster.placement(skyhook, entry.identity().0, node);
        placement.selected && placement.phase == Phase::Complete
    };
    cluster.tracked(skyhook.name()).flat_map(move |(node, on)| {
        on.entries().iter().filter(move |entry| is_abandoned(node, entry)).map(move |entry| (node, entry))
    })
}

/// Whether an upgrade to a version above the spec's version has begun and has not succeeded.
fn is_unfinished_upgrade(skyhook: &Skyhook, entry: &Entry) -> bool {
    if entry.stage != Stage::Upgrade || entry.state == State::Complete {
        return false;
    }
    let (name, version) = entry.identity();
    let Some(package) = skyhook.package(name) else {
        return false;
    };
    let wanted = go_version(&package.version);
    !skyhook.uninstalls(package)
        && wanted.is_some_and(|wanted| go_version(version).is_some_and(|recorded| recorded > wanted))
}
