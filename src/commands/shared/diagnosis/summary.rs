//! The summary of a group of findings in a table row.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::group::{FindingGroup, OWN, on_all_nodes};

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

    /// The command of the first remedy, for all nodes if possible. Without remedies, the command for the
    /// rule's manual.
    pub fn first_command(&self) -> Vec<String> {
        match self.first().remedies().next() {
            Some(remedy) => on_all_nodes(&self.findings, &remedy).unwrap_or(remedy.argv),
            None => {
                let words = ["explain", self.first().rule.code];
                OWN.into_iter().chain(words).map(str::to_owned).collect()
            }
        }
    }
}
