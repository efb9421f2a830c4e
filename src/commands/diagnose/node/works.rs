//! Progress on a node without a blocker.

use super::chain::LinkState;
use super::step::Inspection;
use crate::api::{Skyhook, Status};
use crate::cluster::PackageRun;
use crate::cluster::at_once::AtOnce;
use crate::cluster::drain::progress::DrainProgress;
use crate::commands::shared::drain;
use crate::model::{Model, WaitReason};
use crate::rules::Severity;
use crate::view::{ago, count, for_how_long, plural};

impl<'a> Inspection<'_, 'a> {
    /// What runs on the node.
    pub fn running(&self, skyhook: &Skyhook) -> Option<&PackageRun<'a>> {
        let mut here = self.package_runs.on(skyhook.name(), &self.node.name);
        here.find(|e| e.alive())
    }

    /// The drain of the node in progress.
    pub fn drain(&self, skyhook: &Skyhook) -> Option<DrainProgress<'a>> {
        let cluster = self.cluster;
        cluster.drain_progress(self.package_runs, skyhook, self.node)
    }

    /// The running work on the node, or its place in the queue.
    pub fn works(&self, skyhook: &'a Skyhook) -> (LinkState, String) {
        if let Some(package_run) = self.running(skyhook) {
            let (stage, package) = (&package_run.stage, &package_run.package);
            let now = self.cluster.taken_at;
            if let Some(pod) = package_run.unacknowledged() {
                let ago = ago(pod.metadata.creation_timestamp, now);
                let says = format!(
                    "the pod for stage {stage} of {package} was assigned to the node {ago}, but the kubelet has not \
                     started it"
                );
                return (LinkState::Waiting, says);
            }
            let created = package_run.created();
            let lasts = created.map_or("for <unknown>".to_owned(), |at| for_how_long(at, now));
            let says = format!("stage {stage} of {package} has been running {lasts}");
            return (LinkState::Working, says);
        }
        if let Some(drain) = self.drain(skyhook) {
            return (LinkState::Working, drain::sentence(self.cluster, &drain));
        }
        let progress = self.model.progress(skyhook.name(), &self.node.name);
        match progress.as_ref().map(|progress| &progress.reason) {
            Some(WaitReason::Unread(source)) => {
                let says = format!("{source} were not read, so its place in the queue is unknown");
                return (LinkState::Unknown, says);
            }
            Some(WaitReason::OtherRun {
                skyhook,
                package,
                stage,
                ..
            }) => {
                let says = format!(
                    "an interrupt waits until stage {stage} of {package} of {skyhook} has ended here and its pod is gone"
                );
                return (LinkState::Waiting, says);
            }
            Some(WaitReason::BatchSibling(_)) => {
                let says = "the operator continues once no other node of the batch is in progress";
                let says = self.unless_something_is_wrong(skyhook, says.to_owned());
                return (LinkState::Waiting, says);
            }
            _ => {}
        }
        if let Some(turn) = progress.and_then(|progress| progress.queue) {
            let place = match (turn.number, turn.waiting) {
                (_, 1) => "the node is the only one waiting in".to_owned(),
                (Some(number), all) => format!(
                    "the node is number {} of {} in the queue of",
                    count(number),
                    count(all)
                ),
                (None, all) => format!(
                    "the node is one of {} waiting, in no fixed order, in",
                    plural(all, "node")
                ),
            };
            let compartment = format!("compartment {}", turn.compartment);
            let at_once = match self.cluster.nodes_at_once(skyhook, turn.compartment) {
                AtOnce::UpTo(1) => ", which processes one node at a time".to_owned(),
                AtOnce::UpTo(n) => format!(", which processes {n} nodes at a time"),
                AtOnce::Varies => {
                    ", whose batches change in size as the rollout progresses".to_owned()
                }
                AtOnce::Unknown => String::new(),
            };
            let now = match turn.working {
                0 => "; the operator chooses the next nodes in its next reconcile".to_owned(),
                1 => "; one node is in progress now".to_owned(),
                n => format!("; {} are in progress now", plural(n, "node")),
            };
            let turn = self.turn(skyhook, turn.number.is_some());
            let says = format!("{place} {compartment}{at_once}{now}{turn}");
            return (
                LinkState::Waiting,
                self.unless_something_is_wrong(skyhook, says),
            );
        }
        if self.cluster.is_taken_up(skyhook, self.node) {
            let says =
                "the operator has started work on the node and continues in its next reconcile";
            let says = self.unless_something_is_wrong(skyhook, says.to_owned());
            return (LinkState::Working, says);
        }
        (
            LinkState::Waiting,
            "the operator has not started work on the node".to_owned(),
        )
    }

    /// When the node is taken, as the end of a sentence; empty where the order is arbitrary or durations are unknown.
    fn turn(&self, skyhook: &Skyhook, ordered: bool) -> String {
        let simulated = || Model::new(self.cluster).timeline();
        let timeline = ordered.then(|| self.timeline.get_or_init(simulated));
        let start = timeline.and_then(|t| t.start(skyhook.name(), &self.node.name));
        start.map_or_else(String::new, |start| format!("; it starts here in {start}"))
    }

    /// States that nothing is wrong only if every source was read, no finding blocks the node, and the operator does
    /// not report it as failing.
    fn unless_something_is_wrong(&self, skyhook: &Skyhook, says: String) -> String {
        if self.cluster.status_on(skyhook, self.node) == Status::Erroring {
            return format!("{says}; the operator still reports the node as erroring");
        }
        let mut found = self.findings.iter();
        if !self.whole || found.any(|f| f.severity > Severity::Info) {
            says
        } else {
            format!("nothing is wrong: {says}")
        }
    }
}
