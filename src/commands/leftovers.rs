//! `leftovers`: objects and keys that deleted custom resources left behind.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::api::{ApiFlavor, Meta, keys};
use crate::args::nodes::OnNodes;
use crate::args::safety::Safety;
use crate::cluster::leftover::{Leftover, LeftoverObject};
use crate::cluster::provenance::Unproven;
use crate::cluster::{Certainty, Cluster, Node, NodeRecord, Source, Unread};
use crate::commands::shared::command::{Write, command};
use crate::commands::shared::scope;
use crate::ctx::{self, Ctx};
use crate::error::{Exit, Result};
use crate::plan::planners::node::{self, Owner};
use crate::plan::step::as_new;
use crate::plan::{Change, Consequences, Edit, Kind, Metadata, Plan, PlanStage, Step, Target};
use crate::view::{NodeSet, plural};
use report::Leftovers;

pub mod report;

/// Find what custom resources left behind, and remove it with --clean
///
/// Shows the annotations, labels, conditions and cordons on nodes, and the pods, Jobs and config maps, that
/// belong to custom resources that no longer exist, and what the older API left after the migration; each
/// with its former owner. Deployment policies of the older API that no Skyhook uses are listed, too; no command
/// deletes them.
///
/// With --clean, they are removed. Data whose owner still exists is not touched. A label of the operator
/// alone is no reason to delete an object: its namespace, owner, name and annotations must match, too. The
/// operator's namespace is that of its Deployment, else that of the Service in its webhook configurations,
/// else --namespace. Package records are kept, unless --purge-state is given: they show which files may still
/// be on the host.
///
/// A node becomes schedulable if nothing else keeps it cordoned. That includes cordons of custom resources that exist,
/// but no longer select the node. If nodes are selected, only leftovers on them are listed and removed, and the owners of other
/// cordons are shown: a custom resource that is working on the node, the runtime-required cordon, or someone outside
/// the operator.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook leftovers
  kubectl skyhook leftovers gpu-tune -o json

  kubectl skyhook leftovers --clean --dry-run
  kubectl skyhook leftovers --clean --purge-state

  # Release an orphaned cordon
  kubectl skyhook leftovers --clean --node gpu-0001")]
pub struct Args {
    /// Only leftovers of these custom resources
    #[arg(value_name = "NAME", value_parser = crate::args::nodes::skyhook)]
    names: Vec<String>,

    /// Remove the leftovers
    #[arg(long)]
    clean: bool,

    /// Also remove the record of what is installed
    ///
    /// Without this flag, a node state that contains packages is kept, because it shows which files may
    /// still be on the host; the operator keeps it, too.
    #[arg(long, requires = "clean")]
    purge_state: bool,

    #[command(flatten)]
    on: OnNodes,

    /// Also release runtime-required cordons, which the operator leaves to an administrator; requires
    /// node names
    #[arg(long, requires = "clean", requires = "node")]
    runtime_required: bool,

    #[command(flatten)]
    safety: Safety,
}

pub const NEEDS: [Source; 10] = [
    Source::Skyhooks,
    Source::Legacy,
    Source::Policies,
    Source::Nodes,
    Source::Operator,
    Source::Pods,
    Source::Jobs,
    Source::ConfigMaps,
    Source::NodeMetadata,
    Source::Webhooks,
];
/// Sources that may have leftovers.
const PLACES: [Source; 5] =
    [Source::Nodes, Source::Pods, Source::Jobs, Source::ConfigMaps, Source::NodeMetadata];
/// Maximum number of node-name ranges in a warning.
const SHOWN: usize = 6;
/// Annotation of a cordon that stays after the runtime is installed: the operator does not remove it.
const RUNTIME_REQUIRED: &str = "runtimeRequiredCordon";

command! {
    "leftovers": Args => run,
    needs: NEEDS,
    gets: &[("apiextensions.k8s.io", "customresourcedefinitions")],
    lists: &[
        ("rbac.authorization.k8s.io", "clusterroles"),
        ("rbac.authorization.k8s.io", "clusterrolebindings"),
    ],
    writes: &[
        Write::Nodes,
        Write::NodeConditions,
        Write::DeletePods,
        Write::DeleteJobs,
        Write::DeleteConfigMaps,
    ],
    writes_only_with_flag: true,
    plans: |cluster, args: &Args| {
        let selected = scope::selected(cluster, args.on.query())?;
        Ok(plan(cluster, &of(cluster, args, &selected)?, args, &selected))
    },
    prints: { "LeftoverList": report::Document<'static> },
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let query = args.on.query();
    let needs = if query.is_empty() { &NEEDS[..] } else { &Source::OF_ROLLOUTS };
    let cluster = ctx
        .limit_to(scope::named_nodes(query, None, None))
        .load_or_leftovers(needs, &Source::REQUIRED_FOR_CHANGES)
        .await?;
    let selected = scope::selected(&cluster, query)?;
    let left = of(&cluster, args, &selected)?;
    let without_nodes = cluster.missing(Source::Nodes).is_some();
    let whole = !without_nodes && unread(&cluster).next().is_none();
    for name in &args.names {
        if args.clean && whole && left.iter().all(|l| l.owner != name) {
            ctx.note(format!("nothing is left over from {name}"));
        }
    }
    if args.clean {
        let plan = plan(&cluster, &left, args, &selected);
        if plan.is_empty() {
            // Show kept leftovers here: an empty plan has no preview.
            for kept in &plan.consequences.warnings {
                ctx.note(kept.as_str());
            }
        }
        let exit = ctx.execute(&cluster, plan, &args.safety).await?;
        return Ok(match exit {
            // An unread source may have leftovers.
            Exit::Done if !whole => Exit::Partly,
            exit => exit,
        });
    }
    scope::warn_unreadable(ctx, &cluster, &PLACES);
    let installation = ctx.remains(&cluster).await;
    for why in installation.unread_remains() {
        ctx.note(why);
    }
    ctx.show(&Leftovers {
        cluster: &cluster,
        remnants: cluster.leftovers().remnants(&installation),
        only_records: plan(&cluster, &left, args, &selected).is_empty(),
        left,
        nodes: (!query.is_empty()).then_some(selected),
        all: args.names.is_empty() && query.is_empty(),
        unread: !whole,
    })?;
    if let Some(why) = cluster.legacy_policies.unread() {
        ctx.warn(format!("deployment policies of the older API could not be read: {why}"));
    }
    Ok(if whole { Exit::Done } else { Exit::Failed })
}

/// The leftovers of the named custom resources, or all leftovers.
fn of<'a>(cluster: &'a Cluster, args: &Args, selected: &[&Node]) -> Result<Vec<Leftover<'a>>> {
    if args.clean {
        scope::not_left_out(cluster, ", so leftovers cannot be determined")?;
    }
    let mut left = cluster.leftovers().all();
    left.extend(cluster.leftovers().cordons_of_deselected_nodes());
    left.sort_by(|a, b| (a.owner, a.flavor).cmp(&(b.owner, b.flavor)));
    for name in &args.names {
        // With `--clean`, finding nothing is no error: the cleanup may be a repetition.
        let is_done = args.clean && cluster.skyhooks.absence() == Certainty::Proven;
        if !is_done && left.iter().all(|l| l.owner != name) {
            scope::known_skyhook(cluster, name)?;
        }
    }
    left.retain(|l| args.names.is_empty() || args.names.iter().any(|n| n == l.owner));
    if !args.on.query().is_empty() {
        let selected: BTreeSet<&str> = selected.iter().map(|node| node.name.as_str()).collect();
        left.retain(|l| match l.place {
            LeftoverObject::Node(node, _) | LeftoverObject::Cordon(node, _) => {
                selected.contains(node.name.as_str())
            }
            _ => false,
        });
    }
    Ok(left)
}

/// The unreadable sources, with reasons.
fn unread(cluster: &Cluster) -> impl Iterator<Item = (Source, Unread)> {
    ctx::unread(cluster, &PLACES).filter(|(source, _)| cluster.has(*source))
}

fn plan(cluster: &Cluster, left: &[Leftover<'_>], args: &Args, selected: &[&Node]) -> Plan {
    let mut consequences = Consequences::default();
    for (source, why) in unread(cluster) {
        consequences.warn(format!("{source} could not be read and will not be removed: {why}"));
    }
    let (mut package_runs, mut rest) = (Vec::new(), Vec::new());
    let mut cleanups: BTreeMap<&str, Cleanup<'_>> = BTreeMap::new();
    // Explain also why other named nodes stay cordoned.
    for node in selected.iter().filter(|_| !args.on.query().is_empty()) {
        cleanups.entry(&node.name).or_insert_with(|| Cleanup::of(node));
    }
    for one in left.iter().filter(|one| one.unproven.is_none()) {
        match one.place {
            LeftoverObject::Node(node, _) => {
                let cleanup = cleanups.entry(&node.name).or_insert_with(|| Cleanup::of(node));
                cleanup.owners.push((one.flavor, one.owner));
            }
            LeftoverObject::Cordon(node, on) => {
                let cleanup = cleanups.entry(&node.name).or_insert_with(|| Cleanup::of(node));
                cleanup.cordons.push((one.flavor, one.owner, on));
            }
            LeftoverObject::Pod(pod) => package_runs.push(deleted(Kind::Pod, &pod.metadata, None)),
            LeftoverObject::Job(job) => package_runs.push(deleted(Kind::Job, &job.metadata, None)),
            LeftoverObject::ConfigMap(map) => {
                let was = Some(Box::new(unowned(as_new(&map.whole))));
                rest.push(deleted(Kind::ConfigMap, &map.metadata, was));
            }
        }
    }
    for (why, objects) in unproven(left) {
        let set = NodeSet::of(&objects).limited(SHOWN);
        consequences.warn(format!("{set}: {} ({why}); not deleted", why.verdict()));
    }
    let mut steps = Vec::new();
    let mut released: Vec<&Node> = Vec::new();
    let mut held: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for cleanup in cleanups.values() {
        let node = cleanup.node;
        let (change, mut others) = cleanup.change(cluster, args);
        if others.is_empty() {
            // A field manager alone does not show whether the cordon is still needed.
            let marked = node.cordon_holders().into_iter().filter(|holder| holder.mark.is_some());
            others.extend(marked.map(|holder| holder.to_string()));
        }
        if change.uncordons() {
            released.push(node);
        } else if node.cordoned() == Some(true) && change.uncordon.left_for.is_empty() {
            held.entry(others.join(", ")).or_default().push(&node.name);
        }
        let why = match cleanup.owners.as_slice() {
            [] => "the owner of the cordon does not release it",
            _ => "no custom resource uses these keys anymore",
        };
        let keys = (!change.is_empty()).then_some(Change::Metadata(change));
        let changes: Vec<Change> =
            keys.into_iter().chain(node::without_conditions(node, &cleanup.owners)).collect();
        steps.extend(changes.into_iter().map(|change| Step::new(Target::of_node(node), change, why)));
    }
    steps.append(&mut rest);
    if !package_runs.is_empty() {
        consequences.cannot_be_undone.push(format!(
            "{} of deleted custom resources: any that are still running are killed while they modify the host",
            plural(package_runs.len(), "pod or job")
        ));
    }
    warn_of_held(held, &mut consequences);
    warn_of_released(cluster, &released, &mut consequences);
    recorded(left, args.purge_state, &mut consequences);
    let stages = [package_runs, steps].into_iter().map(PlanStage::of);
    Plan {
        title: "clean up what custom resources left behind".to_owned(),
        subject: match args.names.as_slice() {
            [one] => one.clone(),
            _ => "leftovers".to_owned(),
        },
        stages: stages.filter(|s| !s.steps.is_empty()).collect(),
        consequences,
        ..Plan::default()
    }
}

/// Objects with a label of the operator that cannot be attributed to it, by the reason.
fn unproven(left: &[Leftover<'_>]) -> BTreeMap<Unproven, Vec<String>> {
    let mut found: BTreeMap<Unproven, Vec<String>> = BTreeMap::new();
    for one in left {
        if let Some(why) = &one.unproven {
            found.entry(why.clone()).or_default().push(report::reference(one));
        }
    }
    found
}

/// Removes the owners of an object: the garbage collector would delete an object of a deleted custom
/// resource.
fn unowned(mut object: Value) -> Value {
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    if let Some(metadata) = metadata {
        metadata.shift_remove("ownerReferences");
    }
    object
}

fn deleted(kind: Kind, meta: &Meta, was: Option<Box<Value>>) -> Step {
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let target = Target::inside(kind, namespace, &meta.name, meta.uid.as_deref());
    Step::new(target, Change::Delete { was }, "its custom resource is gone")
}

/// The planned removals on one node.
struct Cleanup<'a> {
    node: &'a Node,
    /// The deleted custom resources whose keys and conditions are removed.
    owners: Vec<Owner<'a>>,
    /// The custom resources that only lose their cordon.
    cordons: Vec<(ApiFlavor, &'a str, &'a NodeRecord)>,
}

impl<'a> Cleanup<'a> {
    fn of(node: &'a Node) -> Cleanup<'a> {
        Cleanup { node, owners: Vec::new(), cordons: Vec::new() }
    }

    /// The change to the node's keys and cordon, and the keys of the operator's other cordons. Without `--purge-state`,
    /// package records stay.
    fn change(&self, cluster: &Cluster, args: &Args) -> (Metadata, Vec<String>) {
        let node = self.node;
        let mut change = node::clean(cluster, node, &self.owners, args.purge_state);
        let mut holds = false;
        // Keys of the older API may be copies, whose owner maintains its cordon.
        let mut owners = self.owners.clone();
        owners.retain(|(_, name)| cluster.skyhook(name).is_none());
        for (flavor, name, on) in &self.cordons {
            let value = on.cordon_value.as_deref();
            change = change.annotation(keys::cordon(*flavor, name), Edit::new(value, None));
            owners.push((*flavor, *name));
            holds = true;
        }
        let mut others = cluster.other_cordons(node, &owners);
        let cordoned = node.cordoned() == Some(true);
        let key = cluster.flavor().key(RUNTIME_REQUIRED);
        if args.runtime_required && cordoned && others.contains(&key) {
            others.retain(|other| *other != key);
            change = change.annotation(key, Edit::new(Some("true"), None));
            holds = true;
        }
        if holds
            && cordoned
            && others.is_empty()
            && !change.uncordons()
            && change.uncordon.left_for.is_empty()
        {
            change = change.uncordoned(node);
        }
        (change, others)
    }
}

/// Warns about nodes that stay cordoned, by the keys of the operator's cordons.
fn warn_of_held(held: BTreeMap<String, Vec<&str>>, consequences: &mut Consequences) {
    for (by, nodes) in held {
        let names = NodeSet::of(&nodes).limited(SHOWN);
        let verb = if nodes.len() == 1 { "stays" } else { "stay" };
        consequences.warn(if by.is_empty() {
            let node = if let [node] = nodes.as_slice() { *node } else { "NODE" };
            format!(
                "{names} {verb} cordoned by someone outside the operator; if no one needs that, run \
                 `kubectl uncordon {node}`"
            )
        } else {
            format!("{names} {verb} cordoned by {by}")
        });
    }
}

fn warn_of_released(cluster: &Cluster, released: &[&Node], consequences: &mut Consequences) {
    if released.is_empty() {
        return;
    }
    consequences.warn(
        "pods may be scheduled on the nodes again; first check that no unfinished interrupt has left the nodes unusable",
    );
    let package_runs = cluster.package_runs();
    let busy = released.iter().filter(|node| {
        package_runs.all().iter().any(|run| run.node == node.name && run.interrupt && run.alive())
    });
    let busy: Vec<&str> = busy.map(|node| node.name.as_str()).collect();
    if !busy.is_empty() {
        consequences.warn(format!("an interrupt is still running on {}", NodeSet::of(busy).limited(SHOWN)));
    }
}

/// Warns about package records that are kept or removed.
fn recorded(left: &[Leftover<'_>], purge: bool, consequences: &mut Consequences) {
    let recorded = left.iter().filter_map(|l| match l.place {
        LeftoverObject::Node(node, on) if node::is_recorded(on) && !l.is_copy() => Some(node.name.as_str()),
        _ => None,
    });
    let nodes = NodeSet::of(recorded);
    if nodes.is_empty() {
        return;
    }
    let on = nodes.limited(SHOWN);
    consequences
        .cannot_be_undone
        .push(format!("changes made by packages stay on the hosts of {on}; no API can remove them"));
    if purge {
        consequences.warn(format!("the only record of what is installed on {on} is removed"));
    } else {
        consequences.warn(format!(
            "the record of what is installed stays on {on}: files may still be on the hosts; \
             --purge-state removes the record"
        ));
    }
}
