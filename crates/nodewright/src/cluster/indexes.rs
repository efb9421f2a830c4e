//! Indexes over the lists of a cluster, built at first use. Rules look up objects for every custom resource, node and
//! package, so scans would be quadratic.

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use super::event_index::EventIndex;
use super::history::History;
use super::package_runs::RunObjects;
use super::selections::Selections;
use super::{AskedBy, Cluster, Event, PackageRun, Read};
use crate::api::{DeploymentPolicy, Skyhook};

/// The indexes of one cluster. A copy of the cluster starts without any, because its lists may be changed.
#[derive(Debug, Default)]
pub struct Indexes {
    pub(super) selections: Selections,
    /// By position of the node: positions of the custom resources that select it, in order.
    pub(super) selecting: OnceLock<Vec<Vec<usize>>>,
    pub(super) absent_packages: OnceLock<AbsentPackages>,
    skyhooks: OnceLock<Positions>,
    legacy: OnceLock<Positions>,
    policies: OnceLock<Positions>,
    events: OnceLock<EventIndex>,
    of_older_operator: OnceLock<HashSet<String>>,
    pub(super) run_objects: OnceLock<RunObjects>,
}

impl Clone for Indexes {
    fn clone(&self) -> Indexes {
        Indexes::default()
    }
}

/// Positions in a list, by name.
type Positions = HashMap<String, usize>;

/// The first item with this name.
fn named<'a, T>(
    positions: &OnceLock<Positions>,
    items: &'a [T],
    name_of: fn(&T) -> &str,
    name: &str,
) -> Option<&'a T> {
    let positions = positions.get_or_init(|| {
        let mut positions = Positions::with_capacity(items.len());
        for (at, item) in items.iter().enumerate() {
            positions.entry(name_of(item).to_owned()).or_insert(at);
        }
        positions
    });
    items.get(*positions.get(name)?)
}

impl Cluster {
    /// Drops the indexes over the lists, which must follow each change of a list.
    pub fn reset_indexes(&mut self) {
        self.indexes = Indexes::default();
    }

    /// The custom resource of that name, in the active API.
    pub fn skyhook(&self, name: &str) -> Option<&Skyhook> {
        let positions = &self.indexes.skyhooks;
        named(positions, self.skyhooks.indexed(), Skyhook::name, name)
    }

    /// The custom resource of that name, in the other API.
    pub fn legacy_skyhook(&self, name: &str) -> Option<&Skyhook> {
        let positions = &self.indexes.legacy;
        named(positions, self.legacy.indexed(), Skyhook::name, name)
    }

    /// The deployment policy of that name.
    pub fn policy(&self, name: &str) -> Option<&DeploymentPolicy> {
        let positions = &self.indexes.policies;
        named(positions, self.policies.indexed(), |p| &p.metadata.name, name)
    }

    /// Whether the custom resource names a deployment policy, but no policies were read.
    pub fn policy_not_read(&self, skyhook: &Skyhook) -> bool {
        !skyhook.spec.deployment_policy.is_empty() && self.policies.ok().is_none()
    }

    /// Whether the deployment policy of a custom resource does not exist.
    pub fn policy_missing(&self, skyhook: &Skyhook) -> bool {
        let name = &skyhook.spec.deployment_policy;
        match &self.policies {
            _ if name.is_empty() => false,
            Read::Ok(_) => self.policy(name).is_none(),
            // If policies are unknown, use the condition that the operator set.
            Read::Incomplete(..) | Read::Unreadable(_) | Read::NotRequested => {
                skyhook.true_condition("DeploymentPolicyNotFound").is_some()
            }
        }
    }

    fn event_index(&self) -> &EventIndex {
        self.indexes.events.get_or_init(|| {
            let skyhooks = self.skyhooks.items().iter().chain(self.legacy.items());
            EventIndex::of(self.events.items(), skyhooks.map(Skyhook::name))
        })
    }

    /// The events about objects of this kind and name.
    pub fn events_about<'a>(&'a self, kind: &'a str, name: &str) -> impl Iterator<Item = &'a Event> {
        let found = self.event_index().about(name).iter();
        let found = found.map(|at| &self.events.indexed()[*at]);
        found.filter(move |event| event.kind == kind)
    }

    /// Events about a custom resource, and events whose message contains its name as a word or as part of a longer
    /// name, such as a pod's.
    pub fn events_mentioning(&self, skyhook: &str) -> impl Iterator<Item = &Event> {
        let found = self.event_index().mentioning(skyhook).iter();
        found.map(|at| &self.events.indexed()[*at])
    }

    /// Pods that the older operator started for a custom resource and that still run. The newer operator does not count
    /// them.
    pub fn runs_of_older_operator(&self, skyhook: &str) -> Vec<PackageRun<'_>> {
        if !self.active_api.migrating() {
            return Vec::new();
        }
        let older = || {
            let runs = self.package_runs_of(self.flavor().other()).into_iter();
            runs.filter(|run| run.bare() && run.alive())
        };
        let owners = &self.indexes.of_older_operator;
        let owners = owners.get_or_init(|| older().map(|run| run.skyhook).collect());
        if !owners.contains(skyhook) {
            return Vec::new();
        }
        older().filter(|run| run.skyhook == skyhook).collect()
    }
}

/// Packages that are on no selected node while their uninstall is requested, with their history, by name of the custom
/// resource: the operator reports uninstalled and never installed ones as complete.
pub(super) type AbsentPackages = HashMap<String, Vec<(String, History)>>;

impl Cluster {
    /// The packages with `uninstall.apply: true` that no selected node records, at any version, with their
    /// history.
    ///
    /// A package is not reported if an unreadable node state might contain it, if no node is selected, or if
    /// only named nodes were read. Custom resources under deletion are skipped: a deletion uninstalls
    /// packages regardless of `apply`.
    pub fn absent_packages(&self) -> impl Iterator<Item = (&Skyhook, &str, &History)> {
        self.skyhooks.items().iter().flat_map(|skyhook| {
            let absent = self.absent_packages_of(skyhook).iter();
            absent.map(move |(name, history)| (skyhook, name.as_str(), history))
        })
    }

    /// Packages whose version in the spec was never installed, and will not be while their uninstall is
    /// requested. If the history of a package is unknown, a finished uninstall is assumed.
    pub fn never_installed(&self, skyhook: &Skyhook) -> Vec<&str> {
        let absent = self.absent_packages_of(skyhook).iter();
        absent.filter(|(_, history)| history.excludes_spec_version()).map(|(name, _)| name.as_str()).collect()
    }

    fn absent_packages_of(&self, skyhook: &Skyhook) -> &[(String, History)] {
        let all = self.indexes.absent_packages.get_or_init(|| self.find_absent());
        all.get(skyhook.name()).map_or(&[], Vec::as_slice)
    }

    fn find_absent(&self) -> AbsentPackages {
        let mut found = AbsentPackages::new();
        if self.limited_to_named_nodes {
            return found;
        }
        let package_runs = OnceLock::new();
        for skyhook in self.skyhooks.items().iter().filter(|s| !s.deleting()) {
            for (name, package) in skyhook.packages() {
                let asked = skyhook.uninstall_asked_by(package) == Some(AskedBy::Apply);
                if asked && self.is_on_no_node(skyhook, name) {
                    let package_runs = package_runs.get_or_init(|| self.package_runs());
                    let history = self.history_among(package_runs, skyhook, name);
                    let of = found.entry(skyhook.name().to_owned()).or_default();
                    of.push((name.to_owned(), history));
                }
            }
        }
        found
    }

    fn is_on_no_node(&self, skyhook: &Skyhook, package: &str) -> bool {
        let mut selected = self.selected(skyhook).peekable();
        selected.peek().is_some()
            && selected.all(|node| {
                let on = self.on_node(node, skyhook.name());
                on.is_none_or(|on| {
                    !on.is_malformed() && on.entries().iter().all(|e| e.identity().0 != package)
                })
            })
    }
}
