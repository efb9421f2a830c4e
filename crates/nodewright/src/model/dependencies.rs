//! Dependencies between the packages of a custom resource.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::Skyhook;

/// The cycles of `dependsOn`, each as a path from a package to itself. A package is in at most one of them.
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
    let mut paths = std::collections::VecDeque::from([vec![start]]);
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
