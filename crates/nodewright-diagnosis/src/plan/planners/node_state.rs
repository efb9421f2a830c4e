//! Restores an unreadable node state from the operator's copy in the status.

use serde_json::{Map, Value};

use super::migration;
use crate::api::{NodeState, Skyhook};
use crate::cluster::{Cluster, Node, NodeRecord};
use crate::error::{Error, Result};
use crate::plan::{Change, Edit, Metadata, Plan, Step, Target};
use crate::view::plural;

/// The plan that restores the unreadable states of these nodes.
///
/// # Errors
///
/// The status has no copy of such a state, or a migration is pending.
pub fn restore(cluster: &Cluster, skyhook: &Skyhook, nodes: &[&Node], force: bool) -> Result<Plan> {
    let mut plan = Plan::new("", skyhook.name());
    let mut steps = Vec::new();
    for node in nodes {
        let Some(on) = cluster.on_node(node, skyhook.name()) else {
            continue;
        };
        match repaired(skyhook, node, on) {
            Err(CannotRepair::NothingMalformed) => {}
            Err(CannotRepair::NoCopy) => {
                let name = skyhook.name();
                let missing = format!("the status of {name} has no copy of the state of {}", node.name);
                return Err(Error::unchanged(missing)
                    .hint(format!("kubectl skyhook reset {name} --node {}", node.name)));
            }
            Ok(change) => {
                let why = "restores the state that the operator last read";
                steps.push(Step::new(Target::of_node(node), Change::Metadata(change), why));
            }
        }
    }
    plan.title = format!("restore the node state of {} on {}", skyhook.name(), plural(steps.len(), "node"));
    if !steps.is_empty() {
        plan.consequences.warn("the operator resumes work on every custom resource");
        plan.stage(steps);
    }
    migration::refuse_held(cluster, &mut plan, force)?;
    Ok(plan)
}

/// Why the node state cannot be restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CannotRepair {
    /// There is no node state, or it is readable.
    NothingMalformed,
    /// The status of the custom resource contains no usable copy.
    NoCopy,
}

/// Restores the malformed part of a node state from the operator's copy.
///
/// # Errors
///
/// Nothing is malformed; or there is no copy, so that only a reset helps.
pub fn repaired(
    skyhook: &Skyhook,
    node: &Node,
    on: &NodeRecord,
) -> std::result::Result<Metadata, CannotRepair> {
    let state = on.state.as_ref().ok_or(CannotRepair::NothingMalformed)?;
    if state.malformed().is_empty() {
        return Err(CannotRepair::NothingMalformed);
    }
    let copy = skyhook.status.node_state.of(&node.name).ok_or(CannotRepair::NoCopy)?;
    let mut change = Metadata::default();
    let mut after = NodeState::default();
    for (key, text) in state.annotations() {
        let package = NodeState::package_of(key);
        let text = match state.malformed().iter().find(|m| m.annotation == key) {
            None => text.to_owned(),
            Some(malformed) => {
                let text = restored(&copy, package).ok_or(CannotRepair::NoCopy)?;
                let edit = Edit::new(Some(&malformed.text), Some(&text));
                change = change.annotation(key, edit);
                text
            }
        };
        after.add(key, package, &text);
    }
    if after.malformed().is_empty() { Ok(change) } else { Err(CannotRepair::NoCopy) }
}

/// The text of an annotation from the copy: the entries of all packages, or the entry of `package`.
fn restored(copy: &std::collections::BTreeMap<String, Value>, package: Option<&str>) -> Option<String> {
    match package {
        None if copy.is_empty() => None,
        None => {
            let all: Map<String, Value> = copy.clone().into_iter().collect();
            Some(Value::Object(all).to_string())
        }
        Some(package) => {
            let mut entries = copy.values().filter(|e| e["name"] == package);
            entries.next().map(Value::to_string)
        }
    }
}
