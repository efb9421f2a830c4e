//! Commands that remove packages from nodes.

pub mod ask;
mod progress;
pub mod status;

use crate::cluster::live::WATCHED;
use crate::commands::shared::command::{CommandInfo, Run, Write, command};
use crate::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::rules::Scope;

/// Uninstall a package from all nodes
///
/// Sets `uninstall.apply` in the spec; the operator then uninstalls the package. Every node on which the package is
/// complete starts immediately, ignoring the budget; for a package with an interrupt, each node is cordoned, drained
/// and interrupted. The command refuses requests that would hang, do nothing or strand the package, and shows what to
/// do instead.
///
/// With --wait, it shows the progress of each node, and ends when the package is gone from all of them or the
/// uninstall is blocked. Node reboots and a briefly unavailable API server do not end it. If the command is interrupted
/// or times out, the uninstall continues in the cluster, and the same command resumes waiting for it.
///
/// For a custom resource called status, write skyhook/status.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  # Preview the uninstall, and check whether the operator's webhook accepts it
  kubectl skyhook uninstall gpu-tune driver --dry-run
  kubectl skyhook uninstall gpu-tune driver --dry-run=server

  # Uninstall, wait, and remove the package from the spec
  kubectl skyhook uninstall gpu-tune driver --remove --timeout 1h

  kubectl skyhook uninstall gpu-tune --all-packages --remove
  kubectl skyhook uninstall gpu-tune driver --cancel"
)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    request: ask::Request,
}

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    Status(status::Args),
}

command! {
    "uninstall": ask::Request => ask::run,
    needs: Scope::default().needs(),
    watches: &WATCHED,
    writes: &[Write::Skyhooks],
}

impl Run for Args {
    fn all() -> Vec<&'static CommandInfo> {
        [ask::Request::all(), status::Args::all()].concat()
    }

    fn info(&self) -> &'static CommandInfo {
        match &self.command {
            Some(Command::Status(args)) => args.info(),
            None => self.request.info(),
        }
    }

    async fn run(&self, ctx: &mut Ctx) -> Result<Exit> {
        match &self.command {
            Some(Command::Status(args)) => args.run(ctx).await,
            None => self.request.run(ctx).await,
        }
    }
}
