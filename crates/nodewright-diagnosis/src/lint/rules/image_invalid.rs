use super::placeholder::is_placeholder;
use super::{Input, LintFindings, Severity};
use crate::api::ApiFlavor;
use crate::api::name::ImageParts;
use crate::lint::Manifest;

lint_rule! {
    /// The image of a package contains a tag, a digest or a registry port that the operator does not accept.
    ///
    /// # What it means
    ///
    /// The tag of the image is the version of the package. Operators from v0.18 on reject a tag or digest in `image`.
    /// Older ones silently cut the image at the first colon: a tag is replaced by the version, and a registry port or a
    /// digest leaves an image that does not exist.
    ///
    /// # How to fix
    ///
    /// Specify only the repository. A digest belongs in `containerSHA`.
    ///
    /// # Severity
    ///
    /// An error for `NodeWright`. A warning for `Skyhook`, whose webhook accepts the image.
    SKY813 "image-invalid" Error
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, skyhook) in input.skyhooks() {
        let older = manifest.flavor() == Some(ApiFlavor::Skyhook);
        for (name, package) in skyhook.packages() {
            let path = ["spec", "packages", name, "image"];
            let parts = ImageParts::of(&package.image);
            if manifest.violates_schema(&path) || is_placeholder(&package.image) {
                continue;
            }
            let message = match &parts {
                ImageParts { digest: Some(_), .. } if older => {
                    "the operator cuts the image at the colon of its digest, so the image cannot be pulled"
                        .to_owned()
                }
                ImageParts { port: true, .. } if older => {
                    "operators up to v0.17 cut the image at the colon of the registry port, so the image \
                     cannot be pulled"
                        .to_owned()
                }
                ImageParts { digest: Some(_), .. } => "the image must not contain a digest".to_owned(),
                ImageParts { tag: Some(tag), .. } if older && *tag != package.version => {
                    format!("the tag {tag} is ignored: the operator uses the package version as the tag, {}", package.version)
                }
                ImageParts { tag: Some(_), .. } if older => {
                    "the tag repeats the package version, which the operator appends itself; operators from v0.18 on refuse a tag"
                        .to_owned()
                }
                ImageParts { tag: Some(_), .. } => "the image must not contain a tag".to_owned(),
                _ if package.image.is_empty() => "the image is empty, so no pod can be created".to_owned(),
                _ if !is_repository(&package.image) => {
                    "the image is not a valid repository name, so it cannot be pulled".to_owned()
                }
                _ => continue,
            };
            let port = older && parts.port;
            let finding = findings.report(manifest, &path, message);
            if older || parts.is_plain() && !port {
                finding.severity(Severity::Warning);
            }
            if parts.is_plain() && !port {
                finding.fix("Write registry and repository, in lower case, such as ghcr.io/example/driver");
            } else if parts.digest.is_some() {
                finding.fix("Write the repository alone, and the digest in containerSHA");
            } else if parts.tag.is_some() {
                finding.fix("Write the repository alone; the version is the tag");
            } else {
                finding.fix("Use a registry without a port, or operator v0.18 or newer");
            }
        }
    }
    for (manifest, skyhook) in input.skyhooks().filter(|(m, _)| m.flavor() == Some(ApiFlavor::Skyhook)) {
        for (name, _) in skyhook.packages() {
            digest(manifest, &["spec", "packages", name, "containerSHA"], findings);
        }
    }
}

/// Reports a malformed digest of a Skyhook. The NodeWright CRD has a pattern for digests.
fn digest(manifest: &Manifest, path: &[&str], findings: &mut LintFindings) {
    let Some(digest) = manifest.get(path).and_then(|value| value.as_str()) else {
        return;
    };
    let hex = digest.strip_prefix("sha256:");
    let valid =
        |hex: &str| hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    if !digest.is_empty() && !hex.is_some_and(valid) {
        findings
            .report(
                manifest,
                path,
                "containerSHA must be sha256: followed by 64 lower-case hexadecimal digits; otherwise the image \
                 cannot be pulled",
            )
            .severity(Severity::Warning);
    }
}

/// Whether a text is a repository name, as container runtimes parse it: an optional registry, and components in lower
/// case.
fn is_repository(image: &str) -> bool {
    let is_registry = |first: &str| first.contains(['.', ':']) || first == "localhost";
    let path = match image.split_once('/') {
        Some((registry, path)) if is_registry(registry) => path,
        _ => image,
    };
    let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    path.split('/').map(str::as_bytes).all(|component| {
        let ends = [component.first(), component.last()];
        ends.into_iter().all(|b| b.is_some_and(|b| alphanumeric(*b)))
            && component.iter().all(|b| alphanumeric(*b) || b"._-".contains(b))
    })
}
