//! `leftovers`: objects and keys that deleted custom resources left behind.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::args::named;
use crate::args::safety::Safety;
use crate::cluster::leftover::{Leftover, LeftoverObject};
use crate::cluster::provenance::Unproven;
use crate::cluster::{Certainty, Cluster, Node, Source, Unread};
use crate::commands::shared::command::{Write, command};
use crate::commands::shared::{scope, selection};
use crate::ctx::{self, Ctx};
use crate::error::{Exit, Result};
use crate::plan::planners::node::{self, Owner};
use crate::plan::recreate::as_new;
use crate::plan::{Change, Consequences, Kind, Plan, PlanStage, Step, Target};
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
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook leftovers
  kubectl skyhook leftovers gpu-tune -o json

  kubectl skyhook leftovers --clean --dry-run
  kubectl skyhook leftovers --clean --purge-state")]
pub struct Args {
    /// Only leftovers of these custom resources
    #[arg(value_name = "NAME", value_parser = named::skyhook)]
    names: Vec<String>,

    /// Remove the leftovers
    #[arg(long)]
    clean: bool,

    /// Also remove the record of what is installed
    ///
    /// Without this flag, a node state that contains packages is kept, as the operator does: it records files
    /// that may still be on the host.
    #[arg(long, requires = "clean")]
    purge_state: bool,

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
    prints: { "LeftoverList": report::Document<'static> },
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let cluster = ctx.load_or_leftovers(&NEEDS, &Source::REQUIRED_FOR_CHANGES).await?;
    let left = of(&cluster, args)?;
    let without_nodes = cluster.missing(Source::Nodes).is_some();
    let whole = !without_nodes && unread(&cluster).next().is_none();
    for name in &args.names {
        if args.clean && whole && left.iter().all(|l| l.owner != name) {
            ctx.note(format!("nothing is left over from {name}"));
        }
    }
    if args.clean {
        let plan = plan(&cluster, &left, &args.names, args.purge_state);
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
        remnants: cluster.remnants(&installation),
        only_records: plan(&cluster, &left, &args.names, false).is_empty(),
        left,
        all: args.names.is_empty(),
        unread: !whole,
    })?;
    if let Some(why) = cluster.legacy_policies.unread() {
        ctx.warn(format!("deployment policies of the older API could not be read: {why}"));
    }
    Ok(if whole { Exit::Done } else { Exit::Failed })
}

/// The leftovers of the named custom resources, or all leftovers.
fn of<'a>(cluster: &'a Cluster, args: &Args) -> Result<Vec<Leftover<'a>>> {
    if args.clean {
        selection::not_left_out(cluster, ", so leftovers cannot be determined")?;
    }
    let mut left = cluster.leftovers();
    for name in &args.names {
        // With `--clean`, finding nothing is no error: the cleanup may be a repetition.
        let is_done = args.clean && cluster.skyhooks.absence() == Certainty::Proven;
        if !is_done && left.iter().all(|l| l.owner != name) {
            selection::known_skyhook(cluster, name)?;
        }
    }
    left.retain(|l| args.names.is_empty() || args.names.iter().any(|n| n == l.owner));
    Ok(left)
}

/// The unreadable sources, with reasons.
fn unread(cluster: &Cluster) -> impl Iterator<Item = (Source, Unread)> {
    ctx::unread(cluster, &PLACES).filter(|(source, _)| cluster.has(*source))
}

fn plan(cluster: &Cluster, left: &[Leftover<'_>], names: &[String], purge: bool) -> Plan {
    let mut effects = Consequences::default();
    for (source, why) in unread(cluster) {
        effects.warn(format!("{source} could not be read and will not be removed: {why}"));
    }
    let (mut package_runs, mut rest) = (Vec::new(), Vec::new());
    let mut nodes: BTreeMap<&str, (&Node, Vec<Owner<'_>>)> = BTreeMap::new();
    for one in left.iter().filter(|one| one.unproven.is_none()) {
        match one.place {
            LeftoverObject::Node(node, _) => {
                let (_, owners) = nodes.entry(&node.name).or_insert_with(|| (node, Vec::new()));
                owners.push((one.flavor, one.owner));
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
        effects.warn(format!("{set}: {} ({why}); not deleted", why.verdict()));
    }
    let mut steps = Vec::new();
    for (node, owners) in nodes.values() {
        steps.extend(on_node(cluster, node, owners, purge));
    }
    steps.append(&mut rest);
    if !package_runs.is_empty() {
        effects.cannot_be_undone.push(format!(
            "{} of deleted custom resources: any that are still running are killed while they modify the host",
            plural(package_runs.len(), "pod or job")
        ));
    }
    recorded(left, purge, &mut effects);
    let stages = [package_runs, steps].into_iter().map(PlanStage::of);
    Plan {
        title: "clean up what custom resources left behind".to_owned(),
        subject: match names {
            [one] => one.clone(),
            _ => "leftovers".to_owned(),
        },
        stages: stages.filter(|s| !s.steps.is_empty()).collect(),
        consequences: effects,
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

fn deleted(kind: Kind, meta: &crate::api::Meta, was: Option<Box<Value>>) -> Step {
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let target = Target::inside(kind, namespace, &meta.name, meta.uid.as_deref());
    Step::new(target, Change::Delete { was }, "its custom resource is gone")
}

/// The steps that remove the keys and conditions of these owners from a node. Without `purge`, package
/// records stay.
fn on_node(cluster: &Cluster, node: &Node, owners: &[Owner<'_>], purge: bool) -> Vec<Step> {
    let target = Target::of_node(node);
    let keys = node::clean(cluster, node, owners, purge);
    let keys = (!keys.is_empty()).then_some(Change::Metadata(keys));
    let changes = keys.into_iter().chain(node::without_conditions(node, owners));
    let why = "no custom resource uses these keys anymore";
    changes.map(|change| Step::new(target.clone(), change, why)).collect()
}

/// Warns about package records that are kept or removed.
fn recorded(left: &[Leftover<'_>], purge: bool, effects: &mut Consequences) {
    let recorded = left.iter().filter_map(|l| match l.place {
        LeftoverObject::Node(node, on) if node::is_recorded(on) && !l.is_copy() => Some(node.name.as_str()),
        _ => None,
    });
    let nodes = NodeSet::of(recorded);
    if nodes.is_empty() {
        return;
    }
    let on = nodes.limited(SHOWN);
    effects
        .cannot_be_undone
        .push(format!("changes made by packages stay on the hosts of {on}; no API can remove them"));
    if purge {
        effects.warn(format!("the only record of what is installed on {on} is removed"));
    } else {
        effects.warn(format!(
            "the record of what is installed stays on {on}: files may still be on the hosts; \
             --purge-state removes the record"
        ));
    }
}
