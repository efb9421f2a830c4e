use serde_json::Value;

use super::{Input, LintFindings};
use crate::api::ApiFlavor;
use crate::lint::Manifest;

lint_rule! {
    /// A manifest pauses or disables its custom resource, or tries to.
    ///
    /// # What it means
    ///
    /// With the annotation `pause` or `disable` nothing starts until someone removes it, and a GitOps tool
    /// sets it again. A paused custom resource also holds back later ones on its nodes. Only the value `true`
    /// counts, with the prefix of the object's own API.
    ///
    /// # How to fix
    ///
    /// Remove the annotation from the manifest, or correct it.
    SKY860 "paused-in-manifest" Warning
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, skyhook) in input.skyhooks() {
        let Some(own) = manifest.flavor() else {
            continue;
        };
        misspelled(manifest, own, findings);
        for (flavor, word) in ApiFlavor::ALL.into_iter().flat_map(|f| [(f, "pause"), (f, "disable")]) {
            let key = flavor.key(word);
            let Some(value) = skyhook.metadata.annotations.get(&key) else {
                continue;
            };
            let message = if flavor != own && value != "false" {
                format!("the annotation {key} has no effect on a {}", own.kind())
            } else if value == "true" && skyhook.spec.auto_taint_new_nodes && skyhook.spec.runtime_required {
                format!(
                    "with the annotation {word}, the operator still taints new nodes, and nothing \
                    removes the taint"
                )
            } else if value == "true" {
                match word {
                    "pause" => "the manifest pauses the custom resource: nothing starts, and later custom resources wait on its nodes",
                    _ => "the manifest disables the custom resource: nothing starts",
                }
                .to_owned()
            } else if value.trim().eq_ignore_ascii_case("true") || matches!(value.as_str(), "yes" | "1") {
                format!("the annotation {word} takes effect only with the value \"true\", not {value:?}")
            } else {
                continue;
            };
            findings
                .report(manifest, &["metadata", "annotations", &key], message)
                .fix("Remove the annotation from the manifest, or correct it");
        }
    }
}

/// Reports `pause` and `disable` as labels, and annotations with similar names.
fn misspelled(manifest: &Manifest, own: ApiFlavor, findings: &mut LintFindings) {
    let words = |field: &str| {
        let members = manifest.get(&["metadata", field]).and_then(Value::as_object);
        let keys = members.into_iter().flatten().map(|(key, _)| key.clone());
        keys.filter_map(|key| {
            let flavors = ApiFlavor::ALL.into_iter();
            let word = flavors.filter_map(|flavor| key.strip_prefix(&flavor.key(""))).next()?.to_owned();
            Some((key, word))
        })
        .collect::<Vec<_>>()
    };
    for (key, word) in words("labels") {
        if matches!(word.as_str(), "pause" | "disable") {
            let message = format!("{key} has no effect as a label: it is an annotation");
            let finding = findings.report(manifest, &["metadata", "labels", &key], message);
            finding.fix("Remove it, or move it to metadata.annotations");
        }
    }
    for (key, word) in words("annotations") {
        let meant = match word.as_str() {
            "paused" => "pause",
            "disabled" => "disable",
            _ => continue,
        };
        let message = format!("the annotation {key} has no effect; did you mean {}?", own.key(meant));
        let finding = findings.report(manifest, &["metadata", "annotations", &key], message);
        finding.fix("Remove the annotation from the manifest, or correct it");
    }
}
