//! Dependencies between the packages of a custom resource.

use std::collections::BTreeSet;

use crate::api::Skyhook;

/// The cycles of `dependsOn`, each as a path from a package to itself. A package is in at most one of them.
pub fn cycles(skyhook: &Skyhook) -> Vec<Vec<&str>> {
    let mut cycles: Vec<Vec<&str>> = Vec::new();
    for (name, _) in skyhook.packages() {
        if !cycles.iter().flatten().any(|known| *known == name) {
            cycles.extend(cycle_from(skyhook, name));
        }
    }
    cycles
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
