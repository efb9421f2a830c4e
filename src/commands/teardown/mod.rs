mod blocker;
mod deletion;
mod order;
mod preflight;
mod remnant;
pub mod report;
mod state;

use std::pin::pin;
use std::time::Duration;

use self::deletion::{Deletion, TeardownResult};
use self::preflight::TeardownPreview;
use self::report::{TeardownEnd, TeardownReport};
use self::state::RemovalState;
use crate::args::duration::duration;
use crate::args::safety::{DryRun, Safety};
use crate::cluster::live::WATCHED;
use crate::cluster::{Cluster, Source};
use crate::commands::shared::command::{Write, command};
use crate::ctx::{self, CommandOptions, Ctx};
use crate::error::{Error, Exit, Result};
use crate::plan::build::applied;
use crate::rules::Scope;
use crate::view::{count, duration_text};

/// Delete all custom resources in order, before the operator is uninstalled
///
/// Says first what would hang and why, what the deletions set off on nodes, and what they leave on hosts; with
/// --dry-run that is all, and the exit code is 2 if something would hang. Then it deletes wave by wave, later
/// priorities first and deployment policies last, and looks on until everything is gone: then the operator can be
/// uninstalled without `helm uninstall` hanging.
///
/// As soon as all that remains cannot go on by itself it ends with exit code 2, and says of each what holds it up
/// and what to type. The same command again goes on. A wave begins once all that has to be gone before it is gone, so
/// ending it with Ctrl-C leaves the later waves as they were; a requested deletion cannot be cancelled, but
/// `undelete` makes the object again.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # What would hang, and why
  kubectl skyhook teardown --dry-run

  kubectl skyhook teardown --timeout 1h && helm uninstall nodewright")]
pub struct Args {
    /// How long to wait; 0 waits for ever
    #[arg(long, value_name = "DURATION", default_value = "30m", value_parser = duration)]
    timeout: Duration,

    #[command(flatten)]
    safety: Safety,
}

command! {
    "teardown": Args => run,
    needs: needs(),
    watches: &WATCHED,
    writes: &[Write::DeleteSkyhooks, Write::DeletePolicies],
    prints: { "Teardown": report::Document },
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let cluster = ctx.load_or_leftovers(&needs(), &Source::DECIDING).await?;
    let preflight = preflight::look(&cluster);
    let mut plan = preflight.plan();
    applied::warn(&cluster, &mut plan);
    let mut page = TeardownReport {
        preflight: &preflight,
        plan: &plan,
        ended: TeardownEnd::Previewed,
        standings: Vec::new(),
        left: Vec::new(),
        unread: preflight.unread.clone(),
        journals: Vec::new(),
    };
    if preflight.items.is_empty() {
        page.left = remnant::of(&cluster);
        ctx.show(&page)?;
        return Ok(exit(&page));
    }
    if args.safety.plan_out.is_some() || args.safety.dry_run == DryRun::Server {
        return ctx
            .execute(&plan, &args.safety, CommandOptions::default())
            .await;
    }
    ctx.refuse_files(&args.safety)?;
    ctx::within(&plan, &args.safety)?;
    if args.safety.dry_run == DryRun::Client || cluster.from_files {
        ctx.show(&page)?;
        return Ok(match (preflight.hangs(), preflight.unread.is_empty()) {
            (true, _) => Exit::Findings,
            (false, false) if !cluster.from_files => Exit::Failed,
            (false, _) => Exit::Done,
        });
    }
    if plan.is_empty() {
        // Everything was asked for before; to look on changes nothing.
        ctx.note(page.preview());
    } else {
        ctx.ask(&plan, page.preview(), &args.safety).await?;
    }
    let watched = watch(ctx, args, &preflight, cluster).await?;
    page.left = match watched.ended {
        TeardownEnd::Gone => remnant::of(&watched.cluster),
        _ => Vec::new(),
    };
    page.unread = preflight::unread(&watched.cluster);
    (page.ended, page.standings) = (watched.ended, watched.standings);
    page.journals = watched.journals;
    ctx.show(&page)?;
    tell(ctx, args, &page);
    Ok(exit(&page))
}

/// All that the rules look at, and what is to go.
pub fn needs() -> Vec<Source> {
    let mut needs = Scope::default().needs();
    needs.extend([
        Source::Skyhooks,
        Source::Legacy,
        Source::Policies,
        Source::Nodes,
        Source::Pods,
        Source::Jobs,
        Source::Operator,
    ]);
    needs.sort_unstable();
    needs.dedup();
    needs
}

async fn watch(
    ctx: &mut Ctx,
    args: &Args,
    preflight: &TeardownPreview,
    cluster: Cluster,
) -> Result<TeardownResult> {
    let watch = ctx.watch(cluster).await?;
    let stop = pin!(ctx::interrupt());
    Deletion::new(args, preflight, stop).run(ctx, watch).await
}

/// What to type next, and what can no longer be taken back.
fn tell(ctx: &mut Ctx, args: &Args, page: &TeardownReport<'_>) {
    let still =
        |wanted: fn(&RemovalState) -> bool| page.standings.iter().filter(|s| wanted(s)).count();
    let begun = still(|s| matches!(s, RemovalState::Going(_) | RemovalState::Stalled(_)));
    let untouched = still(|s| matches!(s, RemovalState::NotBegun(_)));
    match page.ended {
        TeardownEnd::Interrupted => {
            if begun > 0 {
                ctx.note(format!(
                    "{} being deleted, which cannot be cancelled: the operator continues. Once one is gone, `kubectl skyhook undelete NAME` restores it.",
                    count(begun)
                ));
            }
            if untouched > 0 {
                ctx.note(format!("{} not started; left unchanged.", count(untouched)));
            }
        }
        TeardownEnd::TimedOut => ctx.error(&Error::failed(format!(
            "timed out after {}; the requested deletions continue",
            duration_text(args.timeout)
        ))),
        _ => {}
    }
    if !page.safe() && page.ended != TeardownEnd::Gone {
        ctx.note("To continue: kubectl skyhook teardown");
    }
}

fn exit(page: &TeardownReport<'_>) -> Exit {
    match page.ended {
        _ if page.safe() => Exit::Done,
        TeardownEnd::Interrupted => Exit::Interrupted,
        TeardownEnd::TimedOut => Exit::TimedOut,
        TeardownEnd::NotDeleted if page.standings.iter().any(may_be_deleted) => Exit::Partly,
        TeardownEnd::NotDeleted => Exit::Failed,
        TeardownEnd::Stalled => Exit::Findings,
        TeardownEnd::Gone | TeardownEnd::Previewed if page.left.iter().any(|l| l.blocks) => {
            Exit::Findings
        }
        // Not everything could be read.
        TeardownEnd::Gone => Exit::Partly,
        TeardownEnd::Previewed => Exit::Failed,
    }
}

fn may_be_deleted(state: &RemovalState) -> bool {
    matches!(state, RemovalState::Gone | RemovalState::Unknown(_))
}
