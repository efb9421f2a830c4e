//! Waits for the operator with watches, shows progress, and ends as soon as the result is known.

use std::time::Duration;

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::Ctx;
use super::display::{AimProgress, AimState, Display};
use super::watch::{Watch, WatchOrigin, WatchUpdate, pause_after};
use crate::apply::{StopReason, WaitStrategy};
use crate::cluster::live::LoadError;
use crate::cluster::{Cluster, ResourceVersions};
use crate::error::{Exit, Result};
use crate::plan::WaitFor;
use crate::screen::Screen;
use crate::view::{View, list};

/// Blockers are looked for this long after a change.
const AFTER_A_CHANGE: Duration = Duration::from_secs(2);
/// And this long after the last time, as not everything that blocks is watched.
const ANYWAY: Duration = Duration::from_secs(5);
/// What blocks must be there still so much later: sources are read side by side, and one look may see two moments.
const CONFIRMED_AFTER: Duration = Duration::from_secs(1);

/// A screen is drawn again no sooner.
const REDRAWN_AFTER: Duration = Duration::from_secs(1);
/// Where nothing but ages has changed, the pause after a slow look is this many times longer.
const AGES: u32 = 4;

/// The goal of a wait.
pub trait Aim {
    /// How far it is.
    fn look(&mut self, cluster: &Cluster) -> AimProgress;

    /// Whether the goal is blocked, by all sources of the rules.
    fn blocked(&mut self, cluster: &Cluster) -> Blocked;

    /// Whether its progress is a screen on stdout, which takes long to compute and shows ages: it is drawn again now and
    /// then, and not at each change.
    fn is_screen(&self) -> bool {
        false
    }

    /// Whether its screen is about sources that are not watched.
    fn reads_unwatched(&self) -> bool {
        false
    }
}

/// The goals of a plan's stages, with their preview and summary.
pub trait PlannedAim: Aim {
    /// Whether this is its goal.
    fn takes(&self, until: &WaitFor) -> bool;

    /// From now on it is about these, which go on side by side.
    fn begin(&mut self, untils: &[&WaitFor]);

    /// Whether this goal of several was reached at the last check.
    fn has_met(&self, _until: &WaitFor) -> bool {
        true
    }

    /// The unmet part of a goal, in words that follow "waiting until".
    fn awaited(&self, until: &WaitFor) -> String {
        until.describe()
    }

    /// Whether a watch suffices that may lag behind the latest write. Otherwise all sources are read again.
    fn bears_delay(&self) -> bool {
        false
    }

    /// The preview instead of the plan's changes.
    fn preview(&self) -> Option<Box<dyn View + '_>> {
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

/// How the waiting has ended.
pub enum Awaited {
    Met,
    /// The goal cannot be reached, with the reason.
    Never(String),
    /// The goal is blocked, with each blocker in a few words.
    Blocked(Vec<String>),
    TimedOut,
    /// The state cannot be read any more.
    Lost(LoadError),
}

/// Whether something is blocked until somebody acts.
pub enum Blocked {
    No,
    /// Decided at the next check.
    Perhaps,
    /// The blockers, in a few words each.
    By(Vec<String>),
}

/// The wait of a plan: goals, start, timeout.
pub struct PlanWait<'a> {
    pub aim: &'a mut dyn PlannedAim,
    /// The cluster as loaded, with all sources of the rules.
    pub cluster: Cluster,
    /// `None` is for ever.
    pub timeout: Option<Duration>,
}

impl Ctx {
    /// Waits from the loaded state until the goal is reached, cannot be reached, or the timeout passes.
    pub async fn wait(
        &mut self,
        aim: &mut dyn Aim,
        cluster: Cluster,
        timeout: Option<Duration>,
    ) -> Result<Awaited> {
        let first = aim.look(&cluster);
        match first.state {
            AimState::Met => return Ok(Awaited::Met),
            AimState::Never(reason) => return Ok(Awaited::Never(reason)),
            AimState::NotYet => {}
        }
        // What blocks it now ends it where it is found by the watches, too.
        let _ = aim.blocked(&cluster);
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let mut watch = self.watch(cluster).await?;
        let mut shown = if aim.is_screen() {
            Display::on_stdout(&mut self.screen)
        } else {
            Display::new(&mut self.screen)
        };
        if aim.is_screen() {
            shown.look(first);
        }
        Ok(wait(aim, &mut watch, CONFIRMED_AFTER, deadline, &mut shown).await)
    }
}

async fn wait(
    aim: &mut (impl Aim + ?Sized),
    watch: &mut Watch,
    first: Duration,
    deadline: Option<Instant>,
    shown: &mut Display<'_>,
) -> Awaited {
    let watching = watch_for(aim, watch, first, shown);
    match deadline {
        None => watching.await,
        Some(deadline) => timeout_at(deadline, watching)
            .await
            .unwrap_or(Awaited::TimedOut),
    }
}

/// Looks at each change until it is over, and at what may block it from `first` on.
async fn watch_for(
    aim: &mut (impl Aim + ?Sized),
    watch: &mut Watch,
    first: Duration,
    shown: &mut Display<'_>,
) -> Awaited {
    let mut last = Instant::now();
    let mut next = last + first;
    let mut next_look = last;
    // A look for nothing but ages.
    let mut next_ages = last;
    let mut changed = true;
    shown.tick();
    loop {
        // There is nothing to judge before all was read.
        let ready = watch.ready();
        if ready && changed && Instant::now() >= next_look {
            changed = false;
            let begin = Instant::now();
            let look = aim.look(watch.cluster());
            if aim.is_screen() {
                let took = begin.elapsed();
                next_look = Instant::now() + pause_after(took, REDRAWN_AFTER);
                next_ages = Instant::now() + pause_after(AGES * took, REDRAWN_AFTER);
            }
            match shown.look(look) {
                AimState::Met => return Awaited::Met,
                AimState::Never(reason) => return Awaited::Never(reason),
                AimState::NotYet => {}
            }
        }
        if ready && Instant::now() >= next {
            let whole = watch.whole().await;
            last = Instant::now();
            let pause = match aim.blocked(whole) {
                Blocked::By(findings) => return Awaited::Blocked(findings),
                Blocked::Perhaps => CONFIRMED_AFTER,
                Blocked::No => pause_after(last.elapsed(), ANYWAY),
            };
            next = last + pause;
            changed |= aim.is_screen() && (aim.reads_unwatched() || last >= next_ages);
        }
        tokio::select! {
            news = watch.news() => match news {
                WatchUpdate::Changed => {
                    changed = true;
                    next = next.min(last + AFTER_A_CHANGE);
                }
                WatchUpdate::Away(warning) => shown.warn(warning),
                WatchUpdate::Lost(error) => return Awaited::Lost(error),
            },
            () = sleep_until(next), if ready => {}
            () = sleep_until(next_look), if ready && changed => {}
        }
    }
}

/// Waits in the writer's stead, for all stages over one watch.
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
        if !waiting.aim.bears_delay() {
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

    async fn wait(&mut self, untils: &[&WaitFor]) -> Awaited {
        let new = untils.iter().any(|until| !self.untils.contains(until));
        self.untils = untils.iter().copied().cloned().collect();
        self.aim.begin(untils);
        if new && !self.aim.bears_delay() {
            self.watch = None;
        }
        let watch = match &mut self.watch {
            Some(watch) => watch,
            None => {
                // Later waits start from the whole cluster, not from all events since.
                let cluster = self.cluster.clone();
                self.cluster.versions = ResourceVersions::default();
                let watch = Watch::begin(&self.origin, cluster);
                self.watch.insert(watch)
            }
        };
        if let (None, Some(timeout)) = (self.deadline, self.timeout) {
            self.deadline = Some(Instant::now() + timeout);
        }
        wait(
            self.aim,
            watch,
            AFTER_A_CHANGE,
            self.deadline,
            &mut self.shown,
        )
        .await
    }
}

impl WaitStrategy for WatchStrategy<'_> {
    fn takes(&self, until: &WaitFor) -> bool {
        self.aim.takes(until)
    }

    fn wait<'a>(
        &'a mut self,
        untils: &'a [&'a WaitFor],
    ) -> LocalBoxFuture<'a, (Vec<usize>, StopReason)> {
        async move {
            let all = || (0..untils.len()).collect();
            match self.wait(untils).await {
                Awaited::Met => {
                    let met = (0..untils.len()).filter(|at| self.aim.has_met(untils[*at]));
                    (met.collect(), StopReason::Finished)
                }
                Awaited::Never(reason) => (all(), StopReason::Unknown { reason }),
                Awaited::Blocked(findings) => (all(), StopReason::Blocked { findings }),
                Awaited::Lost(error) => {
                    let reason = error.to_string();
                    (all(), StopReason::Unknown { reason })
                }
                Awaited::TimedOut => {
                    let waiting: Vec<String> = untils.iter().map(|u| self.aim.awaited(u)).collect();
                    let waiting = list(&waiting);
                    (all(), StopReason::TimedOut { waiting })
                }
            }
        }
        .boxed_local()
    }
}
