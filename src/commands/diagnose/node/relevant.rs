//! The selection of findings that concern a node.

use std::collections::BTreeSet;

use crate::cluster::Node;
use crate::rules::support::causes::Causes;
use crate::rules::{Finding, Severity};

/// Selects the findings about the node and its blockers, and the findings that explain them. On a finished
/// node, findings about other nodes or custom resources do not count, but problems of the operator itself do.
///
/// `open`: custom resources that are unfinished on this node. `anywhere`: custom resources that this node
/// waits for on all nodes. `reasons`: indexes of the findings that are the reason for a state on the node.
pub fn relevant(
    node: &Node,
    findings: Vec<Finding>,
    open: &BTreeSet<&str>,
    anywhere: &BTreeSet<&str>,
    reasons: BTreeSet<usize>,
) -> Vec<Finding> {
    let causes = Causes::of(&findings);
    let here = |f: &Finding| {
        let subject = &f.subject;
        let on = subject.node.as_deref();
        on == Some(node.name.as_str())
            || f.blocked_nodes.iter().any(|name| node.name == *name)
            || f.comes_first() && (!open.is_empty() || on.is_none() && subject.skyhook.is_none())
            || subject.skyhook.is_none() && f.concerns_all_nodes() && f.blocks_installs() && !open.is_empty()
            || subject.skyhook.as_deref().is_some_and(|name| {
                f.concerns_all_nodes() && open.contains(name)
                    || f.severity > Severity::Info && anywhere.contains(name)
            })
    };
    let mut open: Vec<usize> =
        (0..findings.len()).filter(|at| reasons.contains(at) || here(&findings[*at])).collect();
    let mut wanted: BTreeSet<usize> = open.iter().copied().collect();
    while let Some(at) = open.pop() {
        let causes = causes.explaining(at).iter().copied();
        // Maximum number of causes to follow for each finding: a few of a thousand failing nodes suffice.
        const MOST: usize = 5;
        open.extend(causes.take(MOST).filter(|cause| wanted.insert(*cause)));
    }
    let all = findings.into_iter().enumerate();
    all.filter(|(at, _)| wanted.contains(at)).map(|(_, f)| f).collect()
}
