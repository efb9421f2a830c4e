//! `diagnose`: finds problems.

pub mod check;
pub mod node;
pub mod stuck;

use futures::future::LocalBoxFuture;

use crate::commands::shared::command::{CommandInfo, Run, group};
use crate::ctx::Ctx;
use crate::error::{Exit, Result};

/// Find what is stuck, why, and how to fix it
///
/// Without a subcommand, this runs `diagnose stuck`. A custom resource with the name of a subcommand is
/// written `skyhook/NAME`.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    stuck: stuck::Args,
}

group! {
    /// The kind of diagnosis.
    Command {
        Stuck(stuck::Args),
        Node(node::Args),
        Check(check::Args),
    }
}

impl Run for Args {
    fn all() -> Vec<&'static CommandInfo> {
        Command::all()
    }

    fn info(&self) -> &'static CommandInfo {
        match &self.command {
            Some(command) => command.info(),
            None => self.stuck.info(),
        }
    }

    fn run<'a>(&'a self, ctx: &'a mut Ctx) -> LocalBoxFuture<'a, Result<Exit>> {
        match &self.command {
            Some(command) => command.run(ctx),
            None => Box::pin(async { self.stuck.bare().run(ctx).await }),
        }
    }
}
