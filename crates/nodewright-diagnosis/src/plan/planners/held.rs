//! The pause of a custom resource while a command changes it. Other commands refuse to change the custom
//! resource during that time.

use crate::api::Skyhook;
use crate::cluster::hold::{Hold, HolderState};
use crate::cluster::{Cluster, Node};
use crate::error::{Error, Result};
use crate::plan::planners::pause_guard;
use crate::plan::{Consequences, Plan, Refusal};
use crate::view::shell_words;
use crate::view::{NodeSet, ago};

/// Maximum number of node-name ranges in a message.
const SHOWN: usize = 6;

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
    refuse(cluster, skyhook)?;
    let others = pause_guard::failed_elsewhere(cluster, skyhook, &plan.stages);
    if others.is_empty() {
        return Ok(pause_guard::around(cluster, plan, skyhook));
    }
    let set = NodeSet::of(&others);
    let given_up = format!(
        "{} failed permanently on {}; after a pause, the operator would set {} to waiting and never retry",
        if others.len() == 1 { "a job has" } else { "jobs have" },
        set.limited(SHOWN),
        if others.len() == 1 { "the node" } else { "the nodes" },
    );
    if pause_guard::stage_is_running(cluster, skyhook, &plan.stages) {
        let nodes = shell_words(&["--node", &set.to_string()]);
        return Err(Refusal::PauseHidesFailures { failed: given_up, nodes }.into());
    }
    plan.consequences.warn(format!(
        "changes are applied without a pause: {given_up}; if the operator writes to the nodes at the same time, rerun this \
         command"
    ));
    Ok(plan)
}

/// [`around`] if the operator could write to these nodes concurrently, unless `--no-pause` forbids it.
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
    if !no_pause && pause_guard::is_needed(cluster, skyhook, nodes) {
        around(cluster, plan, skyhook)
    } else {
        Ok(plan)
    }
}

/// The plan, extended by the end of a pause that an earlier attempt left behind, if there is one.
pub fn end_what_is_left(cluster: &Cluster, mut plan: Plan, skyhook: &Skyhook) -> Plan {
    if let Some(end) = pause_guard::left_behind(cluster, skyhook) {
        plan.stages.push(end);
        plan.consequences.warn(format!(
            "an earlier attempt left {} paused: this command ends that pause, and the operator continues",
            skyhook.reference()
        ));
    }
    plan
}

/// Refuses if another command, which may still be running, has paused the custom resource.
///
/// # Errors
///
/// There is such a command; the error names it, and the hint has a remedy.
pub fn refuse(cluster: &Cluster, skyhook: &Skyhook) -> Result<()> {
    match cluster.hold(skyhook) {
        Some((hold, state)) if !state.is_left_behind() => Err(refused(
            cluster,
            skyhook,
            &hold,
            "wait until that command ends; if it has ended without resuming the custom resource:",
            "",
        )),
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
    effects: &mut Consequences,
) -> Result<()> {
    let Some((hold, state)) = cluster.hold(skyhook) else {
        return Ok(());
    };
    let words = words(cluster, skyhook, &hold);
    match state {
        HolderState::AtWork if !force => Err(refused(
            cluster,
            skyhook,
            &hold,
            "wait until that command ends; to end the pause anyway:",
            " --force",
        )),
        HolderState::Ended => {
            effects.warn(format!("{words}, which has ended"));
            Ok(())
        }
        HolderState::AtWork => {
            effects.warn(format!("{words}, which is still running"));
            Ok(())
        }
        _ => {
            effects.warn(format!("{words}, which may still be running"));
            Ok(())
        }
    }
}

fn words(cluster: &Cluster, skyhook: &Skyhook, hold: &Hold<'_>) -> String {
    let since = hold
        .since()
        .map_or(String::new(), |since| format!(" (started {})", ago(Some(since), cluster.taken_at)));
    format!("{} is paused by {}{since}", skyhook.reference(), hold.describe())
}

fn refused(cluster: &Cluster, skyhook: &Skyhook, hold: &Hold<'_>, hint: &str, flag: &str) -> Error {
    let end = format!("{hint} kubectl skyhook resume {}{flag}", skyhook.name());
    Refusal::PausedByCommand { paused: words(cluster, skyhook, hold), end }.into()
}
