use super::{Input, LintFindings};
use crate::lint::Existence;

lint_rule! {
    /// A package takes a variable from a Secret, a ConfigMap or a key that does not exist.
    ///
    /// # What it means
    ///
    /// The pods of the package wait with `CreateContainerConfigError`, which the operator does not report.
    /// The object must be in the namespace of the operator. Checked against a cluster, and against captures
    /// that contain objects of that kind. Of Secrets in a cluster, only the existence is checked, never the data. Without
    /// the permission to get Secrets, they are not checked.
    ///
    /// # How to fix
    ///
    /// Create the object in the namespace of the operator, correct the reference, or set `optional: true`.
    SKY875 "reference-not-found" Warning
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    let namespace = &input.references.namespace;
    for (manifest, _) in input.skyhooks() {
        for reference in manifest.references() {
            let (kind, name, key) = (reference.kind, reference.name, reference.key);
            let why = match input.existence(&reference) {
                Some(Existence::Absent) => format!("does not exist in namespace {namespace}"),
                Some(Existence::Present(Some(keys))) if !keys.iter().any(|k| k == key) => {
                    format!("in namespace {namespace} has no key {key:?}")
                }
                _ => continue,
            };
            findings
                .report(manifest, &reference.path, format!("{kind} {name} {why}: pods cannot start"))
                .fix("Create it in the namespace of the operator, or correct the reference");
        }
    }
}
