//! The words that complete a line, each with a short description.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::{Skyhook, Status};
use crate::cluster::live::Named;
use crate::cluster::{Cluster, Node, NodeRecord};
use crate::lint;
use crate::rules;
use crate::view::list;

/// A word, and its description, which may be empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate {
    pub value: String,
    pub about: String,
}

impl Candidate {
    pub fn new(value: impl Into<String>, about: impl Into<String>) -> Candidate {
        Candidate { value: value.into(), about: about.into() }
    }
}

/// Candidates without descriptions.
pub fn plain<S: AsRef<str>>(words: impl IntoIterator<Item = S>) -> Vec<Candidate> {
    let words = words.into_iter();
    words.map(|w| Candidate::new(w.as_ref(), "")).collect()
}

/// The codes of all rules, or their names if no code begins with the typed text.
pub fn rules(current: &str) -> Vec<Candidate> {
    let rules = rules::ALL.iter().map(|r| (r.code, r.name, r.summary()));
    candidates(current, rules)
}

/// [`rules()`], including the rules of `lint`.
pub fn all_rules(current: &str) -> Vec<Candidate> {
    let rules = rules::ALL.iter().map(|r| (r.code, r.name, r.summary()));
    let of_lint = lint::ALL.iter().map(|r| (r.code, r.name, r.summary()));
    candidates(current, rules.chain(of_lint))
}

/// Candidates for (code, name, summary): the codes, or the names if no code begins with the typed text.
fn candidates<'a>(
    current: &str,
    rules: impl Iterator<Item = (&'a str, &'a str, &'a str)> + Clone,
) -> Vec<Candidate> {
    let by_code = rules.clone().any(|(code, ..)| code.starts_with(current));
    rules
        .map(|(code, name, summary)| {
            let (word, other) = if by_code { (code, name) } else { (name, code) };
            Candidate::new(word, format!("{other}: {summary}"))
        })
        .collect()
}

pub fn formats() -> Vec<Candidate> {
    [
        ("table", "for people"),
        ("wide", "a table with more columns"),
        ("json", "for programs"),
        ("yaml", "for programs"),
        ("name", "one resource/name per line"),
        ("jsonpath=", "a kubectl JSONPath template"),
        ("jsonpath-file=", "a template in a file"),
        ("jsonpath-as-json=", "the results of a template, as JSON"),
        ("custom-columns=", "HEADING:PATH,…"),
        ("custom-columns-file=", "column headings and paths, in a file"),
    ]
    .map(|(value, about)| Candidate::new(value, about))
    .to_vec()
}

/// The custom resources, with their progress.
pub fn skyhooks(cluster: &Cluster) -> Vec<Candidate> {
    let skyhooks = cluster.skyhooks.items().iter();
    skyhooks.map(|s| Candidate::new(s.name(), progress(s))).collect()
}

/// The progress of a custom resource: `3/5 nodes complete, paused`.
fn progress(skyhook: &Skyhook) -> String {
    let mut words = Vec::new();
    if !skyhook.status.complete_nodes.is_empty() {
        words.push(format!("{} nodes complete", skyhook.status.complete_nodes));
    }
    for (is, word) in [
        (skyhook.deleting(), "being deleted"),
        (skyhook.paused(), "paused"),
        (skyhook.disabled(), "disabled"),
    ] {
        words.extend(is.then(|| word.to_owned()));
    }
    match &skyhook.status.status {
        // The annotation or the count shows these states already.
        None | Some(Status::Complete | Status::Paused | Status::Disabled) => {}
        Some(Status::Unknown) => {}
        Some(status) => words.push(words_of(status)),
    }
    words.join(", ")
}

fn words_of(status: &Status) -> String {
    status.as_str().replace('_', " ")
}

/// The nodes, described by their conditions.
pub fn nodes(cluster: &Cluster) -> Vec<Candidate> {
    let nodes = cluster.nodes.items().iter();
    nodes.map(|n| Candidate::new(&n.name, condition(cluster, n))).collect()
}

/// Names, described by their status in `kubectl get` unless it is `usual`.
pub fn names(names: &[Named], usual: &str) -> Vec<Candidate> {
    let about = |status: &str| {
        if status == usual { String::new() } else { status.replace(',', ", ") }
    };
    let names = names.iter();
    names.map(|n| Candidate::new(&n.name, about(&n.status))).collect()
}

/// The conditions of a node: `gpu-tune erroring, cordoned`.
fn condition(cluster: &Cluster, node: &Node) -> String {
    let keys = node.keys(cluster.flavor());
    let status = |on: &NodeRecord| on.status.clone().filter(|s| *s != Status::Complete);
    let mut words: Vec<String> = keys
        .skyhooks
        .iter()
        .filter_map(|(name, on)| Some(format!("{name} {}", words_of(&status(on)?))))
        .collect();
    for (is, word) in [
        (node.ready() == Some(false), "not ready"),
        (node.cordoned() == Some(true), "cordoned"),
        (node.ignored(cluster.flavor()), "ignored"),
    ] {
        words.extend(is.then(|| word.to_owned()));
    }
    words.join(", ")
}

/// The packages of one custom resource, or of all, with their versions.
pub fn packages(cluster: &Cluster, skyhook: Option<&str>) -> Vec<Candidate> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, version) in all_packages(cluster, skyhook) {
        versions.entry(name).or_default().insert(version);
    }
    let candidate = |(name, versions)| Candidate::new(name, list(&Vec::from_iter(versions)));
    versions.into_iter().map(candidate).collect()
}

/// The versions of a package, or of all packages, in the specs.
pub fn versions(cluster: &Cluster, skyhook: Option<&str>, package: Option<&str>) -> Vec<Candidate> {
    let of_package = all_packages(cluster, skyhook).filter(|(name, _)| package.is_none_or(|p| p == *name));
    plain(of_package.map(|(_, version)| version).collect::<BTreeSet<_>>())
}

fn all_packages<'a>(cluster: &'a Cluster, skyhook: Option<&str>) -> impl Iterator<Item = (&'a str, &'a str)> {
    let skyhooks = cluster.skyhooks.items().iter();
    skyhooks
        .filter(move |s| skyhook.is_none_or(|name| name == s.name()))
        .flat_map(|s| s.packages().map(|(name, p)| (name, p.version.as_str())))
}
