//! Nodes, and what custom resources did on them.

pub mod ignore;
pub mod list;
pub mod reset;
pub mod row;
pub mod selection;
pub mod status;

use clap::Subcommand;

use crate::ctx::Ctx;
use crate::error::{Exit, Result};

/// Look at nodes, reset them, or keep the operator off them
#[derive(Debug, Subcommand)]
pub enum Command {
    Status(status::Args),
    List(list::Args),
    Reset(reset::Args),
    Ignore(ignore::Ignore),
    Unignore(ignore::Unignore),
}

impl Command {
    pub fn verb(&self) -> &'static str {
        match self {
            Command::Status(_) => "node status",
            Command::List(_) => "node list",
            Command::Reset(_) => "node reset",
            Command::Ignore(_) => "node ignore",
            Command::Unignore(_) => "node unignore",
        }
    }
}

pub async fn run(ctx: &mut Ctx, command: &Command) -> Result<Exit> {
    match command {
        Command::Status(args) => status::run(ctx, args).await,
        Command::List(args) => list::run(ctx, args).await,
        Command::Reset(args) => reset::run(ctx, args).await,
        Command::Ignore(args) => ignore::ignore(ctx, args).await,
        Command::Unignore(args) => ignore::unignore(ctx, args).await,
    }
}

/// Says which sources could not be read, so that an answer without them is not taken for whole.
fn say_what_is_missing(ctx: &mut Ctx, cluster: &crate::cluster::Cluster) {
    for source in status::NEEDS {
        if let crate::cluster::Read::Unreadable(why) = cluster.source(source) {
            ctx.warn(format!(
                "cannot read {source}: {why}; the answer may be incomplete"
            ));
        }
    }
}
