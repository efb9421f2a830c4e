//! The intent of a spec, and the operator's interpretation of a node state.

use super::{AskedBy, Desired, Phase};
use crate::api::{Entry, NodeState, Package, Skyhook, Stage, State};
use crate::cluster::Cluster;

impl Skyhook {
    /// Whether the custom resource is being deleted, or a package requests its uninstall.
    pub fn requests_uninstall(&self) -> bool {
        let mut packages = self.packages();
        self.deleting() || packages.any(|(_, package)| self.uninstall_asked_by(package).is_some())
    }

    /// The cause of a package's uninstall, if requested.
    pub fn uninstall_asked_by(&self, package: &Package) -> Option<AskedBy> {
        let uninstall = package.uninstall();
        let deletion = self.deleting().then_some(AskedBy::Deletion);
        let by = if uninstall.apply { Some(AskedBy::Apply) } else { deletion };
        by.filter(|_| uninstall.enabled)
    }

    /// Whether a package is to be removed from the nodes: by its own uninstall, or with the custom resource.
    pub fn uninstalls(&self, package: &Package) -> bool {
        self.uninstall_asked_by(package).is_some()
    }

    pub(super) fn wants(&self, name: &str, version: &str) -> Desired {
        match self.package(name).filter(|p| p.version == version) {
            Some(package) => match self.uninstall_asked_by(package) {
                Some(by) => Desired::Uninstalled(by),
                None => Desired::Installed,
            },
            None => Desired::Not,
        }
    }

    /// The phase of a package of the spec by its node state.
    pub fn phase(&self, cluster: &Cluster, name: &str, state: Option<&NodeState>) -> Phase {
        let wanted = match self.package(name) {
            Some(package) => self.wants(name, &package.version),
            None => Desired::Not,
        };
        match self.entry_in(name, state) {
            Some(entry) => recorded(cluster, Some(self), wanted, entry),
            None if state.is_some_and(|s| !s.malformed().is_empty()) => Phase::Malformed,
            None if wanted == Desired::Installed => Phase::NotStarted,
            None => Phase::Absent,
        }
    }

    /// The entry of a package at the version of the spec.
    pub(super) fn entry_in<'e>(&self, name: &str, state: Option<&'e NodeState>) -> Option<&'e Entry> {
        state?.entry(&self.package(name)?.entry_key(name))
    }

    /// Whether the operator of the cluster counts the package as complete with this entry.
    pub fn is_package_complete(&self, cluster: &Cluster, name: &str, entry: &Entry) -> bool {
        let Some(package) = self.package(name) else {
            return false;
        };
        let interrupts = self.pending_interrupt(name, package).is_some();
        entry.state == State::Complete && is_last(&entry.stage, interrupts, cluster.operator_before(0, 17))
    }

    /// The type of interrupt that the operator would now carry out for a package.
    pub fn pending_interrupt<'a>(&self, name: &str, package: &'a Package) -> Option<&'a str> {
        package.pending_interrupt(self.config_updates(name))
    }

    /// The keys of the package's configMap that the latest config change has changed.
    pub fn config_updates(&self, name: &str) -> &[String] {
        let updates = self.status.config_updates.get(name);
        updates.map_or(&[][..], Vec::as_slice)
    }
}

/// Whether a package is complete after this stage (operator `IsPackageComplete`). `interrupts`: whether the package
/// interrupts the node.
pub fn is_last(stage: &Stage, interrupts: bool, before_v017: bool) -> bool {
    match stage {
        // Since v0.17 always complete: a configuration that is no longer current may have caused the interrupt.
        Stage::PostInterrupt => interrupts || !before_v017,
        Stage::Config => !interrupts,
        _ => false,
    }
}

/// The phase of a recorded package.
pub(super) fn recorded(
    cluster: &Cluster,
    skyhook: Option<&Skyhook>,
    wanted: Desired,
    entry: &Entry,
) -> Phase {
    let (name, _) = entry.identity();
    match (&entry.state, entry.stage.is_uninstall()) {
        (State::Erroring, true) => Phase::UninstallFailing,
        (State::Complete, true) if skyhook.is_none() => Phase::Uninstalled,
        (_, true) => Phase::Uninstalling,
        (State::Erroring, false) => Phase::Failing,
        _ if wanted == Desired::Not => Phase::NotInSpec,
        _ => {
            let complete = match skyhook {
                Some(skyhook) => skyhook.is_package_complete(cluster, name, entry),
                // Without the spec, it is unknown whether an interrupt would follow.
                None => entry.may_be_installed(),
            };
            if complete { Phase::Complete } else { Phase::Running }
        }
    }
}
