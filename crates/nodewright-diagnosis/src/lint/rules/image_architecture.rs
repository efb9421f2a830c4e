use super::{Input, LintFindings};
use crate::api::Skyhook;
use crate::lint::manifest::required_values;
use crate::rules::some_of;

lint_rule! {
    /// The name of an image contains an architecture other than that of the nodes.
    ///
    /// # What it means
    ///
    /// The image cannot be pulled on these nodes, or its programs fail with `exec format error`.
    ///
    /// # How to fix
    ///
    /// Use an image for the nodes' architecture or a multi-architecture image, or select other nodes.
    SKY865 "image-architecture" Warning
}

const NAMES: [(&str, &str); 4] =
    [("amd64", "amd64"), ("x86_64", "amd64"), ("arm64", "arm64"), ("aarch64", "arm64")];
const LABEL: &str = "kubernetes.io/arch";

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, skyhook) in input.skyhooks() {
        for (name, package) in skyhook.packages() {
            let agent = package.whole["agentImageOverride"].as_str().unwrap_or_default();
            let images = [
                ("image", package.image.as_str(), package.version.as_str()),
                ("agentImageOverride", agent, ""),
            ];
            for (field, image, version) in images {
                let Some(built_for) = architecture(image).or_else(|| architecture(version)) else {
                    continue;
                };
                let Some(nodes) = other_nodes(input, skyhook, built_for) else {
                    continue;
                };
                let message = format!("according to its name, the image is for {built_for}, but {nodes}");
                findings
                    .report(manifest, &["spec", "packages", name, field], message)
                    .fix("Use an image for the architecture of the nodes, or select other nodes");
            }
        }
    }
}

/// The architecture that a name contains as a word; `None` if it contains none or several.
fn architecture(name: &str) -> Option<&'static str> {
    let separators = |c: char| matches!(c, '/' | '-' | '.' | ':' | '+' | '@');
    let has = |word: &str| name.split(separators).any(|part| part == word);
    let mut found: Vec<&'static str> =
        NAMES.iter().filter(|(word, _)| has(word)).map(|(_, architecture)| *architecture).collect();
    found.dedup();
    match found.as_slice() {
        [one] => Some(*one),
        _ => None,
    }
}

/// A clause about selected nodes with another architecture: nodes of the cluster, or nodes required by the
/// selector.
fn other_nodes(input: &Input<'_>, skyhook: &Skyhook, built_for: &str) -> Option<String> {
    if let Some(nodes) = input.selected(skyhook) {
        let others = nodes.iter().filter(|node| {
            let architecture = node.body().map_or("", |body| &body.system.architecture);
            !architecture.is_empty() && architecture != built_for
        });
        let others: Vec<&str> = others.map(|node| node.name.as_str()).collect();
        let verb = if others.len() == 1 { "has" } else { "have" };
        return (!others.is_empty()).then(|| format!("{} {verb} another architecture", some_of(&others)));
    }
    let required = required_values(&skyhook.spec.node_selectors, LABEL)?;
    let other = required.into_iter().find(|value| *value != built_for)?;
    Some(format!("nodeSelectors selects nodes with {LABEL}={other}"))
}
