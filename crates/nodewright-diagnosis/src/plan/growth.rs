//! Whether the effects of a plan have grown since its preview.

use std::collections::BTreeMap;

use super::{Consequences, Plan};
use crate::view::{list, plural};

/// What the details of evictions count.
const PODS: &str = "pods to evict";

/// The growth of the effects of a plan from the preview that was `shown` to the same preview `now`; `None` if nothing in
/// it has grown.
pub fn growth(shown: &Plan, now: &Plan) -> Option<String> {
    let sizes = |plan: &Plan| {
        let Consequences { nodes, drains, restarts, reboots, gpus, .. } = &plan.consequences;
        [*nodes, *drains, *restarts, *reboots, usize::try_from(*gpus).unwrap_or(usize::MAX)]
    };
    let more = sizes(now).iter().zip(sizes(shown)).any(|(now, before)| *now > before);
    let (before, after) = (details(&shown.consequences), details(&now.consequences));
    let grown = after.iter().filter(|(what, now)| {
        let before = before.get(*what).copied().unwrap_or_default();
        // The number of pods varies by itself.
        let varies = if what.starts_with(PODS) { before / 10 } else { 0 };
        **now > before + varies
    });
    let grown: Vec<&String> = grown.map(|(what, _)| what).collect();
    let more = more || now.grade() > shown.grade();
    if more || !grown.is_empty() {
        // The numbers of the whole plan suffice if they have grown.
        let grown: &[&String] = if more { &[] } else { &grown };
        let (from, to) = (effects(shown, &before, grown), effects(now, &after, grown));
        return Some(format!("the effects of the plan have grown from {from} to {to}"));
    }
    let warned = &shown.consequences.warnings;
    let new = now.consequences.warnings.iter().find(|warning| !warned.contains(warning));
    new.map(|warning| format!("the effects of the plan have changed ({warning})"))
}

/// The numbers of the preview beyond those of the whole plan, by what they count.
fn details(consequences: &Consequences) -> BTreeMap<String, usize> {
    let mut details = BTreeMap::new();
    for effect in &consequences.effects {
        let of = format!("{} of {}", effect.package, effect.skyhook);
        let interrupt = effect.interrupt.iter().map(|kind| format!("nodes with {kind} by {of}"));
        details.extend(interrupt.map(|what| (what, effect.nodes.len())));
        details.insert(format!("nodes that run {of}"), effect.nodes.len());
        details.extend(effect.at_once.map(|nodes| (format!("nodes at once for {of}"), nodes)));
    }
    for rollout in &consequences.rollouts {
        let of = &rollout.skyhook;
        let pods = rollout.evicted_pods;
        details.insert(format!("nodes cordoned for {of}"), rollout.cordoned.len());
        details.extend(rollout.batch.map(|nodes| (format!("nodes in a batch of {of}"), nodes)));
        details.extend(pods.map(|pods| (format!("{PODS} for {of}"), pods)));
        details.insert(format!("custom resources that wait for {of}"), rollout.waiting.len());
        for refusing in &rollout.refusing_budgets {
            details
                .insert(format!("nodes with evictions refused by {}", refusing.budget), refusing.nodes.len());
        }
    }
    details
}

/// The grade and size of a plan's effects, with these details:
/// `nodes reboot (B4) on 3 nodes with 3 drains and 3 reboots (pods to evict for gpu: 6)`.
fn effects(plan: &Plan, details: &BTreeMap<String, usize>, named: &[&String]) -> String {
    let (grade, consequences) = (plan.grade(), &plan.consequences);
    let nodes = plural(consequences.nodes, "node");
    let interrupts = [
        (consequences.drains, "drain"),
        (consequences.restarts, "service restart"),
        (consequences.reboots, "reboot"),
    ];
    let interrupts = interrupts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| plural(*n, what));
    let interrupts: Vec<String> = interrupts.collect();
    let with = if interrupts.is_empty() { String::new() } else { format!(" with {}", list(&interrupts)) };
    let number = |what: &&String| details.get(*what).copied().unwrap_or_default();
    let named = named.iter().map(|what| format!("{what}: {}", number(what))).collect::<Vec<_>>();
    let named = if named.is_empty() { String::new() } else { format!(" ({})", named.join(", ")) };
    format!("{} ({grade}) on {nodes}{with}{named}", consequences.at_worst(grade))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Change, Grade, Kind, Step, Target};

    fn plan(change: impl FnOnce(&mut Consequences)) -> Plan {
        let mut plan = Plan::new("reset gpu", "gpu");
        let pod = Target::inside(Kind::Pod, "skyhook", "gpu-driver", None);
        plan.stage(vec![Step::new(pod, Change::Delete { was: None }, "it has failed")]);
        plan.consequences.at_least(Grade::B2);
        plan.consequences.nodes = 3;
        change(&mut plan.consequences);
        plan
    }

    #[test]
    fn equal_and_smaller_effects_have_not_grown() {
        let shown = plan(|effects| effects.drains = 2);
        assert_eq!(growth(&shown, &shown), None);
        assert_eq!(growth(&shown, &plan(|_| {})), None);
    }

    #[test]
    fn every_number_and_the_grade_count() {
        let shown = plan(|_| {});
        let from = "the effects of the plan have grown from packages run again (B2) on 3 nodes to";
        let grown = |change: fn(&mut Consequences)| growth(&shown, &plan(change)).expect("growth");
        assert_eq!(grown(|effects| effects.nodes = 4), format!("{from} packages run again (B2) on 4 nodes"));
        assert_eq!(
            grown(|effects| effects.drains = 1),
            format!("{from} packages run again (B2) on 3 nodes with 1 drain")
        );
        assert_eq!(
            grown(|effects| effects.restarts = 2),
            format!("{from} packages run again (B2) on 3 nodes with 2 service restarts")
        );
        assert_eq!(grown(|effects| effects.gpus = 8), format!("{from} packages run again (B2) on 3 nodes"));
        assert!(grown(|effects| effects.at_least(Grade::B3)).contains("(B3)"));
    }

    #[test]
    fn a_new_warning_is_a_change() {
        let shown = plan(|effects| effects.warn("pods are evicted"));
        assert_eq!(growth(&shown, &shown), None);
        let now = plan(|effects| {
            effects.warn("pods are evicted");
            effects.warn("the rollout stops");
        });
        assert_eq!(
            growth(&shown, &now).as_deref(),
            Some("the effects of the plan have changed (the rollout stops)")
        );
        assert_eq!(growth(&now, &shown), None);
    }
}
