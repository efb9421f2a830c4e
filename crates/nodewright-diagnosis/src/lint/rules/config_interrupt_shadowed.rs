use super::{Input, LintFindings};
use crate::api::Package;
use crate::api::skyhook::{glob_matches, interrupt_strength};

lint_rule! {
    /// A broader pattern in `configInterrupts` overrules the interrupt of a key.
    ///
    /// # What it means
    ///
    /// If a key of `configMap` changes, the interrupts of all matching patterns count, and the strongest runs. A
    /// pattern such as `*` with `reboot` reboots the nodes for every key.
    ///
    /// # How to fix
    ///
    /// Narrow the broader pattern, or remove the overruled entry.
    SKY881 "config-interrupt-shadowed" Warning
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, skyhook) in input.skyhooks() {
        for (name, package) in skyhook.packages() {
            for (pattern, interrupt) in &package.config_interrupts {
                let keys = matched(package, pattern);
                let stronger = package.config_interrupts.iter().find(|(other, theirs)| {
                    let others = matched(package, other);
                    *other != pattern
                        && interrupt_strength(&theirs.kind) > interrupt_strength(&interrupt.kind)
                        && keys.iter().all(|key| others.contains(key))
                });
                if let Some((other, theirs)) = stronger.filter(|_| !keys.is_empty()) {
                    let message = format!(
                        "{pattern} requests {}, but {other} also matches, so a change runs {}",
                        interrupt.kind, theirs.kind
                    );
                    findings
                        .report(manifest, &["spec", "packages", name, "configInterrupts", pattern], message)
                        .fix(format!("Narrow {other}, or remove {pattern}"));
                }
            }
        }
    }
}

/// The keys of the configMap that a pattern matches.
fn matched<'p>(package: &'p Package, pattern: &str) -> Vec<&'p str> {
    package.config_map.keys().map(String::as_str).filter(|key| glob_matches(pattern, key)).collect()
}
