use std::sync::LazyLock;

use regex::Regex;

use super::placeholder::is_placeholder;
use super::{Input, LintFindings, Severity};
use crate::api::ApiFlavor;
use crate::api::name::ImageParts;

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

/// A repository name, as container runtimes parse it: an optional registry, and components in lower case.
static REPOSITORY: LazyLock<Regex> = LazyLock::new(|| {
    let component = "[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?";
    let pattern = format!("^(?:(?:[^/]*[.:][^/]*|localhost)/)?{component}(?:/{component})*$");
    Regex::new(&pattern).expect("a valid pattern")
});
static DIGEST: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("^sha256:[0-9a-f]{64}$").expect("a valid pattern"));

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, skyhook) in input.skyhooks() {
        let older = manifest.flavor() == Some(ApiFlavor::Skyhook);
        for (name, package) in skyhook.packages() {
            let digest = package.whole["containerSHA"].as_str().unwrap_or_default();
            // The CRD of the newer API has a pattern for digests.
            if older && !digest.is_empty() && !DIGEST.is_match(digest) {
                let message = "containerSHA must be sha256: followed by 64 lower-case hexadecimal digits; otherwise the image \
                    cannot be pulled";
                let path = ["spec", "packages", name, "containerSHA"];
                findings.report(manifest, &path, message).severity(Severity::Warning);
            }
            let path = ["spec", "packages", name, "image"];
            if manifest.violates_schema(&path) || is_placeholder(&package.image) {
                continue;
            }
            let parts = ImageParts::of(&package.image);
            let (message, fix) = match parts {
                ImageParts { digest: Some(_), .. } => {
                    let message = if older {
                        "the operator cuts the image at the colon of its digest, so the image cannot be pulled"
                    } else {
                        "the image must not contain a digest"
                    };
                    (message.to_owned(), "Write the repository alone, and the digest in containerSHA")
                }
                ImageParts { port: true, .. } if older => {
                    let message = "operators up to v0.17 cut the image at the colon of the registry port, so the image \
                        cannot be pulled";
                    (message.to_owned(), "Use a registry without a port, or operator v0.18 or newer")
                }
                ImageParts { tag: Some(tag), .. } => {
                    let message = if !older {
                        "the image must not contain a tag".to_owned()
                    } else if tag == package.version {
                        "the tag repeats the package version, which the operator appends itself; operators from v0.18 on refuse a tag"
                            .to_owned()
                    } else {
                        format!(
                            "the tag {tag} is ignored: the operator uses the package version as the tag, {}",
                            package.version
                        )
                    };
                    (message, "Write the repository alone; the version is the tag")
                }
                _ if REPOSITORY.is_match(&package.image) => continue,
                _ => {
                    let message = if package.image.is_empty() {
                        "the image is empty, so no pod can be created"
                    } else {
                        "the image is not a valid repository name, so it cannot be pulled"
                    };
                    (
                        message.to_owned(),
                        "Write registry and repository, in lower case, such as ghcr.io/example/driver",
                    )
                }
            };
            let finding = findings.report(manifest, &path, message).fix(fix);
            if older || parts.is_plain() {
                finding.severity(Severity::Warning);
            }
        }
    }
}
