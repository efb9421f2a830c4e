//! Which findings concern a node.

use std::collections::BTreeSet;

use crate::cluster::Node;
use crate::rules::causes::Causes;
use crate::rules::{Finding, Severity};

/// The findings about the node, about its blockers, and those that explain either. On a finished node, no finding about
/// another node or a custom resource blocks it, though one may stop the operator.
///
/// `open` are the custom resources unfinished on the node, `anywhere` those for which it waits on any node.
pub fn relevant(
    node: &Node,
    findings: Vec<Finding>,
    open: &BTreeSet<&str>,
    anywhere: &BTreeSet<&str>,
) -> Vec<Finding> {
    let causes = Causes::of(&findings);
    let here = |f: &Finding| {
        let subject = &f.subject;
        let on = subject.node.as_deref();
        on == Some(node.name.as_str())
            || f.holds_up.iter().any(|name| node.name == *name)
            || f.comes_first() && (!open.is_empty() || on.is_none() && subject.skyhook.is_none())
            || subject.skyhook.as_deref().is_some_and(|name| {
                concerns_all(f) && open.contains(name)
                    || f.severity > Severity::Info && anywhere.contains(name)
            })
    };
    let mut open: Vec<usize> = (0..findings.len()).filter(|at| here(&findings[*at])).collect();
    let mut wanted: BTreeSet<usize> = open.iter().copied().collect();
    while let Some(at) = open.pop() {
        let causes = causes.explaining(at).iter().copied();
        // Of a thousand failing nodes one is enough to name.
        const MOST: usize = 5;
        open.extend(causes.take(MOST).filter(|cause| wanted.insert(*cause)));
    }
    let all = findings.into_iter().enumerate();
    all.filter(|(at, _)| wanted.contains(at)).map(|(_, f)| f).collect()
}

/// Whether it is about all nodes of its custom resource: one that names the nodes that it holds up is about these.
pub fn concerns_all(finding: &Finding) -> bool {
    finding.subject.node.is_none() && finding.holds_up.is_empty()
}
