use super::{Input, LintFindings, is_uninstalled};

lint_rule! {
    /// `uninstall.apply` is set for a package or version that no node has.
    ///
    /// # What it means
    ///
    /// The operator does not install the package, and reports the custom resource as complete. If the version is raised
    /// while nodes have an earlier one, they upgrade and then uninstall it. Checked with a cluster or capture only.
    ///
    /// # How to fix
    ///
    /// Remove `uninstall.apply` to install the package.
    SKY877 "apply-not-installed" Warning
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    if input.nodes().is_none_or(<[_]>::is_empty) {
        return;
    }
    for (manifest, skyhook) in input.skyhooks() {
        let live = input.live(manifest);
        for (name, package) in skyhook.packages().filter(|(_, package)| package.uninstall().apply) {
            let earlier = live.and_then(|live| Some((live, live.package(name)?)));
            let path = ["spec", "packages", name, "uninstall", "apply"];
            let fix = "Remove uninstall.apply to install the package";
            if package.uninstall().enabled
                && let Some((_, earlier)) = earlier.filter(|(_, p)| p.version != package.version)
            {
                let (from, to) = (&earlier.version, &package.version);
                let message = format!(
                    "with uninstall.apply, {name} {to} is not kept: nodes that have {from} upgrade it and \
                     then uninstall it; other nodes skip it"
                );
                findings.report(manifest, &path, message).fix(fix);
                continue;
            }
            // After a finished uninstall, the package stays in the spec until the user removes it.
            let known = earlier.is_some_and(|(live, earlier)| {
                earlier.uninstall().apply || !is_uninstalled(live, name, earlier)
            });
            if package.uninstall().enabled && !known {
                findings
                    .report(
                        manifest,
                        &path,
                        format!(
                            "no node has {name}: with uninstall.apply it is not installed, although the \
                            status is complete"
                        ),
                    )
                    .fix(fix);
            }
        }
    }
}
