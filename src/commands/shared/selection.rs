//! Resolution of names of custom resources and packages.

use std::collections::BTreeSet;

use crate::api::{ApiFlavor, Package, Skyhook};
use crate::cluster::{Certainty, Cluster, Read, Source};
use crate::error::{Error, Exit, Result};
use crate::plan::planners::migration;
use crate::rules;
use crate::view::plural;

/// Refuses a name that no custom resource of either API has, and of which no node has annotations or labels.
/// Accepts every name but that of a node if the input may lack custom resources.
///
/// # Errors
///
/// The name is unknown, and the error lists similar names; or the custom resources could not be read.
pub fn known_skyhook(cluster: &Cluster, name: &str) -> Result<()> {
    let on_nodes = cluster.names_on_nodes();
    let legacy = cluster.legacy.items().iter().map(|s| s.name());
    let mut known: Vec<&str> = cluster.skyhooks.items().iter().map(|s| s.name()).collect();
    known.extend(on_nodes);
    known.extend(legacy);
    let may_exist = cluster.skyhooks.absence() == Certainty::Presumed && cluster.node(name).is_none();
    if known.contains(&name) || may_exist {
        return Ok(());
    }
    complete(cluster, Source::Skyhooks)?;
    Err(not_found(cluster, name, known))
}

/// The error for a name that no custom resource has. Hints have the command for a node, a package or a rule of that name.
fn not_found<'a>(cluster: &Cluster, name: &str, known: impl IntoIterator<Item = &'a str>) -> Error {
    let error = Error::unknown_among(cluster.flavor().kind(), name, known);
    let owner = cluster.skyhooks.items().iter().find(|skyhook| skyhook.package(name).is_some());
    if cluster.node(name).is_some() {
        error.hint(format!("{name} is a node: kubectl skyhook diagnose node {name}"))
    } else if let Some(owner) = owner {
        let owner = owner.name();
        error.hint(format!(
            "{name} is a package of {owner}: kubectl skyhook package status {name} --skyhook {owner}"
        ))
    } else if rules::find(name).is_some() {
        error.hint(format!(
            "{name} is a rule: kubectl skyhook explain {name}, kubectl skyhook diagnose stuck --rule {name}"
        ))
    } else {
        error
    }
}

/// Refuses the type of an API that the cluster does not serve. The older type of a name is accepted where both are
/// served: the operator migrates such objects.
///
/// # Errors
///
/// The API is not served; the hint has the type that is.
pub fn served(cluster: &Cluster, flavor: ApiFlavor, name: &str) -> Result<()> {
    let served = &cluster.active_api.served;
    if served.is_empty() || served.contains(&flavor) {
        return Ok(());
    }
    let other = flavor.other().kind().to_lowercase();
    Err(Error::failed(format!("the cluster does not serve {}", flavor.resource()))
        .hint(format!("the name with the served type: {other}/{name}")))
}

/// Refuses a name that only an object of the older API has.
///
/// # Errors
///
/// There is such an object; the hint has the flag that selects its API.
pub fn not_only_in_other_api(cluster: &Cluster, name: &str) -> Result<()> {
    if cluster.skyhook(name).is_some() || cluster.legacy_skyhook(name).is_none() {
        return Ok(());
    }
    let flavor = cluster.flavor();
    let (kind, other) = (flavor.kind(), flavor.other());
    Err(Error::failed(format!("{name} exists only as a {} object, not as {kind}", other.kind()))
        .hint(format!("to use the older API, add --api {}", other.name())))
}

/// The custom resource that the operator acts on.
///
/// # Errors
///
/// The custom resource does not exist, and the error lists similar names; it was not migrated yet; or custom
/// resources could not be read.
pub fn existing<'a>(cluster: &'a Cluster, name: &str) -> Result<&'a Skyhook> {
    if let Some(skyhook) = cluster.skyhook(name) {
        return Ok(skyhook);
    }
    migration::refuse_unmigrated(cluster, name)?;
    complete(cluster, Source::Skyhooks)?;
    let known = cluster.skyhooks.items().iter().map(Skyhook::name);
    Err(not_found(cluster, name, known))
}

/// The only custom resource of the cluster that fits.
///
/// # Errors
///
/// None or several fit; the hints are complete values of the flag.
pub fn only_skyhook(cluster: &Cluster, fits: impl Fn(&str) -> bool) -> Result<String> {
    complete(cluster, Source::Skyhooks)?;
    let known = cluster.skyhooks.items().iter().map(Skyhook::name).chain(cluster.names_on_nodes());
    let known: BTreeSet<&str> = known.filter(|name| fits(name)).collect();
    let names: Vec<&str> = known.into_iter().collect();
    match names.as_slice() {
        [name] => Ok((*name).to_owned()),
        [] => Err(Error::failed(format!("no {} found", cluster.flavor().kind()))),
        several => {
            let number = plural(several.len(), "custom resource");
            Err(Error::usage(format!("there are {number}; select one with --skyhook"))
                .hint(several.join(", ")))
        }
    }
}

/// The custom resource of a package: the named one, or else the only one with this package.
///
/// # Errors
///
/// The custom resource does not exist, or none is named and several fit.
pub fn owner<'a>(cluster: &'a Cluster, named: Option<&str>, package: &str) -> Result<&'a Skyhook> {
    let has = |name: &str| cluster.skyhook(name).is_some_and(|skyhook| skyhook.package(package).is_some());
    let none = !cluster.skyhooks.items().iter().any(|skyhook| has(skyhook.name()));
    match named {
        Some(name) => existing(cluster, name),
        None => existing(cluster, &only_skyhook(cluster, |name| none || has(name))?),
    }
}

/// A package in the spec.
///
/// # Errors
///
/// The spec has no such package; the error lists similar names.
pub fn package<'a>(skyhook: &'a Skyhook, name: &str) -> Result<&'a Package> {
    let known = skyhook.packages().map(|(name, _)| name);
    skyhook.package(name).ok_or_else(|| Error::unknown_among("package", name, known))
}

/// Refuses an input that may leave out custom resources; `so` is the consequence, at the end of the message.
///
/// # Errors
///
/// The input does not prove that missing custom resources do not exist.
pub fn not_left_out(cluster: &Cluster, so: &str) -> Result<()> {
    let kind = cluster.flavor().kind();
    match cluster.skyhooks_absence() {
        // Only leftovers raise doubt: their custom resources may exist although the input lacks them.
        Certainty::Presumed if cluster.skyhooks_partial => {
            if cluster.leftovers().is_empty() {
                return Ok(());
            }
            Err(Error::failed(format!("the input has some {kind} objects, but no complete {kind}List{so}")))
        }
        Certainty::Presumed => Err(Error::failed(format!("the input has no {kind} objects{so}"))),
        _ => Ok(()),
    }
}

/// Fails if a source was requested and nothing of it could be read.
///
/// # Errors
///
/// The source could not be read; the error has the reason.
pub fn readable(cluster: &Cluster, source: Source) -> Result<()> {
    match cluster.source(source) {
        Read::Incomplete(..) => Ok(()),
        _ => complete(cluster, source),
    }
}

/// Fails if a source could not be read completely: a missing item may exist.
///
/// # Errors
///
/// The source could not be read completely; the error has the reason.
pub fn complete(cluster: &Cluster, source: Source) -> Result<()> {
    match cluster.source(source) {
        Read::Incomplete(_, why) | Read::Unreadable(why) => {
            Err(Error::failed(format!("cannot read {source}: {why}")))
        }
        _ => Ok(()),
    }
}

/// The exit code of output that is worthless without these sources.
pub fn exit_without(cluster: &Cluster, sources: &[Source]) -> Exit {
    let mut sources = sources.iter();
    if sources.any(|source| cluster.missing(*source).is_some()) { Exit::Failed } else { Exit::Done }
}
