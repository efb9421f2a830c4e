//! Node states after the operator's handlers have run in a reconcile, before any work on nodes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::operator::{Operator, Slot, Step, step};
use crate::api::keys::go_version;
use crate::api::skyhook::interrupt_strength;
use crate::api::{ApiFlavor, Package, Skyhook, Stage, State};
use crate::cluster::drain::Obstacles;
use crate::cluster::{Cluster, NodeRecord};

/// A package of the spec.
pub(super) struct SpecPackage<'a> {
    pub name: &'a str,
    pub package: &'a Package,
    key: String,
    /// The type of interrupt that currently follows the installation.
    pub interrupt: Option<&'a str>,
    /// Whether an uninstall is requested, by `uninstall.apply` or by deleting the custom resource.
    pub uninstalls: bool,
    /// Whether `uninstall.apply` is set.
    applies_uninstall: bool,
}

impl<'a> SpecPackage<'a> {
    pub fn new(skyhook: &'a Skyhook, name: &'a str, package: &'a Package) -> SpecPackage<'a> {
        let uninstall = package.uninstall();
        SpecPackage {
            name,
            package,
            key: package.entry_key(name),
            interrupt: skyhook.pending_interrupt(name, package),
            uninstalls: skyhook.uninstalls(package),
            applies_uninstall: uninstall.enabled && uninstall.apply,
        }
    }

    pub fn interrupts(&self) -> bool {
        self.interrupt.is_some()
    }

    /// The stages of the package's installation.
    pub fn stages(&self) -> &'static [Stage] {
        const ALL: [Stage; 4] = [Stage::Apply, Stage::Config, Stage::Interrupt, Stage::PostInterrupt];
        if self.interrupts() { &ALL } else { &ALL[..2] }
    }
}

/// A distinct node state of a custom resource; thousands of nodes share a few.
#[derive(Default)]
pub(super) struct Profile<'a> {
    pub record: Option<&'a NodeRecord>,
    /// The slots after the operator's handlers have run, by index of the package.
    pub slots: Vec<Option<Slot>>,
    /// Whether the handlers set the node's status to in progress, regardless of the batch.
    pub begins: bool,
    /// Whether a package is recorded at another version than the spec's.
    pub changes_version: bool,
    /// The package whose entry the operator removes because its uninstall is complete.
    pub removes: Option<usize>,
    /// Whether the node state has a package that the finalizer waits for.
    pub pending: bool,
    pub complete: bool,
    /// Whether a recorded package is still to be uninstalled.
    pub leaves: bool,
    /// The packages that the operator works on if the node is chosen, in the operator's order.
    pub due: Vec<(usize, Step)>,
    /// A package that waits for a dependency, and the dependency.
    pub waits: Option<(usize, usize)>,
    /// Packages that the operator never starts or continues here, although they wait for no other.
    pub overlooked: Vec<usize>,
    /// Whether a package that the spec lacks at this version is being uninstalled (before v0.16).
    removing: bool,
}

impl<'a> Profile<'a> {
    /// The node state after the handlers for uninstalls and versions (operator `HandleUninstallRequests`,
    /// `HandleCancelledUninstalls`, `HandleVersionChange`). `handled`: whether these handlers run.
    pub fn new(
        operator: &Operator<'_>,
        packages: &[SpecPackage<'a>],
        record: Option<&'a NodeRecord>,
        handled: bool,
    ) -> Profile<'a> {
        let mut profile = Profile { record, slots: Vec::with_capacity(packages.len()), ..Profile::default() };
        for (at, package) in packages.iter().enumerate() {
            let slot = record.and_then(|record| record.entry(&package.key)).map(Slot::read);
            profile.pending |= slot.is_some() && package.package.uninstall().enabled;
            let slot = match slot {
                Some(slot) if handled && !operator.before(0, 16) => profile.uninstalled(at, package, slot),
                slot => slot,
            };
            profile.slots.push(slot);
        }
        for entry in record.into_iter().flat_map(NodeRecord::entries) {
            let (name, version) = entry.identity();
            // Packages are sorted by name.
            let known = packages.binary_search_by(|p| p.name.cmp(name)).ok();
            let same = known.is_some_and(|at| packages[at].package.version == version);
            if !same {
                let uninstalling = entry.stage == Stage::Uninstall;
                profile.removing |= uninstalling && operator.before(0, 16);
                if handled {
                    profile.version_changed(operator, packages, known, version);
                }
            }
        }
        profile
    }

    /// The slot of a recorded package after the handlers have started, ended or canceled its uninstall.
    fn uninstalled(&mut self, at: usize, package: &SpecPackage<'_>, slot: Slot) -> Option<Slot> {
        let begun = match slot.stage {
            Stage::UninstallInterrupt if slot.state == State::Complete => {
                self.removes = Some(at);
                self.begins = true;
                return None;
            }
            Stage::Uninstall if !package.uninstalls && slot.active() => Stage::Apply,
            Stage::Uninstall | Stage::UninstallInterrupt => return Some(slot),
            _ if package.uninstalls && slot.state == State::Complete => Stage::Uninstall,
            _ => return Some(slot),
        };
        self.begins = true;
        Some(Slot::new(begun, State::InProgress))
    }

    /// Handles a package that is recorded at another version than the spec's.
    fn version_changed(
        &mut self,
        operator: &Operator<'_>,
        packages: &[SpecPackage<'_>],
        known: Option<usize>,
        recorded: &str,
    ) {
        let Some(at) = known else {
            // Since v0.16 the operator keeps the entry of a package that left the spec.
            self.begins |= operator.before(0, 16);
            return;
        };
        let slot = &mut self.slots[at];
        if slot.as_ref().is_some_and(|slot| slot.stage.is_uninstall()) {
            return;
        }
        self.changes_version = true;
        let spec = go_version(&packages[at].package.version);
        let (Some(spec), Some(recorded)) = (spec, go_version(recorded)) else {
            return;
        };
        let upgrades = slot.as_ref().is_some_and(|s| s.stage == Stage::Upgrade);
        if spec > recorded && !upgrades {
            *slot = Some(Slot::new(Stage::Upgrade, State::InProgress));
            self.begins = true;
        } else if spec < recorded && operator.before(0, 16) {
            // A downgrade first uninstalls the newer version.
            *slot = Some(Slot::new(Stage::Uninstall, State::Skipped));
            self.begins = true;
        }
    }

    /// Moves a package whose configMap has changed back to stage config.
    pub fn reconfigure(&mut self, at: usize) {
        self.slots[at] = Some(Slot::new(Stage::Config, State::InProgress));
        self.begins = true;
    }

    /// Whether a package is complete.
    pub fn package_complete(&self, operator: &Operator<'_>, packages: &[SpecPackage<'_>], at: usize) -> bool {
        let slot = self.slots[at].as_ref();
        slot.is_some_and(|slot| slot.complete(operator, packages[at].interrupts()))
    }

    /// The profile with a package moved to another slot.
    pub fn with_slot(
        &self,
        operator: &Operator<'_>,
        packages: &[SpecPackage<'a>],
        order: &Order,
        package: usize,
        slot: Option<Slot>,
    ) -> Profile<'a> {
        let mut profile = Profile {
            record: self.record,
            slots: self.slots.clone(),
            removes: self.removes.filter(|at| *at != package),
            ..Profile::default()
        };
        profile.slots[package] = slot;
        let enabled = |at: usize| packages[at].package.uninstall().enabled;
        let mut slots = profile.slots.iter().enumerate();
        profile.pending = slots.any(|(at, slot)| slot.is_some() && enabled(at));
        profile.finish(operator, packages, order);
        profile
    }

    /// Computes completeness and due packages from the final slots.
    pub fn finish(&mut self, operator: &Operator<'_>, packages: &[SpecPackage<'a>], order: &Order) {
        let complete: Vec<bool> =
            (0..packages.len()).map(|at| self.package_complete(operator, packages, at)).collect();
        let in_cycle = |slot: &Option<Slot>| slot.as_ref().is_some_and(|s| s.stage.is_uninstall());
        let malformed = self.record.is_some_and(NodeRecord::is_malformed);
        // Operator `IsComplete`: an absent package counts as complete if `uninstall.apply` is set.
        let done = (0..packages.len())
            .all(|at| complete[at] || self.slots[at].is_none() && packages[at].applies_uninstall);
        let mut slots = self.slots.iter().zip(packages);
        self.leaves = slots.any(|(slot, package)| slot.is_some() && package.uninstalls);
        self.complete = done && !malformed && !self.removing && !self.slots.iter().any(in_cycle);
        if self.complete || malformed {
            return;
        }
        let leaves = (0..packages.len()).filter(|at| in_cycle(&self.slots[*at]));
        // Operator `shouldSkipApplyForUninstall`.
        let is_installed = |at: &usize| match &self.slots[*at] {
            Some(slot) => !slot.stage.is_uninstall(),
            None => !packages[*at].uninstalls,
        };
        let next = order.next(operator, &complete);
        let overlooked =
            |at: &usize| !complete[*at] && order.depends_on[*at].is_empty() && !next.contains(at);
        self.overlooked = (0..packages.len()).filter(overlooked).filter(is_installed).collect();
        let due: Vec<usize> = leaves.chain(next.into_iter().filter(is_installed)).collect();
        let winner = winner(packages, &due);
        self.due = due
            .iter()
            .map(|at| {
                let wins = winner == Some(*at);
                let slot = self.slots[*at].as_ref();
                (*at, step(operator, slot, packages[*at].interrupts(), wins))
            })
            .collect();
        let mut open = complete.iter().map(|done| !done).collect::<Vec<bool>>();
        due.iter().for_each(|at| open[*at] = false);
        let open = (0..packages.len()).filter(|at| open[*at]);
        self.waits = open
            .filter_map(|at| Some((at, *order.depends_on[at].iter().flatten().find(|on| !complete[**on])?)))
            .next();
    }
}

/// The package whose interrupt serves all due packages: the one with the strongest interrupt, then the first
/// name (operator `fudgeInterruptWithPriority`).
fn winner(packages: &[SpecPackage<'_>], due: &[usize]) -> Option<usize> {
    due.iter()
        .filter_map(|at| {
            Some((Reverse(interrupt_strength(packages[*at].interrupt?)), packages[*at].name, *at))
        })
        .min()
        .map(|(_, _, at)| at)
}

/// Whether the operator supports deployment policies and their resets.
pub fn knows_policies(cluster: &Cluster) -> bool {
    !cluster.operator().before(0, 8)
}

/// Whether the operator supports the annotations that pause and disable a custom resource.
pub fn knows_pause(cluster: &Cluster) -> bool {
    !cluster.operator().before(0, 8)
}

/// Whether the operator works on nodes in batches, which it records.
pub fn records_batches(cluster: &Cluster) -> bool {
    !cluster.operator().before(0, 15)
}

/// Whether the operator continues a package that is recorded as skipped; `None` if its version is unknown. Up to v0.16 it
/// does on no node (upstream issue 270).
pub fn continues_skipped_packages(cluster: &Cluster) -> Option<bool> {
    match &cluster.active_api.operator_version {
        Some(version) => Some(version.at_least(0, 17)),
        None => (!cluster.operator().before(0, 18)).then_some(true),
    }
}

/// Whether the operator deletes a package pod that differs from the one that it created, and waits for its end before
/// anything else (operator `ValidateRunningPackages`).
pub fn replaces_changed_pods(cluster: &Cluster) -> bool {
    cluster.operator().before(0, 18)
}

/// Whether `serial: true` loses the node states of all nodes but one.
pub fn serial_loses_states(cluster: &Cluster) -> bool {
    cluster.operator().before(0, 18)
}

/// Whether the operator ends its reconcile at once if the cluster has no nodes, and removes no finalizers.
pub fn ends_pass_without_nodes(cluster: &Cluster) -> bool {
    cluster.operator().before(0, 18)
}

/// Whether the operator does not correct the counters of a batch whose nodes are no longer complete (upstream issue 588).
pub fn keeps_batch_counters(cluster: &Cluster) -> bool {
    cluster.operator().before(0, 20)
}

/// Whether ignored nodes, and nodes blocked by a taint, keep their places in the batch: the operator does not form another
/// batch until all nodes of the current batch are complete (operator `getStickyBatchNodes`).
pub fn blocked_nodes_keep_places(cluster: &Cluster) -> bool {
    cluster.operator().before(0, 20)
}

/// Whether the operator removes a cordon that it did not set.
pub fn removes_foreign_cordons(cluster: &Cluster) -> bool {
    cluster.operator().before(0, 20)
}

/// Whether a refused eviction ends the operator's work on the custom resource (`RunSkyhookPackages`) before it records any.
/// Other custom resources follow (`processSkyhooksPerNode`). Newer operators continue if a budget refuses.
pub fn refused_eviction_ends_turn(cluster: &Cluster) -> bool {
    cluster.operator().before(0, 20)
}

/// Whether these obstacles of a drain end the operator's work on the custom resource: a refused eviction, see
/// [`refused_eviction_ends_turn`], or overlapping budgets, after whose internal error (500) every operator stops.
pub fn obstacles_end_turn(cluster: &Cluster, obstacles: &Obstacles<'_>) -> bool {
    refused_eviction_ends_turn(cluster) || !obstacles.overlaps.is_empty()
}

/// [`refused_eviction_ends_turn`], or the version is unknown.
pub fn refused_eviction_may_end_turn(cluster: &Cluster) -> bool {
    !cluster.operator().since(0, 20)
}

/// Whether the operator is known to read node states only on selected nodes.
pub fn reads_only_selected_states(cluster: &Cluster) -> bool {
    cluster.operator().since(0, 16) || cluster.flavor() == ApiFlavor::NodeWright
}

/// Whether the operator is known to process NodeWright objects.
pub fn processes_nodewrights(cluster: &Cluster) -> bool {
    cluster.operator().since(0, 18)
}

/// Whether the operator is known to refuse to start with an invalid key of the runtime-required taint.
pub fn checks_taint_key(cluster: &Cluster) -> bool {
    cluster.operator().since(0, 20)
}

/// The cycles of `dependsOn`: the packages of each in the order of their dependencies. A package is in at most one of them.
pub fn cycles(skyhook: &Skyhook) -> Vec<Vec<&str>> {
    let mut cycles: Vec<Vec<&str>> = Vec::new();
    for name in undecided(skyhook) {
        if !cycles.iter().flatten().any(|known| *known == name) {
            cycles.extend(cycle_from(skyhook, name));
        }
    }
    cycles
}

/// The packages that are in a cycle, or depend on one, in the order of their names: the others can run one after another.
fn undecided(skyhook: &Skyhook) -> BTreeSet<&str> {
    let mut missing: BTreeMap<&str, usize> = BTreeMap::new();
    let mut dependants: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, package) in skyhook.packages() {
        let known = package.depends_on.keys().filter(|dependency| skyhook.package(dependency).is_some());
        missing.insert(name, known.clone().count());
        for dependency in known {
            dependants.entry(dependency).or_default().push(name);
        }
    }
    let mut ready: Vec<&str> =
        missing.iter().filter(|(_, count)| **count == 0).map(|(name, _)| *name).collect();
    while let Some(name) = ready.pop() {
        missing.remove(name);
        for dependant in dependants.remove(name).into_iter().flatten() {
            let count = missing.entry(dependant).or_default();
            *count -= 1;
            if *count == 0 {
                ready.push(dependant);
            }
        }
    }
    missing.into_keys().collect()
}

/// The shortest cycle of `dependsOn` through a package, as a path from the package to itself.
fn cycle_from<'a>(skyhook: &'a Skyhook, start: &'a str) -> Option<Vec<&'a str>> {
    let mut seen = BTreeSet::new();
    let mut paths = VecDeque::from([vec![start]]);
    while let Some(path) = paths.pop_front() {
        let package = skyhook.package(path[path.len() - 1])?;
        for next in package.depends_on.keys().map(String::as_str) {
            if next == start {
                return Some(path);
            }
            if skyhook.package(next).is_some() && seen.insert(next) {
                let mut longer = path.clone();
                longer.push(next);
                paths.push_back(longer);
            }
        }
    }
    None
}

/// The dependencies of each package, by index; `None` for a dependency that the spec lacks.
pub(super) struct Order {
    pub depends_on: Vec<Vec<Option<usize>>>,
}

impl Order {
    /// The packages that run next (operator `Next` of the dependency graph).
    fn next(&self, operator: &Operator<'_>, complete: &[bool]) -> Vec<usize> {
        let done = complete.iter().filter(|done| **done).count();
        let ready = |at: &usize| {
            !complete[*at] && self.depends_on[*at].iter().all(|on| on.is_some_and(|on| complete[on]))
        };
        let all = 0..self.depends_on.len();
        if !operator.before(0, 18) || done == 0 {
            return all.filter(ready).collect();
        }
        // Before v0.18, a package without dependencies is considered only while the number of complete packages does
        // not exceed the number of packages without dependencies (upstream 387).
        let roots: Vec<usize> = all.clone().filter(|at| self.depends_on[*at].is_empty()).collect();
        if done <= roots.len() {
            let open: Vec<usize> = roots.into_iter().filter(|at| !complete[*at]).collect();
            if !open.is_empty() {
                return open;
            }
        }
        all.filter(|at| !self.depends_on[*at].is_empty()).filter(ready).collect()
    }
}
