//! Planners: one per kind of change, and the parts that several planners share, as refusals during a migration.

pub mod batches;
pub mod merge;
pub mod node;
pub mod pause_guard;
pub mod reset;
pub mod uninstall;

use crate::api::Skyhook;
use crate::cluster::{Cluster, Node, NodeRecord, Source};
use crate::error::Result;
use crate::plan::{Consequences, Plan, Refusal, some_nodes};
use crate::text::some_of;

/// The sources of commands that only start or stop the operator's work.
pub const NEEDS: [Source; 6] =
    [Source::Nodes, Source::Policies, Source::Skyhooks, Source::Operator, Source::Pods, Source::Jobs];
/// Resources that are also listed if nodes are drained: budgets may refuse the evictions.
pub const LISTS: &[(&str, &str)] = &[("policy", "poddisruptionbudgets")];

/// Refuses a custom resource that the operator has not migrated yet.
///
/// # Errors
///
/// Only the older API has an object of that name.
pub fn refuse_unmigrated(cluster: &Cluster, name: &str) -> Result<()> {
    let old = cluster.legacy_skyhook(name).is_some();
    if cluster.skyhook(name).is_some() || !old || !cluster.active_api.migrating() {
        return Ok(());
    }
    let flavor = cluster.flavor();
    let [old, new] = [flavor.other(), flavor].map(|flavor| flavor.kind().to_owned());
    Err(Refusal::Unmigrated { name: name.to_owned(), old, new }.into())
}

/// Refuses a change of single packages on nodes whose state cannot be read: whether a package is recorded there is not
/// known.
///
/// # Errors
///
/// The state of a node cannot be read.
pub fn refuse_unreadable(cluster: &Cluster, skyhook: &str, nodes: &[&Node]) -> Result<()> {
    let is_unreadable = |node: &&&Node| cluster.on_node(node, skyhook).is_some_and(NodeRecord::is_malformed);
    let nodes = some_nodes(nodes.iter().filter(is_unreadable).map(|node| &*node.name));
    if nodes.is_empty() {
        return Ok(());
    }
    Err(Refusal::UnreadableState { nodes, skyhook: skyhook.to_owned() }.into())
}

/// Refuses a plan while unfinished objects of the older API hold the operator; with `force`, warns.
///
/// # Errors
///
/// There are such objects; the hint has a remedy for the first one.
pub fn refuse_held(cluster: &Cluster, plan: &mut Plan, force: bool) -> Result<()> {
    let Some(first) = cluster.migration().holding().next().filter(|_| !plan.is_empty()) else {
        return Ok(());
    };
    if force {
        warn_of_hold(cluster, &mut plan.consequences);
        return Ok(());
    }
    let names: Vec<&str> = cluster.migration().holding().map(Skyhook::name).collect();
    let kind = cluster.flavor().other().kind();
    let remedy = match cluster.skyhook(first.name()) {
        Some(_) => format!(
            "kubectl delete {} {}   # the {} of the same name remains and takes over",
            cluster.flavor().other().resource(),
            first.name(),
            cluster.flavor().kind()
        ),
        None => "kubectl skyhook diagnose stuck".to_owned(),
    };
    Err(Refusal::HeldByOlderApi { kind: kind.to_owned(), names: names.join(", "), remedy }.into())
}

/// Warns that a migration hold keeps the operator from acting.
pub fn warn_of_hold(cluster: &Cluster, consequences: &mut Consequences) {
    let rolling: Vec<&str> = cluster.migration().holding().map(Skyhook::name).collect();
    if !rolling.is_empty() {
        consequences.warn(format!(
            "the operator does nothing while Skyhook objects of the older API are still rolling out: {}; see `kubectl \
             skyhook explain SKY601`",
            rolling.join(", ")
        ));
    }
}

/// Refuses to start work while a pod that the older operator started may still run for the custom resource: the
/// operator does not count it, and two operators would modify the same host.
///
/// # Errors
///
/// There is such a pod, or the pods cannot be read.
pub fn refuse_two_executors(cluster: &Cluster, verb: &str, name: &str) -> Result<()> {
    if !cluster.active_api.migrating() {
        return Ok(());
    }
    if let Some(why) = cluster.source(Source::Pods).unread() {
        return Err(Refusal::OlderPodsUnknown { why: why.to_string(), name: name.to_owned() }.into());
    }
    let older = cluster.runs_of_older_operator(name);
    let alive = older.iter().map(|run| format!("{run} on {}", run.node));
    let which = some_of(&alive.collect::<Vec<_>>(), 5);
    if which.is_empty() {
        return Ok(());
    }
    Err(Refusal::OlderPodsRun { name: name.to_owned(), which, command: verb.to_owned() }.into())
}
