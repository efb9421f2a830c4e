use super::{Findings, Grade, Subject};
use crate::api::{Package, Skyhook};
use crate::cluster::Cluster;
use crate::model::spec_errors::{is_package_name, is_version};

rule! {
    /// No pod can be created for a package: its name and version do not form a valid label.
    ///
    /// # What it means
    ///
    /// The operator writes `NAME-VERSION` into a label of each pod and Job. The API server rejects
    /// a value with more than 63 characters, a `+`, or another character that no label may contain, so the
    /// package is never started.
    ///
    /// # What causes it
    ///
    /// Semantic versions may be long and have build metadata, as in `1.0.0+cuda12`. The operator's
    /// webhook checks the version, but not the label made from it.
    ///
    /// # How to confirm
    ///
    /// The nodes have no entry for the package, there is no pod of it, and the operator's log reports
    /// `metadata.labels` as invalid.
    ///
    /// # How to fix
    ///
    /// Give the package a version that forms a valid label, and tag its image with the same version.
    ///
    /// # Since
    ///
    /// All operators.
    SKY223 "package-label-invalid" Error needs Skyhooks Nodes,
        blocks Install
}

/// Maximum length of a label value.
const LONGEST: usize = 63;

fn detect(cluster: &Cluster, findings: &mut Findings) {
    for skyhook in cluster.skyhooks.items() {
        for (name, package) in skyhook.packages() {
            let label = format!("{name}-{}", package.version);
            // The operator rejects invalid names and versions earlier.
            let accepted = is_package_name(name) && is_version(&package.version);
            let Some(why) = invalid(&label).filter(|_| accepted) else {
                continue;
            };
            if has_run(cluster, skyhook, name, package) {
                continue;
            }
            findings
                .report(
                    Subject::skyhook(skyhook).package(name),
                    format!(
                        "no pod can be created for package {name}: the label built from its name and version {why}"
                    ),
                )
                .package_field(skyhook, name, "version", &package.version)
                .evidence("pod", "label package", label)
                .edit(
                    Grade::B2,
                    "Use a version that gives a valid label, and tag the image with that version",
                    skyhook,
                )
                .caveat("the package is then installed on every selected node");
        }
    }
}

/// Why a text cannot be a label value; `None` if it can. Its start is a valid package name and is not
/// checked.
pub fn invalid(label: &str) -> Option<String> {
    let odd = |c: &char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_' | '.');
    if label.len() > LONGEST {
        let length = label.len();
        Some(format!("is {length} characters long; at most {LONGEST} are allowed"))
    } else if let Some(odd) = label.chars().find(odd) {
        Some(format!("contains {odd}, which is not allowed in a label value"))
    } else if !label.ends_with(|c: char| c.is_ascii_alphanumeric()) {
        Some("does not end with a letter or digit".to_owned())
    } else {
        None
    }
}

/// Whether the package is recorded on a node: then its label was valid.
fn has_run(cluster: &Cluster, skyhook: &Skyhook, name: &str, package: &Package) -> bool {
    let key = package.entry_key(name);
    let mut tracked = cluster.tracked(skyhook.name());
    tracked.any(|(_, on)| on.entry(&key).is_some())
}
