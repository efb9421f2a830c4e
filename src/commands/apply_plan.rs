//! `apply-plan`: applies a plan from a file.

use std::path::PathBuf;

use crate::apply::file::Untrusted;
use crate::args::safety::Safety;
use crate::cluster::Source;
use crate::cluster::live::WATCHED;
use crate::commands::shared::command::{Write, command};
use crate::commands::shared::progress::UninstallAim;
use crate::ctx::{CommandOptions, Ctx, PlanWait};
use crate::error::{Error, Exit, Result};
use crate::plan::{Grade, Refusal, SavedError, planners};
use crate::rules::Scope;

/// Apply a plan written by --plan-out
///
/// Applies exactly the changes in the file. An object that was modified since then is skipped if the planned change
/// would have a different effect on it. The plan is refused if it would now affect, drain or reboot more nodes than its
/// preview shows, or if it runs packages and the spec of the custom resource was changed. It is also refused if
/// a custom resource that it affects was created, deleted or recreated since, or is paused by another command; and if
/// the operator was not running when the plan was made, but is running now.
///
/// --tolerate is not saved in the plan: waiting for an uninstall ends as soon as the uninstall is blocked.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook reset gpu-tune --plan-out plan.json
  kubectl skyhook apply-plan plan.json --digest 0f3a… --confirm")]
pub struct Args {
    /// Plan file written by --plan-out
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Refuse the plan unless it has this digest
    #[arg(long, value_name = "DIGEST")]
    digest: Option<String>,

    #[command(flatten)]
    safety: Safety,
}

command! {
    "apply-plan": Args => run,
    needs: Scope::default().needs(),
    watches: &WATCHED,
    writes: Write::ALL,
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let file = args.file.display();
    let saved = crate::apply::file::read(&args.file, args.digest.is_some()).map_err(unreadable)?;
    let digest = saved.digest().to_owned();
    if let Some(other) = args.digest.as_ref().filter(|d| **d != digest) {
        let (file, expected) = (file.to_string(), other.clone());
        return Err(Refusal::OtherPlan { file, digest, expected }.into());
    }
    let (mut uninstalls, mut loaded) = (None, None);
    if ctx.global().reading.from.is_empty() {
        ctx.same_cluster(&format!("the plan in {file}"), saved.cluster.as_ref()).await?;
        let unmet = ctx.unmet(&saved.plan).await?;
        let runs = saved.plan.grade() > Grade::B1;
        let required: &[Source] = if runs { &[Source::Skyhooks, Source::Nodes] } else { &[Source::Skyhooks] };
        let limit = saved.plan.few_nodes();
        // Only the rules know what blocks an uninstall.
        let needs =
            if saved.plan.awaits_uninstall() { Scope::default().needs() } else { planners::NEEDS.to_vec() };
        let cluster = ctx.limit_to(limit).load_or_leftovers(&needs, required).await?;
        let grown = ctx.growth(&cluster, &saved.plan, &saved.specs).await;
        if let Some(change) = unmet.or(grown) {
            let (change, file) = (change.to_string(), file.to_string());
            return Err(Refusal::ChangedSincePlan { change, file }.into());
        }
        uninstalls = UninstallAim::of(&cluster, &saved.plan, None);
        if uninstalls.is_none() && saved.plan.awaits_uninstall() {
            let why =
                format!("the plan in {file} waits for an uninstall without naming a package and a version");
            return Err(Error::usage(why).hint(AGAIN));
        }
        loaded = Some(cluster);
    }
    let waiting = uninstalls.as_mut().zip(loaded).map(|(aim, cluster)| PlanWait { aim, cluster });
    let options = CommandOptions { digest: Some(digest), ..CommandOptions::default() };
    ctx.execute_with(&saved.plan, &args.safety, options, waiting).await
}

const AGAIN: &str = "run the planned command again, with --plan-out";

fn unreadable(error: anyhow::Error) -> Error {
    let hint = match error.downcast_ref() {
        Some(SavedError::Format(_) | SavedError::Digest) => Some(AGAIN),
        _ if error.is::<Untrusted>() => {
            Some("pass --digest with the digest that was printed when the plan was made")
        }
        _ => None,
    };
    hint.into_iter().fold(error.into(), Error::hint)
}
