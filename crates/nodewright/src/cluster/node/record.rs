//! The operator's record of a custom resource on a node.

use crate::api::{Entry, NodeState, Shared, Skyhook, State, Status};

/// The keys of one custom resource on one node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct NodeRecord {
    /// `None` without a node-state annotation.
    pub state: Option<Shared<NodeState>>,
    pub status: Option<Status>,
    pub status_label: Option<Status>,
    pub cordon: bool,
    /// The value of the cordon annotation; the operator checks only its presence.
    pub cordon_value: Option<String>,
    pub version: Option<String>,
    pub drain_start: Option<String>,
    pub drain_blocked: Option<String>,
    /// Types of the node conditions, without prefix and name: `NotReady`, `Erroring`.
    pub conditions: Vec<String>,
}

impl NodeRecord {
    /// The readable entries of the node state; empty if it is absent. A node state may be malformed only in
    /// part.
    pub fn entries(&self) -> &[Entry] {
        self.state.as_ref().map_or(&[], |s| s.entries())
    }

    /// Whether a package or the node is erroring, or the record cannot be read.
    pub fn fails(&self) -> bool {
        self.is_malformed()
            || self.status == Some(Status::Erroring)
            || self.entries().iter().any(|e| e.state == State::Erroring)
    }

    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.state.as_ref().and_then(|s| s.entry(key))
    }

    /// The entries of a package: first the version in the spec, then incomplete entries. During an upgrade,
    /// the former version stays recorded until the new version is installed.
    pub fn entries_of(&self, skyhook: Option<&Skyhook>, package: &str) -> Vec<&Entry> {
        let spec = skyhook.and_then(|s| s.package(package));
        let mut entries: Vec<&Entry> = self.entries().iter().filter(|e| e.identity().0 == package).collect();
        entries.sort_by_key(|e| {
            let in_spec = spec.is_some_and(|p| p.version == e.version);
            (!in_spec, e.state == State::Complete)
        });
        entries
    }

    /// Whether the node state exists and is unreadable.
    pub fn is_malformed(&self) -> bool {
        self.state.as_ref().is_some_and(|s| !s.malformed().is_empty())
    }

    /// Whether any annotation or label exists, conditions aside.
    ///
    /// The operator's finalizer does not remove the conditions, so conditions alone prove little.
    pub fn has_keys(&self) -> bool {
        self.state.is_some()
            || self.status.is_some()
            || self.status_label.is_some()
            || self.cordon
            || self.version.is_some()
            || self.drain_start.is_some()
            || self.drain_blocked.is_some()
    }

    /// Whether only the node state remains, apart from the version. The finalizer keeps it on purpose for
    /// packages whose files are still on the host.
    pub fn is_marker(&self) -> bool {
        !self.entries().is_empty()
            && !self.cordon
            && self.status.is_none()
            && self.status_label.is_none()
            && self.drain_start.is_none()
            && self.drain_blocked.is_none()
    }

    /// Names of the remaining keys, conditions aside.
    pub fn remaining_keys(&self) -> Vec<&'static str> {
        let all = [
            (self.state.is_some(), "nodeState"),
            (self.status.is_some(), "status"),
            (self.status_label.is_some(), "status label"),
            (self.cordon, "cordon"),
            (self.version.is_some(), "version"),
            (self.drain_start.is_some(), "drainStart"),
            (self.drain_blocked.is_some(), "drainBlocked"),
        ];
        all.into_iter().filter_map(|(there, name)| there.then_some(name)).collect()
    }
}
