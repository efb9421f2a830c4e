//! Remedies for all nodes that a cause affects: after the repair of one node, the rollout stops again on the
//! next one.

use crate::cluster::{Cluster, Node};
use crate::commands::shared::diagnosis::group::{of_first, on_all_nodes, on_node_set};
use crate::rules::Finding;
use crate::rules::support::causes::Causes;
use crate::view::plural;

/// Extends the remedies of each cause to all affected nodes, on the finding of this node or else on the first
/// finding. Causes of deleted custom resources are skipped: their leftovers stop no rollout.
pub fn extend_to_all_nodes(cluster: &Cluster, findings: &mut [Finding], node: &Node) {
    let causes = Causes::of(findings).ranked(findings);
    let mut extended = Vec::new();
    let exists = |name: &String| cluster.skyhook(name).is_some();
    for cause in causes.iter().filter(|cause| cause.findings.len() > 1) {
        let skyhook = &findings[cause.findings[0]].subject.skyhook;
        if !skyhook.as_ref().is_some_and(exists) {
            continue;
        }
        let mut places = cause.findings.clone();
        let here = |at: &usize| findings[*at].subject.node.as_deref() == Some(&node.name);
        if let Some(own) = places.iter().position(here) {
            places[..=own].rotate_right(1);
        }
        let group: Vec<&Finding> = places.iter().map(|at| &findings[*at]).collect();
        let group = of_first(&group);
        for (number, remedy) in group[0].remedies().enumerate() {
            // Never shorten a command that makes changes.
            let argv = if remedy.changes() {
                on_node_set(&group, &remedy, usize::MAX)
            } else {
                on_all_nodes(&group, &remedy)
            };
            extended.extend(argv.map(|argv| (places[0], number, argv, group.len())));
        }
    }
    for (at, number, argv, nodes) in extended {
        findings[at].change_remedies(|remedies| {
            let remedy = &mut remedies[number];
            remedy.argv = argv;
            let note = format!("for all {} with this cause", plural(nodes, "node"));
            let caveat = remedy.caveat.take();
            remedy.caveat = Some(caveat.map_or(note.clone(), |caveat| format!("{note}; {caveat}")));
        });
    }
}
