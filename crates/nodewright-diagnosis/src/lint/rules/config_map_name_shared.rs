use super::{Input, LintFindings};

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
    let all = input.all_skyhooks();
    let contested = crate::cluster::kubernetes::contested(all.iter().copied());
    for (manifest, skyhook) in input.skyhooks() {
        for (config_map, users) in &contested {
            let own = users.iter().find(|(user, _)| user.name() == skyhook.name());
            let other = users.iter().find(|(user, _)| user.name() != skyhook.name());
            let Some(((_, name), (other, theirs))) = own.zip(other) else {
                continue;
            };
            let message =
                format!("package {theirs} of {other} needs a ConfigMap of the same name: {config_map}");
            findings.report(manifest, &["spec", "packages", name], message).fix("Rename one of the packages");
        }
    }
}
