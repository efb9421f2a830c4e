//! Findings that differ only in their node, as one finding of a document.

use std::collections::{BTreeSet, HashMap};

use super::group::FindingGroup;
use crate::rules::support::causes::{Cause, Causes};
use crate::rules::{Finding, Reason, Remedy, Severity, Subject};
use crate::view::NodeSet;

/// The groups of all findings, in the order of their first members.
pub struct AlikeFindings<'a> {
    pub groups: Vec<Alike<'a>>,
    /// The group of each finding.
    group_of: Vec<usize>,
}

/// Findings that differ only in their node.
pub struct Alike<'a> {
    pub group: FindingGroup<'a>,
    /// The groups that explain any of the findings.
    pub explained_by: BTreeSet<usize>,
}

/// The properties in which findings of one group agree.
#[derive(PartialEq, Eq, Hash)]
struct Key<'a> {
    code: &'static str,
    severity: Severity,
    message: &'a str,
    skyhook: Option<&'a str>,
    package: Option<&'a str>,
    remedies: Vec<Remedy>,
    /// The finding itself, if it is not about a node.
    alone: Option<usize>,
}

impl<'a> Key<'a> {
    fn of(at: usize, finding: &'a Finding) -> Key<'a> {
        // Placeholder for the node.
        const ANY: &str = "\0";
        let subject = &finding.subject;
        let node =
            subject.node.as_deref().filter(|node| *node == subject.name && subject.compartment.is_none());
        let remedies = finding.remedies().map(|mut remedy| {
            let words = remedy.argv.iter_mut().filter(|word| Some(word.as_str()) == node);
            words.for_each(|word| ANY.clone_into(word));
            // A look at the pod of one node is an example for all.
            if !remedy.changes() && remedy.own().is_none() {
                remedy.argv.clear();
            }
            remedy
        });
        Key {
            code: finding.rule.code,
            severity: finding.severity,
            message: finding.trouble(),
            skyhook: subject.skyhook.as_deref(),
            package: subject.package.as_deref(),
            remedies: if node.is_some() { remedies.collect() } else { Vec::new() },
            alone: node.is_none().then_some(at),
        }
    }
}

impl<'a> AlikeFindings<'a> {
    /// Groups the findings; members of a group are explained by the same groups.
    pub fn of(findings: &'a [Finding]) -> AlikeFindings<'a> {
        let edges = Causes::of(findings);
        let mut kinds: HashMap<Key<'a>, usize> = HashMap::new();
        let mut kind_of = Vec::with_capacity(findings.len());
        for (at, finding) in findings.iter().enumerate() {
            let next = kinds.len();
            kind_of.push(*kinds.entry(Key::of(at, finding)).or_insert(next));
        }
        let mut groups: HashMap<(usize, BTreeSet<usize>), usize> = HashMap::new();
        let mut members: Vec<Vec<usize>> = Vec::new();
        let mut group_of = Vec::with_capacity(findings.len());
        for at in 0..findings.len() {
            let explaining = edges.explaining(at).iter().map(|cause| kind_of[*cause]).collect();
            let next = members.len();
            let group = *groups.entry((kind_of[at], explaining)).or_insert(next);
            if group == next {
                members.push(Vec::new());
            }
            members[group].push(at);
            group_of.push(group);
        }
        let groups = members.into_iter().map(|members| Alike {
            explained_by: members
                .iter()
                .flat_map(|at| edges.explaining(*at))
                .map(|at| group_of[*at])
                .collect(),
            group: FindingGroup::of(&Cause { findings: members, effects: Vec::new() }, findings),
        });
        AlikeFindings { groups: groups.collect(), group_of }
    }

    /// The groups of these findings, each once.
    pub fn groups_of(&self, findings: &[usize]) -> Vec<usize> {
        let groups: BTreeSet<usize> = findings.iter().map(|at| self.group_of[*at]).collect();
        groups.into_iter().collect()
    }
}

impl Alike<'_> {
    /// The subject of all findings: several nodes as a folded set.
    pub fn subject(&self) -> Subject {
        let subject = self.group.first().subject.clone();
        match self.group.findings.len() {
            1 => subject,
            _ => {
                let nodes = NodeSet::of(self.group.nodes()).to_string();
                Subject { name: nodes.clone(), node: Some(nodes), ..subject }
            }
        }
    }

    /// The most informative attempt: one with a log, else the first.
    pub fn reason(&self) -> Option<Box<Reason>> {
        let all = || self.group.findings.iter().filter_map(|finding| finding.reason.as_ref());
        all().find(|reason| reason.log.is_some()).or(all().next()).cloned()
    }
}
