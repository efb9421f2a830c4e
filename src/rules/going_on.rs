//! What comes of it when the operator goes on with a custom resource that was stopped.

use super::{Finding, Grade};
use crate::api::Skyhook;
use crate::cluster::{Cluster, Node, NodeRecord};
use crate::plan::Consequences;
use crate::plan::build::effects;

/// What may come of it at worst when the operator goes on with a custom resource: on this node, or on all.
pub fn grade_of_going_on(cluster: &Cluster, skyhook: &Skyhook, node: Option<&Node>) -> Grade {
    match comes_of_going_on(cluster, skyhook, node) {
        Some(effects) => effects.grade.unwrap_or(Grade::B1),
        None => Grade::B3,
    }
}

/// Adds the command with which the operator goes on with a custom resource on all nodes, and says what runs then, if
/// anything does.
pub fn go_on<'f>(
    finding: &'f mut Finding,
    cluster: &Cluster,
    skyhook: &Skyhook,
    title: &str,
    verb: &str,
) -> &'f mut Finding {
    let effects = comes_of_going_on(cluster, skyhook, None);
    let runs = if interrupts(effects.as_ref()) {
        Some("its packages run, including their interrupts".to_owned())
    } else if let Some(nothing) = effects.filter(|e| e.grade.is_none()) {
        // Why what is left does not run.
        nothing.warnings.into_iter().next()
    } else {
        Some("its packages run".to_owned())
    };
    command(finding, cluster, skyhook, title, verb, runs.as_deref())
}

/// Adds the command with which the operator goes on with a deletion.
pub fn go_on_deleting<'f>(
    finding: &'f mut Finding,
    cluster: &Cluster,
    skyhook: &Skyhook,
    title: &str,
    verb: &str,
) -> &'f mut Finding {
    let effects = comes_of_going_on(cluster, skyhook, None);
    let runs = if interrupts(effects.as_ref()) {
        "the uninstall runs on every node, followed by the packages' interrupts"
    } else {
        "the uninstall runs on every node"
    };
    command(finding, cluster, skyhook, title, verb, Some(runs))
}

/// The command, with what runs then. It is refused while pods of the older operator run: these have to end first.
fn command<'f>(
    finding: &'f mut Finding,
    cluster: &Cluster,
    skyhook: &Skyhook,
    title: &str,
    verb: &str,
    runs: Option<&str>,
) -> &'f mut Finding {
    let name = skyhook.name();
    if !cluster.runs_of_older_operator(name).is_empty() {
        let selector = format!("{}={name}", cluster.flavor().other().key("name"));
        return finding
            .kubectl(
                Grade::B0,
                "Wait until the pods of the older operator end",
                ["get", "pods", "-A", "-l", &selector],
            )
            .caveat(format!("then: kubectl skyhook {verb} {name}"));
    }
    let grade = grade_of_going_on(cluster, skyhook, None);
    finding.remedy(grade, title, [verb, name]);
    match runs {
        Some(runs) => finding.caveat(runs),
        None => finding,
    }
}

/// Whether an interrupt is, or may be, among it.
fn interrupts(effects: Option<&Consequences>) -> bool {
    effects.is_none_or(|e| e.drains > 0)
}

/// What comes of it when the operator goes on with a custom resource; `None` where that is not known: nodes or their states
/// cannot be read, or the spec was changed since the custom resource was complete, which no node state tells yet.
fn comes_of_going_on(
    cluster: &Cluster,
    skyhook: &Skyhook,
    node: Option<&Node>,
) -> Option<Consequences> {
    cluster.nodes.ok()?;
    let nodes: Vec<&Node> = match node {
        Some(node) => vec![node],
        None => cluster.selected(skyhook).collect(),
    };
    let unreadable = |n: &&Node| {
        let on = cluster.on_node(n, skyhook.name());
        on.is_some_and(NodeRecord::is_malformed)
    };
    if nodes.iter().any(unreadable) {
        return None;
    }
    let mut effects = Consequences::default();
    effects::begins(cluster, skyhook, &nodes, true, &mut effects);
    let changed = skyhook.status.observed_generation < skyhook.metadata.generation;
    // A warning names what has failed permanently: that is then why the spec was never complete.
    let unknown = effects.grade.is_none() && changed && effects.warnings.is_empty();
    (!unknown).then_some(effects)
}
