//! The uncordon of a node, unless another owner wants it to stay cordoned.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::pointer::lookup;
use super::{Change, Metadata, Plan, Step};
use crate::cluster::Node;
use crate::cluster::cordon::{Holder, holders_on};
use crate::view::NodeSet;

/// Maximum number of node-name ranges in a warning.
const SHOWN: usize = 6;

/// The other holders of a node's cordon.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Uncordon {
    /// Whether other holders are overruled: the user named this node with `--force-uncordon`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub forced: bool,
    /// The holders for which the node stays cordoned, each with its mark on the node.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_for: Vec<String>,
    /// Whether the node was read without `managedFields`, which prove that the operator set the cordon. The
    /// holders are determined again before the request.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unproven: bool,
    /// The resourceVersion of the node when it was read: any later change, such as a new mark, makes the
    /// request fail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

impl Uncordon {
    pub(super) fn is_default(&self) -> bool {
        *self == Uncordon::default()
    }

    /// The holders on a loaded node. Without holders, also the new `spec.unschedulable`.
    pub(super) fn of(node: &Node) -> (Uncordon, Option<bool>) {
        let left_for = words(&node.cordon_holders());
        let free = left_for.is_empty().then_some(false);
        (Uncordon { left_for, unproven: !node.has_managers, ..Uncordon::default() }, free)
    }

    /// The holders on the current node; none if the user overrules them. Without holders, also the new
    /// `spec.unschedulable`.
    pub(super) fn rebase(&self, node: &Value) -> (Uncordon, Option<bool>) {
        let left_for = match holders_on(node) {
            _ if self.forced => Vec::new(),
            Ok(holders) => words(&holders),
            Err(why) => vec![format!("an unknown owner whose annotation cannot be read ({why})")],
        };
        let free = left_for.is_empty().then_some(false);
        let version = lookup(node, "/metadata/resourceVersion").and_then(Value::as_str);
        let now = Uncordon {
            forced: self.forced,
            left_for,
            unproven: false,
            version: version.filter(|_| !self.forced).map(str::to_owned),
        };
        (now, free)
    }

    /// The holders, as text after "held by"; `None` without holders.
    pub fn words(&self) -> Option<String> {
        (!self.left_for.is_empty()).then(|| self.left_for.join(", "))
    }
}

fn words(holders: &[Holder]) -> Vec<String> {
    holders.iter().map(Holder::to_string).collect()
}

impl Plan {
    /// The plan in which the nodes of `forced` are uncordoned despite other holders. A warning names the
    /// other held nodes.
    pub fn sparing_cordons(&self, forced: impl Fn(&str) -> bool) -> Plan {
        let mut plan = self.clone();
        let mut left: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for step in plan.stages.iter_mut().flat_map(|s| &mut s.steps) {
            let named = forced(&step.target.name);
            let Some(change) = on_cordon(step) else {
                continue;
            };
            if named {
                change.unschedulable = Some(false);
                change.uncordon = Uncordon { forced: true, ..Uncordon::default() };
            } else if let Some(others) = change.uncordon.words() {
                left.entry(others).or_default().push(step.target.name.clone());
            }
        }
        for (others, nodes) in left {
            plan.consequences.warn(warning(&others, &nodes));
        }
        plan
    }
}

/// The part of a step that makes a node schedulable, or would if no other owner held it.
fn on_cordon(step: &mut Step) -> Option<&mut Metadata> {
    match &mut step.change {
        Change::Metadata(change) if change.uncordons() || !change.uncordon.left_for.is_empty() => {
            Some(change)
        }
        _ => None,
    }
}

fn warning(others: &str, nodes: &[String]) -> String {
    let names = NodeSet::of(nodes.iter().map(String::as_str)).limited(SHOWN);
    let stay = if nodes.len() == 1 { "stays" } else { "stay" };
    format!("{names} {stay} cordoned by {others}; use --force-uncordon NODE to uncordon anyway")
}
