use super::support::evidence::some_of;
use super::{Findings, Grade, Subject};
use crate::api::Skyhook;
use crate::cluster::Cluster;
use crate::model::Model;

rule! {
    /// Two custom resources reboot the same nodes, each counting only its own budget.
    ///
    /// # What it means
    ///
    /// A budget or deployment policy counts the nodes of its own custom resource. While both have work left,
    /// each may take down as many nodes as its budget allows, on different nodes at the same time, so more
    /// nodes are down than either budget allows.
    ///
    /// # What causes it
    ///
    /// Packages with a reboot were split over two custom resources with overlapping selectors.
    ///
    /// # How to confirm
    ///
    /// Both custom resources have a package with `interrupt.type: reboot`, a budget or a policy, and
    /// unfinished nodes in common.
    ///
    /// # How to fix
    ///
    /// Put the packages into one custom resource, or set `sequencing: all` on the earlier one, so that
    /// the later one starts once the earlier one is complete everywhere.
    ///
    /// # Affected versions
    ///
    /// All operators.
    SKY313 "reboots-not-counted-together" Info needs Skyhooks Nodes
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let all = cluster.skyhooks.iter();
    let mut rebooting: Vec<&Skyhook> = all.filter(|s| reboots(s) && has_limit(s)).collect();
    rebooting.sort_by_key(|s| s.order());
    let model = findings.model();
    for (at, later) in rebooting.iter().enumerate() {
        let Some((earlier, common)) = rebooting[..at]
            .iter()
            .filter(|earlier| !earlier.blocks_all_nodes())
            .find_map(|earlier| Some((earlier, common(cluster, &model, earlier, later)?)))
        else {
            continue;
        };
        findings
            .report(
                Subject::skyhook(later),
                format!(
                    "{later} and {earlier} reboot the same nodes but do not count each other's reboots: more nodes may be down at \
                     once than either budget allows"
                ),
            )
            .evidence("nodes", "selected by both", some_of(&common))
            .evidence(
                earlier,
                "spec.sequencing",
                "node: the later custom resource does not wait for all nodes of this one",
            )
            .edit(
                Grade::B1,
                "Set sequencing: all on the earlier custom resource, so that the later one waits",
                earlier,
            )
            .caveat("every later custom resource then waits until the earlier one is complete on all nodes");
    }
}

/// Whether the custom resource may still reboot nodes.
fn reboots(skyhook: &Skyhook) -> bool {
    skyhook.is_active()
        && skyhook.packages().any(|(name, p)| skyhook.pending_interrupt(name, p) == Some("reboot"))
}

fn has_limit(skyhook: &Skyhook) -> bool {
    let budget = &skyhook.spec.interruption_budget;
    !skyhook.spec.deployment_policy.is_empty()
        || budget.count.is_some()
        || budget.percent.is_some_and(|percent| percent < 100)
}

/// The nodes that both custom resources select; `None` if either is complete, or for fewer than two nodes.
fn common<'a>(
    cluster: &'a Cluster,
    model: &Model<'_>,
    earlier: &'a Skyhook,
    later: &'a Skyhook,
) -> Option<Vec<&'a str>> {
    let left = |skyhook| model.unfinished(skyhook).next().is_some();
    let both: Vec<&str> =
        cluster.selected(earlier).filter(|n| later.selects(n)).map(|n| n.name.as_str()).collect();
    (both.len() > 1 && left(earlier) && left(later)).then_some(both)
}
