//! What keeps nodes from making progress, found by the rules that look at causes; rules that look at effects build on it.

use std::collections::HashMap;
use std::rc::Rc;

use super::{ALL, Finding, Finds, Rule, Severity};

/// Why custom resources make no progress, by node.
#[derive(Debug, Default)]
pub struct NodeTroubles {
    all: Vec<Finding>,
    /// Positions of the gravest on a node, by custom resource; that about none has an empty name.
    on_nodes: HashMap<String, HashMap<String, usize>>,
    by_skyhook: HashMap<String, Vec<usize>>,
}

impl NodeTroubles {
    /// Collects the findings of each rule.
    pub(super) fn of(found: impl Fn(&'static Rule) -> Rc<Vec<Finding>>) -> NodeTroubles {
        let mut troubles = NodeTroubles::default();
        // Rules that look at effects ask here: asking them would never end.
        for rule in ALL {
            let least = match rule.finds {
                Finds::Causes => Severity::Error,
                Finds::LastingWaits => Severity::Warning,
                Finds::Effects | Finds::HeldNodes | Finds::Unexplained | Finds::Unknowns => {
                    continue;
                }
            };
            for finding in found(rule).iter().filter(|f| f.severity >= least) {
                troubles.add(finding);
            }
        }
        troubles
    }

    fn add(&mut self, finding: &Finding) {
        let subject = &finding.subject;
        let Some(node) = &subject.node else {
            return;
        };
        let at = self.all.len();
        self.all.push(finding.clone());
        let skyhook = subject.skyhook.clone().unwrap_or_default();
        if subject.skyhook.is_some() {
            let of_it = self.by_skyhook.entry(skyhook.clone());
            of_it.or_default().push(at);
        }
        let here = self.on_nodes.entry(node.clone()).or_default();
        let known = here.get(&skyhook).copied().unwrap_or(at);
        here.insert(skyhook, graver(&self.all, known, at));
    }

    /// Why a custom resource makes no progress on a node: the gravest finding there.
    pub fn on(&self, skyhook: &str, node: &str) -> Option<&Finding> {
        let here = self.on_nodes.get(node)?;
        let found = [here.get(skyhook), here.get("")].into_iter().flatten();
        let gravest = found.copied().reduce(|one, other| graver(&self.all, one, other));
        gravest.map(|at| &self.all[at])
    }

    /// Why a custom resource makes no progress on any of its nodes.
    pub fn of_skyhook(&self, skyhook: &str) -> impl Iterator<Item = &Finding> {
        let found = self.by_skyhook.get(skyhook).into_iter().flatten();
        found.map(|at| &self.all[*at])
    }
}

/// The position of the graver of two findings, or of the later one.
fn graver(all: &[Finding], one: usize, other: usize) -> usize {
    let gravity = |at: usize| (all[at].severity, all[at].lasts, at);
    if gravity(one) > gravity(other) { one } else { other }
}
