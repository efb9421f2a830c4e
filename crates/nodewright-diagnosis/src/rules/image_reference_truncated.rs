use std::collections::BTreeMap;

use serde_json::Value;

use super::value_refused::is_awaited;
use super::{Findings, Grade, Subject};
use crate::api::name::ImageParts;
use crate::api::{ApiFlavor, Skyhook};
use crate::cluster::Cluster;

rule! {
    /// The operator truncates the image of a package.
    ///
    /// # What it means
    ///
    /// Older operators drop everything from the first colon of `image` on and append the version
    /// instead. A registry with a port, or a digest in the image, becomes a reference that does
    /// not exist, so the image cannot be pulled.
    ///
    /// # What causes it
    ///
    /// `image: registry:5000/name` or `image: registry/name@sha256:…` in the spec.
    ///
    /// # How to confirm
    ///
    /// The image of the package's pods differs from the spec, or the spec differs from the applied manifest:
    /// the operator writes the truncated image back, and only the annotation of `kubectl apply` still shows
    /// the full image.
    ///
    /// # How to fix
    ///
    /// Use a registry name without a port, and `containerSHA` for a digest. Or upgrade the operator.
    ///
    /// # Affected versions
    ///
    /// Operators up to v0.17.
    SKY213 "image-reference-truncated" Error needs Skyhooks Nodes,
        blocks Install Uninstall
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    if cluster.flavor() != ApiFlavor::Skyhook {
        return;
    }
    for skyhook in cluster.skyhooks.iter().filter(|s| !s.deleting()) {
        let applied = applied_images(skyhook);
        for (name, package) in skyhook.packages() {
            // When the operator adds its finalizer, it also writes the truncated image to the spec.
            let image =
                applied.get(name).filter(|asked| truncated(asked) == package.image).unwrap_or(&package.image);
            let Some(why) = mishandled_part(image) else {
                continue;
            };
            let finding = findings.report(
                Subject::skyhook(skyhook).package(name),
                format!("the image reference of package {name} is truncated because it contains {why}"),
            );
            finding.warning_if(!is_awaited(cluster, skyhook, |other| other == name));
            let used = truncated(image);
            finding.package_field(skyhook, name, "image", &package.image);
            if *image != package.image {
                finding.evidence(skyhook, format!("last applied spec.packages.{name}.image"), image);
            }
            finding
                .evidence("operator", "uses", format!("{used}:{}", package.version))
                .edit(Grade::B2, "Correct the image; use containerSHA for a digest", skyhook)
                .caveat("the package then runs on every selected node where it is not complete");
        }
    }
}

/// The images of the last `kubectl apply`, by package.
fn applied_images(skyhook: &Skyhook) -> BTreeMap<String, String> {
    let applied = skyhook.last_applied();
    let packages = applied.as_ref().and_then(|a| a["spec"]["packages"].as_object());
    let image =
        |(name, package): (&String, &Value)| Some((name.clone(), package["image"].as_str()?.to_owned()));
    packages.into_iter().flatten().filter_map(image).collect()
}

/// The image as the operator truncates it.
fn truncated(image: &str) -> &str {
    image.split(':').next().unwrap_or_default()
}

/// The part of the image that the operator mishandles. A tag is harmless: the version replaces it.
fn mishandled_part(image: &str) -> Option<&'static str> {
    let parts = ImageParts::of(image);
    match parts.digest {
        _ if parts.port => Some("a registry port"),
        Some(_) => Some("a digest"),
        None => None,
    }
}
