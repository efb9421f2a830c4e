//! Looking again and again, politely.

use std::time::Duration;

use super::waited::Waited;
use super::{Args, Condition, needs};
use crate::cluster::{Cluster, Source};
use crate::commands::shared::look::{Look, Trouble, look};
use crate::ctx::Ctx;
use crate::error::Result;
use crate::rules::confirm::{Suspects, tolerated};
use crate::rules::{self, Report, Scope};

/// Everything is read at least every so many looks; in between only the custom resources are, unless they change.
const WHOLE_EVERY: u32 = 5;
/// Looks are not taken faster than this, whatever is asked for.
const SHORTEST: Duration = Duration::from_millis(10);

/// How the waiting has ended.
pub enum Ended {
    Met,
    /// It is blocked, for these reasons.
    Blocked(Box<Cluster>, Report),
}

/// Looks until it has come about or cannot.
pub async fn poll(
    ctx: &mut Ctx,
    client: &kube::Client,
    args: &Args,
    first: Cluster,
    waited: &mut Waited,
) -> Result<Ended> {
    let mut cluster = first;
    let executor = cluster.generation().executor();
    let mut suspects = Suspects::new(args.tolerate.unwrap_or(tolerated(executor)));
    let mut shown = String::new();
    let mut trouble = Trouble::default();
    let may_go = args.condition == Condition::Deleted;
    loop {
        waited.judge(&cluster);
        if waited.met() {
            return Ok(Ended::Met);
        }
        if let Some(error) = waited.items.iter().find_map(|(_, s)| Option::from(s)) {
            return Err(error);
        }
        say(ctx, &mut shown, waited);
        if !args.keep_going {
            let names = waited.names();
            let report = report(&cluster, &names);
            let found = args.condition.blockers(&cluster, &report, &names);
            let confirmed = suspects.confirm(cluster.taken_at, &found);
            if !confirmed.is_empty() {
                let report = report.stuck_by(&confirmed);
                return Ok(Ended::Blocked(Box::new(cluster), report));
            }
        }
        let before = versions(&cluster, waited);
        let mut looks = if suspects.look_again() {
            WHOLE_EVERY
        } else {
            0
        };
        cluster = loop {
            tokio::time::sleep(args.interval.max(SHORTEST)).await;
            looks += 1;
            let light = if looks < WHOLE_EVERY {
                Some(trouble.bear(ctx, may_go, look(ctx, client, vec![Source::Skyhooks]).await)?)
            } else {
                None
            };
            match light {
                Some(Look::At(read)) if versions(&read, waited) == before => continue,
                Some(Look::Away) => continue,
                Some(Look::Gone) => return Ok(Ended::Met),
                Some(Look::At(_)) | None => {}
            }
            let read = look(ctx, client, needs()).await;
            match trouble.bear(ctx, may_go, read)? {
                Look::At(read) => break *read,
                Look::Away => {}
                Look::Gone => return Ok(Ended::Met),
            }
        };
    }
}

fn report(cluster: &Cluster, names: &[String]) -> Report {
    let scope = Scope {
        skyhooks: names.to_vec(),
        ..Scope::default()
    };
    rules::diagnose(cluster, &scope)
}

/// What changes whenever the operator writes.
fn versions(cluster: &Cluster, waited: &Waited) -> Vec<Option<String>> {
    let names = waited.items.iter();
    names
        .map(|(name, _)| cluster.skyhook(name)?.metadata.resource_version.clone())
        .collect()
}

/// Says on a terminal how far it is, when that has changed.
fn say(ctx: &mut Ctx, shown: &mut String, waited: &Waited) {
    let now = waited.missing().join("; ");
    if ctx.watched() && *shown != now {
        ctx.note(now.as_str());
        *shown = now;
    }
}
