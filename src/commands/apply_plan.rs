//! `apply-plan`: applies a plan from a file.

use std::path::{Path, PathBuf};

use crate::apply::file::Untrusted;
use crate::args::safety::Safety;
use crate::cluster::{Cluster, Source};
use crate::commands::shared::command::{Write, command};
use crate::ctx::{CommandOptions, Ctx};
use crate::error::{Error, Exit, Result};
use crate::plan::{ReadSpec, SavedError};

/// Apply a plan written by --plan-out
///
/// Applies exactly the changes in the file. An object that was modified since then is skipped if the planned change
/// would have a different effect on it. If the spec of the custom resource was changed since then, the plan is refused:
/// it could rerun packages or reboot nodes that it does not mention.
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

const NEEDS: [Source; 3] = [Source::Skyhooks, Source::Legacy, Source::Operator];

command! {
    "apply-plan": Args => run,
    needs: NEEDS,
    writes: Write::ALL,
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let file = args.file.display();
    let saved = crate::apply::file::read(&args.file, args.digest.is_some()).map_err(unreadable)?;
    let digest = saved.digest().to_owned();
    if let Some(other) = args.digest.as_ref().filter(|d| **d != digest) {
        return Err(Error::unchanged(format!("{file} contains plan {digest}, not {other}")));
    }
    if ctx.global().reading.from.is_empty() {
        ctx.same_cluster(&format!("the plan in {file}"), saved.cluster.as_ref()).await?;
        if !saved.specs.is_empty() {
            let cluster = ctx.load_or_leftovers(&NEEDS, &[Source::Skyhooks]).await?;
            refuse_changed(&saved.specs, &cluster, &args.file)?;
        }
    }
    let options = CommandOptions { digest: Some(digest), ..CommandOptions::default() };
    ctx.execute_with(&saved.plan, &args.safety, options, None).await
}

const AGAIN: &str = "run the planned command again, with --plan-out";

fn unreadable(error: anyhow::Error) -> Error {
    let hint = match error.downcast_ref() {
        Some(SavedError::Format(_) | SavedError::Digest) => Some(AGAIN),
        _ if error.is::<Untrusted>() => {
            Some("pass --digest with the digest that was printed when the plan was made")
        }
        _ => None,
    };
    hint.into_iter().fold(error.into(), Error::hint)
}

fn refuse_changed(specs: &[ReadSpec], cluster: &Cluster, file: &Path) -> Result<()> {
    let now = ReadSpec::all(cluster);
    let Some(change) = specs.iter().find_map(|read| read.changed(&now)) else {
        return Ok(());
    };
    let refusal =
        format!("{change} since the plan in {} was made; the plan's effects may differ", file.display());
    Err(Error::unchanged(refusal).hint(AGAIN))
}
