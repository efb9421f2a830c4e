use super::{Input, LintFindings};
use crate::model::{Effects, WaitReason};
use crate::rules::Severity;

lint_rule! {
    /// In the current state of the cluster, the rollout of the manifest does not complete.
    ///
    /// # What it means
    ///
    /// The operator waits for something that it does not change itself, such as an ignored node, a taint or a package
    /// that has failed permanently. The finding is info if the custom resource in the cluster is paused or disabled on
    /// purpose.
    ///
    /// # How to fix
    ///
    /// Remove the cause: `kubectl skyhook diagnose stuck` shows it with remedies.
    SKY832 "never-completes" Warning Effects
}

fn check(input: &Input<'_>, effects: &[Effects<'_>], findings: &mut LintFindings) {
    for (manifest, skyhook) in input.skyhooks() {
        let own = effects.iter().find(|effects| effects.skyhook == skyhook.name());
        let Some((effects, why)) = own.and_then(|effects| Some((effects, effects.rollout.stuck.as_ref()?)))
        else {
            continue;
        };
        let halted = matches!(effects.stuck, Some(WaitReason::Paused | WaitReason::Disabled));
        // Other rules report annotations in manifests, taints, missing policies, and the drains below.
        let reported = match &effects.stuck {
            _ if effects.drain_refused => {
                let budgets = effects.refusing.iter().any(|(budget, _)| budget.refuses_for_good());
                budgets || skyhook.spec.drain_config.spares_unmanaged()
            }
            Some(WaitReason::Taint(taint)) => !taint.of_lifecycle(),
            Some(WaitReason::PolicyMissing(_)) => true,
            _ => skyhook.paused() || skyhook.disabled(),
        };
        if reported {
            continue;
        }
        let finding = findings.report(manifest, &["spec"], format!("the rollout does not complete: {why}"));
        finding.fix(format!("Remove the cause: `kubectl skyhook diagnose stuck {}`", skyhook.name()));
        if halted {
            finding.severity(Severity::Info);
        }
    }
}
