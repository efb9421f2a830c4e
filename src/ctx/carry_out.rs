//! The one way from a plan to the cluster: preview, question, permissions, journal, writes, table.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::ask::Question;
use super::closing::Closing;
use super::external_diff::External;
use super::follow::Follower;
use super::limits::within;
use super::preview::Preview;
use super::{Ctx, Goal, Waiting, edges};
use crate::apply::file as apply_file;
use crate::apply::journal::{Circumstances, Store};
use crate::apply::{Attend, Ended, Event, Fate, Journal, Options, Outcome, Stopper, Verdict};
use crate::apply::{attended, preflight};
use crate::args::safety::{DryRun, Safety};
use crate::error::{Error, Exit, Result};
use crate::plan::{Plan, Target};
use crate::view::{Text, View};

/// What is peculiar to one command.
#[derive(Debug, Clone, Default)]
pub struct Manner {
    /// Goes ahead where there is no terminal to ask on, as scripts of old expect.
    pub unasked: bool,
    /// The journal that the plan takes back.
    pub undoes: Option<String>,
}

/// What came of a plan that a command goes on from.
#[derive(Debug, Clone, Default)]
pub struct Taken {
    /// What was sent, or found to be so already.
    pub begun: Vec<Target>,
    /// What was not done, and why.
    pub failed: Vec<(Target, String)>,
    pub interrupted: bool,
    pub journal: Option<String>,
}

impl Ctx {
    /// Shows a plan, asks, and carries it out. What came of it is shown, and is the exit code.
    pub async fn carry_out(
        &mut self,
        plan: &Plan,
        safety: &Safety,
        manner: Manner,
    ) -> Result<Exit> {
        self.carry_out_and_wait(plan, safety, manner, None).await
    }

    /// [`Ctx::carry_out`], and what its stages wait for is shown from watches.
    pub async fn carry_out_and_wait(
        &mut self,
        plan: &Plan,
        safety: &Safety,
        manner: Manner,
        mut waiting: Option<Waiting<'_>>,
    ) -> Result<Exit> {
        let from_files = !self.global.reading.from.is_empty();
        if from_files && safety.dry_run == DryRun::Server {
            let why = "--dry-run=server asks the server, and files are no server";
            return Err(Error::usage(why));
        }
        self.say_what_was_not_read(plan, safety.dry_run);
        let external = External::of(edges::variable).filter(|_| safety.diff);
        let preview = Preview {
            plan,
            diff: safety.diff && external.is_none(),
        };
        if let Some(file) = &safety.plan_out {
            apply_file::write(plan, file)?;
            self.show(&preview)?;
            self.show_diff(plan, external.as_ref())?;
            self.note(format!("plan {} is in {}", plan.digest(), file.display()));
            return Ok(Exit::Done);
        }
        // What was asked for before may be waited for now.
        let waits = waiting.is_some() && plan.waits() && safety.dry_run == DryRun::None;
        if plan.is_empty() && !waits {
            self.note(format!("{}: nothing to do", plan.title));
            if safety.dry_run == DryRun::Client || from_files {
                if self.global.output.format.is_data() {
                    self.show(&preview)?;
                }
                return Ok(Exit::Done);
            }
            return self.close(plan, &Outcome::nothing_done(plan), None, safety, None);
        }
        within(plan, safety)?;
        if safety.dry_run == DryRun::Client || from_files {
            self.show(&preview)?;
            self.show_diff(plan, external.as_ref())?;
            let why = if from_files {
                "read from files"
            } else {
                "dry run"
            };
            self.note(format!("{why}: nothing was changed"));
            return Ok(Exit::Done);
        }
        let options = Options::from(safety);
        if !options.dry_run || safety.diff {
            self.note(preview.blocks(false));
            if let Some(external) = &external {
                external.show(plan, true)?;
            }
        }
        if !options.dry_run {
            let askable = std::io::stdin().is_terminal();
            if !plan.is_empty() && !safety.confirm && (askable || !manner.unasked) {
                Question::of(plan).ask(plan)?;
            }
        }
        let undoes = manner.undoes;
        let (outcome, journal) = self
            .send(plan, &options, safety, undoes, waiting.as_mut())
            .await?;
        let goal = waiting.as_ref().map(|w| &*w.goal);
        self.close(plan, &outcome, journal, safety, goal)
    }

    /// Shows what is to come, and asks; for a command that goes on once its first writes are done.
    ///
    /// # Errors
    ///
    /// It is not confirmed, or goes beyond what the flags allow.
    pub fn ask(&mut self, plan: &Plan, preview: Text, safety: &Safety) -> Result<()> {
        within(plan, safety)?;
        self.note(preview);
        match safety.confirm {
            true => Ok(()),
            false => Question::of(plan).ask(plan),
        }
    }

    /// Carries out what was asked about, or a part of it, with a journal of its own, and shows nothing.
    pub async fn take(&mut self, plan: &Plan, safety: &Safety) -> Result<Taken> {
        let options = Options::from(safety);
        let (outcome, journal) = self.send(plan, &options, safety, None, None).await?;
        let failed = outcome.of(plan).filter_map(|(step, fate)| match fate {
            Fate::Skipped { why } | Fate::Failed { why } => {
                Some((step.target.clone(), why.clone()))
            }
            Fate::Applied | Fate::Unchanged | Fate::Gone | Fate::NotReached => None,
        });
        let reached = |fate: &Fate| *fate != Fate::NotReached;
        Ok(Taken {
            failed: failed.collect(),
            begun: outcome
                .of(plan)
                .filter(|(_, fate)| reached(fate))
                .map(|(step, _)| step.target.clone())
                .collect(),
            interrupted: outcome.verdict() == Verdict::Interrupted,
            journal,
        })
    }

    /// Permissions, journal, writes.
    async fn send(
        &mut self,
        plan: &Plan,
        options: &Options,
        safety: &Safety,
        undoes: Option<String>,
        waiting: Option<&mut Waiting<'_>>,
    ) -> Result<(Outcome, Option<String>)> {
        // Heard from here on: what comes while the server is asked must not be followed by writes.
        let mut interrupt = std::pin::pin!(edges::interrupt());
        tokio::select! {
            biased;
            () = &mut interrupt => return Ok((Outcome::not_begun(plan), None)),
            may = self.may(plan, options) => may?,
        }
        let mut journal = match options.dry_run || safety.no_journal || plan.is_empty() {
            true => None,
            false => Some(self.begin_journal(plan, undoes)?),
        };
        let outcome = self
            .write(plan, options, journal.as_mut(), waiting, interrupt)
            .await?;
        self.pass_on_warnings();
        if let Some(why) = journal.as_ref().and_then(Journal::trouble) {
            self.warn(format!("the journal is incomplete: {why}"));
        }
        for gone in gone(plan, &outcome) {
            self.warn(gone);
        }
        if options.dry_run {
            for step in plan.steps() {
                if plan.makes_again(step) {
                    self.warn(format!(
                        "{} is there still, so that making it again could not be rehearsed",
                        step.target
                    ));
                } else if plan.works_on_what_it_makes(step) {
                    self.warn(format!(
                        "{} is not made in a rehearsal, so that this could not be rehearsed: {}",
                        step.target, step.why
                    ));
                }
            }
        }
        Ok((outcome, journal.map(|j| j.id)))
    }

    /// Lets the user's own program show the differences, beneath a preview for people.
    fn show_diff(&self, plan: &Plan, external: Option<&External>) -> Result<()> {
        match external {
            Some(external) => external.show(plan, self.global.output.format.is_data()),
            None => Ok(()),
        }
    }

    /// A plan that was made without a look at something says so, if it does not do so by itself.
    fn say_what_was_not_read(&mut self, plan: &Plan, dry_run: DryRun) {
        // Its preview, which holds the warnings, is not shown where the server is asked.
        let shown = dry_run != DryRun::Server;
        for (source, why) in std::mem::take(&mut self.unread) {
            let mut warnings = plan.consequences.warnings.iter();
            if !(shown && warnings.any(|warning| warning.contains(&why))) {
                self.warn(format!(
                    "cannot read {source}: {why}; the plan was made without"
                ));
            }
        }
    }

    fn close(
        &mut self,
        plan: &Plan,
        outcome: &Outcome,
        journal: Option<String>,
        safety: &Safety,
        goal: Option<&dyn Goal>,
    ) -> Result<Exit> {
        let found = goal.and_then(Goal::found);
        let closing = Closing {
            plan,
            outcome,
            journal,
            found: found.as_deref(),
            reached: goal.and_then(|goal| goal.summary(outcome.ended == Ended::Finished)),
            dry_run: safety.dry_run == DryRun::Server,
        };
        if goal.is_some() || !plan.is_empty() || self.global.output.format.is_data() {
            self.show(&closing)?;
        }
        Ok(closing.exit())
    }

    /// Refuses where the user may not do what the plan needs.
    async fn may(&mut self, plan: &Plan, options: &Options) -> Result<()> {
        let client = self.writer().await?;
        let answer = preflight(&client, plan, options).await;
        if let Some(why) = answer.unknown {
            self.warn(format!("cannot tell whether you may do this: {why}"));
        }
        if answer.denied.is_empty() {
            return Ok(());
        }
        self.note_refusal();
        let denied: Vec<String> = answer.denied.iter().map(ToString::to_string).collect();
        let error = format!("you may not {}; nothing was changed", denied.join(", nor "));
        Err(Error::failed(error).hint(answer.denied[0].question()))
    }

    fn begin_journal(&self, plan: &Plan, undoes: Option<String>) -> Result<Journal> {
        let store = Store::of(edges::variable)?;
        let circumstances = Circumstances {
            at: super::now(),
            command: edges::command_line(),
            server: self
                .connected
                .as_ref()
                .map(|c| c.server.clone())
                .unwrap_or_default(),
            undoes,
        };
        Ok(Journal::begin(&store, plan, circumstances)?)
    }

    /// Writes, with a line of progress on a terminal. The first interrupt ends it in good order,
    /// the second at once.
    async fn write(
        &mut self,
        plan: &Plan,
        options: &Options,
        journal: Option<&mut Journal>,
        waiting: Option<&mut Waiting<'_>>,
        interrupt: impl Future<Output = ()>,
    ) -> Result<Outcome> {
        let client = self.writer().await?;
        let namespace = self.connected.as_ref().and_then(|c| c.namespace.clone());
        let (stopper, stop) = Stopper::new();
        // A follower draws by itself.
        let bar = progress(plan, self.screen.err.terminal && waiting.is_none());
        let mut follower =
            waiting.map(|waiting| Follower::new(waiting, &mut self.screen, &client, namespace));
        let attendant = follower.as_mut().map(|f| f as &mut dyn Attend);
        let mut failed = 0;
        let mut hear = |event: &Event<'_>| match event {
            Event::Step { fate, .. } => {
                failed += usize::from(matches!(fate, Fate::Failed { .. }));
                if failed > 0 {
                    bar.set_message(format!("{failed} failed"));
                }
                bar.inc(1);
            }
            Event::Throttled { .. } => bar.set_message("the server asks for patience"),
            Event::Waiting { until } => {
                bar.set_message(format!("waiting until {}", until.describe()))
            }
            Event::Pausing { pause, left, .. } => {
                bar.set_message(format!(
                    "{} nodes left; pausing {} s",
                    left,
                    pause.as_secs()
                ));
            }
            _ => {}
        };
        let outcome = tokio::select! {
            biased;
            () = edges::interrupted_twice(interrupt, &stopper) => Err(Error {
                exit: Exit::Interrupted,
                ..Error::failed("interrupted twice; what was in flight may or may not have been done")
            }
            .hint("kubectl skyhook journal show").hint("kubectl skyhook undo")),
            outcome = attended(&client, plan, options, journal, &stop, &mut hear, attendant) => {
                Ok(outcome)
            }
        };
        bar.finish_and_clear();
        outcome
    }

    /// The address of the API server.
    pub async fn server(&mut self) -> Result<String> {
        self.writer().await?;
        Ok(self
            .connected
            .as_ref()
            .map(|c| c.server.clone())
            .unwrap_or_default())
    }

    /// The client, for the writer and for nobody else.
    pub(super) async fn writer(&mut self) -> Result<kube::Client> {
        if self.connected.is_none() {
            self.connected = Some(self.connect().await?);
        }
        let connected = self.connected.as_ref().expect("it was just made");
        Ok(connected.client.clone())
    }
}

/// Says which objects went meanwhile, and what was therefore not done.
fn gone(plan: &Plan, outcome: &Outcome) -> Vec<String> {
    let mut gone: Vec<(String, Vec<&str>)> = Vec::new();
    for (step, _) in outcome.of(plan).filter(|(_, fate)| **fate == Fate::Gone) {
        let target = step.target.to_string();
        match gone.iter_mut().find(|(name, _)| *name == target) {
            Some((_, left_out)) => left_out.push(&step.why),
            None => gone.push((target, vec![&step.why])),
        }
    }
    let said = gone.into_iter().map(|(target, left_out)| {
        format!(
            "{target} was deleted meanwhile, so this was left out: {}",
            left_out.join("; ")
        )
    });
    said.collect()
}

fn progress(plan: &Plan, terminal: bool) -> ProgressBar {
    let steps = plan.steps().count();
    // A single object is done before one could read the line.
    let target = match terminal && steps > 1 {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    };
    let bar = ProgressBar::with_draw_target(u64::try_from(steps).ok(), target);
    let style = ProgressStyle::with_template("{pos}/{len} objects  {per_sec}  {msg}");
    bar.set_style(style.expect("the template is sound"));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
