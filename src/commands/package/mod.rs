//! Packages, and how far they have got on each node.

pub mod logs;
pub mod rerun;
pub mod row;
pub mod scope;
pub mod status;

use clap::Subcommand;

use crate::ctx::Ctx;
use crate::error::{Exit, Result};

/// Look at packages, read their logs, or run them again
#[derive(Debug, Subcommand)]
pub enum Command {
    Status(status::Args),
    Logs(logs::Args),
    Rerun(rerun::Args),
}

impl Command {
    pub fn verb(&self) -> &'static str {
        match self {
            Command::Rerun(_) => "package rerun",
            Command::Status(_) => "package status",
            Command::Logs(_) => "package logs",
        }
    }
}

pub async fn run(ctx: &mut Ctx, command: &Command) -> Result<Exit> {
    match command {
        Command::Rerun(args) => rerun::run(ctx, args).await,
        Command::Status(args) => status::run(ctx, args).await,
        Command::Logs(args) => logs::run(ctx, args).await,
    }
}
