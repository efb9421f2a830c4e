use super::{Input, LintFindings};
use crate::api::ApiFlavor;

lint_rule! {
    /// An object belongs to the older API, but the operator uses the newer API.
    ///
    /// # What it means
    ///
    /// Operators since v0.18 work on `NodeWright` objects. They migrate `Skyhook` objects once and reject later changes
    /// to them; v0.21 is announced to remove the API.
    ///
    /// # How to fix
    ///
    /// Change `apiVersion` and `kind`, and the prefix of the annotations `pause` and `disable`.
    SKY861 "legacy-api" Warning
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    let newer = ApiFlavor::NodeWright;
    // Without custom resources, the API of a capture is a guess.
    let newer_objects = input
        .cluster
        .is_some_and(|cluster| cluster.flavor() == newer && !cluster.skyhooks.items().is_empty());
    // Of later operators, the rule about unknown kinds reports the object.
    let served = input.operator_at_least(0, 21) != Some(true);
    if !served || !input.operator_at_least(0, 18).unwrap_or(newer_objects) {
        return;
    }
    for manifest in input.manifests().filter(|m| m.flavor() == Some(newer.other())) {
        let kind = if manifest.kind == "DeploymentPolicy" { "DeploymentPolicy" } else { newer.kind() };
        let message = format!(
            "{} is the older API: operators since v0.18 work on {} objects",
            manifest.api_version,
            newer.group()
        );
        findings
            .report(manifest, &["apiVersion"], message)
            .fix(format!("Write apiVersion: {} and kind: {kind}", newer.api_version()));
    }
}
