//! The state of a package on a node, for every view, wait, preview and rule, and the packages that delay a deletion.

use std::collections::BTreeSet;

use super::{Certainty, Cluster, Node, NodeRecord, Read};
use crate::api::{Entry, NodeState, Package, Skyhook, Stage, State};

/// A package of a custom resource on a node.
#[derive(Debug, Clone, Copy)]
pub struct Placement<'a> {
    pub skyhook: &'a str,
    pub node: &'a Node,
    /// Empty for the entry that stands for an unreadable node state, whose packages are unknown.
    pub package: &'a str,
    pub version: &'a str,
    /// The package's node-state entry at this version.
    pub entry: Option<&'a Entry>,
    /// The reason why the node state cannot be read.
    pub malformed: Option<&'a str>,
    pub wanted: Desired,
    pub phase: Phase,
    /// Whether the custom resource selects the node.
    pub selected: bool,
    /// Whether the node carries the ignore label.
    pub ignored: bool,
}

/// Progress of a package on a node.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, schemars::JsonSchema,
)]
pub enum Phase {
    /// The node state cannot be read.
    Malformed,
    /// Not recorded, and to be installed.
    NotStarted,
    /// Not recorded, and not to be installed.
    Absent,
    /// Not recorded, and to be uninstalled, although this version was never installed: the operator will not
    /// install it.
    NeverInstalled,
    /// At a stage of its installation.
    Running,
    /// A stage of its installation fails.
    Failing,
    /// Complete at the stage that the operator counts as the last one. If the spec cannot be read: complete
    /// at a stage that may be the last.
    Complete,
    Uninstalling,
    UninstallFailing,
    /// Uninstalled but still recorded: the custom resource is deleted, so that no controller removes the
    /// entry, or was not read.
    Uninstalled,
    /// Recorded at a version that the spec does not contain.
    NotInSpec,
}

/// The intent of the spec for a package version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Desired {
    Installed,
    Uninstalled(AskedBy),
    /// The spec has no such package, or has it at another version.
    Not,
    /// The spec could not be read.
    Unknown,
}

/// The cause of an uninstall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskedBy {
    /// The package's `uninstall.apply`.
    Apply,
    /// The deletion of the custom resource.
    Deletion,
}

impl Placement<'_> {
    /// Whether the package has reached its goal: complete, or absent if it is to be uninstalled.
    pub fn is_done(&self) -> bool {
        match self.wanted {
            Desired::Uninstalled(_) => self.phase == Phase::Absent,
            _ => self.phase == Phase::Complete,
        }
    }

    /// Whether the spec contains the package at this version; `None` if unknown.
    pub fn in_spec(&self) -> Option<bool> {
        match self.wanted {
            Desired::Installed | Desired::Uninstalled(_) => Some(true),
            Desired::Not => Some(false),
            Desired::Unknown => None,
        }
    }

    /// Whether files of this version may be on the host: a stage of it is recorded, and it is not uninstalled.
    pub fn is_installed(&self, cluster: &Cluster) -> bool {
        self.entry.is_some_and(|entry| !is_uninstalled(cluster.skyhook(self.skyhook), entry))
    }

    /// Whether the package is to be uninstalled.
    pub fn is_uninstall_wanted(&self) -> bool {
        matches!(self.wanted, Desired::Uninstalled(_))
    }
}

impl Phase {
    /// Whether the node state lacks the package, and the operator will not install it.
    pub fn is_absent(self) -> bool {
        matches!(self, Phase::Absent | Phase::NeverInstalled)
    }

    /// Whether an unfinished uninstall is recorded.
    pub fn is_uninstall(self) -> bool {
        matches!(self, Phase::Uninstalling | Phase::UninstallFailing)
    }
}

impl Cluster {
    /// Whether a custom resource selects a node or has left keys there. `true` for an unknown name.
    pub fn touches(&self, skyhook: &str, node: &str) -> bool {
        let (Some(spec), Some(node)) = (self.skyhook(skyhook), self.node(node)) else {
            return true;
        };
        spec.selects(node) || self.on_node(node, skyhook).is_some()
    }

    /// The state of a package of the spec on a node.
    pub fn placement<'a>(&'a self, skyhook: &'a Skyhook, name: &'a str, node: &'a Node) -> Placement<'a> {
        self.packages_on(skyhook.name(), node).in_spec(skyhook, name)
    }

    /// The packages of a custom resource on a node, sorted by name and version: recorded packages, unreadable
    /// node states, and packages of the spec that are not recorded.
    ///
    /// For a deleted custom resource, returns its leftovers.
    pub fn placements_on<'a>(&'a self, skyhook: &'a str, node: &'a Node) -> Vec<Placement<'a>> {
        self.packages_on(skyhook, node).all()
    }

    /// The packages of a custom resource on all nodes that it selects or left state on.
    pub fn placements<'a>(&'a self, skyhook: &'a str) -> impl Iterator<Item = Placement<'a>> {
        self.nodes_of(skyhook).flat_map(move |node| self.placements_on(skyhook, node))
    }

    /// The type of the interrupt of a package in the spec, such as `reboot`.
    pub fn interrupt_of(&self, placement: &Placement<'_>) -> Option<&str> {
        let package = self.skyhook(placement.skyhook)?.package(placement.package)?;
        package.interrupt.as_ref().map(|interrupt| interrupt.kind.as_str())
    }

    /// Number of packages of the spec that are done on a node, and number of all its packages.
    pub fn progress(&self, skyhook: &Skyhook, node: &Node) -> (usize, usize) {
        let here = self.packages_on(skyhook.name(), node);
        let done = skyhook.spec.packages.keys().filter(|name| here.in_spec(skyhook, name).is_done());
        (done.count(), skyhook.spec.packages.len())
    }

    fn packages_on<'a>(&'a self, name: &'a str, node: &'a Node) -> PackagesOn<'a> {
        let skyhook = self.skyhook(name);
        let on = self.on_node(node, name);
        PackagesOn {
            cluster: self,
            name,
            skyhook,
            gone: skyhook.is_none() && self.skyhooks_absence() == Certainty::Proven,
            node,
            state: on.and_then(|on| on.state.as_deref()),
            selected: skyhook.is_some_and(|s| s.selects(node)),
            ignored: node.ignored(self.flavor()),
        }
    }
}

/// The packages of one custom resource on one node.
struct PackagesOn<'a> {
    cluster: &'a Cluster,
    name: &'a str,
    skyhook: Option<&'a Skyhook>,
    gone: bool,
    node: &'a Node,
    state: Option<&'a NodeState>,
    selected: bool,
    ignored: bool,
}

impl<'a> PackagesOn<'a> {
    fn all(&self) -> Vec<Placement<'a>> {
        let entries = self.state.map_or(&[][..], |s| s.entries());
        let malformed = self.state.map_or(&[][..], |s| s.malformed());
        let mut all: Vec<Placement<'a>> = entries.iter().map(|e| self.recorded(e)).collect();
        all.extend(malformed.iter().map(|m| Placement {
            malformed: Some(&m.error),
            ..self.placement("", "", Desired::Unknown, Phase::Malformed)
        }));
        // Add no unrecorded packages to a malformed state, which may contain them.
        if let Some(skyhook) = self.skyhook.filter(|_| malformed.is_empty() && self.selected) {
            let placed = skyhook.packages().map(|(name, _)| self.in_spec(skyhook, name));
            all.extend(placed.filter(|p| p.entry.is_none()));
        }
        all.sort_by_key(|p| (p.package, p.version));
        all
    }

    fn recorded(&self, entry: &'a Entry) -> Placement<'a> {
        let (name, version) = entry.identity();
        let wanted = match self.skyhook {
            Some(skyhook) => skyhook.wants(name, version),
            None if self.gone => Desired::Not,
            None => Desired::Unknown,
        };
        let phase = recorded(self.cluster, self.skyhook, wanted, entry);
        Placement { entry: Some(entry), ..self.placement(name, version, wanted, phase) }
    }

    fn in_spec(&self, skyhook: &'a Skyhook, name: &'a str) -> Placement<'a> {
        let version = skyhook.package(name).map_or("", |p| &p.version);
        let wanted = skyhook.wants(name, version);
        let phase = match skyhook.phase(self.cluster, name, self.state) {
            Phase::NotStarted if !self.selected => Phase::Absent,
            Phase::Absent if self.cluster.never_installed(skyhook).contains(&name) => Phase::NeverInstalled,
            phase => phase,
        };
        let malformed = self.state.and_then(|s| s.malformed().first());
        Placement {
            entry: skyhook.entry_in(name, self.state),
            malformed: malformed.map(|m| m.error.as_str()),
            ..self.placement(name, version, wanted, phase)
        }
    }

    fn placement(&self, package: &'a str, version: &'a str, wanted: Desired, phase: Phase) -> Placement<'a> {
        Placement {
            skyhook: self.name,
            node: self.node,
            package,
            version,
            entry: None,
            malformed: None,
            wanted,
            phase,
            selected: self.selected,
            ignored: self.ignored,
        }
    }
}

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

    fn wants(&self, name: &str, version: &str) -> Desired {
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
    fn entry_in<'e>(&self, name: &str, state: Option<&'e NodeState>) -> Option<&'e Entry> {
        state?.entry(&self.package(name)?.entry_key(name))
    }

    /// Whether the operator of the cluster counts the package as complete with this entry.
    pub fn is_package_complete(&self, cluster: &Cluster, name: &str, entry: &Entry) -> bool {
        let Some(package) = self.package(name) else {
            return false;
        };
        let interrupts = self.pending_interrupt(name, package).is_some();
        entry.state == State::Complete && is_last(&entry.stage, interrupts, cluster.operator().before(0, 17))
    }

    /// The type of interrupt that the operator would now carry out for a package.
    pub fn pending_interrupt<'a>(&self, name: &str, package: &'a Package) -> Option<&'a str> {
        package.pending_interrupt(self.config_updates(name))
    }

    /// The keys of the package's configMap that the latest config change has changed.
    pub fn config_updates(&self, name: &str) -> &[String] {
        self.status.config_updates.get(name).map_or(&[][..], Vec::as_slice)
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

/// Whether the host has no files of the package, and no interrupt of its uninstall is pending.
pub fn is_uninstalled(skyhook: Option<&Skyhook>, entry: &Entry) -> bool {
    let interrupts = skyhook.is_some_and(|s| {
        s.package(&entry.name).is_some_and(|p| s.pending_interrupt(&entry.name, p).is_some())
    });
    entry.stage.is_uninstall()
        && entry.state == State::Complete
        && (entry.stage == Stage::UninstallInterrupt || !interrupts)
}

/// The phase of a recorded package.
fn recorded(cluster: &Cluster, skyhook: Option<&Skyhook>, wanted: Desired, entry: &Entry) -> Phase {
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

/// A package that the finalizer waits for on a node.
#[derive(Debug)]
pub struct Pending<'a> {
    pub node: &'a Node,
    pub name: &'a str,
    pub package: &'a Package,
    pub entry: &'a Entry,
    pub on: &'a NodeRecord,
}

impl Cluster {
    /// Packages that declare an uninstall and are still recorded on selected nodes, at the version of the
    /// spec.
    ///
    /// The operator's finalizer waits for these packages (operator `HandleFinalizer`). Packages without
    /// `uninstall.enabled` do not count, nor do nodes that are no longer selected.
    pub fn pending_uninstalls<'a>(&'a self, skyhook: &'a Skyhook) -> Vec<Pending<'a>> {
        self.selected(skyhook).flat_map(|node| self.pending_uninstalls_on(skyhook, node)).collect()
    }

    /// The pending uninstalls on one node, selected or not.
    pub fn pending_uninstalls_on<'a>(
        &'a self,
        skyhook: &'a Skyhook,
        node: &'a Node,
    ) -> impl Iterator<Item = Pending<'a>> {
        let on = self.on_node(node, skyhook.name());
        skyhook.packages().filter(|(_, p)| p.uninstall().enabled).filter_map(move |(name, package)| {
            let on = on?;
            let entry = on.entry(&package.entry_key(name))?;
            Some(Pending { on, node, name, package, entry })
        })
    }
}

impl Pending<'_> {
    /// Whether the operator begins the uninstall in its next reconcile, if the node is in the batch. It then
    /// sets the node's status to in_progress (operator `HandleUninstallRequests`).
    pub fn begins_next(&self) -> bool {
        self.entry.state == State::Complete && !self.entry.stage.is_uninstall()
    }
}

impl Cluster {
    /// The cluster right after the deletion request of the custom resources in `deleting`, without those in
    /// `gone`.
    ///
    /// Complete packages with an uninstall are then being uninstalled, unless the custom resource is paused
    /// or disabled. During a migration, custom resources of the other API are removed, because they are
    /// deleted first.
    pub fn simulate_deletion(&self, gone: &BTreeSet<&str>, deleting: &BTreeSet<&str>) -> Cluster {
        let mut cluster = self.clone();
        let mut freed = !gone.is_empty();
        if self.active_api.migrating()
            && let Some(legacy) = self.legacy.ok()
        {
            freed |= !legacy.is_empty();
            cluster.legacy = Read::Ok(Vec::new());
        }
        let Some(skyhooks) = cluster.skyhooks.available_mut() else {
            return cluster;
        };
        skyhooks.retain(|s| !gone.contains(s.name()));
        for skyhook in skyhooks.iter_mut() {
            let goes = deleting.contains(skyhook.name());
            let asked = &mut skyhook.metadata.deletion_timestamp;
            if goes {
                asked.get_or_insert(self.taken_at);
            }
            // Custom resources that waited for the deleted ones could not proceed before: count their
            // deletion from now.
            if freed && asked.is_some() {
                *asked = Some(self.taken_at);
            }
        }
        let flavor = self.flavor();
        let Some(nodes) = cluster.sources.nodes.available_mut() else {
            return cluster;
        };
        for skyhook in skyhooks.iter().filter(|s| s.deleting() && s.is_active()) {
            for node in nodes.iter_mut().filter(|node| skyhook.selects(node)) {
                node.simulate(flavor, skyhook.name(), |state| {
                    for (name, package) in skyhook.packages().filter(|(_, p)| p.uninstall().enabled) {
                        state.simulate_uninstall(&package.entry_key(name));
                    }
                });
            }
        }
        cluster
    }
}
