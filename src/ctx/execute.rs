//! Applies plans: preview, question, permissions, journal, writes, table.

use std::cell::RefCell;

use serde_json::Value;

use super::process::{Question, Unconfirmed};
use super::wait::WatchStrategy;
use super::watch::WatchOrigin;
use super::{Aim, Ctx, PlanWait, PlannedFrom, Progress, process};
use crate::apply::journal::Circumstances;
use crate::apply::precondition::{RebasedPlan, rebase};
use crate::apply::{
    ApplyEvent, Canary, Journal, Options, PlanOutcome, StepResult, StopReason, Stopper, WaitStrategy, apply,
    file as apply_file, preflight,
};
use crate::args::redacted::redacted;
use crate::args::safety::{DryRun, Safety};
use crate::cluster::{ActiveApi, Cluster};
use crate::error::{Error, Exit, Result};
use crate::plan::{Grade, Plan, Refusal, ResourceState, SavedPlan, Step, Target, growth};
use crate::view::outcome_view::OutcomeView;
use crate::view::preview::Preview;
use crate::view::{View, count, duration_text, list, plural};

/// Options of a single command.
#[derive(Debug, Clone, Default)]
pub struct CommandOptions {
    /// Without a terminal and a confirmation, exits 0 instead of failing, as existing scripts expect.
    pub aborts: bool,
    /// Without a terminal, grades up to B1 need no confirmation, because upstream's CLI never prompts.
    /// Standard input is left unread: it may be the list of a shell loop.
    pub unasked: bool,
    /// The id of the journal that the plan reverts.
    pub undoes: Option<String>,
    /// The part of the plan to preview and confirm; the other steps have no effect.
    pub shown: Option<Plan>,
    /// The digest of the saved plan, if the plan comes from a file.
    pub digest: Option<String>,
}

impl Ctx {
    /// Previews a plan with its effects on the cluster, confirms and applies it, then prints the result and
    /// returns its exit code.
    pub async fn execute(&mut self, cluster: &Cluster, mut plan: Plan, safety: &Safety) -> Result<Exit> {
        self.forecast(cluster, &mut plan).await;
        self.execute_with(&plan, safety, CommandOptions::default(), None).await
    }

    /// [`Ctx::execute`] for a plan that already has its effects, with these [`CommandOptions`]. `waiting`
    /// follows the goals of the stages with watches.
    pub async fn execute_with(
        &mut self,
        plan: &Plan,
        safety: &Safety,
        command_options: CommandOptions,
        mut waiting: Option<PlanWait<'_>>,
    ) -> Result<Exit> {
        let plan = &forcing_uncordons(plan, safety);
        let shown = command_options.shown.as_ref();
        let shown = shown.map(|shown| forcing_uncordons(shown, safety));
        let from_files = !self.global.reading.from.is_empty();
        self.refuse_files(safety)?;
        if from_files && safety.dry_run == DryRun::Server {
            let reason = "--dry-run=server cannot be used with --from";
            return Err(Error::usage(reason));
        }
        self.say_what_was_not_read(plan, safety.dry_run, command_options.digest.is_some());
        let saved = match &safety.plan_out {
            Some(file) => Some((file, self.saved(plan).await?)),
            None => None,
        };
        let digest = saved.as_ref().map(|(_, saved)| saved.digest()).or(command_options.digest.as_deref());
        let changes = shown.as_ref().unwrap_or(plan);
        let report = waiting.as_ref().and_then(|waiting| Some(waiting.aim.found()?.document()));
        let preview =
            Preview { plan: changes, diff: safety.diff, destination: self.destination(), digest, report };
        if let Some((file, saved)) = &saved {
            apply_file::write(saved, file)?;
            self.show(&preview)?;
            self.note(format!("plan {} was saved to {}", saved.digest(), file.display()));
            return Ok(Exit::Done);
        }
        // An empty plan may still have to wait for a request of an earlier run.
        let waits = waiting.is_some() && plan.waits() && safety.dry_run == DryRun::None;
        if plan.is_empty() && !waits {
            self.note(format!("{}: nothing to do", plan.title));
            if safety.dry_run == DryRun::Client || from_files {
                if self.global.output.format.is_data() {
                    self.show(&preview)?;
                }
                return Ok(Exit::Done);
            }
            let aim = waiting.as_ref().map(|w| &*w.aim);
            let outcome = PlanOutcome::not_begun(plan, StopReason::Finished);
            return self.close(plan, &outcome, None, safety, aim, &command_options);
        }
        within(changes, safety)?;
        let options = self.options(safety);
        if let Some(canary) = &options.canary {
            self.note_waves(canary, changes);
        }
        if safety.dry_run == DryRun::Client || from_files {
            self.show(&preview)?;
            let reason = if from_files { "read from a capture" } else { "dry run" };
            self.note(format!("{reason}: nothing was changed"));
            return Ok(Exit::Done);
        }
        if (!options.dry_run || safety.diff) && (!changes.is_empty() || plan.waits()) {
            self.note(preview.blocks(false));
        }
        let unasked = command_options.unasked && changes.grade() <= Grade::B1 && !self.can_ask();
        if !options.dry_run && !changes.is_empty() && !safety.confirm && !unasked {
            match Question::of(changes).ask(changes, &mut self.screen, &self.process).await {
                Err(Unconfirmed::Unanswered) if command_options.aborts => {
                    return self.abort(&preview);
                }
                answer => answer?,
            }
            self.read_again(changes).await?;
        }
        let undoes = command_options.undoes.clone();
        let (outcome, journal) = self.send(plan, &options, safety, undoes, waiting.as_mut()).await?;
        let aim = waiting.as_ref().map(|w| &*w.aim);
        self.close(plan, &outcome, journal, safety, aim, &command_options)
    }

    /// Refuses a change of the API of `--api` if the operator is known to act on the other one: its effects could not be
    /// predicted. Commands for leftovers and for recorded plans may change both.
    pub(super) fn refuse_other_api(&self, cluster: &Cluster, leftovers: bool) -> Result<()> {
        let api = &cluster.active_api;
        let tidies = leftovers && self.verb != "reset" || matches!(self.verb, "finalizer strip" | "teardown");
        let Some(asked) = self.global.reading.api.filter(|_| !tidies && !cluster.operator().is_down()) else {
            return Ok(());
        };
        let mut others = api.versions().filter(|version| ActiveApi::of_version(version) != asked);
        let acts = api.versions().any(|version| ActiveApi::of_version(version) == asked);
        match others.next().filter(|_| !acts) {
            Some(version) => {
                let (version, asked, other) = (version.to_string(), asked.kind(), asked.other().kind());
                let (asked, other) = (asked.to_owned(), other.to_owned());
                Err(Refusal::OtherApi { version, asked, other }.into())
            }
            None => Ok(()),
        }
    }

    /// Names the sizes of the waves in which nodes are changed.
    fn note_waves(&mut self, canary: &Canary, plan: &Plan) {
        let waves = plan.stages.iter().map(|stage| canary.waves(stage)).filter(|waves| waves.len() > 1);
        for waves in waves.collect::<Vec<_>>() {
            let sizes: Vec<String> = waves.iter().map(|wave| wave.len().to_string()).collect();
            let pause = duration_text(canary.pause);
            self.note(format!("Nodes are changed in waves of {}, {pause} apart.", list(&sizes)));
        }
    }

    /// Reads the cluster again after the question, which may have been open for long, and refuses a plan that now has
    /// other effects than its preview shows.
    async fn read_again(&mut self, plan: &Plan) -> Result<()> {
        let PlannedFrom { needs, required, leftovers, named, specs } = self.planned_from.clone();
        if needs.is_empty() {
            return Ok(());
        }
        let cluster = self.limit_to(named).load_to_plan(&needs, &required, leftovers).await?;
        let specs = ResourceState::of_plan(specs, plan);
        match self.growth(&cluster, plan, &specs).await {
            None => Ok(()),
            Some(growth) => Err(Refusal::ChangedSincePreview { change: growth.to_string() }.into()),
        }
    }

    /// Why a plan that was made earlier, from these specs, is not applied to this cluster: its effects have grown, or
    /// cannot be compared.
    pub async fn growth(&self, cluster: &Cluster, plan: &Plan, specs: &[ResourceState]) -> Option<String> {
        let mut now = plan.clone();
        self.forecast(cluster, &mut now).await;
        let changed = |state: &ResourceState| {
            let object = cluster.skyhook(&state.target.name).map_or(&Value::Null, |skyhook| &skyhook.whole);
            state.changed(plan, object, |_| true)
        };
        let grown = growth(plan, &now).or_else(|| specs.iter().find_map(changed))?;
        let unread = [("nodes", cluster.nodes.unread()), ("pods", cluster.pods.unread())];
        let unread = unread.into_iter().find_map(|(what, why)| Some((what, why?)));
        Some(unread.map_or(grown, |(what, why)| {
            format!("{what} cannot be read ({why}), so it is unknown whether the effects have grown")
        }))
    }

    /// The plan in the form to save, with the cluster and the specs that it was made for.
    async fn saved(&mut self, plan: &Plan) -> Result<SavedPlan> {
        let (cluster, specs) = if self.global.reading.from.is_empty() {
            (Some(self.here().await?.origin), self.planned_from.specs.clone())
        } else {
            (None, Vec::new())
        };
        Ok(SavedPlan::of(plan, cluster, specs))
    }

    fn options(&self, safety: &Safety) -> Options {
        Options {
            holder: crate::apply::precondition::of(super::now(), |name| self.process.variable(name))
                .identity(),
            ..safety.options(Options::of_connection(&self.global.connection))
        }
    }

    /// Checks permissions, begins the journal and applies the plan. Returns the outcome and the id of the
    /// journal.
    async fn send(
        &mut self,
        plan: &Plan,
        options: &Options,
        safety: &Safety,
        undoes: Option<String>,
        waiting: Option<&mut PlanWait<'_>>,
    ) -> Result<(PlanOutcome, Option<String>)> {
        // Catch Ctrl-C before the permission checks, so that no write follows it.
        let mut interrupt = std::pin::pin!(self.interrupt());
        let journalled = !(options.dry_run || safety.no_journal || plan.is_empty());
        let asked = async {
            self.may(plan, options).await?;
            if let Some(why) = self.unmet(plan).await? {
                return Err(Refusal::ChangedSincePreview { change: why.to_string() }.into());
            }
            // The journal records the cluster's identity.
            if journalled { self.here().await.map(Some) } else { Ok(None) }
        };
        let here = tokio::select! {
            biased;
            () = &mut interrupt => return Ok((PlanOutcome::not_begun(plan, StopReason::Interrupted), None)),
            here = asked => here?,
        };
        let mut journal = match here {
            Some(here) => {
                let command =
                    redacted(self.process.args.iter().map(|word| word.to_string_lossy().into_owned()));
                let circumstances = Circumstances { at: super::now(), command, origin: here.origin, undoes };
                Some(Journal::begin(&self.journals()?, plan, circumstances)?)
            }
            None => None,
        };
        let outcome = self.write(plan, options, journal.as_mut(), waiting, interrupt).await?;
        self.pass_on_warnings();
        if let Some(reason) = journal.as_ref().and_then(Journal::trouble) {
            self.warn(format!("the journal is incomplete: {reason}"));
        }
        for notice in concurrent_changes(plan, &outcome) {
            self.warn(notice);
        }
        if options.dry_run {
            let depends = |step: &&Step| plan.recreates(step) || plan.targets_created_object(step);
            for step in plan.steps().filter(depends) {
                self.warn(format!(
                    "{} is not deleted or created in a dry run, so the dry run could not check this step: {}",
                    step.target, step.reason
                ));
            }
        }
        Ok((outcome, journal.map(|j| j.id)))
    }

    /// Warns about sources that could not be read, unless the plan itself warns about them.
    fn say_what_was_not_read(&mut self, plan: &Plan, dry_run: DryRun, saved: bool) {
        // Without `--diff`, a server dry run shows no preview, and so none of the plan's warnings.
        let shown = dry_run != DryRun::Server;
        let mut unread = std::mem::take(&mut self.unread);
        let warnings = &plan.consequences.warnings;
        unread.retain(|(_, reason)| {
            let mentions = |warning: &String| warning.contains(&reason.message);
            !(shown && warnings.iter().any(mentions))
        });
        if !unread.is_empty() {
            let reasons = super::one_line(&unread);
            let lost = if saved { "the plan was not checked against" } else { "the plan was made without" };
            self.warn(format!("{reasons}; {lost} this information"));
        }
    }

    fn close(
        &mut self,
        plan: &Plan,
        outcome: &PlanOutcome,
        journal: Option<String>,
        safety: &Safety,
        aim: Option<&dyn Aim>,
        command_options: &CommandOptions,
    ) -> Result<Exit> {
        // Dry runs reach no goal.
        let aim = aim.filter(|_| safety.dry_run == DryRun::None);
        let found = aim.and_then(Aim::found);
        let outcome_view = OutcomeView {
            plan,
            digest: command_options.digest.as_deref(),
            outcome,
            journal,
            undoes: command_options.undoes.as_deref(),
            found: found.as_deref(),
            reached: aim.and_then(|aim| {
                let tally = outcome.tally();
                let begun = tally.applied + tally.unknown > 0;
                aim.summary(outcome.ended == StopReason::Finished, begun)
            }),
            all_done: aim.map_or(Exit::Done, Aim::exit),
            dry_run: safety.dry_run == DryRun::Server,
        };
        let shows = aim.is_some() || !plan.is_empty() || self.global.output.format.is_data();
        let shown = if shows { self.show(&outcome_view) } else { Ok(()) };
        let exit = outcome_view.exit();
        if safety.dry_run == DryRun::None {
            for target in outcome.left_paused(plan) {
                self.warn(left_paused(target));
            }
        }
        shown.map_err(|error| self.unshown(error, &outcome_view))?;
        Ok(exit)
    }

    /// Prints the result of a plan on stderr if it cannot be written to stdout: changes must not go unnoticed. The exit
    /// code is that of the plan, or of the error if the plan is done.
    fn unshown(&mut self, error: Error, outcome_view: &OutcomeView<'_>) -> Error {
        if !outcome_view.changed() {
            return error;
        }
        self.note(outcome_view.blocks(false));
        let exit = Some(outcome_view.exit()).filter(|exit| *exit != Exit::Done);
        Error { exit: exit.unwrap_or(error.exit), ..error }
    }

    /// Fails if the user lacks permissions for a plan.
    async fn may(&mut self, plan: &Plan, options: &Options) -> Result<()> {
        let client = self.connected_client().await?;
        let answer = preflight(&client, plan, options).await;
        if let Some(reason) = answer.unknown {
            self.warn(format!("cannot check permissions: {reason}"));
        }
        if answer.denied.is_empty() {
            return Ok(());
        }
        self.note_refusal();
        let denied: Vec<String> = answer.denied.iter().map(ToString::to_string).collect();
        let error = format!("missing permission: {}; nothing was changed", denied.join(", "));
        Err(Error::failed(error).hint(answer.denied[0].question()))
    }

    /// Applies a plan, with a progress line on a terminal. The first interrupt stops the plan in good order,
    /// the second at once.
    async fn write(
        &mut self,
        plan: &Plan,
        options: &Options,
        journal: Option<&mut Journal>,
        waiting: Option<&mut PlanWait<'_>>,
        interrupt: impl Future<Output = ()>,
    ) -> Result<PlanOutcome> {
        let connected = self.connected().await?;
        let (client, origin) = (connected.client.clone(), WatchOrigin::from(connected));
        let (stopper, stop) = Stopper::new();
        // The wait strategy draws its own progress.
        let mut progress = Progress::of(&self.process, plan, self.screen.err.terminal && waiting.is_none());
        let mut wait_strategy = waiting.map(|waiting| WatchStrategy::new(waiting, &mut self.screen, origin));
        let wait_strategy = wait_strategy.as_mut().map(|a| a as &mut dyn WaitStrategy);
        let held = RefCell::new(Vec::new());
        let mut on_event = |event: &ApplyEvent<'_>| {
            note_hold(&held, event);
            progress.on_event(event);
        };
        let outcome = tokio::select! {
            biased;
            () = process::interrupted_twice(interrupt, &stopper) => {
                let error = Error {
                    exit: Exit::Interrupted,
                    ..Error::failed("interrupted twice; requests in flight may or may not have completed")
                }
                .hint("kubectl skyhook journal show")
                .hint("kubectl skyhook undo");
                let paused = held.borrow();
                let hints = paused.iter().map(perhaps_left_paused);
                Err(hints.fold(error, Error::hint))
            }
            outcome = apply(&client, plan, options, journal, &stop, &mut on_event, wait_strategy) => {
                Ok(outcome)
            }
        };
        progress.end();
        outcome
    }

    /// Rebases a plan onto the current objects.
    pub async fn rebase(&mut self, plan: &Plan) -> Result<RebasedPlan> {
        let options = Options::of_connection(&self.global.connection);
        let client = self.connected_client().await?;
        let rebased = rebase(&client, plan, &options).await;
        self.pass_on_warnings();
        Ok(rebased)
    }

    /// The client for writes and cheap lists. Commands get [`Ctx::client`].
    pub(super) async fn connected_client(&mut self) -> Result<kube::Client> {
        Ok(self.connected().await?.client.clone())
    }
}

/// Returns the plan with the nodes of `--force-uncordon` uncordoned despite other cordon holders.
fn forcing_uncordons(plan: &Plan, safety: &Safety) -> Plan {
    let forced = &safety.force_uncordon;
    let mut plan = plan.sparing_cordons(|node| forced.iter().any(|arg| arg.matches(node)));
    for arg in forced {
        if !plan.is_empty() && !plan.nodes().into_iter().any(|node| arg.matches(node)) {
            let warning = format!("--force-uncordon {arg} matches no node of this plan");
            plan.consequences.warn(warning);
        }
    }
    plan
}

/// Hint for a pause of this command that could not be ended.
pub fn left_paused(target: &Target) -> String {
    format!("this command left {target} paused; to resume it: kubectl skyhook resume {}", target.name)
}

/// Hint for a pause that may remain: its removal was sent, but not confirmed.
pub fn perhaps_left_paused(target: &Target) -> String {
    format!(
        "this command may have left {target} paused; if so, resume it: kubectl skyhook resume {}",
        target.name
    )
}

/// Tracks the custom resources that this plan has paused and not resumed yet.
pub fn note_hold(held: &RefCell<Vec<Target>>, event: &ApplyEvent<'_>) {
    match event {
        ApplyEvent::Sending { step } if step.change.holds() => {
            held.borrow_mut().push(step.target.clone());
        }
        ApplyEvent::Step { step, result, .. } if step.change.is_hold() => {
            let over = if step.change.holds() { !result.may_have_changed() } else { result.is_settled() };
            if over {
                let other = |target: &Target| !target.same_object_name(&step.target);
                held.borrow_mut().retain(other);
            }
        }
        _ => {}
    }
}

/// Notices about concurrent changes by others and their effect on the plan.
pub fn concurrent_changes(plan: &Plan, outcome: &PlanOutcome) -> Vec<String> {
    let notices = outcome.of(plan).filter_map(|(step, result)| match result {
        // A hold ends with its object.
        StepResult::Gone if !step.change.is_hold() => {
            Some(format!("{} was deleted in the meantime; skipped: {}", step.target, step.reason))
        }
        // Kept cordons already appear in the preview and in the closing table.
        StepResult::Kept { reason } if step.change.is_hold() => {
            Some(format!("{} stays paused: {reason}", step.target))
        }
        _ => None,
    });
    notices.collect()
}

/// Refuses a plan that exceeds `--max-nodes`, or for which `--canary` or `--max-failures` has no effect.
///
/// # Errors
///
/// More nodes than `--max-nodes`; `--canary` or `--max-failures` for a plan that itself changes no node.
pub fn within(plan: &Plan, safety: &Safety) -> Result<()> {
    if plan.is_empty() {
        return Ok(());
    }
    let touched = plan.nodes().len();
    let paces = [
        ("--canary applies to", safety.canary.is_some()),
        ("--max-failures counts failed", safety.max_failures.is_some()),
    ];
    // A plan with `erroring` paces its own node changes, even if none of them is left.
    let by_operator =
        touched == 0 && plan.erroring.is_none() && plan.steps().any(|s| s.target.kind.is_custom());
    if let Some((flag, _)) = paces.iter().find(|(_, given)| *given && by_operator) {
        return Err(Error::usage(format!(
            "{flag} node changes, but this plan changes no nodes itself: the operator decides when to process \
             each node"
        )));
    }
    let Some(most) = safety.max_nodes else {
        return Ok(());
    };
    let does = match plan.consequences.nodes {
        nodes if nodes <= most => return Ok(()),
        nodes if nodes == touched => format!("touch {}", plural(nodes, "node")),
        nodes if touched == 0 => format!("start work on {}", plural(nodes, "node")),
        nodes => format!("touch or start work on {}", plural(nodes, "node")),
    };
    Err(Refusal::TooManyNodes { does, most: count(most) }.into())
}
