mod chain;
mod document;
mod relevant;
mod report;
mod same_cause;
mod sentence;
mod step;

use self::chain::Chain;
use self::report::NodeReport;
use crate::args::nodes::NodeArg;
use crate::cluster::{Cluster, NamedNodes, Node, Read, Source};
use crate::commands::shared::command::command;
use crate::commands::shared::mutes::{LoadedMutes, MuteFlags};
use crate::commands::shared::nodes;
use crate::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::rules::support::mute::Mutes;
use crate::rules::support::reason;
use crate::rules::{self, Scope};

/// Explain why a node is not complete
///
/// Shows the state of each custom resource that selects the node, in the order in which they run, and of its
/// packages: done, running, failing, or waiting with the cause. For a node without problems, shows its position
/// in the queue. The next steps come last.
///
/// Exits with 2 if an error keeps the node from completing, otherwise with 1 if something could not be read
/// from the cluster.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook diagnose node gpu-0001

  # From files, without a cluster
  kubectl skyhook diagnose node gpu-0001 --from capture.json")]
pub struct Args {
    /// The node
    #[arg(value_name = "NODE")]
    node: NodeArg,

    #[command(flatten)]
    muting: MuteFlags,
}

command! {
    "diagnose node": Args => run,
    needs: Scope::default().needs(),
    prints: { "NodeDiagnosis": document::Document<'static> },
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let named = match args.node.names() {
        Some([name]) => NamedNodes::few([name.clone()]).map(|named| NamedNodes { explained: true, ..named }),
        _ => None,
    };
    let cluster = ctx.limit_to(named).load(&Scope::default().needs()).await?;
    let muting = args.muting.load(ctx, &cluster)?;
    show(ctx, &cluster, nodes::single(&cluster, &args.node)?, &muting)
}

pub fn show(ctx: &mut Ctx, cluster: &Cluster, node: &Node, muting: &LoadedMutes) -> Result<Exit> {
    let page = view(cluster, node, &muting.mutes);
    ctx.show(&page)?;
    Ok(muting.exit(page.exit()))
}

fn view<'a>(cluster: &'a Cluster, node: &'a Node, mutes: &Mutes) -> NodeReport<'a> {
    let mut report = rules::diagnose(cluster, &Scope::default());
    // Muted findings are marked and kept, because they explain the node as well.
    mutes.mark(cluster, &mut report.findings);
    reason::add(cluster, &mut report.findings);
    same_cause::extend_to_all_nodes(cluster, &mut report.findings, node);
    let (unreadable, unseen) = (unreadable(cluster), unseen(cluster));
    let whole = unreadable.is_empty() && unseen.is_empty();
    NodeReport { cluster, node, chain: Chain::of(cluster, node, report, whole), unreadable, unseen }
}

/// Sources that show the progress of stages, but are missing from the files.
fn unseen(cluster: &Cluster) -> Vec<String> {
    let sources = [Source::Pods, Source::Jobs].into_iter();
    let left_out = |s: &Source| cluster.has(*s) && cluster.source(*s) == Read::NotRequested;
    sources.filter(left_out).map(|source| source.to_string()).collect()
}

/// The unreadable sources with the reasons.
fn unreadable(cluster: &Cluster) -> Vec<String> {
    let sources = Scope::default().needs().into_iter();
    let why = |source| Some(format!("{source}: {}", cluster.missing(source)?));
    sources.filter_map(why).collect()
}
