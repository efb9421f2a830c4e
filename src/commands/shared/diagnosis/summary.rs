//! The summary of a group of findings in a table row.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::group::{Detail, FOLDED, FindingGroup, OWN};
use crate::rules::Grade;
use crate::view::NodeSet;

impl FindingGroup<'_> {
    /// The start of the oldest finding.
    pub fn since(&self) -> Option<Timestamp> {
        self.findings.iter().filter_map(|f| f.since).min()
    }

    /// Number of nodes with a finding.
    pub fn node_count(&self) -> usize {
        self.node_names().len()
    }

    /// The names of the custom resources with a finding.
    pub fn skyhooks(&self) -> BTreeSet<&str> {
        self.findings.iter().filter_map(|f| f.subject.skyhook.as_deref()).collect()
    }

    /// The names of the nodes with a finding.
    pub fn node_names(&self) -> BTreeSet<&str> {
        self.nodes().collect()
    }

    /// The subject without nodes: `gpu-tune driver`, `cr-[0-249] driver`; the object's name if the finding
    /// concerns no custom resource.
    pub fn place(&self) -> String {
        let subject = &self.findings[0].subject;
        let objects = self.objects().limited(1);
        subject.package.iter().fold(objects, |objects, package| format!("{objects} {package}"))
    }

    /// The nodes of a custom resource if they are few and their names fold into one: ` on gpu-[1-3]`; empty otherwise.
    pub fn on_nodes(&self) -> String {
        let nodes = NodeSet::of(self.node_names());
        let few = nodes.runs() == 1 && nodes.len() <= FOLDED;
        let named = self.first().subject.skyhook.is_some() && few;
        if named { format!(" on {nodes}") } else { String::new() }
    }

    /// The command of the first remedy, and of the first one that changes something, for all nodes if possible. Without
    /// remedies, the command for the rule's manual.
    pub fn next_commands(&self) -> Vec<Vec<String>> {
        let mut remedies = self.remedies(Detail::Brief);
        // Commands of ours state their effects before they act.
        remedies.retain(|(remedy, _)| remedy.own().is_some() || remedy.grade <= Some(Grade::B1));
        if remedies.is_empty() {
            let words = ["explain", self.first().rule.code];
            return vec![OWN.into_iter().chain(words).map(str::to_owned).collect()];
        }
        remedies.into_iter().map(|(remedy, _)| remedy.argv).collect()
    }
}
