use std::collections::HashMap;

use super::{Input, LintFindings};

lint_rule! {
    /// Two manifests of one cluster have the same kind and name.
    ///
    /// # What it means
    ///
    /// The manifest that is applied last replaces the fields of the other. Kustomize refuses to build.
    ///
    /// Manifests of different kustomizations and charts, or of directories that `--root` or `roots` in
    /// `.skyhook-lint.yaml` names, belong to different clusters.
    ///
    /// # How to fix
    ///
    /// Remove one of the two, or name the directory of each cluster with `--root`.
    SKY876 "object-twice" Warning
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    let mut places = HashMap::new();
    for manifest in input.manifests().filter(|manifest| !manifest.name.is_empty()) {
        let place = format!("{}:{}", manifest.file, manifest.range(&[]).first);
        let object = (&manifest.api_version, &manifest.kind, &manifest.name);
        if let Some(earlier) = places.insert(object, place) {
            let message = format!("the object is also in {earlier}: the manifest that is applied last wins");
            findings
                .report(manifest, &["metadata", "name"], message)
                .fix("Remove one of the two, or name the directory of each cluster with --root");
        }
    }
}
