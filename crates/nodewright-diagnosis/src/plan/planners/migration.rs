//! Refusals during the operator's migration from one API to the other.

use crate::api::Skyhook;
use crate::cluster::{Cluster, Source};
use crate::error::{Error, Result};
use crate::plan::{Consequences, Plan};
use crate::view::{plural, some_of};

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
    Err(Error::unchanged(format!(
        "{name} exists only as a {} object and has not been migrated to {} yet, so the operator does not act on it",
        flavor.other().kind(),
        flavor.kind()
    ))
    .hint("kubectl skyhook diagnose stuck"))
}

/// Refuses a plan while unfinished objects of the older API hold the operator; with `force`, warns.
///
/// # Errors
///
/// There are such objects; the hint has a remedy for the first one.
pub fn refuse_held(cluster: &Cluster, plan: &mut Plan, force: bool) -> Result<()> {
    let Some(first) = cluster.holding().next().filter(|_| !plan.is_empty()) else {
        return Ok(());
    };
    if force {
        warn_of_hold(cluster, &mut plan.consequences);
        return Ok(());
    }
    let names: Vec<&str> = cluster.holding().map(Skyhook::name).collect();
    let kind = cluster.flavor().other().kind();
    let first_of_all = match cluster.skyhook(first.name()) {
        Some(_) => format!(
            "kubectl delete {} {}   # the {} of the same name remains and takes over",
            cluster.flavor().other().resource(),
            first.name(),
            cluster.flavor().kind()
        ),
        None => "kubectl skyhook diagnose stuck".to_owned(),
    };
    Err(Error::unchanged(format!(
        "the operator does nothing until {} of the older API {} finished or gone: {}",
        plural(names.len(), &format!("{kind} object")),
        if names.len() == 1 { "is" } else { "are" },
        names.join(", ")
    ))
    .hint(first_of_all)
    .hint("kubectl skyhook explain SKY601")
    .hint("use --force to make the change anyway; the change takes effect once nothing blocks the operator"))
}

/// Warns that a migration hold keeps the operator from acting.
pub fn warn_of_hold(cluster: &Cluster, effects: &mut Consequences) {
    let rolling: Vec<&str> = cluster.holding().map(Skyhook::name).collect();
    if !rolling.is_empty() {
        effects.warn(format!(
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
        return Err(Error::unchanged(format!(
            "pods cannot be read ({why}), so it is unknown whether a pod of the older operator is still running for {name}"
        ))
        .hint("use --force to proceed anyway"));
    }
    let older = cluster.runs_of_older_operator(name);
    let older = older.iter();
    let alive: Vec<String> = older.map(|run| format!("{} on {}", run.reference(), run.node)).collect();
    if alive.is_empty() {
        return Ok(());
    }
    Err(Error::unchanged(format!(
        "{} of the older operator {} still running for {name}: {}; after `{verb}`, a second pod would modify the same host",
        plural(alive.len(), "pod"),
        if alive.len() == 1 { "is" } else { "are" },
        some_of(&alive, 5),
    ))
    .hint("wait until these pods end, or delete them; use --force to proceed anyway"))
}
