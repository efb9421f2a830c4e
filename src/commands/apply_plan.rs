//! `apply-plan`: applies a plan from a file.

use std::path::PathBuf;

use crate::args::safety::Safety;
use crate::commands::shared::command::{Write, command};
use crate::ctx::Ctx;
use crate::error::{Error, Exit, Result};

/// Apply a plan written by --plan-out
///
/// Applies exactly the changes in the file. An object that was modified since is skipped if the planned change
/// would have a different effect on it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook reset gpu-tune --plan-out plan.json
  kubectl skyhook apply-plan plan.json --digest 0f3a… --confirm")]
pub struct Args {
    /// Plan file written by --plan-out
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Refuse the plan unless it has this digest
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
        return Err(Error::unchanged(format!(
            "{file} contains plan {digest}, not {other}"
        )));
    }
    if ctx.global().reading.from.is_empty() {
        ctx.same_cluster(&format!("the plan in {file}"), saved.cluster.as_ref())
            .await?;
    }
    ctx.execute(&plan, &args.safety).await
}
