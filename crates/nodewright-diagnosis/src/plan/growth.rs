//! Whether the side effects of a plan have grown since its preview.

use super::{Consequences, Plan};
use crate::cluster::Cluster;
use crate::view::{list, plural};

/// The growth of the side effects of a plan on this cluster, which was read after the plan was made; `None` if
/// they have not grown, or are unknown.
pub fn growth(plan: &Plan, cluster: &Cluster) -> Option<String> {
    let mut now = plan.clone();
    now.consequences = Consequences::default();
    now.forecast(cluster);
    let sizes = |plan: &Plan| {
        let Consequences { nodes, drains, restarts, reboots, .. } = &plan.consequences;
        [*nodes, *drains, *restarts, *reboots]
    };
    let more = sizes(&now).iter().zip(sizes(plan)).any(|(now, before)| *now > before);
    (more || now.grade() > plan.grade())
        .then(|| format!("the effects of the plan have grown from {} to {}", effects(plan), effects(&now)))
}

/// The grade and size of a plan's side effects: `B4 (nodes reboot) on 3 nodes with 3 drains and 3 reboots`.
fn effects(plan: &Plan) -> String {
    let (grade, consequences) = (plan.grade(), &plan.consequences);
    let nodes = plural(consequences.nodes, "node");
    let interrupts = [
        (consequences.drains, "drain"),
        (consequences.restarts, "service restart"),
        (consequences.reboots, "reboot"),
    ];
    let interrupts = interrupts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| plural(*n, what));
    let interrupts: Vec<String> = interrupts.collect();
    let with = if interrupts.is_empty() { String::new() } else { format!(" with {}", list(&interrupts)) };
    format!("{grade} ({}) on {nodes}{with}", consequences.at_worst(grade))
}
