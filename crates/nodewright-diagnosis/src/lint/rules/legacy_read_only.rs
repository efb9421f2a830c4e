use super::{Input, LintFindings};
use crate::api::ApiFlavor;
use crate::plan::step::is_as_made;

lint_rule! {
    /// The spec of a `Skyhook` changes although the operator only accepts changes of `NodeWright` objects.
    ///
    /// # What it means
    ///
    /// Operators from v0.18 on reject changes to the spec of existing objects of the older API. Checked with a cluster or
    /// capture only.
    ///
    /// # How to fix
    ///
    /// Change `apiVersion` and `kind` of the manifest to the newer API.
    SKY827 "legacy-read-only" Error
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    if input.operator_at_least(0, 18) != Some(true) {
        return;
    }
    for (manifest, _) in input.skyhooks().filter(|(m, _)| m.flavor() == Some(ApiFlavor::Skyhook)) {
        let Some(live) = input.live(manifest) else {
            continue;
        };
        // Defaults and fields of other owners are only in the live object.
        let wanted = &manifest.value["spec"];
        if !is_as_made(&live.whole["spec"], wanted) {
            let newer = ApiFlavor::NodeWright;
            findings
                .report(
                    manifest,
                    &["spec"],
                    "the operator rejects changes to the spec of objects of the older API",
                )
                .fix(format!("Write apiVersion: {} and kind: {}", newer.api_version(), newer.kind()));
        }
    }
}
