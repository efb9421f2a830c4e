pub mod waited;

use std::time::Duration;

use self::waited::Waited;
use crate::api::{ApiFlavor, Skyhook};
use crate::args::duration::duration;
use crate::args::named;
use crate::cluster::live::WATCHED;
use crate::cluster::{Cluster, Source};
use crate::commands::shared::command::command;
use crate::commands::shared::diagnosis::Diagnosis;
use crate::commands::shared::{scope, selection, watched};
use crate::ctx::{self, Ctx, Ended};
use crate::error::{Error, Exit, Result};
use crate::rules::Scope;
use crate::view::duration_text;
use crate::wait::{Blockers, Condition};

/// Wait for a condition on custom resources
///
/// Waits until all of the custom resources meet the condition; with --for=erroring, until one does. Exits with 2, and
/// prints the reason, as soon as the rules find, twice in a row, that someone has to intervene, and with 5 on timeout.
/// A custom resource that selects no node is not complete. Failures that are retried, node reboots and a temporarily
/// unavailable API server do not end the wait.
///
/// A name that no custom resource has is an error, also with --for=deleted, unless nodes still have records of it.
/// `kubectl wait --for=delete` succeeds for any such name, so that a mistyped name passes a pipeline;
/// --ignore-not-found does the same here.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # After changing the spec
  kubectl skyhook wait gpu-tune --timeout 1h

  kubectl skyhook wait gpu-tune --for=uninstalled=driver

  # After kubectl delete --wait=false
  kubectl skyhook wait gpu-tune --for=deleted --ignore-not-found")]
pub struct Args {
    /// Names of custom resources; default: all
    #[arg(value_name = "NAME", value_parser = named::typed_skyhook)]
    names: Vec<(Option<ApiFlavor>, String)>,

    /// Condition to wait for; uninstalled=PACKAGE waits for this package only
    #[arg(long = "for", value_name = "complete|uninstalled|deleted|erroring", default_value = "complete")]
    condition: Condition,

    /// With --for=deleted, count a custom resource that does not exist as deleted
    #[arg(long)]
    ignore_not_found: bool,

    /// How long to wait; 0 waits forever
    #[arg(long, value_name = "DURATION", default_value = "30m", value_parser = duration)]
    timeout: Duration,

    /// Keep waiting even if a blocking problem is found
    #[arg(long)]
    keep_going: bool,

    /// How long to tolerate retried failures [default: 2m; 0 with operators from v0.18, whose Jobs count attempts]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    tolerate: Option<Duration>,
}

command! {
    "wait": Args => run,
    needs: Scope::default().needs(),
    watches: &WATCHED,
    prints: { "Waited": waited::Document, "Diagnosis": crate::commands::shared::diagnosis::Document },
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let needs = Scope::default().needs();
    if !ctx.global().reading.from.is_empty() {
        return Err(Error::usage("wait requires a cluster; --from is not supported")
            .hint("kubectl skyhook status --from PATH"));
    }
    if args.ignore_not_found && args.condition != Condition::Deleted {
        return Err(Error::usage("--ignore-not-found requires --for=deleted"));
    }
    let timeout = (!args.timeout.is_zero()).then_some(args.timeout);
    let cluster = watched::load_within(ctx, &needs, timeout).await?;
    let names = args.subjects(&cluster)?;
    scope::warn_unreadable(ctx, &cluster, &needs);
    let mut waited = Waited::new(&cluster, &args.condition, &names);
    if !args.keep_going {
        waited.blockers = Some(Blockers::new(&cluster, args.tolerate));
    }
    let ended = tokio::select! {
        biased;
        () = ctx::interrupt() => None,
        ended = ctx.wait(&mut waited, cluster, timeout) => Some(ended?),
    };
    match ended {
        Some(Ended::Met) => {
            ctx.show(&waited)?;
            Ok(Exit::Done)
        }
        Some(Ended::Blocked(_)) => {
            let found = waited.blockers.as_ref().and_then(Diagnosis::of_blockers);
            ctx.show(&found.expect("a blocked wait has blockers"))?;
            Ok(Exit::Findings)
        }
        Some(Ended::TimedOut(missing)) => {
            ctx.show(&waited)?;
            Err(Error {
                exit: Exit::TimedOut,
                ..Error::failed(format!("timed out after {}: {missing}", duration_text(args.timeout)))
            }
            .hint(format!("kubectl skyhook diagnose stuck {}", names.join(" "))))
        }
        None => {
            ctx.note(format!("Interrupted: {}.", waited.missing().join("; ")));
            Ok(Exit::Interrupted)
        }
    }
}

impl Args {
    /// The names of the custom resources to wait for.
    fn subjects(&self, cluster: &Cluster) -> Result<Vec<String>> {
        selection::complete(cluster, Source::Skyhooks)?;
        if self.condition != Condition::Erroring && self.condition != Condition::Deleted {
            selection::complete(cluster, Source::Nodes)?;
        }
        for (flavor, name) in &self.names {
            if let Some(flavor) = flavor {
                selection::served(cluster, *flavor, name)?;
            }
            selection::not_only_in_other_api(cluster, name)?;
            if !self.ignore_not_found {
                let hint = "kubectl skyhook wait --for=deleted --ignore-not-found accepts a name that does not exist";
                let known = selection::known_skyhook(cluster, name);
                known.map_err(|error| match self.condition {
                    Condition::Deleted => error.hint(hint),
                    _ => error,
                })?;
            }
        }
        let mut names: Vec<String> = self.names.iter().map(|(_, name)| name.clone()).collect();
        if names.is_empty() {
            let all = cluster.skyhooks.items();
            let uninstalls =
                self.condition == Condition::Uninstalled(None) && all.iter().any(Skyhook::requests_uninstall);
            let concerned = all.iter().filter(|s| !uninstalls || s.requests_uninstall());
            names.extend(concerned.map(|s| s.name().to_owned()));
        }
        if names.is_empty() && self.condition != Condition::Deleted {
            return Err(Error::failed(format!("there is no {}", cluster.flavor().kind())));
        }
        if let Condition::Uninstalled(Some(package)) = &self.condition {
            for name in &names {
                scope::known_package(cluster, name, package)?;
            }
        }
        Ok(names)
    }
}
