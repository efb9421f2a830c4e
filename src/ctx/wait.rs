//! Waits for the operator with watches, shows progress, and ends as soon as the result is known.

use std::time::Duration;

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use serde_json::Value;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::Ctx;
use super::display::{AimProgress, Display};
use super::watch::{Watch, WatchOrigin, WatchUpdate, pause_after};
use crate::apply::{StopReason, WaitStrategy};
use crate::cluster::live::LoadError;
use crate::cluster::{Cluster, ResourceVersions};
use crate::error::{Error, Exit, Result};
use crate::plan::WaitFor;
use crate::screen::Screen;
use crate::view::{View, list};
use crate::wait::Wait;

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

/// How a wait ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    Met,
    /// The blockers, as returned by [`Aim::blocked`].
    Blocked(Vec<String>),
    /// The timeout passed; holds the last progress.
    TimedOut(String),
}

/// The goal of a wait.
pub trait Aim {
    /// Checks the goal and describes the progress.
    fn look(&mut self, cluster: &Cluster) -> AimProgress;

    /// Short descriptions of the blockers that need an intervention, found with all sources of the rules.
    fn blocked(&mut self, _cluster: &Cluster) -> Vec<String> {
        Vec::new()
    }

    /// Whether the last check found blockers that another check has to confirm.
    fn look_again(&self) -> bool {
        false
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
}

/// The goals of a plan's stages, with their preview and summary.
pub trait PlannedAim: Aim {
    /// Whether this aim handles the goal.
    fn handles(&self, until: &WaitFor) -> bool;

    /// Sets the current goals, which are awaited together.
    fn begin(&mut self, untils: &[&WaitFor]);

    /// Whether one of the current goals was reached at the last check.
    fn has_met(&self, _until: &WaitFor) -> bool {
        true
    }

    /// The unmet part of a goal, in words that follow "waiting until".
    fn awaited(&self, until: &WaitFor) -> String {
        until.describe()
    }

    /// Whether a watch may lag behind the latest write. Otherwise, the first wait lists custom resources
    /// again, and each wait for a new goal lists all sources again.
    fn accepts_lag(&self) -> bool {
        false
    }

    /// The command's own document for previews as data, with the blockers that it foresees.
    fn foreseen(&self) -> Option<Value> {
        None
    }

    /// The findings at the end: blockers or leftovers.
    fn found(&self) -> Option<Box<dyn View + '_>>;

    /// One closing line with reached and unreached goals; `begun` if anything may have been changed for them.
    fn summary(&self, finished: bool, begun: bool) -> Option<String>;

    /// The exit code if the plan was applied and every goal reached.
    fn exit(&self) -> Exit {
        Exit::Done
    }
}

/// The wait of a plan: goals, start, timeout.
pub struct PlanWait<'a> {
    pub aim: &'a mut dyn PlannedAim,
    /// The cluster as loaded, with all sources of the rules.
    pub cluster: Cluster,
    /// `None` means no timeout.
    pub timeout: Option<Duration>,
}

impl Ctx {
    /// Waits from the loaded state until the goal is reached or blocked, or the timeout passes.
    ///
    /// # Errors
    ///
    /// The goal cannot be reached, or the state cannot be read any more.
    pub async fn wait(
        &mut self,
        aim: &mut dyn Aim,
        cluster: Cluster,
        timeout: Option<Duration>,
    ) -> Result<Ended> {
        let first = aim.look(&cluster);
        if over(&first.state) {
            return ended(first.state);
        }
        // First check for blockers; the watch confirms those that it finds again.
        let _ = aim.blocked(&cluster);
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let mut watch = self.watch(cluster).await?;
        let mut shown = if aim.is_screen() {
            Display::on_stdout(&mut self.screen)
        } else {
            Display::new(&mut self.screen)
        };
        let state = first.state.clone();
        if aim.is_screen() {
            shown.look(first);
        }
        ended(wait(aim, &mut watch, CONFIRMED_AFTER, deadline, state, &mut shown).await?)
    }
}

/// Whether the wait has ended.
fn over(state: &Wait) -> bool {
    !matches!(state, Wait::Pending(_))
}

fn ended(state: Wait) -> Result<Ended> {
    match state {
        Wait::Met => Ok(Ended::Met),
        Wait::Blocked(blockers) => Ok(Ended::Blocked(blockers)),
        Wait::Pending(progress) => Ok(Ended::TimedOut(progress)),
        Wait::Never(why, hint) => Err(hint.into_iter().fold(Error::failed(why), Error::hint)),
    }
}

/// Waits until the goal is no longer pending, or the deadline.
async fn wait(
    aim: &mut (impl Aim + ?Sized),
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
    aim: &mut (impl Aim + ?Sized),
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
    shown.tick();
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
            let blockers = aim.blocked(whole);
            if !blockers.is_empty() {
                *state = Wait::Blocked(blockers);
                return Ok(());
            }
            let pause = if aim.look_again() { CONFIRMED_AFTER } else { pause_after(last.elapsed(), ANYWAY) };
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
pub(super) struct WatchStrategy<'a> {
    aim: &'a mut dyn PlannedAim,
    /// The cluster as loaded; the watch starts from it.
    cluster: Cluster,
    watch: Option<Watch>,
    /// The current goals.
    untils: Vec<WaitFor>,
    timeout: Option<Duration>,
    origin: WatchOrigin,
    /// One deadline for all goals, from the first wait on.
    deadline: Option<Instant>,
    shown: Display<'a>,
}

impl<'a> WatchStrategy<'a> {
    pub fn new(
        waiting: &'a mut PlanWait<'_>,
        screen: &'a mut Screen,
        origin: WatchOrigin,
    ) -> WatchStrategy<'a> {
        let mut cluster = waiting.cluster.clone();
        if !waiting.aim.accepts_lag() {
            cluster.versions = cluster.versions.without_custom();
        }
        WatchStrategy {
            aim: &mut *waiting.aim,
            cluster,
            watch: None,
            untils: Vec::new(),
            timeout: waiting.timeout,
            origin,
            deadline: None,
            shown: Display::new(screen),
        }
    }

    async fn wait(&mut self, untils: &[&WaitFor]) -> std::result::Result<Wait, LoadError> {
        let new = untils.iter().any(|until| !self.untils.contains(until));
        self.untils = untils.iter().copied().cloned().collect();
        self.aim.begin(untils);
        if new && !self.aim.accepts_lag() {
            self.watch = None;
        }
        let watch = match &mut self.watch {
            Some(watch) => watch,
            None => {
                // Without versions, a later watch lists all objects again instead of replaying all events
                // since the load.
                let cluster = self.cluster.clone();
                self.cluster.versions = ResourceVersions::default();
                let watch = Watch::begin(&self.origin, cluster);
                self.watch.insert(watch)
            }
        };
        if let (None, Some(timeout)) = (self.deadline, self.timeout) {
            self.deadline = Some(Instant::now() + timeout);
        }
        wait(self.aim, watch, AFTER_A_CHANGE, self.deadline, Wait::Pending(String::new()), &mut self.shown)
            .await
    }
}

impl WaitStrategy for WatchStrategy<'_> {
    fn handles(&self, until: &WaitFor) -> bool {
        self.aim.handles(until)
    }

    fn wait<'a>(&'a mut self, untils: &'a [&'a WaitFor]) -> LocalBoxFuture<'a, (Vec<usize>, StopReason)> {
        async move {
            let all = || (0..untils.len()).collect();
            match self.wait(untils).await {
                Ok(Wait::Met) => {
                    let met = (0..untils.len()).filter(|at| self.aim.has_met(untils[*at]));
                    (met.collect(), StopReason::Finished)
                }
                Ok(Wait::Never(reason, _)) => (all(), StopReason::Unknown { reason }),
                Ok(Wait::Blocked(findings)) => (all(), StopReason::Blocked { findings }),
                Ok(Wait::Pending(_)) => {
                    let waiting: Vec<String> = untils.iter().map(|u| self.aim.awaited(u)).collect();
                    let waiting = list(&waiting);
                    (all(), StopReason::TimedOut { waiting })
                }
                Err(error) => {
                    let reason = error.to_string();
                    (all(), StopReason::Unknown { reason })
                }
            }
        }
        .boxed_local()
    }
}
