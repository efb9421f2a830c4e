//! Side effects of a plan, beyond its writes, and whether they have grown since the preview.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Grade, Plan};
use crate::model::{PackageChange, PackageDocument, RolloutDocument};
use crate::text::{list, plural};

/// Side effects of a plan, and changes that cannot be undone.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Consequences {
    /// The grade of the worst side effect; absent if there are none above the grade of the changes themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grade: Option<Grade>,
    /// Number of nodes that the plan changes or on which packages run.
    pub nodes: usize,
    /// Number of `nvidia.com/gpu` resources on those nodes.
    pub gpus: u64,
    /// Number of nodes on which each package runs, by package.
    pub reruns: BTreeMap<String, usize>,
    /// Number of nodes on which each package is uninstalled, by package; absent if there are none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub uninstalls: BTreeMap<String, usize>,
    /// Number of nodes that are cordoned and drained for an interrupt.
    pub drains: usize,
    /// Number of nodes on which services restart.
    pub restarts: usize,
    /// Number of nodes that reboot.
    pub reboots: usize,
    /// The nodes that reboot; absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reboot_nodes: Vec<String>,
    /// Whether installed files remain on hosts because an uninstall does not run; absent if false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skips_uninstall: bool,
    /// Whether the only record of an installation is removed; absent if false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub loses_record: bool,
    /// Changes that `undo` cannot revert.
    pub cannot_be_undone: Vec<String>,
    /// The resulting work on each package, as in `lint`; absent if unknown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<PackageDocument>,
    /// The effects on the nodes of each custom resource, as in `lint`; absent if unknown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rollouts: Vec<RolloutDocument>,
    /// Further effects, one sentence each; absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Risks to know before confirming, one sentence each.
    pub warnings: Vec<String>,
}

impl Consequences {
    /// The worst effect of the plan on the cluster: at least that of its changes.
    pub fn worst_grade(&self) -> Grade {
        let loses = self.skips_uninstall || self.loses_record;
        self.grade.unwrap_or(Grade::B1).max(if loses { Grade::B4 } else { Grade::B1 })
    }

    /// Raises the grade to at least this one.
    pub fn at_least(&mut self, grade: Grade) {
        self.grade = self.grade.max(Some(grade));
    }

    /// What a planner states, without grade, numbers and effects, which the forecast computes.
    pub fn statements(self) -> Consequences {
        let Consequences { skips_uninstall, loses_record, cannot_be_undone, notes, warnings, .. } = self;
        let none = Consequences::default();
        Consequences { skips_uninstall, loses_record, cannot_be_undone, notes, warnings, ..none }
    }

    /// The worst effect of this plan in a few words; [`Grade::B4`] has several meanings.
    pub fn at_worst(&self, grade: Grade) -> String {
        let all = [
            (self.reboots > 0, "nodes reboot"),
            (self.skips_uninstall, "uninstalls do not run"),
            (self.loses_record, "installation records are lost"),
        ];
        let does: Vec<&str> = all.iter().filter(|(does, _)| *does).map(|(_, what)| *what).collect();
        if grade == Grade::B2 && self.reruns.is_empty() {
            let uninstalls = !self.uninstalls.is_empty();
            return if uninstalls { "packages are uninstalled" } else { "stages stop or start over" }
                .to_owned();
        }
        if grade < Grade::B4 || does.is_empty() {
            return grade.meaning().to_owned();
        }
        does.join(", ")
    }

    /// Adds the statements of another plan.
    pub fn add(&mut self, other: Consequences) {
        self.skips_uninstall |= other.skips_uninstall;
        self.loses_record |= other.loses_record;
        other.cannot_be_undone.into_iter().for_each(|lost| self.cannot_undo(lost));
        self.notes.extend(other.notes);
        other.warnings.into_iter().for_each(|warning| self.warn(warning));
    }

    /// Adds a change that `undo` cannot revert, once.
    pub fn cannot_undo(&mut self, lost: impl Into<String>) {
        let lost = lost.into();
        if !self.cannot_be_undone.contains(&lost) {
            self.cannot_be_undone.push(lost);
        }
    }

    /// Adds a note, once.
    pub fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Adds a warning, once.
    pub fn warn(&mut self, warning: impl Into<String>) {
        let warning = warning.into();
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }
}

/// The name of the number of evicted pods in [`details`].
const PODS: &str = "pods to evict";

/// The growth of the effects of a plan from the preview that was `shown` to the same preview `now`; `None` if nothing in
/// it has grown.
pub fn growth(shown: &Plan, now: &Plan) -> Option<String> {
    // At grade B4 a further loss does not raise the grade.
    let sizes = |plan: &Plan| {
        let effects = &plan.consequences;
        let losses = [effects.skips_uninstall, effects.loses_record].map(u64::from);
        let counts = [effects.nodes, effects.drains, effects.restarts, effects.reboots].map(|n| n as u64);
        [[plan.grade() as u64, effects.gpus].as_slice(), &losses, &counts].concat()
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
    if more || !grown.is_empty() {
        // The numbers of the whole plan suffice if they have grown.
        let grown: &[&String] = if more { &[] } else { &grown };
        let (from, to) = (effects(shown, &before, grown), effects(now, &after, grown));
        return Some(format!("the effects of the plan have grown from {from} to {to}"));
    }
    let sentences = |plan: &Plan| {
        let permanent =
            plan.consequences.cannot_be_undone.iter().map(|what| format!("cannot be undone: {what}"));
        plan.consequences.warnings.iter().cloned().chain(permanent).collect::<Vec<_>>()
    };
    let known = sentences(shown);
    let new = sentences(now).into_iter().find(|sentence| !known.contains(sentence));
    new.map(|sentence| format!("the effects of the plan have changed ({sentence})"))
}

/// The numbers of the preview beyond those of the whole plan, by what they count.
fn details(consequences: &Consequences) -> BTreeMap<String, usize> {
    let mut details = BTreeMap::new();
    for (verb, packages) in [("run", &consequences.reruns), ("uninstall", &consequences.uninstalls)] {
        details
            .extend(packages.iter().map(|(package, nodes)| (format!("nodes that {verb} {package}"), *nodes)));
    }
    // A stage that only finishes is no effect of the plan.
    let finishes = |effect: &&PackageDocument| effect.change == PackageChange::Finish;
    let stopped: BTreeSet<&str> =
        consequences.effects.iter().filter(finishes).map(|effect| effect.skyhook.as_str()).collect();
    for effect in consequences.effects.iter().filter(|effect| !finishes(effect)) {
        let of = format!("{} of {}", effect.package, effect.skyhook);
        let interrupt = effect.interrupt.iter().map(|kind| format!("nodes with {kind} by {of}"));
        details.extend(interrupt.map(|what| (what, effect.nodes.len())));
        details.insert(format!("nodes that run {of}"), effect.nodes.len());
        details.extend(effect.at_once.map(|nodes| (format!("nodes at work in parallel for {of}"), nodes)));
    }
    for rollout in consequences.rollouts.iter().filter(|rollout| !stopped.contains(rollout.skyhook.as_str()))
    {
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
    let interrupts: Vec<String> =
        interrupts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| plural(*n, what)).collect();
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
    fn a_stage_that_only_finishes_has_not_grown() {
        let finishing = |consequences: &mut Consequences| {
            consequences.effects.push(PackageDocument {
                skyhook: "gpu".to_owned(),
                package: "driver".to_owned(),
                change: PackageChange::Finish,
                from: None,
                to: None,
                nodes: vec!["node-1".to_owned()],
                regardless: Vec::new(),
                stages: vec!["config".to_owned()],
                interrupt: None,
                at_once: None,
                estimate: None,
            });
        };
        assert_eq!(growth(&plan(|_| {}), &plan(finishing)), None);
    }

    #[test]
    fn every_number_and_the_grade_count() {
        let shown = plan(|_| {});
        let from = "the effects of the plan have grown from stages stop or start over (B2) on 3 nodes to";
        let grown = |change: fn(&mut Consequences)| growth(&shown, &plan(change)).expect("growth");
        assert_eq!(
            grown(|effects| effects.nodes = 4),
            format!("{from} stages stop or start over (B2) on 4 nodes")
        );
        assert_eq!(
            grown(|effects| effects.drains = 1),
            format!("{from} stages stop or start over (B2) on 3 nodes with 1 drain")
        );
        assert_eq!(
            grown(|effects| effects.restarts = 2),
            format!("{from} stages stop or start over (B2) on 3 nodes with 2 service restarts")
        );
        assert_eq!(
            grown(|effects| effects.gpus = 8),
            format!("{from} stages stop or start over (B2) on 3 nodes")
        );
        assert!(grown(|effects| effects.at_least(Grade::B3)).contains("(B3)"));
    }

    #[test]
    fn a_further_loss_counts_at_the_worst_grade() {
        let reboots = |consequences: &mut Consequences| {
            consequences.reboots = 1;
            consequences.at_least(Grade::B4);
        };
        let shown = plan(reboots);
        let now = plan(|consequences| {
            reboots(consequences);
            consequences.loses_record = true;
        });
        assert_eq!(
            growth(&shown, &now).as_deref(),
            Some(
                "the effects of the plan have grown from nodes reboot (B4) on 3 nodes with 1 reboot to nodes reboot, \
                 installation records are lost (B4) on 3 nodes with 1 reboot"
            )
        );
        assert_eq!(growth(&now, &shown), None);
    }

    #[test]
    fn a_further_permanent_change_is_a_change() {
        let shown = plan(|effects| effects.cannot_undo("the deletion of finished pods"));
        let now = plan(|effects| {
            effects.cannot_undo("the deletion of finished pods");
            effects.cannot_undo("host changes made by rerunning packages");
        });
        assert_eq!(
            growth(&shown, &now).as_deref(),
            Some(
                "the effects of the plan have changed (cannot be undone: host changes made by rerunning packages)"
            )
        );
        assert_eq!(growth(&now, &shown), None);
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
