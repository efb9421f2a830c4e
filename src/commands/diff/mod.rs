mod facts;
mod report;

use std::path::PathBuf;

use self::report::DiffReport;
use crate::cluster::Cluster;
use crate::commands::shared::command::command;
use crate::ctx::Ctx;
use crate::error::{Error, Exit, Result};
use crate::rules::Scope;

/// Show what changed between two captures, or between a capture and the cluster
///
/// Compares custom resources (spec, labels, annotations, status), packages with version, stage and state on each node,
/// cordons, taints and findings. Nodes that changed in the same way share a line. Data that was not read on one of the
/// sides, or that a capture masks, is listed as not compared.
///
/// Without NEW, OLD is compared with the cluster, or with the capture of --from.
///
/// Exits with 0 if nothing changed, with 2 if something changed, and with 1 on errors, or if no change was found but
/// the cluster did not return all data to compare.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # What changed since this capture
  kubectl skyhook collect -o before.tar.gz
  kubectl skyhook diff before.tar.gz

  # Two captures
  kubectl skyhook diff before.tar.gz after.tar.gz -o json")]
pub struct Args {
    /// The earlier capture
    #[arg(value_name = "OLD")]
    old: PathBuf,

    /// The later capture; default: the cluster
    #[arg(value_name = "NEW")]
    new: Option<PathBuf>,
}

command! {
    "diff": Args => run,
    needs: Scope::default().needs(),
    prints: { "Diff": report::Document },
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    if args.new.is_some() && !ctx.global().reading.from.is_empty() {
        return Err(Error::usage("NEW and --from are mutually exclusive"));
    }
    let old = ctx.load_capture(&args.old)?;
    let needs = Scope::default().needs();
    let (new, name) = match &args.new {
        Some(path) => (ctx.load_capture(path)?, path.display().to_string()),
        None => {
            let cluster = ctx.load(&needs).await?;
            let name = if cluster.from_files { "input" } else { "cluster" };
            (cluster, name.to_owned())
        }
    };
    let report = DiffReport::new((&old, &args.old.display().to_string()), (&new, &name));
    ctx.show(&report)?;
    let withheld = |cluster: &Cluster| needs.iter().any(|s| cluster.missing(*s).is_some());
    Ok(if report.is_different() {
        Exit::Findings
    } else if withheld(&old) || withheld(&new) {
        Exit::Failed
    } else {
        Exit::Done
    })
}
