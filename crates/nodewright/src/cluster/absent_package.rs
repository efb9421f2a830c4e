//! Packages that are on no selected node while their uninstall is requested: uninstalled, or never installed.
//!
//! The operator reports both as complete. Views, waits and rules distinguish them with this module.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::history::History;
use super::{AskedBy, Cluster};
use crate::api::Skyhook;

/// Absent packages of a cluster with their history, by custom resource name.
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
