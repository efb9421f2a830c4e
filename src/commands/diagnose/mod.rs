//! Finding out what is wrong.

pub mod stuck;

use clap::Subcommand;

use crate::commands::shared::command::command;
use crate::commands::shared::diagnosis;
use crate::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::rules::Scope;

/// Say what is stuck, why, and what to type next
///
/// Without a word this is `diagnose stuck`.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    stuck: stuck::Args,
}

#[derive(Debug, Subcommand)]
enum Command {
    Stuck(stuck::Args),
}

command! {
    "diagnose stuck": Args => run,
    needs: Scope::default().needs(),
    prints: { "Diagnosis": diagnosis::Document },
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    match &args.command {
        Some(Command::Stuck(args)) => stuck::run(ctx, args).await,
        None => stuck::run(ctx, &args.stuck).await,
    }
}
