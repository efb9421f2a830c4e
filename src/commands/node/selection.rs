//! Names of nodes and custom resources, as users type them.

use regex::Regex;

use crate::cluster::{Absence, Cluster, Node};
use crate::error::{Error, Result};

/// The nodes that the words name: each is tried as a name first, then as a regular expression over
/// the whole name. No words name every node.
///
/// # Errors
///
/// A word that is not a node and not an expression either: a typo must not pass for "no nodes". An
/// expression may match nothing.
pub fn nodes<'a>(cluster: &'a Cluster, words: &[String]) -> Result<Vec<&'a Node>> {
    let all = cluster.nodes.items();
    if words.is_empty() {
        return Ok(all.iter().collect());
    }
    let mut expressions = Vec::new();
    for word in words {
        let named = all.iter().any(|n| n.name == *word);
        if named || !is_expression(word) {
            known_node(cluster, word)?;
            expressions.push(Expression::Name(word));
        } else {
            let regex = Regex::new(&format!("^(?:{word})$")).map_err(|_| {
                Error::usage(format!(
                    "{word:?} is neither a node nor a regular expression"
                ))
            })?;
            expressions.push(Expression::Regex(regex));
        }
    }
    Ok(all
        .iter()
        .filter(|n| expressions.iter().any(|e| e.matches(&n.name)))
        .collect())
}

enum Expression<'a> {
    Name(&'a str),
    Regex(Regex),
}

impl Expression<'_> {
    fn matches(&self, name: &str) -> bool {
        match self {
            Expression::Name(word) => *word == name,
            Expression::Regex(regex) => regex.is_match(name),
        }
    }
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
    readable(cluster, crate::cluster::Source::Nodes)?;
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
    if known.contains(&name) || cluster.skyhooks.absence() == Absence::Presumed {
        return Ok(());
    }
    readable(cluster, crate::cluster::Source::Skyhooks)?;
    Err(Error::unknown_among(
        cluster.generation().kind(),
        name,
        known,
    ))
}

/// Refuses to answer from a source that could not be read.
///
/// # Errors
///
/// Which source it is, and why.
pub fn readable(cluster: &Cluster, source: crate::cluster::Source) -> Result<()> {
    match cluster.source(source) {
        crate::cluster::Read::Unreadable(why) => {
            Err(Error::failed(format!("cannot read {source}: {why}")))
        }
        _ => Ok(()),
    }
}
