//! Pause, act, resume: for writes to keys that the operator may write concurrently.

use crate::api::{Entry, Executor, Skyhook, State, Status};
use crate::cluster::hold::{self, HolderActivity};
use crate::cluster::{Certainty, Cluster, Node, PackageRun, Source};
use crate::error::{Error, Result};
use crate::plan::{
    Change, Condition, Consequences, Hold, Kind, Plan, PlanStage, Refusal, Step, Target, some_nodes,
};
use crate::text::{NodeSet, ago, shell_words, some_of};

/// Maximum wait for the operator to observe a pause, in seconds.
const AT_MOST: u64 = 20;
/// Maximum wait for the end of a pod, in seconds.
const POD_AT_MOST: u64 = 90;
/// The default termination grace period of a pod, in seconds.
const DEFAULT_GRACE: i64 = 30;

/// Whether the operator could be about to write the node state of one of these nodes.
///
/// The operator writes whole maps as it read them at the start of a reconcile. It can revert a concurrent
/// change even though our patch was guarded.
pub fn is_needed(cluster: &Cluster, skyhook: &Skyhook, nodes: &[&Node]) -> bool {
    if !acts(cluster, skyhook) {
        return false;
    }
    let package_runs = cluster.package_runs_for(skyhook.name());
    let at_work = |node: &&Node| {
        let moving = |e: &Entry| matches!(e.state, State::InProgress | State::Erroring);
        let on = cluster.on_node(node, skyhook.name());
        on.is_some_and(|on| on.entries().iter().any(moving))
            || package_runs.any_alive_on(skyhook.name(), &node.name)
    };
    let unseen = |source| cluster.source(source).unread().is_some();
    skyhook.hold().is_some()
        || skyhook.status.status == Some(Status::InProgress)
        || nodes.iter().any(at_work)
        || unseen(Source::Pods)
        || unseen(Source::Jobs)
}

/// Deletes crash-looping pods on these nodes: each restart would record the removed entry again. Applies to
/// deletions, which would wait for the entry again, and to custom resources that a user has paused or
/// disabled: the operator does not replace their pods. Other pods are kept, although they record their
/// entries as well; a warning mentions them if the custom resource is paused or disabled.
///
/// Jobs are kept: a pause stops them. Nodes that are not ready are skipped: they report no results, and
/// terminate no pods.
pub fn end_failing(
    cluster: &Cluster,
    skyhook: &Skyhook,
    nodes: &[&Node],
    package: Option<&str>,
    plan: &mut Plan,
) {
    let stands_still = !skyhook.will_act();
    if !cluster.operator().may_write() || !(skyhook.deleting() || stands_still) {
        return;
    }
    let package_runs = cluster.package_runs_for(skyhook.name());
    let fails = |node: &Node, package_run: &PackageRun<'_>| {
        let on = cluster.on_node(node, skyhook.name());
        let mut entries = on.into_iter().flat_map(|on| on.entries());
        let unnamed = package_run.package.is_empty();
        entries.any(|e| e.state == State::Erroring && (unnamed || package_run.is_of_version(e)))
    };
    let (mut failing, mut at_work) = (Vec::new(), Vec::new());
    for node in nodes.iter().filter(|n| n.ready() == Some(true)) {
        let all = package_runs.of_skyhook_on(skyhook.name(), &node.name);
        let bare = all
            .filter(|run| run.bare() && run.alive())
            .filter(|run| package.is_none_or(|p| run.interrupt || run.package == p));
        for package_run in bare {
            let ours = package_run.unproven(cluster).is_none();
            if ours && fails(node, package_run) {
                failing.extend(package_run.pods.iter().map(|pod| Target::of(Kind::Pod, &pod.metadata)))
            } else {
                at_work.push(package_run.to_string())
            }
        }
    }
    if stands_still && !at_work.is_empty() {
        plan.consequences.warn(format!(
            "still running: {}; wait for the end, otherwise the result overwrites this change, and the package does not run \
             again",
            some_of(&at_work, 1)
        ));
    }
    if failing.is_empty() {
        return;
    }
    let why = "otherwise the operator records the state of the failing pod again";
    let step = |pod: &Target| Step::new(pod.clone(), Change::Delete { was: None }, why);
    let mut stages = vec![PlanStage::of(failing.iter().map(step).collect())];
    let gone = |target| PlanStage::default().awaiting(target, Condition::Gone, POD_AT_MOST);
    stages.extend(failing.into_iter().map(gone));
    plan.stages.splice(0..0, stages);
}

/// Warns how long the operator halts if Jobs run for the removed entries: it deletes the Jobs, and reconciles
/// nothing until they have terminated.
pub fn warn_of_halt(
    cluster: &Cluster,
    skyhook: &Skyhook,
    nodes: &[&Node],
    package: Option<&str>,
    plan: &mut Plan,
) {
    if !acts(cluster, skyhook) {
        return;
    }
    let package_runs = cluster.package_runs_for(skyhook.name());
    let at_work = nodes
        .iter()
        .flat_map(|n| package_runs.of_skyhook_on(skyhook.name(), &n.name))
        .filter(|run| !run.bare() && run.alive())
        .filter(|run| package.is_none_or(|p| run.package == p))
        .filter(|run| run.pods.iter().any(|pod| !pod.ended()));
    let (silent, at_work): (Vec<_>, Vec<_>) =
        at_work.partition(|run| cluster.node(run.node).is_some_and(Node::is_silent));
    if !silent.is_empty() {
        let silent = some_nodes(silent.iter().map(|run| run.node));
        plan.consequences.warn(format!(
            "the pods of running stages on {silent} end only once the kubelet there reports again or they are force-deleted; \
             until then, the operator does nothing for any custom resource"
        ));
    }
    let graces = at_work
        .into_iter()
        .flat_map(|run| run.pods.iter().filter(|p| !p.ended()))
        .map(|p| p.spec.termination_grace_period_seconds.unwrap_or(DEFAULT_GRACE));
    if let Some(longest) = graces.max() {
        plan.consequences.warn(format!(
            "a running stage is terminated; until its pod has ended, which may take up to {longest} s, the operator does \
             nothing for any custom resource"
        ));
    }
}

/// Whether the operator may act on a custom resource at all. A pause by this program does not count: it may
/// end.
pub fn acts(cluster: &Cluster, skyhook: &Skyhook) -> bool {
    // A migration hold stops the operator as well.
    let held = cluster.migration().holding().next().is_some();
    cluster.operator().may_write() && !held && skyhook.will_act()
}

/// Refuses to remove the state of a deleted custom resource while its stages run: the operator records their outcome, and
/// the state comes back.
///
/// # Errors
///
/// Stages of a custom resource that no longer exists run on one of the nodes.
pub fn refuse_running_leftovers(cluster: &Cluster, name: &str, nodes: &[&Node]) -> Result<()> {
    let gone = cluster.skyhook(name).is_none() && cluster.skyhooks_absence() == Certainty::Proven;
    if !gone || cluster.operator().is_absent() || !cluster.operator().may_write() {
        return Ok(());
    }
    let package_runs = cluster.package_runs_for(name);
    let runs = |node: &&&Node| package_runs.any_alive_on(name, &node.name);
    let nodes = some_nodes(nodes.iter().filter(runs).map(|node| &*node.name));
    if nodes.is_empty() {
        return Ok(());
    }
    Err(Refusal::StagesOfDeleted { name: name.to_owned(), nodes }.into())
}

/// Wraps the stages of a plan between a confirmed pause and its end, with a warning.
pub fn wrap(cluster: &Cluster, plan: Plan, skyhook: &Skyhook) -> Plan {
    let [first, last] = ends(cluster, skyhook, &plan.title);
    let stages = std::iter::once(first).chain(plan.stages).chain([last]).collect();
    let mut consequences = plan.consequences;
    let restarts = match cluster.flavor().executor() {
        Executor::Job => ", so running stages are stopped and then restarted",
        Executor::Pod => "",
    };
    consequences.warn(format!("{skyhook} is paused while changes are applied (--no-pause skips this){restarts}; the resume also ends a pause set with \
         kubectl annotate in the meantime"));
    Plan { stages, consequences, ..plan }
}

/// Nodes outside the plan with a permanently failed Job: a pause makes the operator forget the failure and
/// leave the node waiting permanently.
pub fn failed_elsewhere<'a>(
    cluster: &'a Cluster,
    skyhook: &'a Skyhook,
    stages: &[PlanStage],
) -> Vec<&'a str> {
    // Only named nodes were read, so no Job has failed permanently on another node: otherwise all nodes would
    // have been read.
    if cluster.limited_to_named_nodes {
        return Vec::new();
    }
    let package_runs = cluster.package_runs_for(skyhook.name());
    let steps = || stages.iter().flat_map(|s| &s.steps);
    let nodes = cluster.selected(skyhook);
    nodes
        .filter(|n| steps().all(|s| s.target.kind != Kind::Node || s.target.name != n.name))
        .filter(|n| {
            let on = cluster.on_node(n, skyhook.name());
            on.is_some_and(|on| on.operator_status() == Status::Erroring)
                && !package_runs.permanently_failed(cluster, skyhook, n).is_empty()
        })
        .map(|n| n.name.as_str())
        .collect()
}

/// Whether a package stage is running on a node of the plan.
pub fn stage_is_running(cluster: &Cluster, skyhook: &Skyhook, stages: &[PlanStage]) -> bool {
    let package_runs = cluster.package_runs_for(skyhook.name());
    stages.iter().flat_map(|s| &s.steps).any(|step| {
        step.target.kind == Kind::Node && package_runs.any_alive_on(skyhook.name(), &step.target.name)
    })
}

/// The stage that pauses the operator and waits until it is paused, unless it is down, and the stage that resumes it.
pub fn ends(cluster: &Cluster, skyhook: &Skyhook, title: &str) -> [PlanStage; 2] {
    let target = Target::of_skyhook(cluster.flavor(), skyhook);
    let [hold, release] = pair(cluster, skyhook, title);
    let mut pause = PlanStage::of(vec![Step::new(target.clone(), Change::Hold(hold), "pauses the operator")]);
    if !cluster.operator().is_down() {
        pause = pause.awaiting(target.clone(), Condition::Paused, AT_MOST);
    }
    [pause, end(target, release)]
}

/// A pause for a plan of this title, and its end.
pub fn pair(cluster: &Cluster, skyhook: &Skyhook, title: &str) -> [Hold; 2] {
    let key = cluster.flavor().key("pause");
    let annotations = |key: &str| skyhook.metadata.annotations.get(key).map(String::as_str);
    let left = skyhook.hold().filter(|_| cluster.left_paused(skyhook));
    Hold::around(&key, title, annotations, left.map(|h| h.identity))
}

/// The stage that ends a pause; it runs regardless of earlier results.
pub fn end(target: Target, release: Hold) -> PlanStage {
    let step = Step::new(target, Change::Release(release), "resumes the operator");
    PlanStage { steps: vec![step.may_be_gone()], always: true, ..PlanStage::default() }
}

/// Puts a plan between a pause and its end.
///
/// A pause makes the operator forget that a Job has failed permanently: it would set the node to waiting and
/// never retry. If there are such nodes outside the plan, the plan is applied without a pause.
///
/// # Errors
///
/// Another command, which may still be running, has paused the custom resource; or a pause would hide
/// permanent failures, and without a pause, running stages on the plan's nodes would record their entries
/// again.
pub fn around(cluster: &Cluster, mut plan: Plan, skyhook: &Skyhook) -> Result<Plan> {
    refuse_held_by_command(cluster, skyhook)?;
    let others = failed_elsewhere(cluster, skyhook, &plan.stages);
    if others.is_empty() {
        return Ok(wrap(cluster, plan, skyhook));
    }
    let nodes = some_nodes(&others);
    if stage_is_running(cluster, skyhook, &plan.stages) {
        let include = shell_words(&["--node", &NodeSet::of(&others).to_string()]);
        return Err(Refusal::PauseHidesFailures { nodes, include }.into());
    }
    plan.consequences.warn(format!(
        "changes are applied without a pause, after which the job that has failed permanently on {nodes} would never be \
         retried; if the operator writes to the nodes at the same time, rerun this command"
    ));
    Ok(plan)
}

/// [`around`] if the operator could write to these nodes concurrently, or else the plan with the end of a pause that an
/// earlier attempt left behind; neither with `--no-pause`.
///
/// # Errors
///
/// See [`around`].
pub fn around_if_needed(
    cluster: &Cluster,
    plan: Plan,
    skyhook: &Skyhook,
    nodes: &[&Node],
    no_pause: bool,
) -> Result<Plan> {
    match no_pause {
        true => Ok(plan),
        false if !plan.stages.is_empty() && is_needed(cluster, skyhook, nodes) => {
            around(cluster, plan, skyhook)
        }
        false => Ok(end_what_is_left(cluster, plan, skyhook)),
    }
}

/// The plan, extended by the end of a pause that an earlier attempt left behind, if there is one.
pub fn end_what_is_left(cluster: &Cluster, mut plan: Plan, skyhook: &Skyhook) -> Plan {
    if let Some(hold) = skyhook.hold().filter(|_| cluster.left_paused(skyhook)) {
        let flavor = cluster.flavor();
        let release = Hold::end(&flavor.key("pause"), &hold);
        plan.stages.push(end(Target::of_skyhook(flavor, skyhook), release));
        plan.consequences.warn(format!("an earlier attempt left {skyhook} paused: this command ends that pause, and the operator continues"));
    }
    plan
}

/// Refuses if another command, which may still be running, has paused the custom resource.
///
/// # Errors
///
/// There is such a command; the error names it, and the hint has a remedy.
pub fn refuse_held_by_command(cluster: &Cluster, skyhook: &Skyhook) -> Result<()> {
    match cluster.hold(skyhook) {
        Some((hold, state)) if !state.is_left_behind() => {
            let end = "if it has ended without resuming the custom resource";
            Err(paused_by_command(cluster, skyhook, &hold, end, ""))
        }
        _ => Ok(()),
    }
}

/// Refuses to end the pause of a running command, unless it is forced; warns if it is unknown whether it is
/// running.
///
/// # Errors
///
/// The command is running, and the end of its pause is not forced.
pub fn refuse_end(
    cluster: &Cluster,
    skyhook: &Skyhook,
    force: bool,
    consequences: &mut Consequences,
) -> Result<()> {
    let Some((hold, state)) = cluster.hold(skyhook) else {
        return Ok(());
    };
    let is_running = match state {
        HolderActivity::AtWork if !force => {
            return Err(paused_by_command(cluster, skyhook, &hold, "to end the pause anyway", " --force"));
        }
        HolderActivity::AtWork => "is still running",
        HolderActivity::Ended => "has ended",
        _ => "may still be running",
    };
    let holder = holder(cluster, &hold);
    consequences.warn(format!("{skyhook} is paused by {holder}, which {is_running}"));
    Ok(())
}

fn holder(cluster: &Cluster, hold: &hold::Hold<'_>) -> String {
    let since = hold
        .since()
        .map_or(String::new(), |since| format!(" (started {})", ago(Some(since), cluster.taken_at)));
    hold.describe() + &since
}

fn paused_by_command(
    cluster: &Cluster,
    skyhook: &Skyhook,
    hold: &hold::Hold<'_>,
    end: &str,
    flag: &str,
) -> Error {
    let (reference, holder) = (skyhook.to_string(), holder(cluster, hold));
    let command = format!("kubectl skyhook resume {}{flag}", skyhook.name());
    Refusal::PausedByCommand { reference, holder, end: end.to_owned(), command }.into()
}
