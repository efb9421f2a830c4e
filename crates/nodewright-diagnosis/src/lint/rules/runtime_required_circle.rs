use std::collections::HashSet;

use super::{Input, LintFindings};
use crate::api::skyhook::Toleration;
use crate::api::{ApiFlavor, Skyhook};

lint_rule! {
    /// Two custom resources wait for each other on nodes with the runtime-required taint.
    ///
    /// # What it means
    ///
    /// The earlier custom resource lacks `runtimeRequired` and does not tolerate the runtime-required taint, so it does
    /// not start on tainted nodes. The later one has `runtimeRequired`: it would remove the taint, but waits for the
    /// earlier one. Such nodes stay tainted.
    ///
    /// # How to fix
    ///
    /// Set `runtimeRequired` on the earlier one, or give the later one a lower `priority`.
    SKY855 "runtime-required-circle" Warning
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    let requires = |skyhook: &Skyhook| skyhook.spec.runtime_required;
    let stays_out =
        |skyhook: &Skyhook| !requires(skyhook) && !skyhook.disabled() && !tolerates_taint(input, skyhook);
    let (requiring, staying_out) = (input.selections(requires), input.selections(stays_out));
    let names: HashSet<&str> = input.skyhooks().map(|(_, skyhook)| skyhook.name()).collect();
    for (manifest, skyhook) in input.skyhooks() {
        let is_later = requires(skyhook);
        let others = match is_later {
            true => &staying_out,
            false if stays_out(skyhook) => &requiring,
            false => continue,
        };
        for other in others.overlapping(skyhook) {
            let (earlier, later) = if is_later { (other, skyhook) } else { (skyhook, other) };
            // If both custom resources are manifests, only the earlier one gets the finding.
            if later.order() < earlier.order() || is_later && names.contains(earlier.name()) {
                continue;
            }
            let message = format!(
                "{earlier} does not tolerate the runtime-required taint; only {later} removes the taint, \
                 but {later} waits for {earlier}"
            );
            let at = ["spec", "runtimeRequired"];
            findings
                .report(manifest, &at, message)
                .fix(
                    "Set runtimeRequired on the earlier custom resource, or give the \
                     later one a lower spec.priority, so that it runs first",
                )
                .evidence(earlier, "spec.priority", earlier.order().0)
                .evidence(later, "spec.priority", later.order().0);
            break;
        }
    }
}

/// Whether the tolerations of a custom resource cover the runtime-required taint.
fn tolerates_taint(input: &Input<'_>, skyhook: &Skyhook) -> bool {
    let keys: Vec<String> = match input.cluster {
        Some(cluster) => cluster.runtime_required().taints().into_iter().map(|(key, _)| key).collect(),
        None => ApiFlavor::ALL.map(|flavor| flavor.taint_key().to_owned()).to_vec(),
    };
    let covers = |toleration: &Toleration| {
        let effect = toleration.effect.is_empty() || toleration.effect == "NoSchedule";
        effect && (toleration.key.is_empty() || keys.contains(&toleration.key))
    };
    skyhook.spec.additional_tolerations.iter().any(covers)
}
