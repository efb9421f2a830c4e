//! `apply-plan`: a plan from a file is carried out.

use std::path::PathBuf;

use crate::args::safety::Safety;
use crate::commands::shared::command::{Write, command};
use crate::ctx::{CommandOptions, Ctx};
use crate::error::{Error, Exit, Result};

/// Apply a plan that --plan-out wrote
///
/// Does exactly what the file says. An object that has changed since is skipped, where the change would mean
/// something else on it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook reset gpu-tune --plan-out plan.json
  kubectl skyhook apply-plan plan.json --digest 0f3a… --confirm")]
pub struct Args {
    /// What --plan-out has written
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Refuse any plan but this one
    #[arg(long, value_name = "DIGEST")]
    digest: Option<String>,

    #[command(flatten)]
    safety: Safety,
}

command! {
    "apply-plan": Args => run,
    writes: Write::ALL,
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let file = args.file.display();
    let saved = crate::apply::file::read(&args.file)?;
    let plan = saved.plan;
    let digest = plan.digest();
    if let Some(other) = args.digest.as_ref().filter(|d| **d != digest) {
        return Err(Error::refused(format!(
            "{file} holds plan {digest}, not {other}; nothing was changed"
        )));
    }
    if ctx.global().reading.from.is_empty() {
        ctx.same_cluster(&format!("the plan in {file}"), saved.cluster.as_ref())
            .await?;
    }
    ctx.execute(&plan, &args.safety, CommandOptions::default())
        .await
}
