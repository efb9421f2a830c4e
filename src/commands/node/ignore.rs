//! `node ignore` and `node unignore`: set and remove the ignore label, which applies to every custom
//! resource.

use std::collections::BTreeSet;

use clap::Args;

use crate::api::{ApiFlavor, Status};
use crate::args::nodes::SomeNodes;
use crate::args::safety::Safety;
use crate::cluster::{Cluster, Node, Source};
use crate::commands::shared::command::{Write, command};
use crate::commands::shared::scope;
use crate::ctx::{CommandOptions, Ctx};
use crate::error::{Exit, Result};
use crate::model::Model;
use crate::plan::planners::{self, batches, node};
use crate::plan::{Change, Consequences, Edit, Metadata, Plan, Step, Target};
use crate::view::{NodeSet, plural};

/// Make the operator ignore nodes
///
/// Applies to every custom resource. Nothing new is started on the nodes; running stages run to completion.
/// Without a terminal, up to ten nodes need no confirmation, unless --leave-batch lets packages run on other nodes.
///
/// With an operator before v0.20, an ignored node that is part of a batch keeps its slot in the batch, and
/// no other node is started until all nodes of the batch are complete.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kubectl skyhook node ignore gpu-0001 gpu-0002
  # Also let the batches continue without the node
  kubectl skyhook node ignore gpu-0001 --leave-batch")]
pub struct Ignore {
    #[command(flatten)]
    with: IgnoreArgs,

    /// Also remove the nodes from the current batches of rollouts
    #[arg(long)]
    leave_batch: bool,
}

/// Make the operator work on ignored nodes again
///
/// Also removes the label of the older API, which the operator might adopt again, and label values that have
/// no effect. If a custom resource is being deleted and waits for a node, the node's status is set to
/// in_progress: once other nodes are uninstalled, the operator works only on nodes with that status. Without
/// a terminal, a confirmation is needed only if packages run afterwards.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kubectl skyhook node unignore gpu-0001")]
pub struct Unignore {
    #[command(flatten)]
    with: IgnoreArgs,
}

#[derive(Debug, Args)]
struct IgnoreArgs {
    #[command(flatten)]
    on: SomeNodes,

    #[command(flatten)]
    safety: Safety,
}

command! {
    "node ignore": Ignore => async |ctx, args: &Ignore| run(ctx, &args.with, args.action()).await,
    needs: planners::NEEDS,
    lists: planners::LISTS,
    writes: &[Write::Nodes, Write::SkyhookStatus],
    plans: |cluster, args: &Ignore| planned(cluster, &args.with, args.action()),
}

command! {
    "node unignore": Unignore => async |ctx, args: &Unignore| {
        run(ctx, &args.with, IgnoreAction::Unignore).await
    },
    needs: planners::NEEDS,
    lists: planners::LISTS,
    writes: &[Write::Nodes],
    plans: |cluster, args: &Unignore| planned(cluster, &args.with, IgnoreAction::Unignore),
}

impl Ignore {
    fn action(&self) -> IgnoreAction {
        IgnoreAction::Ignore { leave_batch: self.leave_batch }
    }
}

/// Maximum number of node-name ranges in a note.
const SHOWN: usize = 6;

/// Maximum number of nodes that are ignored without a confirmation.
const UNASKED: usize = 10;

/// The change of the ignore label.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IgnoreAction {
    Ignore { leave_batch: bool },
    Unignore,
}

async fn run(ctx: &mut Ctx, args: &IgnoreArgs, action: IgnoreAction) -> Result<Exit> {
    // Ignoring a node must not depend on reading the rollout. `--leave-batch` changes the rollout, and
    // unignoring previews the work that starts.
    let required: &[Source] = if action == (IgnoreAction::Ignore { leave_batch: false }) {
        &[Source::Nodes]
    } else {
        &Source::REQUIRED_FOR_CHANGES
    };
    // The next batch may contain any node.
    let named = match action {
        IgnoreAction::Ignore { leave_batch: true } => None,
        _ => scope::named_nodes(args.on.query(), None, None),
    };
    let cluster = ctx.limit_to(named).load_to_change(&planners::NEEDS, required).await?;
    let nodes = scope::selected(&cluster, args.on.query())?;
    let mut plan = plan(&cluster, &nodes, action);
    ctx.forecast(&cluster, &mut plan).await;
    let unasked = action == IgnoreAction::Unignore || nodes.len() <= UNASKED;
    let options = CommandOptions { unasked, ..CommandOptions::default() };
    ctx.execute_with(&plan, &args.safety, options, None).await
}

fn planned(cluster: &Cluster, args: &IgnoreArgs, action: IgnoreAction) -> Result<Plan> {
    Ok(plan(cluster, &scope::selected(cluster, args.on.query())?, action))
}

fn plan(cluster: &Cluster, nodes: &[&Node], action: IgnoreAction) -> Plan {
    let ignore = action != IgnoreAction::Unignore;
    let mut steps = Vec::new();
    for node in nodes {
        let mut change = change(cluster.flavor(), node, ignore);
        if !change.is_empty() {
            let why = if ignore {
                "the operator starts no new work on this node"
            } else {
                change = choose_for_deletions(cluster, node, change);
                "the operator resumes work on this node"
            };
            let target = Target::of_node(node);
            steps.push(Step::new(target, Change::Metadata(change), why));
        }
    }
    let verb = if ignore { "ignore" } else { "unignore" };
    let title = format!("{verb} {}", plural(steps.len(), "node"));
    let mut plan = Plan::new(title, verb);
    if ignore && !steps.is_empty() {
        plan.consequences.warn("this applies to every custom resource");
        state_what_waits(cluster, nodes, &mut plan.consequences);
    }
    plan.stage(steps);
    match action {
        IgnoreAction::Ignore { leave_batch: true } => leave_batches(cluster, nodes, &mut plan),
        IgnoreAction::Ignore { leave_batch: false } if !plan.stages.is_empty() => {
            warn_of_batches(cluster, nodes, &mut plan);
        }
        _ => {}
    }
    plan
}

/// States which of the nodes stay cordoned, and which deletions wait for them.
fn state_what_waits(cluster: &Cluster, nodes: &[&Node], consequences: &mut Consequences) {
    let mut cordoned: BTreeSet<&str> = BTreeSet::new();
    let (mut running, mut draining) = (BTreeSet::new(), BTreeSet::new());
    let model = Model::new(cluster);
    for skyhook in &cluster.skyhooks {
        let name = skyhook.name();
        let package_runs = cluster.package_runs_for(name);
        let runs = |node: &&&Node| package_runs.any_alive_on(name, &node.name);
        running.extend(nodes.iter().filter(runs).map(|node| &*node.name));
        let drains = |node: &&&Node| model.drain_progress(name, node).is_some();
        draining.extend(nodes.iter().filter(drains).map(|node| &*node.name));
        let is_open = |node: &&&Node| {
            skyhook.selects(node) && {
                let (complete, all) = cluster.progress(skyhook, node);
                complete < all
            }
        };
        let open = NodeSet::of(nodes.iter().filter(is_open).map(|node| &*node.name));
        if !open.is_empty() && skyhook.is_active() && !skyhook.deleting() {
            let open = open.limited(SHOWN);
            consequences
                .notes
                .push(format!("the rollout of {name} does not complete on {open} while ignored"));
        }
        let holds = |node: &&&Node| {
            let recorded = cluster.on_node(node, skyhook.name()).is_some_and(|on| on.cordon);
            recorded && node.cordoned() != Some(false)
        };
        cordoned.extend(nodes.iter().filter(holds).map(|node| &*node.name));
        let waits = |node: &&&Node| {
            skyhook.selects(node) && cluster.pending_uninstalls_on(skyhook, node).next().is_some()
        };
        let waiting =
            NodeSet::of(nodes.iter().filter(|node| skyhook.deleting() && waits(node)).map(|n| &*n.name));
        if !waiting.is_empty() {
            let waiting = waiting.limited(SHOWN);
            consequences.warn(format!("{skyhook} is being deleted and waits for uninstalls on {waiting}: it hangs until you run `kubectl skyhook node unignore {waiting}`"));
        }
    }
    if !running.is_empty() {
        let running = NodeSet::of(&running).limited(SHOWN);
        consequences.notes.push(format!("stages that are running on {running} are not stopped"));
    }
    if !draining.is_empty() {
        let draining = NodeSet::of(&draining).limited(SHOWN);
        consequences.notes.push(format!("no more pods are evicted on {draining} while ignored"));
    }
    if !cordoned.is_empty() {
        let stay = if cordoned.len() == 1 { "stays" } else { "stay" };
        let cordoned = NodeSet::of(&cordoned).limited(SHOWN);
        consequences.notes.push(format!("{cordoned} {stay} cordoned while ignored"));
    }
}

/// Adds steps that remove ignored nodes from current batches.
fn leave_batches(cluster: &Cluster, nodes: &[&Node], plan: &mut Plan) {
    let mut steps = Vec::new();
    for skyhook in &cluster.skyhooks {
        let fields = batches::leave(skyhook, nodes.iter().map(|n| n.name.as_str()));
        if fields.is_empty() {
            continue;
        }
        let target = Target::of_skyhook(cluster.flavor(), skyhook);
        let why = "the next batch is formed without these nodes";
        steps.push(Step::new(target, Change::Status(fields), why));
    }
    if steps.is_empty() {
        return;
    }
    planners::warn_of_hold(cluster, &mut plan.consequences);
    if plan.stages.is_empty() {
        plan.title =
            format!("remove {} from {}", plural(nodes.len(), "ignored node"), plural(steps.len(), "batch"));
    }
    plan.stage(steps);
}

/// Also sets the node to in_progress for each deletion that waits for it: after other nodes have finished
/// their uninstalls, the operator works only on nodes with that status.
fn choose_for_deletions(cluster: &Cluster, node: &Node, mut change: Metadata) -> Metadata {
    let deleting = cluster.skyhooks.iter().filter(|s| s.deleting());
    for skyhook in deleting.filter(|s| s.is_active() && s.selects(node)) {
        let mut pending = cluster.pending_uninstalls_on(skyhook, node);
        if let Some(waiting) = pending.find(|p| !p.begins_next()) {
            let flavor = cluster.flavor();
            let status = node::status(flavor, skyhook.name(), waiting.on, &Status::InProgress);
            change.annotations.extend(status.annotations);
            change.labels.extend(status.labels);
        }
    }
    change
}

fn change(flavor: ApiFlavor, node: &Node, ignore: bool) -> Metadata {
    let mut change = Metadata { no_labels: node.labels.is_empty(), ..Metadata::default() };
    let flavors: &[ApiFlavor] = match (ignore, flavor) {
        (false, ApiFlavor::NodeWright) => &ApiFlavor::ALL,
        _ => &[flavor],
    };
    for flavor in flavors {
        let from = node.keys(*flavor).ignore.as_deref();
        let to = ignore.then_some("true");
        if from != to {
            change = change.label(flavor.key("ignore"), Edit::new(from, to));
        }
    }
    change
}

fn warn_of_batches(cluster: &Cluster, nodes: &[&Node], plan: &mut Plan) {
    if !crate::model::profile::blocked_nodes_keep_places(cluster) {
        return;
    }
    let model = Model::new(cluster);
    for skyhook in &cluster.skyhooks {
        let in_batch =
            |n: &&&Node| skyhook.status.node_priority.contains_key(&n.name) && !model.is_done_on(skyhook, n);
        let held: Vec<&str> = nodes.iter().filter(in_batch).map(|n| n.name.as_str()).collect();
        if held.is_empty() {
            continue;
        }
        let set = NodeSet::of(&held).limited(SHOWN);
        let (are, keep, out) = if held.len() == 1 {
            ("is", "keeps its slot", "it")
        } else {
            ("are", "keep their slots", "them")
        };
        let of = skyhook.to_string();
        plan.consequences.warn(format!(
            "{set} {are} in the current batch of {of} and {keep}, so no other node joins the batch; --leave-batch removes \
             {out}"
        ));
    }
}
