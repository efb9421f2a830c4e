//! `finalizer`: deletions that do not end.

mod deletion;
pub mod document;
mod page;
pub mod status;
pub mod strip;

use crate::ctx::Ctx;
use crate::error::{Exit, Result};

/// Look at a deletion that does not end, or end it by force
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    Status(status::Args),
    Strip(strip::Args),
}

impl Command {
    pub fn verb(&self) -> &'static str {
        match self {
            Command::Status(_) => "finalizer status",
            Command::Strip(_) => "finalizer strip",
        }
    }
}

pub async fn run(ctx: &mut Ctx, command: &Command) -> Result<Exit> {
    match command {
        Command::Status(args) => status::run(ctx, args).await,
        Command::Strip(args) => strip::run(ctx, args).await,
    }
}
