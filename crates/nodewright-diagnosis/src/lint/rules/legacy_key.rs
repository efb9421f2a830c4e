use super::{Input, LintFindings};
use crate::api::ApiFlavor;
use crate::lint::schema::legacy_keys;

lint_rule! {
    /// An object of the newer API contains a key of the older API.
    ///
    /// # What it means
    ///
    /// Operators since v0.18 set and read keys of the newer API. Up to v0.20 they also know the older taint
    /// key and leave the older labels on nodes for a while; v0.21 is announced to drop both. A selector for
    /// an older label then selects no node, and a toleration of the older taint has no effect.
    ///
    /// # How to fix
    ///
    /// Write the key with the newer prefix. Before you change a selector, label the nodes accordingly: the
    /// operator stops managing nodes that are no longer selected.
    SKY870 "legacy-key" Warning
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    let newer = ApiFlavor::NodeWright;
    for manifest in input.manifests().filter(|m| m.flavor() == Some(newer)) {
        for path in legacy_keys(&manifest.value) {
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            // Another rule reports the pause and disable annotations, which have no effect.
            if let ["metadata", "annotations", key] = path[..]
                && (key.ends_with("/pause") || key.ends_with("/disable"))
            {
                continue;
            }
            let message = format!(
                "the key belongs to the older API group {}, whose removal is announced for v0.21",
                newer.other().group()
            );
            findings
                .report(manifest, &path, message)
                .fix(format!("Write it with the prefix {}", newer.group()));
        }
    }
}
