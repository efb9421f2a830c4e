use super::{Input, LintFindings};
use crate::api::ApiFlavor;

lint_rule! {
    /// A manifest pauses or disables its custom resource, or tries to.
    ///
    /// # What it means
    ///
    /// With the annotation `pause` or `disable` nothing starts until somebody removes it, and a GitOps tool sets it
    /// again. A paused custom resource also holds back later ones on its nodes. Only the value `true` counts, with the
    /// prefix of the object's own API.
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
        for (flavor, word) in ApiFlavor::ALL
            .into_iter()
            .flat_map(|f| [(f, "pause"), (f, "disable")])
        {
            let key = flavor.key(word);
            let Some(value) = skyhook.metadata.annotations.get(&key) else {
                continue;
            };
            let message = if flavor != own && value != "false" {
                format!("the annotation {key} has no effect on a {}", own.kind())
            } else if value == "true" {
                match word {
                    "pause" => "the manifest pauses the custom resource: nothing starts, and later ones wait on its nodes",
                    _ => "the manifest disables the custom resource: nothing starts",
                }
                .to_owned()
            } else if value.trim().eq_ignore_ascii_case("true")
                || matches!(value.as_str(), "yes" | "1")
            {
                format!("the annotation {word} only counts with the value \"true\", not {value:?}")
            } else {
                continue;
            };
            findings
                .report(manifest, &["metadata", "annotations", &key], message)
                .fix("Remove the annotation from the manifest, or correct it");
        }
    }
}
