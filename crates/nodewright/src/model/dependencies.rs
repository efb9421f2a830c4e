//! Dependencies between the packages of a custom resource.

use std::collections::{BTreeMap, BTreeSet};

use super::operator::Operator;
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

/// The dependencies of each package, by index; `None` for a dependency that the spec lacks.
pub(super) struct Order {
    pub depends_on: Vec<Vec<Option<usize>>>,
}

impl Order {
    /// The packages that run next (operator `Next` of the dependency graph).
    pub fn next(&self, operator: &Operator<'_>, complete: &[bool]) -> Vec<usize> {
        let done = complete.iter().filter(|done| **done).count();
        let ready = |at: &usize| {
            let mut depends_on = self.depends_on[*at].iter();
            !complete[*at] && depends_on.all(|on| on.is_some_and(|on| complete[on]))
        };
        let all = 0..self.depends_on.len();
        if !operator.before(0, 18) || done == 0 {
            return all.filter(ready).collect();
        }
        // Before v0.18, a package without dependencies is considered only while the number of complete packages does
        // not exceed the number of packages without dependencies (upstream 387).
        let roots = all.clone().filter(|at| self.depends_on[*at].is_empty());
        let roots: Vec<usize> = roots.collect();
        if done <= roots.len() {
            let open: Vec<usize> = roots.into_iter().filter(|at| !complete[*at]).collect();
            if !open.is_empty() {
                return open;
            }
        }
        all.filter(|at| !self.depends_on[*at].is_empty()).filter(ready).collect()
    }
}
