//! Findings of rules about causes that keep nodes from making progress, for rules about effects.

use std::collections::HashMap;
use std::rc::Rc;

use crate::rules::{ALL, Finding, Finds, Rule, Severity};

/// Findings that explain missing progress, by node and by custom resource.
#[derive(Debug, Default)]
pub struct NodeTroubles {
    /// Findings, as results of rules with indexes.
    all: Vec<(Rc<Vec<Finding>>, usize)>,
    /// Index of the most severe finding per node and custom resource; "" for findings without a custom resource.
    on_nodes: HashMap<String, HashMap<String, usize>>,
    by_skyhook: HashMap<String, Vec<usize>>,
}

impl NodeTroubles {
    /// Collects the findings of rules about causes and lasting waits.
    pub(in crate::rules) fn of(found: impl Fn(&'static Rule) -> Rc<Vec<Finding>>) -> NodeTroubles {
        let mut troubles = NodeTroubles::default();
        // Skip rules about effects: they use this collection, so the recursion would not end.
        for rule in ALL {
            let least = match rule.finds {
                Finds::Causes => Severity::Error,
                Finds::LastingWaits => Severity::Warning,
                Finds::Effects | Finds::HeldNodes | Finds::Unexplained | Finds::Unknowns => {
                    continue;
                }
            };
            let findings = found(rule);
            for at in (0..findings.len()).filter(|at| findings[*at].severity >= least) {
                troubles.add(&findings, at);
            }
        }
        troubles
    }

    fn add(&mut self, findings: &Rc<Vec<Finding>>, at: usize) {
        let subject = &findings[at].subject;
        let Some(node) = &subject.node else {
            return;
        };
        self.all.push((Rc::clone(findings), at));
        let at = self.all.len() - 1;
        let skyhook = subject.skyhook.clone().unwrap_or_default();
        if subject.skyhook.is_some() {
            let of_it = self.by_skyhook.entry(skyhook.clone());
            of_it.or_default().push(at);
        }
        let here = self.on_nodes.entry(node.clone()).or_default();
        let known = here.get(&skyhook).copied().unwrap_or(at);
        let graver = self.graver(known, at);
        self.on_nodes.entry(node.clone()).or_default().insert(skyhook, graver);
    }

    fn finding(&self, at: usize) -> &Finding {
        let (findings, at) = &self.all[at];
        &findings[*at]
    }

    /// Index of the more severe of two findings; of equals, the later one.
    fn graver(&self, one: usize, other: usize) -> usize {
        let gravity = |at: usize| (self.finding(at).severity, self.finding(at).permanent, at);
        if gravity(one) > gravity(other) { one } else { other }
    }

    /// The most severe finding that explains why a custom resource makes no progress on a node.
    pub fn gravest_on(&self, skyhook: &str, node: &str) -> Option<&Finding> {
        let here = self.on_nodes.get(node)?;
        let found = [here.get(skyhook), here.get("")].into_iter().flatten();
        let gravest = found.copied().reduce(|one, other| self.graver(one, other));
        gravest.map(|at| self.finding(at))
    }

    /// All findings that explain why a custom resource makes no progress on its nodes.
    pub fn of_skyhook(&self, skyhook: &str) -> impl Iterator<Item = &Finding> {
        let found = self.by_skyhook.get(skyhook).into_iter().flatten();
        found.map(|at| self.finding(*at))
    }
}
