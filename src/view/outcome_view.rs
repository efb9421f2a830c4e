//! The result of a plan as table and document.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::text::{self, Label, Text};
use super::{NodeSet, Table, View, cells, count, document, list, plural};
use crate::api::Stage;
use crate::apply::{PlanOutcome, PlanVerdict, StepResult, StopReason, Tally};
use crate::error::Exit;
use crate::model::{PackageChange, PackageDocument, Remaining, RolloutDocument};
use crate::plan::{Condition, Grade, Plan};
use crate::view::Joined;

/// Maximum number of table rows; further rows are only counted.
const MOST_ROWS: usize = 30;
/// Maximum number of node-name ranges after the number of nodes.
const RUNS: usize = 3;

/// A plan with its outcome, as shown to the user.
pub struct OutcomeView<'a> {
    pub plan: &'a Plan,
    /// The digest of a saved plan.
    pub digest: Option<&'a str>,
    pub outcome: &'a PlanOutcome,
    /// The id of the journal with which the plan can be undone.
    pub journal: Option<String>,
    /// The id of the journal that the plan reverts.
    pub undoes: Option<&'a str>,
    pub dry_run: bool,
    /// The command's own findings: blockers of the goal, or leftovers.
    pub found: Option<&'a dyn View>,
    /// Goals that were reached and goals that were not.
    pub reached: Option<String>,
    /// The exit code of a plan that is completely done.
    pub all_done: Exit,
}

impl OutcomeView<'_> {
    pub fn exit(&self) -> Exit {
        match self.outcome.verdict() {
            PlanVerdict::Done => self.all_done,
            // A pause that was set and removed again does not count as a change.
            PlanVerdict::Partly if self.did_nothing() => match self.outcome.tally().failed {
                0 => Exit::Refused,
                _ => Exit::Failed,
            },
            PlanVerdict::Partly => Exit::Partly,
            PlanVerdict::Refused => Exit::Refused,
            PlanVerdict::Failed | PlanVerdict::Unknown => Exit::Failed,
            PlanVerdict::Blocked => Exit::Findings,
            PlanVerdict::Interrupted => Exit::Interrupted,
            PlanVerdict::TimedOut => Exit::TimedOut,
        }
    }

    /// Whether the plan ended early and restored everything that it had changed, such as its own pause.
    fn restored_everything(&self) -> bool {
        self.outcome.verdict() != PlanVerdict::Done && self.outcome.restored_everything(self.plan)
    }

    /// Whether no object changed: everything is restored, and no result is unknown.
    fn did_nothing(&self) -> bool {
        self.restored_everything() && self.outcome.tally().unknown == 0
    }

    fn summary(&self) -> text::Line {
        let tally = self.outcome.tally_of_work(self.plan);
        let mut parts = Vec::new();
        let would = if self.dry_run { "would be " } else { "" };
        if self.did_nothing() {
            parts.push("nothing changed".to_owned());
        }
        for (number, what) in [
            (tally.applied, format!("{would}changed")),
            (tally.unchanged, "unchanged".to_owned()),
            (tally.gone, "gone".to_owned()),
            (tally.kept, "kept for another owner".to_owned()),
            (tally.skipped, "skipped".to_owned()),
            (tally.failed, "failed".to_owned()),
            (tally.unknown, "unknown".to_owned()),
            (tally.not_reached, "not reached".to_owned()),
        ] {
            if number > 0 {
                parts.push(format!("{} {what}", count(number)));
            }
        }
        let label = match self.outcome.verdict() {
            PlanVerdict::Done => Label::Good,
            _ => Label::Error,
        };
        if parts.is_empty() {
            parts.push("nothing to change".to_owned());
        }
        label.span(&self.plan.title) + ": " + parts.join(", ")
    }

    /// Why the plan stopped early; `None` if it finished.
    fn ended(&self) -> Option<String> {
        Some(match &self.outcome.ended {
            StopReason::Finished => return None,
            StopReason::Interrupted => {
                if !self.outcome.results.iter().flatten().any(StepResult::may_have_changed) {
                    "interrupted before any change was made".to_owned()
                } else if self.restored_everything() {
                    "interrupted; the pause was removed".to_owned()
                } else {
                    "interrupted; requests in flight were completed".to_owned()
                }
            }
            StopReason::PreconditionFailed { reason } => format!("stopped: {reason}"),
            StopReason::DependencyFailed => "stopped: a step failed, and later steps depend on it".to_owned(),
            StopReason::JournalFailed { reason } => format!(
                "stopped: the journal cannot be written ({reason}), and unrecorded changes cannot be undone"
            ),
            StopReason::TooManyFailures { failed } => {
                format!("stopped: {}; use --max-failures to allow more", plural(*failed, "failure"))
            }
            StopReason::NodesErroring { nodes } => format!(
                "stopped: nodes entered status erroring: {}",
                NodeSet::of(nodes.iter().map(String::as_str)).limited(6)
            ),
            StopReason::NodesUnreadable { reason } => {
                format!("stopped: cannot tell whether nodes entered status erroring ({reason})")
            }
            StopReason::TimedOut { waiting } => {
                let mut untils = self.plan.stages.iter().filter_map(|s| s.until.as_ref());
                let remedy = if untils.any(|until| until.condition == Condition::Paused) {
                    "; `kubectl skyhook diagnose check` shows whether the operator is running; if it is not, \
                     --no-pause skips the pause"
                } else {
                    ""
                };
                format!("timed out waiting until {waiting}{remedy}")
            }
            StopReason::Blocked { .. } => "stopped: progress is blocked until someone intervenes".to_owned(),
            StopReason::Unknown { reason } => format!("stopped waiting: {reason}"),
        })
    }

    /// The warning about steps with an unknown result.
    fn unknown(&self) -> Option<String> {
        let objects = plural(self.outcome.tally().unknown, "object");
        (self.outcome.tally().unknown > 0).then(|| {
            format!(
                "it is unknown whether {objects} changed; `kubectl skyhook \
                 undo` checks, and reverts the changes that were made"
            )
        })
    }

    /// Whether any object remains changed, or may have changed.
    pub fn changed(&self) -> bool {
        let tally = self.outcome.tally();
        !self.dry_run && tally.applied + tally.unknown > 0 && !self.did_nothing()
    }

    /// The hint about the next commands: rerun, undo.
    fn next(&self) -> Option<String> {
        if !self.changed() {
            return None;
        }
        let id = self.journal.as_ref()?;
        let again = match self.undoes {
            // Without its id, `undo` would take an older command.
            Some(undone) => format!("to finish the remaining steps: kubectl skyhook undo {undone}"),
            None => {
                "rerun the command to finish the remaining steps; its preview may also list completed steps"
                    .to_owned()
            }
        };
        let undo = format!("to undo: kubectl skyhook undo {id}");
        match (self.outcome.verdict(), self.plan.is_undoable()) {
            (PlanVerdict::Done, false) => None,
            (PlanVerdict::Done, true) => Some(undo),
            (_, false) => Some(again),
            (_, true) => Some(format!("{again}; {undo}")),
        }
    }
}

/// How the result of a step is shown, and its reason; empty if there is none.
pub fn result_words(result: &StepResult) -> (Label, &'static str, &str) {
    match result {
        StepResult::Applied => (Label::Good, "changed", ""),
        StepResult::Partly { reason } => (Label::Warning, "changed", reason),
        StepResult::Unchanged => (Label::Good, "unchanged", ""),
        StepResult::Gone => (Label::Warning, "gone", ""),
        StepResult::NotReached => (Label::Warning, "not reached", ""),
        StepResult::Kept { reason } => (Label::Warning, "kept for another owner", reason),
        StepResult::Skipped { reason } => (Label::Warning, "skipped", reason),
        StepResult::Failed { reason } => (Label::Error, "failed", reason),
        StepResult::Unknown { reason } => (Label::Error, "unknown", reason),
    }
}

impl View for OutcomeView<'_> {
    fn blocks(&self, wide: bool) -> Text {
        let mut table = Table::new(["object", "result", "reason"]).wrap_last();
        let mut more = 0;
        for (step, result) in self.outcome.of(self.plan) {
            let (label, result, reason) = result_words(result);
            if !wide && reason.is_empty() {
                continue;
            }
            if table.len() >= MOST_ROWS && !wide {
                more += 1;
                continue;
            }
            let object = text::name(&step.target).into();
            table.row([object, label.span(result).into(), reason.into()]);
        }
        let mut text = Text::new();
        if let Some(found) = self.found {
            text.append(found.blocks(wide)).blank();
        }
        text.append(table);
        if more > 0 {
            text.line(text::dim(format!("and {} more; -o wide lists all", count(more))));
        }
        text.blank().line(self.summary());
        if let Some(reason) = self.ended() {
            text.paragraph(Label::Warning.span(reason));
        }
        if let Some(unknown) = self.unknown() {
            text.paragraph(Label::Warning.span(unknown));
        }
        if let Some(reached) = &self.reached {
            text.paragraph(reached.as_str());
        }
        if let Some(next) = self.next() {
            text.line(text::dim(next));
        }
        text
    }

    fn names(&self) -> Vec<String> {
        self.outcome
            .of(self.plan)
            .filter(|(_, result)| **result == StepResult::Applied)
            .map(|(step, _)| step.target.to_string())
            .collect()
    }

    fn document(&self) -> Value {
        let steps = self.outcome.of(self.plan).map(|(step, result)| StepView {
            target: step.target.to_string(),
            changes: step.change.describe(),
            result: result.clone(),
        });
        let fields = Document {
            title: self.plan.title.clone(),
            grade: self.plan.grade(),
            digest: self.digest.map(str::to_owned),
            dry_run: self.dry_run,
            journal: self.journal.clone(),
            counts: self.outcome.tally_of_work(self.plan),
            steps: steps.collect(),
            ended: self.outcome.ended.clone(),
            reached: self.reached.clone(),
            report: self.found.map(View::document),
        };
        document("Outcome", &fields)
    }
}

/// The result of a command that changes objects.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    /// The purpose of the plan, such as `reset gpu on 3 nodes`.
    title: String,
    /// The grade of the plan's worst effect on the cluster.
    grade: Grade,
    /// The digest of the saved plan; absent unless `apply-plan` applied one.
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    /// Whether the changes were only validated by the API server, with `--dry-run=server`.
    dry_run: bool,
    /// The id of the journal with which `undo` reverts the changes; null without a journal.
    journal: Option<String>,
    /// Number of `steps` by result. A pause that the command sets and ends itself counts only if setting or
    /// ending it failed.
    counts: Tally,
    /// The steps, in the order of the plan.
    steps: Vec<StepView>,
    #[serde(flatten)]
    ended: StopReason,
    /// A sentence about the goals that were reached and those that were not; absent without a goal.
    #[serde(skip_serializing_if = "Option::is_none")]
    reached: Option<String>,
    /// The command's own document, such as a `Diagnosis` of blockers or a `Teardown`; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<Value>,
}

/// One change of one object, and its result.
#[derive(Serialize, JsonSchema)]
struct StepView {
    /// The object, such as `node/gpu-1` or `pod/skyhook/driver-apply`.
    target: String,
    /// The changed fields, one line each.
    changes: Vec<String>,
    #[serde(flatten)]
    result: StepResult,
}

/// A paragraph for each custom resource with effects.
pub fn effects_text(packages: &[PackageDocument], rollouts: &[RolloutDocument]) -> Text {
    let mut body = Text::new();
    for rollout in rollouts {
        let mut table = Table::with_headings([rollout.skyhook.as_str(), "ONCE APPLIED"]).wrap_last();
        let packages: Vec<&PackageDocument> =
            packages.iter().filter(|p| p.skyhook == rollout.skyhook).collect();
        for package in &packages {
            table.row(cells![title(package), outcome(rollout, package)]);
        }
        let everywhere = packages.iter().any(|package| package.exceeds_budget(rollout));
        for (term, description) in node_rows(rollout, everywhere) {
            table.row(cells![term, description]);
        }
        if !table.is_empty() {
            body.blank().table(table);
        }
    }
    body
}

/// The stages and drains that are still to come in a rollout that goes on: `tuned install and reboot on 2 nodes, one at a
/// time; 2 nodes cordoned, 4 pods to evict`.
pub fn to_come(packages: &[PackageDocument], rollout: &RolloutDocument) -> String {
    let runs = packages.iter().filter(|package| !package.nodes.is_empty());
    let lines: Vec<String> = runs.map(|package| title(package) + " " + &outcome(rollout, package)).collect();
    let drains = node_rows(rollout, false).into_iter().find(|(term, _)| *term == "drains");
    lines.into_iter().chain(drains.map(|(_, drains)| drains)).joined("; ")
}

/// Formats a package and its version change: `driver 2.0.1 → 2.1.0`.
fn title(package: &PackageDocument) -> String {
    match (&package.from, &package.to) {
        (Some(from), Some(to)) => format!("{} {from} → {to}", package.package),
        _ => package.package.clone(),
    }
}

/// Describes the effects on nodes:
/// `upgrade and reboot on 870 nodes (gpu-[1-870]), ALL AT ONCE: the budget (10) does not apply to upgrades`.
fn outcome(rollout: &RolloutDocument, package: &PackageDocument) -> String {
    let runs = |stage: Stage| package.stages.iter().any(|s| *s == stage.to_string());
    let (verb, changes) = match package.change {
        PackageChange::Unchanged => return "unchanged".to_owned(),
        PackageChange::WithoutEffect | PackageChange::NotInstalled if rollout.stuck.is_some() => {
            return "nothing runs in the current state".to_owned();
        }
        PackageChange::WithoutEffect => {
            return "nothing runs on nodes where the package is complete".to_owned();
        }
        PackageChange::NotInstalled => return "not installed on any node".to_owned(),
        PackageChange::Removed => return "removed from the spec; no node has it".to_owned(),
        PackageChange::LeftSpec => {
            return "removed from the spec: stays installed and recorded, but new nodes do not get it"
                .to_owned();
        }
        PackageChange::Finish => {
            let (stages, on) = (list(&package.stages), plural(package.nodes.len(), "node"));
            return match package.stages.len() {
                1 => format!("stage {stages} continues on {on}; nothing else starts"),
                _ => format!("stages {stages} continue on {on}; nothing else starts"),
            };
        }
        PackageChange::Configure => (Some("configure"), "changes of a configMap"),
        PackageChange::Interrupt => (None, "interrupts"),
        // Of an uninstall that has run, only the interrupt is left.
        PackageChange::Uninstall => {
            let uninstalls = runs(Stage::Uninstall) || package.interrupt.is_none();
            let verb = match () {
                () if runs(Stage::Upgrade) => "upgrade, then uninstall",
                () if runs(Stage::Apply) => "install, then uninstall",
                () => "uninstall",
            };
            (uninstalls.then_some(verb), "uninstalls")
        }
        _ if runs(Stage::Upgrade) => (Some("upgrade"), "upgrades"),
        PackageChange::Upgrade if !runs(Stage::Apply) => (Some("finish upgrading"), "upgrades"),
        PackageChange::Reinstall => (Some("reinstall"), "installs"),
        PackageChange::CancelUninstall => (Some("reinstall"), "canceled uninstalls"),
        PackageChange::Downgrade => (Some("install the lower version"), "installs"),
        PackageChange::Install if !runs(Stage::Apply) => (Some("finish installing"), "installs"),
        PackageChange::Install | PackageChange::Upgrade => (Some("install"), "installs"),
    };
    let interrupt = package.interrupt.as_deref().map(|kind| match kind {
        "reboot" => "reboot",
        "service" => "restart services",
        "restartAllServices" => "restart all services",
        _ => "interrupt",
    });
    // The interrupt itself may have run, so that only the stage after it remains.
    let after = (verb.is_none() && interrupt.is_none()).then_some("run post-interrupt");
    let verbs = verb.into_iter().chain(interrupt).chain(after).joined(" and ");
    let nodes = package.nodes.len();
    let pace = match (package.at_once, rollout.batch) {
        _ if nodes <= 1 => String::new(),
        (None, _) => String::new(),
        (Some(0 | 1), _) => ", one at a time".to_owned(),
        (_, Some(batch)) if package.exceeds_budget(rollout) => {
            format!(", ALL AT ONCE: the budget ({batch}) does not apply to {changes}")
        }
        (Some(at_once), _) if at_once == nodes => ", all at once".to_owned(),
        (Some(at_once), _) if rollout.batches_may_overlap => format!(", {at_once} at once"),
        (Some(at_once), _) => format!(", at most {at_once} at once"),
    };
    let regardless = match package.regardless.as_slice() {
        [] => String::new(),
        nodes => format!("; on {} without this change as well", set(nodes)),
    };
    format!("{verbs} on {} ({}){pace}{regardless}", plural(nodes, "node"), set(&package.nodes))
}

fn set(names: &[String]) -> String {
    NodeSet::of(names.iter().map(String::as_str)).limited(RUNS)
}

/// Rows for drains, the budget unless a change ignores it and starts `everywhere`, waiting custom resources, and the
/// completion.
fn node_rows(rollout: &RolloutDocument, everywhere: bool) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if !rollout.deselected.is_empty() {
        let nodes = plural(rollout.deselected.len(), "node");
        lines.push((
            "selector",
            format!("{nodes} no longer selected: packages, cordons and taints stay on them"),
        ));
    }
    if !rollout.stopped.is_empty() {
        let (nodes, set) = (plural(rollout.stopped.len(), "node"), set(&rollout.stopped));
        lines.push(("running", format!("stages on {nodes} ({set}) are stopped halfway")));
    }
    if !rollout.cordoned.is_empty() {
        let nodes = plural(rollout.cordoned.len(), "node");
        let mut drains = match rollout.evicted_pods {
            Some(pods) => format!("{nodes} cordoned, {} to evict", plural(pods, "pod")),
            None => format!("{nodes} cordoned; the pods there were not read"),
        };
        for refusing in &rollout.refusing_budgets {
            drains += &format!(
                "; PodDisruptionBudget {} blocks evictions on {}",
                refusing.budget,
                plural(refusing.nodes.len(), "node")
            );
        }
        match rollout.interrupted_uncordoned.len() {
            0 => {}
            early if early == rollout.cordoned.len() => drains += "; the interrupt starts before the cordon",
            early => {
                drains += &format!("; on {}, the interrupt starts before the cordon", plural(early, "node"))
            }
        }
        lines.push(("drains", drains));
    }
    let overlaps =
        |batch: &usize| rollout.batches_may_overlap && !everywhere && rollout.cordoned.len() > *batch;
    if let Some(batch) = rollout.batch.filter(overlaps) {
        let twice = (2 * batch).min(rollout.cordoned.len());
        lines.push((
            "budget",
            format!("{batch}, sometimes {twice}: without a deploymentPolicy, a second batch may start beside the first"),
        ));
    }
    if !rollout.untainted.is_empty() {
        let nodes = plural(rollout.untainted.len(), "node");
        lines.push(("taint", format!("runtime-required, removed from {nodes} on completion")));
    }
    match rollout.waiting.as_slice() {
        [] => {}
        [one] => lines.push(("later", format!("{one} waits for {}", rollout.skyhook))),
        all => lines.push(("later", format!("{} wait for {}", list(all), rollout.skyhook))),
    }
    if let Some(stuck) = &rollout.stuck {
        let unfinished = match rollout.incomplete_nodes {
            None => format!("does not complete: {stuck}"),
            Some(1) => format!("does not complete on 1 node: {stuck}"),
            Some(nodes) => {
                format!("does not complete on {}; the first obstacle: {stuck}", plural(nodes, "node"))
            }
        };
        lines.push(("rollout", unfinished));
    } else if let (Some(seconds), Some(uncertainty)) = (rollout.estimate, rollout.uncertainty) {
        let remaining = Remaining { seconds, uncertainty };
        let time = format!("{remaining}, at the pace of earlier stages");
        lines.push(("time", time));
    }
    lines
}
