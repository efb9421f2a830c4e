mod checks;
mod outcome;
mod ready;
mod rollback;

use std::time::Duration;

use self::checks::checks;
use crate::args::duration::duration;
use crate::cluster::Cluster;
use crate::commands;
use crate::commands::shared::command::command;
use crate::commands::shared::mutes::{LoadedMutes, MuteFlags};
use crate::ctx::{Ctx, interrupt};
use crate::error::{Error, Exit, Result};
use crate::rules::{Blocks, Rule, Scope};
use crate::view::duration_text;
use outcome::CheckReport;
use ready::{changes, every_change};

/// Check the installation of the operator itself
///
/// Checks, in this order: the API server, the CustomResourceDefinitions, the operator and its leader, what you may read
/// and change, the admission webhooks and their certificates, incompatible versions, and settings and sizes that stop
/// the operator. Each check that is not ok has a hint. Checks that could not run are listed.
///
/// Your permissions to make changes are checked with access reviews, which change nothing; a missing permission is a
/// warning.
///
/// Exits with 2 if something is wrong, otherwise with 1 if something could not be read from the cluster, or if the files
/// contain no custom resources or no nodes. Warnings do not count.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook diagnose check

  # Before an upgrade to v0.21: what it breaks
  kubectl skyhook diagnose check --for v0.21

  # Before a rollback to v0.15: what has to be removed
  kubectl skyhook diagnose check --for v0.15

  # After an installation: wait until all checks pass, for at most five minutes
  kubectl skyhook diagnose check --wait --timeout 5m")]
pub struct Args {
    /// Repeat the checks until no problem is found
    #[arg(long)]
    wait: bool,

    /// How long to repeat the checks; 0 means no limit
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration, requires = "wait")]
    timeout: Duration,

    /// Also check what breaks with this version of the operator
    ///
    /// v0.21 drops the API group of Skyhook. v0.15, after a rollback, does not know uninstall settings.
    #[arg(long = "for", value_name = "VERSION", value_parser = ["v0.15", "v0.21"])]
    ready_for: Option<String>,

    #[command(flatten)]
    muting: MuteFlags,
}

/// Interval between two runs of the checks.
const PAUSE: Duration = Duration::from_secs(2);

command! {
    "diagnose check": Args => run,
    needs: Scope::default().needs(),
    gets: &[("apiextensions.k8s.io", "customresourcedefinitions")],
    lists: &[("coordination.k8s.io", "leases")],
    prints: { "Check": CheckReport },
}

/// The rules about the installation, about controllers that do not act in time, and about problems that stop the operator
/// for all custom resources.
fn rules() -> Vec<&'static Rule> {
    let all = crate::rules::ALL.iter().copied();
    let stops = |rule: &Rule| rule.blocks.contains(&Blocks::Reconcile);
    let late = |rule: &Rule| checks::LATE.contains(&rule.code);
    all.filter(|rule| rule.code.starts_with("SKY5") || late(rule) || stops(rule)).collect()
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    if !args.wait {
        let (page, muting) = run_checks(ctx, args).await?;
        ctx.show(&page)?;
        return Ok(muting.exit(page.exit()));
    }
    let interrupted = interrupt();
    let over = async {
        if args.timeout.is_zero() {
            std::future::pending().await
        } else {
            tokio::time::sleep(args.timeout).await
        }
    };
    let mut last = None;
    let ended = {
        let rounds = async {
            let (mut page, _) = run_checks(ctx, args).await?;
            while last.insert(page).exit() == Exit::Findings {
                tokio::time::sleep(PAUSE).await;
                // Retry while the server does not respond.
                page = loop {
                    match run_checks(ctx, args).await {
                        Ok((page, _)) => break page,
                        Err(_) => tokio::time::sleep(PAUSE).await,
                    }
                };
            }
            Ok::<(), Error>(())
        };
        tokio::select! {
            biased;
            () = interrupted => Some(Exit::Interrupted),
            passed = rounds => passed.map(|()| None)?,
            () = over => Some(Exit::TimedOut),
        }
    };
    let Some(last) = last else {
        let exit = ended.unwrap_or(Exit::Failed);
        let how = match exit {
            Exit::TimedOut => format!("timed out after {}", duration_text(args.timeout)),
            _ => "interrupted".to_owned(),
        };
        return Err(Error { exit, ..Error::failed(format!("{how}: the first checks have not finished")) });
    };
    ctx.show(&last)?;
    Ok(ended.unwrap_or_else(|| last.exit()))
}

async fn run_checks(ctx: &mut Ctx, args: &Args) -> Result<(CheckReport, LoadedMutes)> {
    let cluster: Cluster = ctx.load(&Scope::default().needs()).await?;
    let muting = args.muting.load(ctx, &cluster)?;
    let installation = ctx.installation(&cluster).await;
    let answers = ctx.may_change(&every_change(&cluster)).await;
    let changes = changes(&cluster, &commands::all(), answers.as_ref());
    let mut checks = checks(&cluster, &installation, changes, &muting.mutes);
    let mut questions = Vec::new();
    match args.ready_for.as_deref() {
        Some("v0.15") => checks.extend(rollback::checks(&cluster)),
        Some(_) => {
            checks.extend(ready::checks(&cluster));
            questions = ready::questions(&cluster);
        }
        None => {}
    }
    Ok((CheckReport::new(&cluster, checks, questions), muting))
}
