use super::{Input, LintFindings};
use crate::rules::Severity;

lint_rule! {
    /// A manifest contains `resourceVersion` or `uid` of an object that was exported from a cluster.
    ///
    /// # What it means
    ///
    /// The API server refuses to create an object with a `resourceVersion`, and to change one with an old
    /// `resourceVersion` or another `uid`: `Operation cannot be fulfilled`. `status` is ignored.
    ///
    /// # How to fix
    ///
    /// Remove the fields.
    ///
    /// # Severity
    ///
    /// A warning for a `uid` alone: without the object in the cluster, it has no effect.
    SKY828 "exported-fields" Error
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for manifest in input.manifests().filter(|manifest| manifest.is_known_kind()) {
        let live = input.live(manifest);
        let differs = |field: &str| {
            let given = manifest.value["metadata"][field].as_str().unwrap_or_default();
            !given.is_empty() && live.is_none_or(|live| live.whole["metadata"][field] != given)
        };
        let fields = [("resourceVersion", Severity::Error), ("uid", Severity::Warning)];
        let Some((field, severity)) = fields.into_iter().find(|(field, _)| differs(field)) else {
            continue;
        };
        let message = format!(
            "{field} comes from an exported object; the API server compares it with the value in the cluster"
        );
        findings
            .report(manifest, &["metadata", field], message)
            .severity(severity)
            .fix("Remove resourceVersion, uid and status");
    }
}
