use std::collections::BTreeMap;

use super::{Input, LintFindings};
use crate::api::Skyhook;
use crate::cluster::config_map;

lint_rule! {
    /// Packages of two custom resources need a ConfigMap of the same name.
    ///
    /// # What it means
    ///
    /// The operator names the ConfigMap of a package `CUSTOM-RESOURCE-PACKAGE-VERSION`. Package `b-c` of `a` and
    /// package `c` of `a-b` get the same name at the same version. The second ConfigMap cannot be created, and the
    /// operator's reconcile ends with that error.
    ///
    /// # How to fix
    ///
    /// Rename one of the packages.
    SKY852 "config-map-name-shared" Error
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    let mut owners: BTreeMap<String, Vec<(&Skyhook, &str)>> = BTreeMap::new();
    let all = input.all_skyhooks();
    for skyhook in &all {
        for (name, package) in skyhook.packages().filter(|(_, p)| !p.config_map.is_empty()) {
            let of_package = config_map::name(skyhook, name, package);
            owners.entry(of_package).or_default().push((skyhook, name));
        }
    }
    for (manifest, skyhook) in input.skyhooks() {
        for (name, package) in skyhook.packages() {
            let config_map = config_map::name(skyhook, name, package);
            let mut others = owners.get(&config_map).into_iter().flatten();
            let other = others.find(|(other, _)| other.name() != skyhook.name());
            if let Some((other, theirs)) = other.filter(|_| !package.config_map.is_empty()) {
                let message =
                    format!("package {theirs} of {other} needs a ConfigMap of the same name: {config_map}");
                findings
                    .report(manifest, &["spec", "packages", name], message)
                    .fix("Rename one of the packages");
            }
        }
    }
}
