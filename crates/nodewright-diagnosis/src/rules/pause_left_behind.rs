use super::{Findings, Subject};
use crate::cluster::Cluster;
use crate::cluster::hold::{HOLDER, HolderActivity};
use crate::text::ago;

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
    /// Some commands pause the custom resource while they change data that the operator also writes. The command was
    /// killed in between, or the API server rejected the request that ends the pause.
    ///
    /// # How to confirm
    ///
    /// The annotation `kubectl-skyhook/hold` on the custom resource names the user, the machine and process, and the
    /// time of the pause; `kubectl-skyhook/pause-reason` has the reason. On that machine, the process is no longer
    /// running. Seen from another machine, the annotation is more than an hour old by the API server's time in
    /// `managedFields`, or, if that is missing, by its own time; or its own time is more than an hour in the future,
    /// because a clock was wrong.
    ///
    /// # How to fix
    ///
    /// Resume it. Or run the interrupted command again: it completes the rest, too.
    ///
    /// # Affected versions
    ///
    /// Operators v0.8.0 and later.
    SKY311 "pause-left-behind" Warning needs Skyhooks
}

fn detect(cluster: &Cluster, findings: &mut Findings) {
    for skyhook in cluster.skyhooks.iter().filter(|s| !s.deleting()) {
        let Some((hold, state)) = cluster.hold(skyhook) else {
            continue;
        };
        let how = match state {
            HolderActivity::Ended => "the command that set the pause has ended".to_owned(),
            HolderActivity::Old => "the pause is more than an hour old".to_owned(),
            HolderActivity::InFuture => format!("the pause was set {}", ago(hold.since(), cluster.taken_at)),
            HolderActivity::AtWork | HolderActivity::Unknown => continue,
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
        finding.offer_resume(cluster, skyhook, "Resume the custom resource", "resume");
    }
}
