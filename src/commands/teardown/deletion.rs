//! Deletes what may go, and looks until all of it is gone or cannot go on.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::blocker::{self, Blocker};
use super::preflight::{TeardownPreview, step};
use super::report::TeardownEnd;
use super::state::{RemovalState, TeardownState};
use super::{Args, remnant};
use crate::cluster::Cluster;
use crate::ctx::{Ctx, Watch, WatchUpdate, pause_after};
use crate::error::Result;
use crate::plan::{Plan, PlanStage, Target};
use crate::view::{Text, count, list};

/// What is not watched is read again so much later, and what keeps objects from going is looked for.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// What keeps an object from going is believed once it was there for so long: the operator comes round every two
/// seconds, and what was true of an object before its deletion may not be true after it.
const BELIEVED_AFTER: Duration = Duration::from_secs(3);
/// How long pods may take to end once their owner is gone.
const PODS_GRACE: Duration = Duration::from_secs(120);
/// Pending deletions that are listed at once.
const LISTED: usize = 10;

/// How far it has come, and how it ended.
pub struct TeardownResult {
    pub cluster: Cluster,
    pub ended: TeardownEnd,
    pub standings: Vec<RemovalState>,
    pub journals: Vec<String>,
}

/// What keeps an object from going, and since when it was seen.
type Suspects = BTreeMap<usize, (Vec<Blocker>, Instant)>;

pub struct Deletion<'a> {
    args: &'a Args,
    preflight: &'a TeardownPreview,
    stop: Pin<&'a mut dyn Future<Output = ()>>,
    deadline: Option<Instant>,
    course: TeardownState,
    journals: Vec<String>,
    shown: String,
    said: BTreeSet<usize>,
}

impl<'a> Deletion<'a> {
    pub fn new(
        args: &'a Args,
        preflight: &'a TeardownPreview,
        stop: Pin<&'a mut dyn Future<Output = ()>>,
    ) -> Deletion<'a> {
        let items = preflight.items.iter().map(|p| p.item.clone());
        let timeout = Some(args.timeout).filter(|t| !t.is_zero());
        Deletion {
            course: TeardownState::new(items.collect()),
            deadline: timeout.map(|t| Instant::now() + t),
            args,
            preflight,
            stop,
            journals: Vec::new(),
            shown: String::new(),
            said: BTreeSet::new(),
        }
    }

    /// Goes on until nothing more can be done.
    pub async fn run(mut self, ctx: &mut Ctx, mut watch: Watch) -> Result<TeardownResult> {
        let mut suspects = Suspects::new();
        let mut all_gone_at: Option<Instant> = None;
        let mut next_whole = Instant::now() + LOOK_AGAIN;
        loop {
            let whole = Instant::now() >= next_whole;
            let cluster = if whole {
                watch.whole().await
            } else {
                watch.cluster()
            };
            if whole {
                let began = Instant::now();
                self.suspect(cluster, &mut suspects);
                next_whole = Instant::now() + pause_after(began.elapsed(), LOOK_AGAIN);
            }
            let stalled = believed(&suspects);
            let before = self.course.standings(cluster, &stalled);
            self.say(ctx, &before);
            if let Some(ended) = self.begin(ctx, cluster).await? {
                return Ok(self.end(cluster, ended, &suspects));
            }
            let standings = self.course.standings(cluster, &stalled);
            if finished(&standings) {
                let going = standings.iter().all(|s| *s == RemovalState::Gone);
                let since = *all_gone_at.get_or_insert_with(Instant::now);
                // Pods go after their owners.
                let waits = going && !remnant::package_runs(cluster).is_empty();
                if !waits || since.elapsed() > PODS_GRACE {
                    let failed = standings
                        .iter()
                        .any(|s| matches!(s, RemovalState::Failed(_) | RemovalState::Unknown(_)));
                    let ended = match (going, failed) {
                        (true, _) => TeardownEnd::Gone,
                        (false, true) => TeardownEnd::NotDeleted,
                        (false, false) => TeardownEnd::Stalled,
                    };
                    return Ok(self.end(cluster, ended, &suspects));
                }
            } else {
                all_gone_at = None;
            }
            if let Some(ended) = self.next(ctx, &mut watch, next_whole).await? {
                return Ok(self.end(watch.cluster(), ended, &suspects));
            }
        }
    }

    fn end(self, cluster: &Cluster, ended: TeardownEnd, suspects: &Suspects) -> TeardownResult {
        TeardownResult {
            standings: self.course.standings(cluster, &believed(suspects)),
            cluster: cluster.clone(),
            ended,
            journals: self.journals,
        }
    }

    /// Asks for the deletion of all whose turn has come.
    async fn begin(&mut self, ctx: &mut Ctx, cluster: &Cluster) -> Result<Option<TeardownEnd>> {
        let ready = self.course.ready(cluster);
        if ready.is_empty() {
            return Ok(None);
        }
        let mut steps = Vec::new();
        for &at in &ready {
            let planned = &self.preflight.items[at];
            let deleting = planned.item.find(cluster);
            let deleting = deleting.is_none_or(|f| f.metadata().deleting());
            if planned.deleting || deleting {
                self.course.begun[at] = true;
                continue;
            }
            steps.push(step(planned));
        }
        if steps.is_empty() {
            return Ok(None);
        }
        let names: Vec<String> = steps.iter().map(|s| s.target.to_string()).collect();
        let whole = self.preflight.plan();
        let plan = Plan {
            title: format!("teardown: delete {}", list(&names)),
            subject: whole.subject,
            stages: vec![PlanStage::of(steps)],
            consequences: whole.consequences,
            ..Plan::default()
        };
        let taken = ctx.execute_part(&plan, &self.args.safety).await?;
        self.journals.extend(taken.journal);
        for at in ready {
            let target = &self.course.items[at].target;
            let why = |of: &[(Target, String)]| {
                let found = of.iter().find(|(t, _)| t == target);
                found.map(|(_, why)| why.clone())
            };
            self.course
                .failed
                .extend(why(&taken.failed).map(|why| (at, why)));
            self.course
                .unknown
                .extend(why(&taken.unknown).map(|why| (at, why)));
            if taken.begun.contains(target) {
                self.course.begun[at] = true;
            }
        }
        let done: Vec<String> = taken
            .begun
            .iter()
            .filter(|t| {
                let mut not = taken.failed.iter().chain(&taken.unknown);
                not.all(|(other, _)| other != *t)
            })
            .map(ToString::to_string)
            .collect();
        if !done.is_empty() {
            ctx.note(format!("requested the deletion of {}", list(&done)));
        }
        Ok(taken.interrupted.then_some(TeardownEnd::Interrupted))
    }

    /// Notes what keeps objects from going, and since when.
    fn suspect(&self, cluster: &Cluster, suspects: &mut Suspects) {
        let items = self.course.items.iter().enumerate();
        let open: Vec<_> = items
            .filter(|(at, _)| self.course.begun[*at] && !self.course.gone(cluster, *at))
            .collect();
        if open.is_empty() {
            suspects.clear();
            return;
        }
        // What waits to be uninstalled is not at work yet, and would not get on either.
        let then = cluster.simulate_deletion(&BTreeSet::new(), &BTreeSet::new());
        let report = blocker::report(&then);
        let mut now = Suspects::new();
        for (at, item) in open {
            let found = blocker::of(&then, &report, item);
            if found.is_empty() {
                continue;
            }
            let same =
                |(before, _): &&(Vec<Blocker>, Instant)| before.iter().any(|h| found.contains(h));
            let before = suspects.get(&at).filter(same);
            let since = before.map_or_else(Instant::now, |(_, since)| *since);
            now.insert(at, (found, since));
        }
        *suspects = now;
    }

    /// Waits until something has changed or it is time to look again; or why it ends here.
    async fn next(
        &mut self,
        ctx: &mut Ctx,
        watch: &mut Watch,
        at_the_latest: Instant,
    ) -> Result<Option<TeardownEnd>> {
        loop {
            tokio::select! {
                biased;
                () = &mut self.stop => return Ok(Some(TeardownEnd::Interrupted)),
                () = reached(self.deadline) => return Ok(Some(TeardownEnd::TimedOut)),
                news = watch.news() => match news {
                    WatchUpdate::Changed if watch.ready() => return Ok(None),
                    WatchUpdate::Changed | WatchUpdate::Away(None) => {}
                    WatchUpdate::Away(Some(warning)) => ctx.warn(warning),
                    WatchUpdate::Lost(error) => return Err(error.into()),
                },
                () = sleep_until(at_the_latest) => return Ok(None),
            }
        }
    }

    /// Says what has gone, and on a terminal also what is on its way and what holds it up.
    fn say(&mut self, ctx: &mut Ctx, standings: &[RemovalState]) {
        let gone: Vec<usize> = (0..standings.len())
            .filter(|at| standings[*at] == RemovalState::Gone && self.said.insert(*at))
            .collect();
        if !gone.is_empty() {
            let names = gone
                .iter()
                .map(|&at| self.course.items[at].target.to_string());
            let names: Vec<String> = names.collect();
            ctx.note(format!("gone: {}", list(&names)));
        }
        if !ctx.watched() {
            return;
        }
        let lines: Vec<String> = standings
            .iter()
            .zip(&self.course.items)
            .filter_map(|(standing, item)| match standing {
                RemovalState::Going(so_far) => Some(format!("{}: {so_far}", item.target)),
                RemovalState::Stalled(why) => {
                    let why = why.first().map(Blocker::brief).unwrap_or_default();
                    Some(format!("{}: {why}", item.target))
                }
                _ => None,
            })
            .collect();
        let mut now = lines[..lines.len().min(LISTED)].join("\n");
        if lines.len() > LISTED {
            now += &format!("\nand {} more", count(lines.len() - LISTED));
        }
        if now != self.shown && !now.is_empty() {
            let mut note = Text::new();
            note.line(format!("{} being deleted:", count(lines.len())));
            let mut each = Text::new();
            for line in now.lines() {
                each.paragraph(line);
            }
            note.indented(2, each);
            ctx.note(note);
        }
        self.shown = now;
    }
}

/// A point in time; never, where there is none.
async fn reached(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Whether nothing is on its way any more.
fn finished(standings: &[RemovalState]) -> bool {
    let going = |s: &RemovalState| matches!(s, RemovalState::Going(_));
    // One whose turn has come is going in a moment.
    !standings.iter().any(going)
}

/// Those that were kept from going for long enough.
fn believed(suspects: &Suspects) -> BTreeMap<usize, Vec<Blocker>> {
    let old = suspects
        .iter()
        .filter(|(_, (_, since))| since.elapsed() >= BELIEVED_AFTER);
    old.map(|(at, (found, _))| (*at, found.clone())).collect()
}
