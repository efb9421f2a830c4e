use super::{Input, LintFindings};
use crate::view::list;

lint_rule! {
    /// A manifest contains fields of an object that was exported from a cluster.
    ///
    /// # What it means
    ///
    /// With `uid` or an old `resourceVersion` the API server rejects changes: `Operation cannot be fulfilled`. `status`
    /// is ignored.
    ///
    /// # How to fix
    ///
    /// Remove the fields.
    SKY879 "exported-fields" Warning
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    const FIELDS: [[&str; 2]; 2] = [["metadata", "resourceVersion"], ["metadata", "uid"]];
    for manifest in input.manifests() {
        let found: Vec<_> = FIELDS.iter().filter(|field| manifest.has(field.as_slice())).collect();
        if let Some(first) = found.first() {
            let names: Vec<&str> = found.iter().map(|field| field[1]).collect();
            let message = format!(
                "{} of an exported object: the API server rejects changes of newer objects",
                list(&names)
            );
            findings
                .report(manifest, first.as_slice(), message)
                .fix("Remove uid, resourceVersion and status");
        }
    }
}
