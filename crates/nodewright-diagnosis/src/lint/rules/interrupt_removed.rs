use super::{Input, LintFindings};
use crate::api::State;
use crate::rules::some_of;

lint_rule! {
    /// An interrupt is removed while it is in progress.
    ///
    /// # What it means
    ///
    /// The operator no longer handles the interrupt: if the interrupt pod is lost, as in a reboot, it is not created again.
    /// The package is then installed again without the interrupt, or stays at `uninstall-interrupt` or `skipped` with its
    /// node cordoned. Checked with a cluster or capture only.
    ///
    /// # How to fix
    ///
    /// Remove the interrupt once the custom resource is complete.
    SKY887 "interrupt-removed" Warning
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    let (Some(cluster), Some(nodes)) = (input.cluster, input.nodes()) else {
        return;
    };
    for (manifest, skyhook) in input.skyhooks() {
        let Some(live) = input.live(manifest) else {
            continue;
        };
        for (name, package) in
            skyhook.packages().filter(|(_, p)| p.interrupt.is_none() && p.config_interrupts.is_empty())
        {
            let earlier = live.package(name).filter(|earlier| earlier.version == package.version);
            let Some(kind) = earlier.and_then(|earlier| live.pending_interrupt(name, earlier)) else {
                continue;
            };
            let interrupted = nodes.iter().filter(|node| {
                let record = cluster.on_node(node, live.name());
                let entry = record.and_then(|record| record.entry(&package.entry_key(name)));
                entry.is_some_and(|entry| entry.stage.is_interrupt() && entry.state != State::Complete)
            });
            let interrupted: Vec<&str> = interrupted.map(|node| node.name.as_str()).collect();
            if interrupted.is_empty() {
                continue;
            }
            let message = format!(
                "the interrupt ({kind}) is in progress on {}: without the interrupt in the spec, a lost interrupt pod is \
                 not created again",
                some_of(&interrupted)
            );
            findings
                .report(manifest, &["spec", "packages", name], message)
                .fix("Keep the interrupt until the custom resource is complete");
        }
    }
}
