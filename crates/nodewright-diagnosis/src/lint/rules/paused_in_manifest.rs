use super::{Input, LintFindings};
use crate::api::ApiFlavor;

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

/// Keys, and the annotations that they mean.
const WORDS: [(&str, &str); 4] =
    [("pause", "pause"), ("disable", "disable"), ("paused", "pause"), ("disabled", "disable")];

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, skyhook) in input.skyhooks() {
        let Some(own) = manifest.flavor() else {
            continue;
        };
        for (flavor, (word, meant)) in ApiFlavor::ALL.into_iter().flat_map(|f| WORDS.map(|words| (f, words)))
        {
            let key = flavor.key(word);
            let metadata = &manifest.value["metadata"];
            if word == meant && !metadata["labels"][&key].is_null() {
                let message = format!("{key} has no effect as a label: it is an annotation");
                let finding = findings.report(manifest, &["metadata", "labels", &key], message);
                finding.fix("Remove it, or move it to metadata.annotations");
            }
            let Some(value) = metadata["annotations"][&key].as_str() else {
                continue;
            };
            let message = if word != meant {
                format!("the annotation {key} has no effect; did you mean {}?", own.key(meant))
            } else if flavor != own && value != "false" {
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
            } else if value.trim().eq_ignore_ascii_case("true") || matches!(value, "yes" | "1") {
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
