use super::{Input, LintFindings};
use crate::api::keys::go_version;
use crate::text::natural;

lint_rule! {
    /// A version is ordered differently than its author probably intends.
    ///
    /// # What it means
    ///
    /// The operator compares semantic versions: text and digits without a dot between them compare as text, so `rc10`
    /// is lower than `rc9`; a suffix such as `-hotfix1` is a pre-release and lower than the version without it; `1.2`
    /// equals `1.2.0`, and so do versions that only differ in build metadata. Only a higher version runs as an upgrade.
    /// A lower or equal one is installed like a new package: the stage `upgrade` does not run.
    ///
    /// # How to fix
    ///
    /// Write a dot before the number of a pre-release (`rc.10`), and raise one of the three numbers for a patch.
    SKY848 "version-order" Warning
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, skyhook) in input.skyhooks() {
        let live = input.live(manifest);
        for (name, package) in skyhook.packages() {
            let before = live.and_then(|live| live.package(name)).map(|p| p.version.as_str());
            let changed = before.filter(|before| *before != package.version);
            let Some(message) = changed.and_then(|before| misjudged(before, &package.version)) else {
                continue;
            };
            findings
                .report(manifest, &["spec", "packages", name, "version"], message)
                .fix("Write a dot before the number of a pre-release (rc.10, not rc10), or raise the major, minor or patch number");
        }
    }
}

/// The problem of a version change that the operator orders differently than probably intended.
fn misjudged(before: &str, after: &str) -> Option<String> {
    let (old, new) = (go_version(before)?, go_version(after)?);
    if old == new {
        return Some(format!(
            "the operator treats {after} as equal to {before}: the package is installed again instead of \
             upgraded"
        ));
    }
    let numbers = |v: &semver::Version| (v.major, v.minor, v.patch);
    let patched = old.pre.is_empty() && !is_test_release(&new);
    let counted = !old.pre.is_empty() && natural(&old.pre, &new.pre).is_lt();
    let meant_higher = numbers(&old) == numbers(&new) && (patched || counted);
    (new < old && meant_higher)
        .then(|| format!("the operator treats {after} as lower than {before}: the package is not upgraded"))
}

fn is_test_release(version: &semver::Version) -> bool {
    let pre = version.pre.to_lowercase();
    let words = ["rc", "alpha", "beta", "pre", "dev", "snapshot", "test", "nightly"];
    words.iter().any(|word| pre.starts_with(word))
}
