//! Waits for the operator with watches, shows progress in place or line by line, and ends as soon as the result is known.

use std::cell::OnceCell;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{self, Duration};

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use jiff::SignedDuration;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::Ctx;
use super::watch::{ContactNotice, Watch, WatchOrigin, WatchUpdate, pause_after};
use crate::apply::{StopReason, WaitStrategy};
use crate::cluster::live::LoadError;
use crate::cluster::{Cluster, ResourceVersions};
use crate::error::{Error, Exit, Result};
use crate::plan::Goal;
use crate::screen::Screen;
use crate::view::text::{Line, Text};
use crate::view::{View, human, list};
use crate::wait::{BlockerCheck, Wait};

/// Delay between a change and the next check for blockers.
const AFTER_A_CHANGE: Duration = Duration::from_secs(2);
/// Interval for re-running the rules without a change: some blockers are not watched.
const ANYWAY: Duration = Duration::from_secs(5);
/// Delay before an unreachable API server is tried again.
const UNREACHABLE: Duration = Duration::from_secs(1);
/// Delay after which a blocker must be found again: separate lists are not one snapshot.
const CONFIRMED_AFTER: Duration = Duration::from_secs(1);

/// Minimum interval between two drawings of a screen.
const REDRAWN_AFTER: Duration = Duration::from_secs(1);
/// Factor for the interval between drawings while watches show no change.
const UNCHANGED_FACTOR: u32 = 4;

/// The goals of a command or of a plan's stages, and how the command shows them.
pub trait Aim {
    /// Checks the current goals and describes the progress. For a plan, `Pending` holds the unmet part of its goals in
    /// words that follow "waiting until".
    fn look(&mut self, cluster: &Cluster) -> AimProgress;

    /// Checks for blockers, with all sources of the rules.
    fn blocked(&mut self, _cluster: &Cluster) -> BlockerCheck {
        BlockerCheck::default()
    }

    /// Whether the progress is a screen on stdout. A screen takes long to compute and shows ages: it is
    /// redrawn at intervals, not at each change.
    fn is_screen(&self) -> bool {
        false
    }

    /// Whether the screen shows sources that are not watched.
    fn reads_unwatched(&self) -> bool {
        false
    }

    /// Sets the current goals of a plan, which are awaited together. Returns whether the state must be read again:
    /// otherwise a watch may lag behind the latest write.
    fn begin(&mut self, _goals: &[&Goal]) -> bool {
        false
    }

    /// The blockers that the command foresees, and at the end blockers or leftovers.
    fn found(&self) -> Option<Box<dyn View + '_>> {
        None
    }

    /// One closing line with reached and unreached goals; `begun` if anything may have been changed for them.
    fn summary(&self, _finished: bool, _begun: bool) -> Option<String> {
        None
    }

    /// The exit code if the plan was applied and every goal reached.
    fn exit(&self) -> Exit {
        Exit::Done
    }
}

/// The wait of a plan.
pub struct PlanWait<'a> {
    pub aim: &'a mut dyn Aim,
    /// The cluster as loaded, with all sources of the rules.
    pub cluster: Cluster,
}

impl Ctx {
    /// Waits from the loaded state until the goal is reached or blocked, the timeout passes, or the user interrupts. Zero
    /// means no timeout.
    ///
    /// # Errors
    ///
    /// The goal cannot be reached, or the state cannot be read any more.
    pub async fn wait(
        &mut self,
        aim: &mut dyn Aim,
        cluster: Cluster,
        timeout: Duration,
    ) -> Result<StopReason> {
        let mut interrupt = std::pin::pin!(self.interrupt());
        let state = tokio::select! {
            biased;
            () = &mut interrupt => return Ok(StopReason::Interrupted),
            state = self.follow(aim, cluster, timeout) => state?,
        };
        match state {
            Wait::Never(why, hint) => Err(hint.into_iter().fold(Error::failed(why), Error::hint)),
            state => Ok(ended(state)),
        }
    }

    async fn follow(&mut self, aim: &mut dyn Aim, cluster: Cluster, timeout: Duration) -> Result<Wait> {
        let first = aim.look(&cluster);
        if over(&first.state) {
            return Ok(first.state);
        }
        // First check for blockers; the watch confirms those that it finds again.
        let _ = aim.blocked(&cluster);
        let deadline = (!timeout.is_zero()).then(|| Instant::now() + timeout);
        let mut watch = self.watch(cluster).await?;
        let mut shown = Display::new(&mut self.screen, aim.is_screen());
        let state = first.state.clone();
        if aim.is_screen() {
            shown.look(first);
        }
        Ok(wait(aim, &mut watch, CONFIRMED_AFTER, deadline, state, &mut shown).await?)
    }
}

/// Whether the wait has ended.
fn over(state: &Wait) -> bool {
    !matches!(state, Wait::Pending(_))
}

/// The reason for the end of a wait with its last state.
fn ended(state: Wait) -> StopReason {
    match state {
        Wait::Met => StopReason::Finished,
        Wait::Blocked(findings) => StopReason::Blocked { findings },
        Wait::Pending(waiting) => StopReason::TimedOut { waiting },
        Wait::Never(reason, _) => StopReason::Unknown { reason },
    }
}

/// Waits until the goal is no longer pending, or the deadline.
async fn wait(
    aim: &mut dyn Aim,
    watch: &mut Watch,
    first: Duration,
    deadline: Option<Instant>,
    mut state: Wait,
    shown: &mut Display<'_>,
) -> std::result::Result<Wait, LoadError> {
    let watching = watch_for(aim, watch, first, &mut state, shown);
    match deadline {
        None => watching.await?,
        Some(deadline) => timeout_at(deadline, watching).await.unwrap_or(Ok(()))?,
    }
    Ok(state)
}

/// Checks the goal at each change until the wait ends; checks for blockers from `first` on.
async fn watch_for(
    aim: &mut dyn Aim,
    watch: &mut Watch,
    first: Duration,
    state: &mut Wait,
    shown: &mut Display<'_>,
) -> std::result::Result<(), LoadError> {
    let mut last = Instant::now();
    let mut next = last + first;
    let mut next_look = last;
    // Time of the next drawing without a change: the screen shows ages and unwatched sources.
    let mut next_unchanged = last;
    let mut changed = true;
    // Redraw every second, so that the elapsed time stays current.
    shown.bar.enable_steady_tick(Duration::from_secs(1));
    loop {
        if let Some(notice) = watch.notice() {
            shown.contact(notice);
        }
        // Nothing can be judged before all sources are read.
        let ready = watch.ready();
        if ready && changed && Instant::now() >= next_look {
            changed = false;
            let begin = Instant::now();
            let look = aim.look(watch.cluster());
            if aim.is_screen() {
                let took = begin.elapsed();
                next_look = Instant::now() + pause_after(took, REDRAWN_AFTER);
                next_unchanged = Instant::now() + pause_after(UNCHANGED_FACTOR * took, REDRAWN_AFTER);
            }
            *state = shown.look(look);
            if over(state) {
                return Ok(());
            }
        }
        if ready && Instant::now() >= next {
            let Some(whole) = watch.whole().await else {
                next = Instant::now() + UNREACHABLE;
                continue;
            };
            last = Instant::now();
            let BlockerCheck { blockers, look_again } = aim.blocked(whole);
            if !blockers.is_empty() {
                *state = Wait::Blocked(blockers);
                return Ok(());
            }
            let pause = if look_again { CONFIRMED_AFTER } else { pause_after(last.elapsed(), ANYWAY) };
            next = last + pause;
            changed |= aim.is_screen() && (aim.reads_unwatched() || last >= next_unchanged);
        }
        tokio::select! {
            news = watch.news() => match news {
                WatchUpdate::Changed => {
                    changed = true;
                    next = next.min(last + AFTER_A_CHANGE);
                }
                WatchUpdate::Away => {}
                WatchUpdate::Lost(error) => return Err(error),
            },
            () = sleep_until(next), if ready => {}
            () = sleep_until(next_look), if ready && changed => {}
        }
    }
}

/// The waits of a plan, for all its stages over one watch.
pub(super) struct WatchStrategy<'a, 'w> {
    waiting: &'a mut PlanWait<'w>,
    watch: Option<Watch>,
    origin: WatchOrigin,
    /// The start of the first wait, from which the time of all goals counts.
    begin: Option<Instant>,
    shown: Display<'a>,
}

impl<'a, 'w> WatchStrategy<'a, 'w> {
    pub fn new(
        waiting: &'a mut PlanWait<'w>,
        screen: &'a mut Screen,
        origin: WatchOrigin,
    ) -> WatchStrategy<'a, 'w> {
        WatchStrategy { waiting, watch: None, origin, begin: None, shown: Display::new(screen, false) }
    }

    /// Waits until one of the goals is reached, or none can be; returns the indices of the goals whose wait is over.
    async fn follow(&mut self, goals: &[&Goal]) -> std::result::Result<(Vec<usize>, Wait), LoadError> {
        let PlanWait { aim, cluster } = &mut *self.waiting;
        // Before the first wait, the plan has changed only custom resources.
        if aim.begin(goals) && self.watch.take().is_none() {
            cluster.versions = std::mem::take(&mut cluster.versions).without_custom();
        }
        let watch = self.watch.get_or_insert_with(|| {
            let watch = Watch::begin(&self.origin, cluster.clone());
            // Without versions, a later watch lists all objects again instead of replaying all events since
            // the load.
            cluster.versions = ResourceVersions::default();
            watch
        });
        let begin = *self.begin.get_or_insert_with(Instant::now);
        let limits = goals.iter().map(|goal| goal.at_most).filter(|seconds| *seconds > 0);
        let deadline = limits.min().map(|seconds| begin + Duration::from_secs(seconds));
        let begun = Wait::Pending(list(&Vec::from_iter(goals.iter().map(|goal| goal.describe()))));
        let state = wait(*aim, watch, AFTER_A_CHANGE, deadline, begun, &mut self.shown).await?;
        let cluster = watch.cluster();
        let met = |goal: &Goal| goal.reached(cluster, &OnceCell::new()) == Wait::Met;
        let over = (0..goals.len()).filter(|at| state != Wait::Met || met(goals[*at])).collect();
        Ok((over, state))
    }
}

impl WaitStrategy for WatchStrategy<'_, '_> {
    fn wait<'a>(&'a mut self, goals: &'a [&'a Goal]) -> LocalBoxFuture<'a, (Vec<usize>, StopReason)> {
        async move {
            match self.follow(goals).await {
                Ok((over, state)) => (over, ended(state)),
                Err(error) => ((0..goals.len()).collect(), StopReason::Unknown { reason: error.to_string() }),
            }
        }
        .boxed_local()
    }
}

/// The progress of a wait at one check.
pub struct AimProgress {
    pub state: Wait,
    /// The whole progress, redrawn in place on a terminal.
    pub whole: Text,
    /// Changes since the last check, for scrolling output.
    pub news: Vec<Line>,
}

/// Shows the progress of a wait on the screen.
pub(super) struct Display<'a> {
    screen: &'a mut Screen,
    bar: ProgressBar,
    /// Whether progress is the command's output, on stdout; otherwise it goes to stderr.
    on_stdout: bool,
    /// Start of the current outage of the API server; `None` while it responds.
    away_since: Arc<Mutex<Option<time::Instant>>>,
}

impl<'a> Display<'a> {
    pub fn new(screen: &'a mut Screen, on_stdout: bool) -> Display<'a> {
        let (target, template) = match (on_stdout, screen.out.redraws, screen.err.redraws) {
            (true, true, _) => (ProgressDrawTarget::stdout(), "{msg}\n{age}; Ctrl-C stops watching"),
            (false, _, true) => (ProgressDrawTarget::stderr(), "{msg}\n{age}; Ctrl-C stops waiting"),
            _ => (ProgressDrawTarget::hidden(), ""),
        };
        let bar = ProgressBar::with_draw_target(None, target);
        let style = ProgressStyle::with_template(template).expect("the template is sound");
        let away_since = Arc::new(Mutex::new(None::<time::Instant>));
        let away = Arc::clone(&away_since);
        bar.set_style(style.with_key("age", move |state: &ProgressState, text: &mut dyn Write| {
            let words = match *away.lock().unwrap_or_else(PoisonError::into_inner) {
                Some(since) => format!("state {} old", span(since.elapsed())),
                None => format!("{} so far", span(state.elapsed())),
            };
            // Writing to memory cannot fail.
            let _ = text.write_str(&words);
        }));
        Display { screen, bar, on_stdout, away_since }
    }

    pub fn look(&mut self, look: AimProgress) -> Wait {
        let screen = &mut *self.screen;
        match (self.on_stdout, screen.out.redraws, screen.err.redraws) {
            (true, true, _) => show(&self.bar, screen.drawn_out(&look.whole)),
            (false, _, true) => show(&self.bar, screen.drawn(&look.whole)),
            (false, _, false) => {
                look.news.into_iter().for_each(|line| screen.note(line));
            }
            (true, false, _) => {
                for line in look.news {
                    // Ignore write errors: a closed pipe is detected at the end.
                    let _ = screen.line(line);
                }
            }
        }
        look.state
    }

    /// Prints the beginning or the end of an outage above the progress. During an outage, the progress shows
    /// its own age.
    pub fn contact(&mut self, notice: ContactNotice) {
        let away_since = matches!(notice, ContactNotice::Lost(_)).then(time::Instant::now);
        *self.away_since.lock().unwrap_or_else(PoisonError::into_inner) = away_since;
        let screen = &mut self.screen;
        self.bar.suspend(|| match notice {
            ContactNotice::Lost(warning) => screen.warn(warning),
            ContactNotice::Restored(note) => screen.note(note),
        });
    }
}

/// Draws the message, if it has changed.
fn show(bar: &ProgressBar, message: String) {
    if bar.message() != message {
        bar.set_message(message);
    }
}

fn span(duration: Duration) -> String {
    human(SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX))
}

impl Drop for Display<'_> {
    /// Clears a half-drawn line when the user interrupts.
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
