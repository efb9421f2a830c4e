//! Waiting with open eyes: progress from watches, and an end as soon as it is known.

use std::time::Duration;

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::apply::{Attend, Ended};
use crate::cluster::Cluster;
use crate::cluster::live::{Follow, LoadError, News};
use crate::plan::Until;
use crate::screen::Screen;
use crate::view::View;
use crate::view::text::{Line, Text};

/// Blockers are looked for this long after a change.
const AFTER_A_CHANGE: Duration = Duration::from_secs(2);
/// And this long after the last time, as not everything that blocks is watched.
const ANYWAY: Duration = Duration::from_secs(5);
/// What blocks must be there still so much later: sources are read side by side, and one look may see two moments.
const CONFIRMED_AFTER: Duration = Duration::from_secs(1);
/// How often in a row a server may refuse the credentials, as one does that is just starting.
const REFUSALS: u32 = 5;

/// Something that the operator brings about, node by node.
pub trait Goal {
    /// Whether this is what it waits for; all that is asked from now on is about that.
    fn takes(&mut self, until: &Until) -> bool;

    /// How far it is.
    fn look(&mut self, cluster: &Cluster) -> Look;

    /// Whether it is blocked, with all that the rules look at.
    fn blocked(&mut self, cluster: &Cluster) -> Blocked;

    /// What blocks it.
    fn found(&self) -> Option<Box<dyn View + '_>>;

    /// What has come about and what not, for the end, in one line.
    fn summary(&self, finished: bool) -> Option<String>;
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
pub struct Look {
    pub standing: Standing,
    /// All of it, for a screen that is drawn anew.
    pub whole: Text,
    /// What is new since the last look, for what scrolls by.
    pub news: Vec<Line>,
}

/// Whether it has come about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    Met,
    NotYet,
    /// It will not, and why.
    Never(String),
}

/// What is waited for, from when on, and how long.
pub struct Waiting<'a> {
    pub goal: &'a mut dyn Goal,
    /// As it was loaded, with all that the rules look at.
    pub cluster: Cluster,
    /// `None` is for ever.
    pub timeout: Option<Duration>,
}

/// Watches in the writer's stead.
pub(super) struct Follower<'a> {
    goal: &'a mut dyn Goal,
    cluster: Cluster,
    timeout: Option<Duration>,
    screen: &'a mut Screen,
    client: kube::Client,
    namespace: Option<String>,
    /// For all that is waited for, from the first wait on.
    deadline: Option<Instant>,
    bar: ProgressBar,
    said: bool,
    refusals: u32,
}

impl<'a> Follower<'a> {
    pub fn new(
        waiting: &'a mut Waiting<'_>,
        screen: &'a mut Screen,
        client: &kube::Client,
        namespace: Option<String>,
    ) -> Follower<'a> {
        let target = if screen.err.terminal {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(None, target);
        let style = ProgressStyle::with_template("{msg}\n{elapsed} so far; Ctrl-C leaves it alone");
        bar.set_style(style.expect("the template is sound"));
        Follower {
            goal: &mut *waiting.goal,
            cluster: waiting.cluster.clone(),
            timeout: waiting.timeout,
            screen,
            client: client.clone(),
            namespace,
            deadline: None,
            bar,
            said: false,
            refusals: 0,
        }
    }

    async fn wait(&mut self) -> Ended {
        // Anew each time: what is known from before may not have the write that is waited upon.
        let cluster = self.cluster.clone();
        let mut follow = Follow::begin(&self.client, cluster, self.namespace.as_deref());
        if let (None, Some(timeout)) = (self.deadline, self.timeout) {
            self.deadline = Some(Instant::now() + timeout);
        }
        let deadline = self.deadline;
        let watching = self.watch(&mut follow);
        let ended = match deadline {
            None => Some(watching.await),
            Some(deadline) => timeout_at(deadline, watching).await.ok(),
        };
        self.bar.finish_and_clear();
        ended.unwrap_or_else(|| Ended::TimedOut {
            waiting: String::new(),
        })
    }

    /// Looks at each change until it is over.
    async fn watch(&mut self, follow: &mut Follow) -> Ended {
        let mut last = Instant::now();
        let mut next = last + AFTER_A_CHANGE;
        let mut cluster = None;
        self.bar.enable_steady_tick(Duration::from_millis(250));
        loop {
            if follow.ready() {
                let now = follow.cluster(super::now());
                match self.look(&now) {
                    Standing::Met => return Ended::Finished,
                    Standing::Never(why) => return Ended::Lost { why },
                    Standing::NotYet => cluster = Some(now),
                }
            }
            if Instant::now() >= next && cluster.is_some() {
                follow.refresh(super::now()).await;
                let whole = follow.cluster(super::now());
                let pause = match self.goal.blocked(&whole) {
                    Blocked::By(findings) => return Ended::Hindered { findings },
                    Blocked::Perhaps => CONFIRMED_AFTER,
                    Blocked::No => ANYWAY,
                };
                last = Instant::now();
                next = last + pause;
            }
            tokio::select! {
                news = follow.news() => match news {
                    News::Changed => {
                        self.refusals = 0;
                        next = next.min(last + AFTER_A_CHANGE);
                    }
                    News::Away(error) => if let Some(ended) = self.bear(error) {
                        return ended;
                    },
                },
                // There is nothing to judge before all was read.
                () = sleep_until(next), if cluster.is_some() => {}
            }
        }
    }

    fn look(&mut self, cluster: &Cluster) -> Standing {
        let look = self.goal.look(cluster);
        if self.screen.err.terminal {
            self.bar.set_message(self.screen.drawn(&look.whole))
        } else {
            look.news
                .into_iter()
                .for_each(|line| self.screen.note(line))
        }
        look.standing
    }

    /// Bears what may pass, and says so once.
    fn bear(&mut self, error: LoadError) -> Option<Ended> {
        if matches!(
            error,
            LoadError::Unauthorized { .. } | LoadError::Credentials(_)
        ) {
            self.refusals += 1;
        }
        if self.refusals > REFUSALS {
            return Some(Ended::Lost {
                why: error.to_string(),
            });
        }
        if !std::mem::replace(&mut self.said, true) {
            let screen = &mut self.screen;
            let warning = format!("{error}; still waiting");
            self.bar.suspend(|| screen.warn(warning.as_str()));
        }
        None
    }
}

impl Attend for Follower<'_> {
    fn attend<'a>(&'a mut self, until: &'a Until) -> LocalBoxFuture<'a, Option<Ended>> {
        async move {
            if !self.goal.takes(until) {
                return None;
            }
            Some(match self.wait().await {
                Ended::TimedOut { .. } => Ended::TimedOut {
                    waiting: until.describe(),
                },
                ended => ended,
            })
        }
        .boxed_local()
    }
}

impl Drop for Follower<'_> {
    /// Nothing half drawn is left behind when the user stops it.
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
