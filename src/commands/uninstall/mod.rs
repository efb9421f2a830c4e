//! Removing packages from nodes.

pub mod ask;
mod effects;
mod hinder;
mod order;
mod progress;
mod refuse;
pub mod status;
mod survey;
pub mod table;

use crate::args::safety::Safety;
use crate::ctx::Ctx;
use crate::error::{Exit, Result};

/// Uninstall a package from all nodes
///
/// Asks the operator to: it sets `uninstall.apply` in the spec. Every node on which the package is complete starts at
/// once, whatever the budget; a package with an interrupt cordons, drains and interrupts each of them. It refuses what
/// would hang, do nothing or strand the package, and says what to do instead.
///
/// With --wait it shows how far each node is, and ends when the package is gone from all of them, or as soon as it
/// cannot go on. It bears nodes that reboot and an API server that is away for a while. When it is interrupted or its
/// time is up, the uninstall goes on in the cluster, and the same command goes on waiting for it.
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

    #[command(flatten)]
    safety: Safety,
}

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    Status(status::Args),
}

impl Args {
    pub fn verb(&self) -> &'static str {
        match self.command {
            Some(Command::Status(_)) => "uninstall status",
            None => "uninstall",
        }
    }
}

pub async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    match &args.command {
        Some(Command::Status(args)) => status::run(ctx, args).await,
        None => ask::run(ctx, &args.what, &args.safety).await,
    }
}
