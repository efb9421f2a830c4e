//! Removing packages from nodes.

pub mod ask;
mod effects;
mod order;
mod placement_summary;
mod progress;
pub mod status;
mod timeout;

use crate::cluster::live::WATCHED;
use crate::commands::shared::command::{CommandInfo, Run, Write, command};
use crate::ctx::Ctx;
use crate::error::{Exit, Result};

/// Uninstall a package from all nodes
///
/// Sets `uninstall.apply` in the spec; the operator then uninstalls. Every node on which the package is complete starts
/// immediately, whatever the budget; a package with an interrupt cordons, drains and interrupts each of them. The command
/// refuses what would hang, do nothing or strand the package, and says what to do instead.
///
/// With --wait it shows how far each node is, and ends when the package is gone from all of them, or as soon as it
/// cannot go on. Reboots of nodes, and an API server that is away for a while, do not end it. When it is interrupted
/// or its time is up, the uninstall goes on in the cluster, and the same command goes on waiting for it.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  # See what it would do where, and what the operator's webhook says to it
  kubectl skyhook uninstall gpu-tune driver --dry-run
  kubectl skyhook uninstall gpu-tune driver --dry-run=server

  # Uninstall, wait, and take the package out of the spec
  kubectl skyhook uninstall gpu-tune driver --remove --timeout 1h

  kubectl skyhook uninstall gpu-tune --all-packages --remove
  kubectl skyhook uninstall gpu-tune driver --cancel"
)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    what: ask::What,
}

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    Status(status::Args),
}

command! {
    "uninstall": ask::What => ask::run,
    needs: ask::all_needs(),
    watches: &WATCHED,
    writes: &[Write::Skyhooks],
}

impl Run for Args {
    fn all() -> Vec<&'static CommandInfo> {
        [ask::What::all(), status::Args::all()].concat()
    }

    fn info(&self) -> &'static CommandInfo {
        match &self.command {
            Some(Command::Status(args)) => args.info(),
            None => self.what.info(),
        }
    }

    async fn run(&self, ctx: &mut Ctx) -> Result<Exit> {
        match &self.command {
            Some(Command::Status(args)) => args.run(ctx).await,
            None => self.what.run(ctx).await,
        }
    }
}
