//! Names of nodes and custom resources, as users type them.

use std::collections::BTreeSet;

use super::migration;
use crate::api::{Package, Skyhook};
use crate::args::selection::pattern;
use crate::cluster::{Certainty, Cluster, Node, Only, Read, Source};
use crate::error::{Error, Exit, Result};
use crate::view::expand;

/// The nodes that the words name: each is tried as a name first, then as a set of names as one is printed, then as a
/// regular expression over the whole name. No words name every node.
///
/// # Errors
///
/// A word that is not a node and not an expression either: a typo must not pass for "no nodes". So is a name of a set.
/// An expression may match nothing.
pub fn nodes<'a>(cluster: &'a Cluster, words: &[String]) -> Result<Vec<&'a Node>> {
    let all = cluster.nodes.items();
    if words.is_empty() {
        return Ok(all.iter().collect());
    }
    let mut names = BTreeSet::new();
    let mut expressions = Vec::new();
    for word in words {
        if cluster.node(word).is_none()
            && is_expression(word)
            && (is_class(word) || expand(word).is_none())
        {
            expressions.push(pattern(word).map_err(|_| {
                Error::usage(format!(
                    "{word:?} is neither a node name nor a valid regular expression"
                ))
            })?);
        } else {
            for name in expanded(word)? {
                known_node(cluster, &name)?;
                names.insert(name);
            }
        }
    }
    let named = |name: &str| names.contains(name) || expressions.iter().any(|e| e.is_match(name));
    Ok(all.iter().filter(|n| named(&n.name)).collect())
}

/// What a command is about, where its words are names of few nodes: the others need not be read then.
///
/// `None` where a word is an expression, or stands for nothing that can be asked for by name.
pub fn only(words: &[String], skyhook: Option<&str>, package: Option<&str>) -> Option<Only> {
    let mut nodes = BTreeSet::new();
    for word in words {
        if is_expression(word) && (is_class(word) || expand(word).is_none()) {
            return None;
        }
        nodes.extend(expanded(word).ok()?);
    }
    let few = (1..=Only::MOST).contains(&nodes.len());
    few.then(|| Only {
        nodes: nodes.into_iter().collect(),
        skyhook: skyhook.map(str::to_owned),
        package: package.map(str::to_owned),
        ..Only::default()
    })
}

/// The names in a word: those of a set as one is printed, or the word itself.
///
/// # Errors
///
/// A set that stands for none, or for too many.
pub fn expanded(word: &str) -> Result<Vec<String>> {
    match expand(word) {
        Some(names) => names
            .map_err(|why| Error::usage(format!("{word:?} is not a valid set of nodes: {why}"))),
        None => Ok(vec![word.to_owned()]),
    }
}

/// Whether a set of names means the same as an expression: `gpu-[0-9]`. As such it may match nothing.
fn is_class(word: &str) -> bool {
    let digits = |text: &str| text.len() == 3 && text.as_bytes()[1] == b'-';
    let mut inside = word
        .split('[')
        .skip(1)
        .map(|rest| rest.split(']').next().unwrap_or_default());
    !word.contains(',') && inside.all(digits)
}

/// Whether a word can only be an expression: names of nodes hold letters, digits, `-` and `.`.
fn is_expression(word: &str) -> bool {
    word.chars()
        .any(|c| !c.is_ascii_alphanumeric() && c != '-' && c != '.')
}

/// Refuses a node that does not exist.
///
/// # Errors
///
/// The node is not there, with the near names; or the nodes could not be read.
pub fn known_node(cluster: &Cluster, name: &str) -> Result<()> {
    if cluster.node(name).is_some() {
        return Ok(());
    }
    readable(cluster, Source::Nodes)?;
    Err(Error::unknown(
        "node",
        name,
        cluster.nodes.items().iter().map(|n| n.name.as_str()),
    ))
}

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
    readable(cluster, Source::Skyhooks)?;
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
    readable(cluster, Source::Skyhooks)?;
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
    skyhook
        .package(name)
        .ok_or_else(|| Error::unknown_among("package", name, known))
}

/// Refuses to take custom resources that the input leaves out for gone; `so` is what follows from that.
///
/// # Errors
///
/// The input has none of them.
pub fn not_left_out(cluster: &Cluster, so: &str) -> Result<()> {
    match cluster.skyhooks.absence() {
        Certainty::Presumed => Err(Error::failed(format!(
            "the input has no {} objects{so}",
            cluster.flavor().kind()
        ))),
        _ => Ok(()),
    }
}

/// Refuses to answer from a source that could not be read.
///
/// # Errors
///
/// Which source it is, and why.
pub fn readable(cluster: &Cluster, source: Source) -> Result<()> {
    match cluster.source(source) {
        Read::Unreadable(why) => Err(Error::failed(format!("cannot read {source}: {why}"))),
        _ => Ok(()),
    }
}

/// How an answer ends that is nothing without these sources.
pub fn exit_without(cluster: &Cluster, sources: &[Source]) -> Exit {
    let mut sources = sources.iter();
    if sources.any(|source| cluster.missing(*source).is_some()) {
        Exit::Failed
    } else {
        Exit::Done
    }
}
