use super::{Findings, Grade, Severity, Subject};
use crate::api::{Generation, Skyhook};
use crate::cluster::Cluster;

rule! {
    /// The operator cuts the image of a package short.
    ///
    /// # What it means
    ///
    /// Older operators drop everything from the first colon of `image` on and add the version
    /// instead. A registry with a port, or a digest in the image, turns into a reference that does
    /// not exist, so the image cannot be pulled.
    ///
    /// # How it comes about
    ///
    /// `image: registry:5000/name` or `image: registry/name@sha256:…` in the spec.
    ///
    /// # How to confirm
    ///
    /// The image of the package's pods is not the one of the spec.
    ///
    /// # How to fix
    ///
    /// Use a registry name without a port, and `containerSHA` for a digest. Or upgrade the operator.
    ///
    /// # Since
    ///
    /// Operators up to v0.17.
    SKY213 "image-reference-mangled" Error needs Skyhooks Nodes
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    if cluster.generation() != Generation::Skyhook {
        return;
    }
    for skyhook in cluster.skyhooks.items().iter().filter(|s| !s.deleting()) {
        for (name, package) in skyhook.packages() {
            let Some(why) = mangled(&package.image) else {
                continue;
            };
            let finding = findings.report(
                Subject::skyhook(skyhook).package(name),
                format!("the image of package {name} is cut short: it holds {why}"),
            );
            if !is_awaited(cluster, skyhook, name) {
                finding.severity(Severity::Warning);
            }
            let used = package.image.split(':').next().unwrap_or_default();
            finding
                .evidence(
                    skyhook.reference(),
                    format!("spec.packages.{name}.image"),
                    &package.image,
                )
                .evidence("operator", "uses", format!("{used}:{}", package.version))
                .kubectl(
                    Grade::B2,
                    "Correct the image; containerSHA takes a digest",
                    ["edit", &cluster.generation().resource(), skyhook.name()],
                )
                .caveat("the package then runs on every selected node where it is not complete");
        }
    }
}

/// What in the image the operator trips over: a tag that it cuts off is replaced by the version.
fn mangled(image: &str) -> Option<&'static str> {
    let registry_has_port = image
        .rsplit_once('/')
        .is_some_and(|(registry, _)| registry.contains(':'));
    if registry_has_port {
        Some("the port of a registry")
    } else if image.contains('@') {
        Some("a digest")
    } else {
        None
    }
}

/// Whether the package still has to run somewhere.
fn is_awaited(cluster: &Cluster, skyhook: &Skyhook, name: &str) -> bool {
    skyhook.runs()
        && cluster.selected(skyhook).any(|node| {
            let key = skyhook.package(name).map(|p| p.entry_key(name));
            let on = cluster.on_node(node, skyhook.name());
            let entry = key.and_then(|key| on.and_then(|on| on.entry(&key)));
            !entry.is_some_and(|e| skyhook.is_package_complete(name, e))
        })
}
