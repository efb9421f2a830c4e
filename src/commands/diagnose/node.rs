mod report;
mod step;

use std::collections::BTreeSet;

use report::NodeReport;
use schemars::JsonSchema;
use serde::Serialize;
use step::{Chain, Link};

use crate::args::nodes::NodeArg;
use crate::cluster::cordon::Holder;
use crate::cluster::{Cluster, NamedNodes, Node, Read, Source};
use crate::commands::shared::command::command;
use crate::commands::shared::diagnosis::group::{of_first, on_node_set};
use crate::commands::shared::mutes::{LoadedMutes, MuteFlags};
use crate::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::model::ProgressState;
use crate::rules::support::causes::Causes;
use crate::rules::support::mute::Mutes;
use crate::rules::support::reason;
use crate::rules::{self, Finding, FindingSummary, Remedy, Scope, Severity};
use crate::view::plural;

/// Explain why a node is not complete
///
/// Shows the state of each custom resource that selects the node, in the order in which they run, and of its
/// packages: done, running, failing or waiting, with the cause. Also shows who holds the cordon, what a reboot now would
/// interrupt, which custom resources do not select the node, and its position in the queue. The next steps come last.
///
/// Exits with 2 if an error keeps the node from completing, otherwise with 1 if something could not be read
/// from the cluster.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook diagnose node gpu-0001

  # From files, without a cluster
  kubectl skyhook diagnose node gpu-0001 --from capture.json

  # What runs on a node that joins with the labels in node.yaml
  kubectl skyhook diagnose node gpu-0042 --from capture.json --from node.yaml")]
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
    prints: { "NodeDiagnosis": Document<'static> },
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let named = match args.node.names() {
        Some([name]) => NamedNodes::few([name.clone()]).map(|named| NamedNodes { explained: true, ..named }),
        _ => None,
    };
    let explained = named.iter().flat_map(|named| named.nodes.clone()).collect();
    let mut cluster = ctx.limit_to(named).load(&Scope::default().needs()).await?;
    ctx.read_workloads(&mut cluster, explained).await;
    let muting = args.muting.load(ctx, &cluster)?;
    show(ctx, &cluster, crate::commands::shared::scope::single(&cluster, &args.node)?, &muting)
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
    name_other_nodes(cluster, &mut report.findings, node);
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

/// Adapts the remedies that change something to this node. Those of a cause on the node change this node, and note how many
/// others have the cause; those of a cause elsewhere change all nodes that have it. Causes of deleted custom resources are
/// skipped: their leftovers stop no rollout.
fn name_other_nodes(cluster: &Cluster, findings: &mut [Finding], node: &Node) {
    let causes = Causes::of(findings).ranked(findings);
    let exists = |name: &String| cluster.skyhook(name).is_some();
    for places in causes.iter().map(|cause| &cause.findings) {
        let is_here = |at: &usize| findings[*at].subject.node.as_deref() == Some(&node.name);
        let own = places.iter().copied().find(is_here);
        let at = own.unwrap_or(places[0]);
        let others = places.iter().copied().filter(|other| *other != at);
        let group: Vec<&Finding> = std::iter::once(at).chain(others).map(|at| &findings[at]).collect();
        let group = of_first(&group);
        if group.len() < 2 || !findings[at].subject.skyhook.as_ref().is_some_and(exists) {
            continue;
        }
        if own.is_none() {
            // All nodes with the cause hold this one up. Never shorten a command that makes changes.
            let on_all = |remedy: Remedy| {
                let argv = on_node_set(&group, &remedy, usize::MAX).filter(|_| remedy.changes());
                Remedy { argv: argv.unwrap_or_else(|| remedy.argv.clone()), ..remedy }
            };
            let all: Vec<Remedy> = group[0].remedies().map(on_all).collect();
            findings[at].change_remedies(|remedies| *remedies = all);
            continue;
        }
        let note = format!("the cause is also on {}", plural(group.len() - 1, "other node"));
        findings[at].change_remedies(|remedies| {
            let of_node =
                |remedy: &&mut Remedy| remedy.changes() && remedy.argv.iter().any(|word| node.name == *word);
            for remedy in remedies.iter_mut().filter(of_node) {
                let caveat = remedy.caveat.take();
                remedy.caveat = Some(caveat.map_or(note.clone(), |caveat| format!("{note}; {caveat}")));
            }
        });
    }
}

/// Selects the findings about the node and its blockers, and the findings that explain them. On a finished
/// node, findings about other nodes or custom resources do not count, but problems of the operator itself do.
///
/// `open`: custom resources that are unfinished on this node. `anywhere`: custom resources that this node
/// waits for on all nodes. `reasons`: indexes of the findings that are the reason for a state on the node.
pub fn relevant(
    node: &Node,
    findings: Vec<Finding>,
    open: &BTreeSet<&str>,
    anywhere: &BTreeSet<&str>,
    reasons: BTreeSet<usize>,
) -> Vec<Finding> {
    let causes = Causes::of(&findings);
    let here = |f: &Finding| {
        let subject = &f.subject;
        let on = subject.node.as_deref();
        on == Some(node.name.as_str())
            || f.blocked_nodes.iter().any(|name| node.name == *name)
            || f.comes_first() && (!open.is_empty() || on.is_none() && subject.skyhook.is_none())
            || subject.skyhook.is_none() && f.concerns_all_nodes() && f.blocks_installs() && !open.is_empty()
            || subject.skyhook.as_deref().is_some_and(|name| {
                f.concerns_all_nodes() && open.contains(name)
                    || f.severity > Severity::Info && anywhere.contains(name)
            })
    };
    let mut open: Vec<usize> =
        (0..findings.len()).filter(|at| reasons.contains(at) || here(&findings[*at])).collect();
    let mut wanted: BTreeSet<usize> = open.iter().copied().collect();
    while let Some(at) = open.pop() {
        open.extend(causes.explaining(at).iter().copied().filter(|cause| wanted.insert(*cause)));
    }
    findings.into_iter().enumerate().filter(|(at, _)| wanted.contains(at)).map(|(_, f)| f).collect()
}

/// Why a node is not complete.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Document<'a> {
    /// The node.
    node: &'a str,
    /// The worst state of any custom resource on the node; `Stuck` if an error keeps the node from completing.
    state: ProgressState,
    /// Whether the node is cordoned; null if that was not read.
    cordoned: Option<bool>,
    /// What a reboot of the node would interrupt now; absent if no custom resource selects the node and no stage runs
    /// there, or if the pods were not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    reboot_now: Option<String>,
    /// The people and programs other than the operator that keep the node cordoned; empty if it is not cordoned.
    cordoned_by_others: Vec<Holder>,
    /// The custom resources in the order in which they run.
    skyhooks: &'a [Link<'a>],
    /// The custom resources that do not select the node.
    not_selected_by: Vec<NotSelecting<'a>>,
    /// Findings about the node, causes first.
    findings: Vec<FindingDocument<'a>>,
    /// The next remedies, in the order to try them.
    remedies: Vec<Remedy>,
    /// Sources that could not be read, with the reason; the result may be incomplete.
    unreadable: &'a [String],
    /// The time at which ages are calculated.
    taken_at: String,
}

/// A custom resource that does not select the node.
#[derive(Serialize, JsonSchema)]
pub struct NotSelecting<'a> {
    /// The custom resource.
    name: &'a str,
    /// The requirements of its selector that the labels of the node do not satisfy.
    message: String,
}

/// A finding about the node.
#[derive(Serialize, JsonSchema)]
struct FindingDocument<'a> {
    #[serde(flatten)]
    finding: FindingSummary,
    /// The reason for muting the finding; absent if it is not muted.
    #[serde(rename = "muteReason", skip_serializing_if = "Option::is_none")]
    muted: Option<&'a str>,
}
