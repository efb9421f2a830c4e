use super::{Input, LintFindings};
use crate::api::name::duration_seconds;

lint_rule! {
    /// A timeout never expires, or expires before the work can finish.
    ///
    /// # What it means
    ///
    /// `stageTimeout: 0` removes the deadline: a node whose interrupt does not return stays in progress. If
    /// `drainConfig.timeout` is not longer than the grace period of the evicted pods, drains time out while
    /// the pods are still terminating, and the nodes are erroring.
    ///
    /// # How to fix
    ///
    /// Set a `stageTimeout` longer than the longest stage, and a `drainConfig.timeout` longer than the grace period.
    ///
    /// # Affected versions
    ///
    /// Operators from v0.18 on, which introduced both fields.
    SKY883 "timeout-unsuitable" Warning
}

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, skyhook) in input.skyhooks() {
        let seconds = |path: &[&str]| duration_seconds(manifest.get(path)?.as_str()?);
        let path = ["spec", "drainConfig", "timeout"];
        let grace = seconds(&["spec", "drainConfig", "gracePeriod"]);
        // A timeout of 0 is none.
        if let (Some(timeout), Some(grace)) = (seconds(&path).filter(|timeout| *timeout > 0.0), grace)
            && timeout <= grace
        {
            let message = "drains time out before the grace period of the pods is over";
            findings.report(manifest, &path, message).fix("Set a timeout that is longer than gracePeriod");
        }
        for (name, package) in skyhook.packages() {
            let path = ["spec", "packages", name, "stageTimeout"];
            let interrupts = package.interrupt.is_some() || !package.config_interrupts.is_empty();
            if interrupts && seconds(&path) == Some(0.0) {
                let message = "stageTimeout 0 means no deadline: if the interrupt does not return, the node \
                    stays in progress";
                findings
                    .report(manifest, &path, message)
                    .fix("Set a stageTimeout longer than the longest stage");
            }
        }
    }
}
