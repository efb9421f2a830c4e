use super::{Input, LintFindings};
use crate::api::Skyhook;
use crate::cluster::Node;
use crate::rules::STATUS_LIMIT;
use crate::text::plural;

lint_rule! {
    /// The status of the custom resource will be too large for etcd at this number of nodes.
    ///
    /// # What it means
    ///
    /// The status repeats the state of every package on every node. Above 1.5 MiB, etcd's default limit, the operator
    /// cannot write it, and its reconcile ends with that error. The size is an estimate, reported from 80% of the
    /// limit.
    ///
    /// # How to fix
    ///
    /// Split the custom resource by packages or nodes.
    SKY867 "status-will-outgrow" Warning
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, skyhook) in input.skyhooks() {
        let nodes = input.selected(skyhook).unwrap_or_default();
        let size: usize = nodes.iter().map(|node| size_of(skyhook, node)).sum();
        if size < STATUS_LIMIT / 5 * 4 {
            continue;
        }
        let message = format!(
            "the status of {} on {} will be about {}% of etcd's default object size limit (1.5 MiB)",
            plural(skyhook.spec.packages.len(), "package"),
            plural(nodes.len(), "node"),
            size * 100 / STATUS_LIMIT
        );
        findings
            .report(manifest, &["spec", "packages"], message)
            .fix("Split the custom resource by packages or nodes");
    }
}

/// Number of bytes that a node takes in the status: its packages, status and boot ID.
fn size_of(skyhook: &Skyhook, node: &Node) -> usize {
    const ENTRY: &str =
        r#""|":{"name":"","version":"","image":"","stage":"post-interrupt","state":"in_progress"},"#;
    const SHA: &str = r#","containerSHA":"""#;
    const NODE: &str = r#""":{},"":"in_progress","":"01234567-89ab-cdef-0123-456789abcdef","#;
    let packages = skyhook.packages().map(|(name, package)| {
        let sha = package.whole["containerSHA"].as_str().map_or(0, |sha| SHA.len() + sha.len());
        ENTRY.len() + 2 * (name.len() + package.version.len()) + package.image.len() + sha
    });
    NODE.len() + 3 * node.name.len() + packages.sum::<usize>()
}
