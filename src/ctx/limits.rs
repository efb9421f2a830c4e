//! Checks of a plan against `--max-nodes`, and against flags without effect on it.

use crate::args::safety::Safety;
use crate::error::{Error, Result};
use crate::plan::Plan;
use crate::view::{count, plural};

/// Refuses a plan that exceeds `--max-nodes`, or for which `--canary` or `--max-failures` has no effect.
///
/// # Errors
///
/// More nodes than `--max-nodes`; `--canary` or `--max-failures` for a plan that itself changes no node.
pub fn within(plan: &Plan, safety: &Safety) -> Result<()> {
    if plan.is_empty() {
        return Ok(());
    }
    let touched = plan.nodes().len();
    let paces = [
        ("--canary applies to", safety.canary.is_some()),
        ("--max-failures counts failed", safety.max_failures.is_some()),
    ];
    // A plan with `erroring` paces its own node changes, even if none of them is left.
    let by_operator =
        touched == 0 && plan.erroring.is_none() && plan.steps().any(|s| s.target.kind.is_custom());
    if let Some((flag, _)) = paces.iter().find(|(_, given)| *given && by_operator) {
        return Err(Error::usage(format!(
            "{flag} node changes, but this plan changes no nodes itself: the operator decides when to process \
             each node"
        )));
    }
    let concerned = plan.consequences.nodes;
    let Some(most) = safety.max_nodes else {
        return Ok(());
    };
    let does = match touched.max(concerned) {
        nodes if nodes <= most => return Ok(()),
        nodes if nodes == touched => format!("touch {}", plural(nodes, "node")),
        nodes => format!("start work on {}", plural(nodes, "node")),
    };
    Err(Error::unchanged(format!("the plan would {does}, but --max-nodes allows {}", count(most))))
}
