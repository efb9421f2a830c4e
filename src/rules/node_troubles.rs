//! What keeps nodes from making progress, found by the rules that look at causes; rules that look at effects build on it.

use std::collections::HashMap;
use std::rc::Rc;

use super::{ALL, Finding, Finds, Rule, Severity};

/// Why custom resources make no progress, by node.
#[derive(Debug, Default)]
pub struct NodeTroubles {
    by_node: HashMap<String, Vec<Finding>>,
}

impl NodeTroubles {
    /// From what each rule finds.
    pub(super) fn of(found: impl Fn(&'static Rule) -> Rc<Vec<Finding>>) -> NodeTroubles {
        let mut troubles = NodeTroubles::default();
        // Rules that look at effects ask here: asking them would never end.
        for rule in ALL {
            let least = match rule.finds {
                Finds::Causes => Severity::Error,
                Finds::LastingWaits => Severity::Warning,
                Finds::Effects | Finds::HeldNodes | Finds::Unexplained => continue,
            };
            for finding in found(rule).iter().filter(|f| f.severity >= least) {
                if let Some(node) = &finding.subject.node {
                    troubles
                        .by_node
                        .entry(node.clone())
                        .or_default()
                        .push(finding.clone());
                }
            }
        }
        troubles
    }

    /// Why a custom resource makes no progress on a node: the gravest finding there.
    pub fn on(&self, skyhook: &str, node: &str) -> Option<&Finding> {
        let here = self.by_node.get(node)?.iter();
        here.filter(|f| f.subject.skyhook.as_deref().is_none_or(|s| s == skyhook))
            .max_by_key(|f| (f.severity, f.lasts))
    }

    /// Why a custom resource makes no progress on any of its nodes.
    pub fn of_skyhook(&self, skyhook: &str) -> impl Iterator<Item = &Finding> {
        let all = self.by_node.values().flatten();
        all.filter(move |f| f.subject.skyhook.as_deref() == Some(skyhook))
    }
}
