use super::{Input, LintFindings};
use crate::model::Effects;
use crate::rules::some_of;
use crate::text::distinct;

lint_rule! {
    /// Drains do not evict a pod without a controller.
    ///
    /// # What it means
    ///
    /// With `drainConfig.force: false`, a pod without a controller, such as one of `kubectl run`, stops the
    /// drain of its node until someone deletes it.
    ///
    /// # How to fix
    ///
    /// Delete the pods before the rollout, or set `force: true`, which is the default.
    SKY886 "unmanaged-pods" Warning Effects
}

fn check(input: &Input<'_>, effects: &[Effects<'_>], findings: &mut LintFindings) {
    for (manifest, skyhook) in input.skyhooks().filter(|(_, s)| s.spec.drain_config.spares_unmanaged()) {
        let (Some(cluster), Some(effects)) =
            (input.cluster, effects.iter().find(|effects| effects.skyhook == skyhook.name()))
        else {
            continue;
        };
        let pods = cluster.evictions().pods_by_node();
        let on_nodes = effects.rollout.cordoned.iter().filter_map(|node| pods.get(node.as_str())).flatten();
        let unmanaged = on_nodes.filter(|pod| pod.metadata.controller().is_none());
        let paths = distinct(unmanaged.map(|pod| pod.path()));
        if !paths.is_empty() {
            let message = format!("drains wait for pods without a controller: {}", some_of(&paths));
            findings
                .report(manifest, &["spec", "drainConfig", "force"], message)
                .fix("Delete the pods before the rollout, or set force: true, the default");
        }
    }
}
