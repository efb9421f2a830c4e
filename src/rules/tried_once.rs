//! Scripts of bare pods that have failed once so far.

use crate::cluster::pod::Terminated;
use crate::cluster::{Cluster, Execution};

/// Whether the kubelet has only just started a bare pod's script again, or is about to, after the very first failure:
/// the older operator calls the node erroring at once, and the second attempt may succeed.
pub fn tried_once(cluster: &Cluster, execution: Option<&Execution<'_>>) -> bool {
    let Some(execution) = execution.filter(|e| e.job.is_none() && e.alive()) else {
        return false;
    };
    let Some(pod) = execution.pods.first() else {
        return false;
    };
    let failed = |ended: &Option<Terminated>| ended.as_ref().is_some_and(|e| e.exit_code != 0);
    let mut worst = 0;
    for c in &pod.status.init_container_statuses {
        let once = match c.restart_count {
            0 => failed(&c.state.terminated),
            // It runs, or has passed and the operator has yet to see it.
            1 => {
                let fails = c.state.waiting.is_some() || failed(&c.state.terminated);
                failed(&c.last_state.terminated) && !fails
            }
            _ => false,
        };
        let well = c.restart_count == 0
            || c.state
                .terminated
                .as_ref()
                .is_some_and(|e| e.exit_code == 0);
        worst = worst.max(match (once, well) {
            (true, _) => 1,
            (false, true) => 0,
            (false, false) => 2,
        });
    }
    let created = pod.metadata.creation_timestamp;
    worst == 1 && created.is_some() && !cluster.long_ago(created)
}
