//! Names of custom resources and packages, as users type them.

use crate::api::{Package, Skyhook};
use crate::cluster::{Certainty, Cluster, Read, Source};
use crate::error::{Error, Exit, Result};
use crate::plan::planners::migration;

/// Refuses a custom resource that does not exist and has left nothing on any node.
///
/// # Errors
///
/// The name is not there, with the near names; or the custom resources could not be read.
pub fn known_skyhook(cluster: &Cluster, name: &str) -> Result<()> {
    let on_nodes = cluster.names_on_nodes();
    let legacy = cluster.legacy.items().iter().map(|s| s.name());
    let mut known: Vec<&str> = cluster.skyhooks.items().iter().map(|s| s.name()).collect();
    known.extend(on_nodes);
    known.extend(legacy);
    if known.contains(&name) || cluster.skyhooks.absence() == Certainty::Presumed {
        return Ok(());
    }
    complete(cluster, Source::Skyhooks)?;
    Err(Error::unknown_among(cluster.flavor().kind(), name, known))
}

/// The custom resource that the operator acts on.
///
/// # Errors
///
/// There is none, with the near names; it was not migrated yet; or they could not be read.
pub fn existing<'a>(cluster: &'a Cluster, name: &str) -> Result<&'a Skyhook> {
    if let Some(skyhook) = cluster.skyhook(name) {
        return Ok(skyhook);
    }
    migration::refuse_unmigrated(cluster, name)?;
    complete(cluster, Source::Skyhooks)?;
    let known = cluster.skyhooks.items().iter().map(Skyhook::name);
    Err(Error::unknown_among(cluster.flavor().kind(), name, known))
}

/// A package of the spec.
///
/// # Errors
///
/// There is none of the name, with the near names.
pub fn package<'a>(skyhook: &'a Skyhook, name: &str) -> Result<&'a Package> {
    let known = skyhook.packages().map(|(name, _)| name);
    skyhook.package(name).ok_or_else(|| Error::unknown_among("package", name, known))
}

/// Refuses to take custom resources that the input leaves out for gone; `so` is what follows from that.
///
/// # Errors
///
/// The input has none of them.
pub fn not_left_out(cluster: &Cluster, so: &str) -> Result<()> {
    let kind = cluster.flavor().kind();
    match cluster.skyhooks_absence() {
        // Only leftovers raise doubt: their custom resources may exist and be omitted.
        Certainty::Presumed if cluster.some_skyhooks => {
            if cluster.leftovers().is_empty() {
                return Ok(());
            }
            Err(Error::failed(format!("the input has some {kind} objects, but no {kind}List of all{so}")))
        }
        Certainty::Presumed => Err(Error::failed(format!("the input has no {kind} objects{so}"))),
        _ => Ok(()),
    }
}

/// Refuses to answer from a source of which nothing could be read.
///
/// # Errors
///
/// Which source it is, and why.
pub fn readable(cluster: &Cluster, source: Source) -> Result<()> {
    match cluster.source(source) {
        Read::Incomplete(..) => Ok(()),
        _ => complete(cluster, source),
    }
}

/// Refuses to answer from a source that could not be read whole: an absent item may exist.
///
/// # Errors
///
/// Which source it is, and why.
pub fn complete(cluster: &Cluster, source: Source) -> Result<()> {
    match cluster.source(source) {
        Read::Incomplete(_, why) | Read::Unreadable(why) => {
            Err(Error::failed(format!("cannot read {source}: {why}")))
        }
        _ => Ok(()),
    }
}

/// How an answer ends that is nothing without these sources.
pub fn exit_without(cluster: &Cluster, sources: &[Source]) -> Exit {
    let mut sources = sources.iter();
    if sources.any(|source| cluster.missing(*source).is_some()) { Exit::Failed } else { Exit::Done }
}
