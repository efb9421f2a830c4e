use super::{Input, LintFindings};

lint_rule! {
    /// The `configMap` of a package cannot become a ConfigMap.
    ///
    /// # What it means
    ///
    /// The webhook accepts the custom resource, but the API server rejects the ConfigMap that the operator
    /// creates from it, so the package never runs. Keys consist of letters, digits, `-`, `_` and `.`; all
    /// keys and values together have at most 1 MiB.
    ///
    /// # How to fix
    ///
    /// Rename the key, or move large files into the image.
    SKY872 "config-map-refused" Error
}

const MOST_BYTES: usize = 1 << 20;

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, skyhook) in input.skyhooks() {
        for (name, package) in skyhook.packages() {
            let path = ["spec", "packages", name, "configMap"];
            if manifest.violates_schema(&path) {
                continue;
            }
            for key in package.config_map.keys().filter(|key| !is_key(key)) {
                let message =
                    format!("the key {key:?} of configMap must consist of letters, digits, '-', '_' and '.'");
                findings.report(manifest, &[&path[..], &[key]].concat(), message).fix("Rename the key");
            }
            let entries = package.config_map.iter();
            let size: usize = entries.map(|(key, value)| key.len() + value.len()).sum();
            if size > MOST_BYTES {
                let message = format!("configMap has {size} bytes; a ConfigMap has at most {MOST_BYTES}");
                findings.report(manifest, &path, message).fix("Move large files into the image");
            }
        }
    }
}

/// Whether a ConfigMap may have this key (Kubernetes `IsConfigMapKey`).
fn is_key(key: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    (1..=253).contains(&key.len()) && key.bytes().all(allowed) && key != "." && !key.starts_with("..")
}
