use super::resume_effects::ResumeEffects;
use super::{Findings, Subject};
use crate::cluster::Cluster;
use crate::cluster::hold::{HOLDER, HolderState};
use crate::view::ago;

rule! {
    /// A command of this plugin paused a custom resource and ended without resuming it.
    ///
    /// # What it means
    ///
    /// Nothing new is started for it on any node, and nothing will end the pause: it was meant to last only as long
    /// as the command took.
    ///
    /// # What causes it
    ///
    /// Some commands pause the operator while they change what it also writes. The command was killed in between, or
    /// the API server rejected the request that ends the pause.
    ///
    /// # How to confirm
    ///
    /// The annotation `kubectl-skyhook/hold` on the custom resource says who has paused it and when, and
    /// `kubectl-skyhook/pause-reason` what for. On the machine that it names, the process does not run any more; seen
    /// from another machine, it is more than an hour old by the time of the API server in `managedFields`, or by its own
    /// time where they have none; or its own time is more than an hour in the future, because a clock was wrong.
    ///
    /// # How to fix
    ///
    /// Resume it. Or run the interrupted command again: it completes the rest, too.
    ///
    /// # Since
    ///
    /// Operators v0.8.0 and later.
    SKY311 "pause-left-behind" Warning needs Skyhooks
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    for skyhook in cluster.skyhooks.items().iter().filter(|s| !s.deleting()) {
        let Some((hold, state)) = cluster.hold(skyhook) else {
            continue;
        };
        let how = match state {
            HolderState::Ended => "the command that set the pause has ended".to_owned(),
            HolderState::Old => "the pause is more than an hour old".to_owned(),
            HolderState::InFuture => format!("it was set {}", ago(hold.since(), cluster.taken_at)),
            HolderState::AtWork | HolderState::Unknown => continue,
        };
        let finding = findings.report(
            Subject::skyhook(skyhook),
            format!("{skyhook} is still paused by {}; {how}", hold.describe()),
        );
        finding.since(hold.since().filter(|at| *at <= cluster.taken_at)).evidence(
            skyhook,
            HOLDER,
            hold.identity,
        );
        ResumeEffects::everywhere(cluster, skyhook).offer(finding, "Resume it", "resume");
    }
}
