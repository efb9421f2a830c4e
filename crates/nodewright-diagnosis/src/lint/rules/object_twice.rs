use std::collections::HashMap;
use std::path::Path;

use super::{Input, LintFindings};
use crate::rules::Severity;

lint_rule! {
    /// Two manifests for the same cluster have the same kind and name.
    ///
    /// # What it means
    ///
    /// The manifest that is applied last overwrites the fields of the other. Kustomize refuses to build.
    ///
    /// Manifests of different kustomizations, charts, or root directories count as manifests of different
    /// clusters. Root directories are those that `--root`, or `roots` in `.skyhook-lint.yaml`, names.
    ///
    /// # How to fix
    ///
    /// Remove one of the two, or use `--root` to name the directory of each cluster.
    ///
    /// # Severity
    ///
    /// Info if the manifests are in different directories without a kustomization: they may be for different clusters.
    SKY876 "object-twice" Warning
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    let directory = |file: &str| Path::new(file).parent().map(Path::to_owned);
    let mut places = HashMap::new();
    for manifest in input.manifests().filter(|manifest| !manifest.name.is_empty()) {
        let object = (&manifest.api_version, &manifest.kind, &manifest.name);
        if let Some(earlier) = places.insert(object, manifest) {
            let place = format!("{}:{}", earlier.file, earlier.range(&[]).first);
            let message = format!("the object is also in {place}: the manifest that is applied last wins");
            let finding = findings.report(manifest, &["metadata", "name"], message);
            finding.fix("Remove one of the two, or use --root to name the directory of each cluster");
            if !input.documents.has_kustomization() && directory(&earlier.file) != directory(&manifest.file) {
                finding.severity(Severity::Info);
            }
        }
    }
}
