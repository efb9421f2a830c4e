//! Pause, act, resume: for writes to keys that the operator could write meanwhile.

use crate::api::{Executor, Generation, Skyhook, State, Status};
use crate::cluster::{Cluster, Node};
use crate::plan::{Change, Edit, Kind, Metadata, Plan, Sign, Stage, Step, Target, Until};

/// How long the operator may take to see that it is paused, in seconds.
const AT_MOST: u64 = 20;
/// How long a pod may take to end, in seconds.
const POD_AT_MOST: u64 = 90;
/// Where the reason of a pause is noted.
const REASON: &str = "kubectl-skyhook/pause-reason";
/// How the reason begins where the pause is ours alone and ends with the plan.
const OURS: &str = "held for: ";

/// Whether the operator could be about to write the node state of one of these nodes.
///
/// It writes whole maps, from what it read when its pass began: a change that falls into a pass
/// can be reverted by it even though our own patch was guarded.
pub fn is_needed(cluster: &Cluster, skyhook: &Skyhook, nodes: &[&Node]) -> bool {
    if !acts(cluster, skyhook) {
        return false;
    }
    let executions = cluster.executions();
    let at_work = |node: &&Node| {
        let moving = |e: &crate::api::Entry| matches!(e.state, State::InProgress | State::Erroring);
        let on = cluster.on_node(node, skyhook.name());
        on.is_some_and(|on| on.entries().iter().any(moving))
            || executions.on(skyhook.name(), &node.name).any(|e| e.alive())
    };
    left_behind(skyhook)
        || skyhook.status.status == Some(Status::InProgress)
        || nodes.iter().any(at_work)
}

/// Ends the pods on these nodes that fail and start again, each time writing their entry anew: what is forgotten of a
/// custom resource that is being deleted would come back, and the deletion would wait for it again.
///
/// A node that is not ready reports nothing, and ends no pod either.
pub fn end_failing(
    cluster: &Cluster,
    skyhook: &Skyhook,
    nodes: &[&Node],
    package: Option<&str>,
) -> Vec<Stage> {
    let executions = cluster.executions();
    let fails = |node: &Node, name: &str| {
        let on = cluster.on_node(node, skyhook.name());
        let mut entries = on.into_iter().flat_map(|on| on.entries());
        entries.any(|e| e.state == State::Erroring && (name.is_empty() || e.name == name))
    };
    let mut pods = Vec::new();
    for node in nodes.iter().filter(|n| n.ready() && skyhook.deleting()) {
        let all = executions.on(skyhook.name(), &node.name);
        let failing = all
            .filter(|e| e.job.is_none() && e.alive() && fails(node, &e.package))
            .filter(|e| package.is_none_or(|p| e.interrupt || e.package == p));
        for pod in failing.flat_map(|e| e.pods.iter()) {
            pods.push(Target {
                kind: Kind::Pod,
                namespace: pod.metadata.namespace.clone(),
                name: pod.name().to_owned(),
                uid: pod.metadata.uid.clone(),
            });
        }
    }
    if pods.is_empty() {
        return Vec::new();
    }
    let why = "it fails, and would write down again what is forgotten";
    let step = |pod: &Target| Step::new(pod.clone(), Change::Delete { was: None }, why);
    let mut stages = vec![Stage::of(pods.iter().map(step).collect())];
    stages.extend(pods.into_iter().map(|target| Stage {
        until: Some(Until {
            target,
            sign: Sign::Gone,
            at_most: POD_AT_MOST,
        }),
        ..Stage::default()
    }));
    stages
}

/// Whether the operator may act on a custom resource at all.
pub fn acts(cluster: &Cluster, skyhook: &Skyhook) -> bool {
    // Nor does it while a migration holds it.
    let held = cluster.holding().next().is_some();
    !away(cluster) && !held && !skyhook.disabled() && (!skyhook.paused() || left_behind(skyhook))
}

/// Whether the operator is known to be scaled to zero.
pub fn away(cluster: &Cluster) -> bool {
    cluster.operators.ok().is_some_and(|deployments| {
        !deployments.is_empty() && deployments.iter().all(|d| d.spec.replicas == Some(0))
    })
}

/// Whether a plan that did not get to its end has left the custom resource paused.
pub fn left_behind(skyhook: &Skyhook) -> bool {
    let reason = skyhook.metadata.annotations.get(REASON);
    skyhook.paused() && reason.is_some_and(|r| r.starts_with(OURS))
}

/// Puts the stages of a plan between a pause that is waited for and its end, and says so.
pub fn around(plan: Plan, skyhook: &Skyhook) -> Plan {
    let Some([first, last]) = ends(skyhook, &plan.title) else {
        return plan;
    };
    let mut stages = vec![first];
    stages.extend(plan.stages);
    stages.push(last);
    let mut consequences = plan.consequences;
    let reference = skyhook.reference();
    consequences.warn(match skyhook.generation().map(Generation::executor) {
        Some(Executor::Job) => format!(
            "{reference} is paused meanwhile: what runs on any node is stopped and starts again; --no-pause goes \
             ahead without"
        ),
        _ => format!("{reference} is paused meanwhile; --no-pause goes ahead without"),
    });
    Plan {
        stages,
        consequences,
        ..plan
    }
}

/// A pause that is waited for, and its end.
pub fn ends(skyhook: &Skyhook, title: &str) -> Option<[Stage; 2]> {
    let generation = skyhook.generation()?;
    let target = Target::skyhook(generation, skyhook.name(), skyhook.metadata.uid.as_deref());
    let annotations = &skyhook.metadata.annotations;
    let key = generation.key("pause");
    let reason = format!("{OURS}{title}");
    // A pause that an earlier try left behind is taken over, and ended.
    let ours = left_behind(skyhook);
    let before = |key: &str| annotations.get(key).map(String::as_str);
    let after = |key: &str| if ours { None } else { before(key) };
    let step = |edits: [(&str, Option<&str>, Option<&str>); 2], bare: bool, why: &str| {
        let mut change = Metadata {
            no_annotations: bare,
            ..Metadata::default()
        };
        for (key, from, to) in edits {
            change = change.annotation(key, Edit::new(from, to));
        }
        Step::new(target.clone(), Change::Metadata(change), why)
    };
    let pause = step(
        [
            (&key, before(&key), Some("true")),
            (REASON, before(REASON), Some(&reason)),
        ],
        annotations.is_empty(),
        "hold the operator",
    );
    let resume = step(
        [
            (&key, Some("true"), after(&key)),
            (REASON, Some(&reason), after(REASON)),
        ],
        false,
        "let the operator go on",
    )
    .may_be_gone();
    let first = Stage {
        steps: vec![pause],
        until: Some(Until {
            target,
            sign: Sign::Paused,
            at_most: AT_MOST,
        }),
        always: false,
    };
    let last = Stage {
        steps: vec![resume],
        until: None,
        always: true,
    };
    Some([first, last])
}

/// The annotation that keeps the reason of a pause.
pub fn reason_key() -> &'static str {
    REASON
}
