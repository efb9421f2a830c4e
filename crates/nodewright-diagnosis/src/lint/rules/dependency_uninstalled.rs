use super::{Input, LintFindings};

lint_rule! {
    /// A package depends on a package that is uninstalled.
    ///
    /// # What it means
    ///
    /// The dependency is complete on no node, so the package never starts where it is not complete yet, such as on new
    /// nodes.
    ///
    /// # How to fix
    ///
    /// Remove the dependency, or uninstall both packages.
    SKY882 "dependency-uninstalled" Warning
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, skyhook) in input.skyhooks() {
        let uninstalled = |name: &str| {
            let package = skyhook.package(name).map(|package| package.uninstall());
            package.is_some_and(|uninstall| uninstall.enabled && uninstall.apply)
        };
        for (name, package) in skyhook.packages().filter(|(name, _)| !uninstalled(name)) {
            for dependency in package.depends_on.keys().filter(|dependency| uninstalled(dependency)) {
                let path = ["spec", "packages", name, "dependsOn", dependency];
                let message = format!(
                    "{dependency} is uninstalled, so {name} does not run on nodes where it is not complete, \
                     such as new nodes"
                );
                findings
                    .report(manifest, &path, message)
                    .fix("Remove the dependency, or uninstall both packages");
            }
        }
    }
}
