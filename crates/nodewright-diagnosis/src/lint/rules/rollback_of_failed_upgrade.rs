use super::{Input, LintFindings};
use crate::rules::upgrade_abandoned::abandoned;
use crate::text::NodeSet;

lint_rule! {
    /// A version is lowered again while its upgrade is unfinished on a node.
    ///
    /// # What it means
    ///
    /// The node still records the older version as complete, so the operator stops the upgrade and runs nothing there, and
    /// the host may keep parts of both versions. Checked with a cluster or capture only.
    ///
    /// # How to fix
    ///
    /// After the change, reset the package on these nodes: the version of the spec is then installed again.
    SKY888 "rollback-of-failed-upgrade" Warning
}

/// Maximum number of node-name ranges in a message.
const SHOWN: usize = 4;

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    let Some(cluster) = input.cluster else {
        return;
    };
    for (manifest, skyhook) in input.skyhooks() {
        let Some(live) = input.live(manifest) else {
            continue;
        };
        for (name, package) in skyhook.packages() {
            if live.package(name).is_none_or(|live| live.version == package.version) {
                continue;
            }
            let left = abandoned(cluster, skyhook).filter(|(_, entry)| *entry.name == *name);
            let nodes = NodeSet::of(left.map(|(node, _)| &*node.name));
            if nodes.is_empty() {
                continue;
            }
            let (version, nodes) = (&package.version, nodes.limited(SHOWN));
            let message = format!(
                "the upgrade is unfinished on {nodes}: with {version} in the spec, nothing runs there, and the host may keep \
                 parts of both versions"
            );
            findings.report(manifest, &["spec", "packages", name, "version"], message).fix(format!(
                "After the change: `kubectl skyhook reset {} --node '{nodes}' --package {name}`",
                live.name()
            ));
        }
    }
}
