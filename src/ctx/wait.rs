//! Waiting for what the operator brings about: shown from watches, and ended as soon as it is known.

use std::time::Duration;

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::Ctx;
use super::watch::{Watch, WatchUpdate, pause_after};
use crate::apply::{StopReason, WaitStrategy};
use crate::cluster::live::LoadError;
use crate::cluster::{Cluster, ResourceVersions};
use crate::error::{Exit, Result};
use crate::plan::WaitFor;
use crate::screen::Screen;
use crate::view::text::{Line, Text};
use crate::view::{View, list};

/// Blockers are looked for this long after a change.
const AFTER_A_CHANGE: Duration = Duration::from_secs(2);
/// And this long after the last time, as not everything that blocks is watched.
const ANYWAY: Duration = Duration::from_secs(5);
/// What blocks must be there still so much later: sources are read side by side, and one look may see two moments.
const CONFIRMED_AFTER: Duration = Duration::from_secs(1);

/// What is waited for.
pub trait Aim {
    /// How far it is.
    fn look(&mut self, cluster: &Cluster) -> AimProgress;

    /// Whether it is blocked, with all that the rules look at.
    fn blocked(&mut self, cluster: &Cluster) -> Blocked;
}

/// What the stages of a plan wait for, and how that is shown before and afterwards.
pub trait PlannedAim: Aim {
    /// Whether this is what it waits for.
    fn takes(&self, until: &WaitFor) -> bool;

    /// From now on it is about these, which go on side by side.
    fn begin(&mut self, untils: &[&WaitFor]);

    /// Whether this one of several has come about, by the last look.
    fn has_met(&self, _until: &WaitFor) -> bool {
        true
    }

    /// Whether a watch will do that does not show yet what was written right before. Otherwise all is read anew.
    fn bears_delay(&self) -> bool {
        false
    }

    /// What is shown of the plan in place of its changes.
    fn preview(&self) -> Option<Box<dyn View + '_>> {
        None
    }

    /// What is found at the end: what blocks it, or is left.
    fn found(&self) -> Option<Box<dyn View + '_>>;

    /// What has come about and what not, for the end, in one line; `begun` where anything may have been changed for it.
    fn summary(&self, finished: bool, begun: bool) -> Option<String>;

    /// The exit code where all of the plan was carried out and has come about.
    fn exit(&self) -> Exit {
        Exit::Done
    }
}

/// How the waiting has ended.
pub enum Awaited {
    Met,
    /// It will not come about, and why.
    Never(String),
    /// It is blocked, by what in a few words each.
    Blocked(Vec<String>),
    TimedOut,
    /// It cannot be told any more.
    Lost(LoadError),
}

/// Whether something is blocked until somebody acts.
pub enum Blocked {
    No,
    /// The next look tells.
    Perhaps,
    /// By what, in a few words each.
    By(Vec<String>),
}

/// How far something is.
pub struct AimProgress {
    pub state: AimState,
    /// The whole progress, for a terminal, where it replaces what was shown before.
    pub whole: Text,
    /// What is new since the last look, for what scrolls by.
    pub news: Vec<Line>,
}

/// Whether it has come about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AimState {
    Met,
    NotYet,
    /// It will not, and why.
    Never(String),
}

/// What a plan waits for, from when on, and how long.
pub struct PlanWait<'a> {
    pub aim: &'a mut dyn PlannedAim,
    /// As it was loaded, with all that the rules look at.
    pub cluster: Cluster,
    /// `None` is for ever.
    pub timeout: Option<Duration>,
}

impl Ctx {
    /// Waits from what was loaded on until it has come about or cannot; no longer than the timeout, if there is one.
    pub async fn wait(
        &mut self,
        aim: &mut dyn Aim,
        cluster: Cluster,
        timeout: Option<Duration>,
    ) -> Result<Awaited> {
        match aim.look(&cluster).state {
            AimState::Met => return Ok(Awaited::Met),
            AimState::Never(reason) => return Ok(Awaited::Never(reason)),
            AimState::NotYet => {}
        }
        // What blocks it now ends it where it is found by the watches, too.
        let _ = aim.blocked(&cluster);
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let mut watch = self.watch(cluster).await?;
        let mut shown = Display::new(&mut self.screen);
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
    let mut changed = true;
    shown.bar.enable_steady_tick(Duration::from_millis(250));
    loop {
        // There is nothing to judge before all was read.
        let ready = watch.ready();
        if ready && std::mem::take(&mut changed) {
            let look = aim.look(watch.cluster());
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
        }
    }
}

/// How far it is, on the screen.
struct Display<'a> {
    screen: &'a mut Screen,
    bar: ProgressBar,
}

impl<'a> Display<'a> {
    fn new(screen: &'a mut Screen) -> Display<'a> {
        let target = if screen.err.terminal {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(None, target);
        let style = ProgressStyle::with_template("{msg}\n{elapsed} so far; Ctrl-C stops waiting");
        bar.set_style(style.expect("the template is sound"));
        Display { screen, bar }
    }

    fn look(&mut self, look: AimProgress) -> AimState {
        if self.screen.err.terminal {
            self.bar.set_message(self.screen.drawn(&look.whole))
        } else {
            let news = look.news.into_iter();
            news.for_each(|line| self.screen.note(line))
        }
        look.state
    }

    fn warn(&mut self, warning: Option<String>) {
        if let Some(warning) = warning {
            let screen = &mut self.screen;
            self.bar.suspend(|| screen.warn(warning.as_str()));
        }
    }
}

impl Drop for Display<'_> {
    /// Nothing half drawn is left behind when the user stops it.
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Waits in the writer's stead, for all stages over one watch.
pub(super) struct WatchStrategy<'a> {
    aim: &'a mut dyn PlannedAim,
    /// As it was loaded, to watch from there.
    cluster: Cluster,
    watch: Option<Watch>,
    /// What is waited for now.
    untils: Vec<WaitFor>,
    timeout: Option<Duration>,
    client: kube::Client,
    namespace: Option<String>,
    /// For all that is waited for, from the first wait on.
    deadline: Option<Instant>,
    shown: Display<'a>,
}

impl<'a> WatchStrategy<'a> {
    pub fn new(
        waiting: &'a mut PlanWait<'_>,
        screen: &'a mut Screen,
        client: &kube::Client,
        namespace: Option<String>,
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
            client: client.clone(),
            namespace,
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
                // Later waits begin anew with all, rather than with all that happened since.
                let cluster = self.cluster.clone();
                self.cluster.versions = ResourceVersions::default();
                let watch = Watch::begin(&self.client, cluster, self.namespace.as_deref());
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
                    let waiting: Vec<String> = untils.iter().map(|u| u.describe()).collect();
                    let waiting = list(&waiting);
                    (all(), StopReason::TimedOut { waiting })
                }
            }
        }
        .boxed_local()
    }
}
