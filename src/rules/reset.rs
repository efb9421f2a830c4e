//! The reset of a node as a remedy.

use std::collections::BTreeSet;

use super::{Finding, Grade};
use crate::api::Skyhook;
use crate::cluster::{Cluster, Node, NodeRecord};
use crate::plan::build::effects::{Reruns, bypassed_uninstalls};

/// Adds the reset of everything that a custom resource has on a node, with the grade that its preview has.
pub fn reset_node<'f>(
    finding: &'f mut Finding,
    title: &str,
    cluster: &Cluster,
    skyhook: &Skyhook,
    node: &Node,
) -> &'f mut Finding {
    let on = cluster.on_node(node, skyhook.name());
    let recorded = on.is_some_and(|on| !on.entries().is_empty());
    finding
        .remedy(
            grade(cluster, skyhook, node, on),
            title,
            ["reset", skyhook.name(), "--node", &node.name],
        )
        .caveat(match (skyhook.deleting(), recorded) {
            (_, false) => {
                "nothing is recorded here yet: the work on the node starts again, including interrupts"
            }
            (true, true) => {
                "the record of what is installed is lost: packages that the deletion would have uninstalled stay on the host"
            }
            (false, true) => "all packages run again, including their interrupts",
        })
}

/// Adds the reset of one package of the spec on a node, with the grade that its preview has.
pub fn reset_package<'f>(
    finding: &'f mut Finding,
    cluster: &Cluster,
    skyhook: &Skyhook,
    node: &Node,
    name: &str,
    version: &str,
) -> &'f mut Finding {
    let spec = skyhook.package(name);
    let interrupts = spec.is_some_and(|p| skyhook.pending_interrupt(name, p).is_some());
    let including = if interrupts {
        ", including its interrupt"
    } else {
        ""
    };
    let package = format!("{name}:{version}");
    finding
        .remedy(
            grade_of(cluster, skyhook, node, &[name], BTreeSet::from([name])),
            format!("Reset package {name} on the node"),
            [
                "reset",
                skyhook.name(),
                "--node",
                &node.name,
                "--package",
                &package,
            ],
        )
        .caveat(format!("package {name} runs again{including}"))
}

fn grade(cluster: &Cluster, skyhook: &Skyhook, node: &Node, on: Option<&NodeRecord>) -> Grade {
    let packages = skyhook.packages().map(|(name, _)| name);
    let packages: Vec<&str> = packages.collect();
    let entries = on.map_or(&[][..], NodeRecord::entries);
    let recorded = entries.iter().map(|e| e.name.as_ref()).collect();
    grade_of(cluster, skyhook, node, &packages, recorded)
}

/// That of a reset of these packages of the spec, where these are recorded.
fn grade_of(
    cluster: &Cluster,
    skyhook: &Skyhook,
    node: &Node,
    packages: &[&str],
    recorded: BTreeSet<&str>,
) -> Grade {
    let mut reruns = Reruns::default();
    for (name, _) in skyhook
        .packages()
        .filter(|(name, p)| packages.contains(name) && !skyhook.uninstalls(p))
    {
        reruns.add(node, name);
    }
    let mut effects = reruns.consequences(cluster, Some(skyhook));
    if bypassed_uninstalls(skyhook, &recorded, &mut effects) {
        effects.at_least(Grade::B4);
    }
    effects.grade.unwrap_or(Grade::B2).max(Grade::B2)
}
