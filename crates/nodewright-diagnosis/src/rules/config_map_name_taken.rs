use super::{Findings, Grade, Subject};
use crate::cluster::Cluster;

rule! {
    /// Packages of two custom resources need a ConfigMap of the same name.
    ///
    /// # What it means
    ///
    /// The operator names the ConfigMap of a package CUSTOM-RESOURCE-PACKAGE-VERSION, in lower case. Package
    /// `bb-cc` of custom resource `aa` and package `cc` of `aa-bb` get the same name at the same version. The
    /// operator creates the ConfigMap for the first package. For the second, its reconcile ends with the error
    /// "already exists", so nothing starts for any custom resource.
    ///
    /// # What causes it
    ///
    /// Hyphens in the names of custom resources and packages.
    ///
    /// # How to confirm
    ///
    /// The label `name` of the ConfigMap names one of the two custom resources, and the operator's log has
    /// the error.
    ///
    /// # How to fix
    ///
    /// Give one of the packages another name or version, or remove its `configMap`.
    ///
    /// # Affected versions
    ///
    /// All operators (`UpsertConfigmaps`).
    SKY226 "config-map-name-taken" Error needs Skyhooks, also ConfigMaps,
        blocks Reconcile
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let skyhooks = cluster.skyhooks.iter().filter(|s| !s.deleting());
    for (name, all) in &crate::cluster::kubernetes::contested(skyhooks) {
        let owner = cluster
            .config_maps
            .iter()
            .find(|map| map.metadata.name == *name && !cluster.operator().is_elsewhere(&map.metadata))
            .and_then(|map| Some(map.owner()?.1));
        // Without an owner, the first custom resource that is not paused will create the ConfigMap.
        let first = match owner {
            Some(owner) => all.iter().find(|(skyhook, _)| skyhook.name() == owner),
            None => all.iter().find(|(skyhook, _)| !skyhook.paused()),
        };
        let Some((other, their_package)) = first else {
            continue;
        };
        for (skyhook, package) in all {
            if skyhook.name() != other.name() && !skyhook.paused() {
                let place = match cluster.operator().namespaces().first() {
                    Some(namespace) => format!("{namespace}/{name}"),
                    None => name.to_owned(),
                };
                findings
                    .report(
                        Subject::skyhook(skyhook).package(package),
                        format!(
                            "package {package} needs a ConfigMap of the same name as package {their_package} of {other}, and \
                             every operator reconcile fails"
                        ),
                    )
                    .evidence(skyhook, format!("ConfigMap of package {package}"), &place)
                    .evidence(other, format!("ConfigMap of package {their_package}"), &place)
                    .edit(Grade::B2, format!("Give package {package} another name or version"), skyhook)
                    .caveat("the operator then continues for every custom resource");
            }
        }
    }
}
