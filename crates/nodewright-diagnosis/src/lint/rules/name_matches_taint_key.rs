use super::{Input, LintFindings};
use crate::rules::names_taken_by;

lint_rule! {
    /// The name of a custom resource is the key of the runtime-required taint, or the end of that key.
    ///
    /// # What it means
    ///
    /// The operator records tainted nodes in the annotation `autoTaint_KEY`. On deletion of a custom resource
    /// it removes all annotations that end with `_NAME`, this record included: the nodes may then count as
    /// new and be tainted again.
    ///
    /// # How to fix
    ///
    /// Use another name.
    SKY851 "name-matches-taint-key" Warning
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, skyhook) in input.skyhooks() {
        let keys = match (input.cluster, manifest.flavor()) {
            (Some(cluster), _) => {
                cluster.runtime_required().taints().into_iter().map(|(key, _)| key).collect()
            }
            (None, Some(flavor)) => vec![flavor.taint_key().to_owned()],
            (None, None) => Vec::new(),
        };
        let key = keys.iter().find(|key| names_taken_by(key).any(|name| name == skyhook.name()));
        let Some(key) = key else {
            continue;
        };
        let name = skyhook.name();
        let how = if key == name { "is the name".to_owned() } else { format!("ends with _{name}") };
        let message = format!(
            "the key of the runtime-required taint {key} {how}: deleting the object also deletes the record of tainted nodes"
        );
        findings.report(manifest, &["metadata", "name"], message).fix("Use another name");
    }
}
