//! What a node does that nothing keeps from making progress.

use super::chain::LinkState;
use super::step::Inspection;
use crate::api::{Skyhook, Status};
use crate::cluster::PackageRun;
use crate::cluster::at_once::AtOnce;
use crate::rules::Severity;
use crate::view::{age, count, plural};

impl<'a> Inspection<'_, 'a> {
    /// What runs on the node.
    pub fn running(&self, skyhook: &Skyhook) -> Option<&PackageRun<'a>> {
        let mut here = self.package_runs.on(skyhook.name(), &self.node.name);
        here.find(|e| e.alive())
    }

    /// What is at work on the node, or what it waits for in the queue.
    pub fn works(&self, skyhook: &'a Skyhook) -> (LinkState, String) {
        if let Some(package_run) = self.running(skyhook) {
            let (stage, package) = (&package_run.stage, &package_run.package);
            let ago = |at| age(at, self.cluster.taken_at);
            if let Some(pod) = package_run.unacknowledged() {
                let since = ago(pod.metadata.creation_timestamp);
                let says = format!(
                    "the pod for stage {stage} of {package} was assigned to the node {since} ago, but the kubelet has not \
                     started it"
                );
                return (LinkState::Waiting, says);
            }
            let since = ago(package_run.created());
            let says = format!("stage {stage} of {package} has been running for {since}");
            return (LinkState::Working, says);
        }
        if let Some(turn) = self.cluster.turn(skyhook, self.node) {
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
            let at_once = match turn.at_once {
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
            return (
                LinkState::Waiting,
                self.unless_something_is_wrong(
                    skyhook,
                    format!("{place} {compartment}{at_once}{now}"),
                ),
            );
        }
        if self.cluster.is_taken_up(skyhook, self.node) {
            if let Some(says) = self.delayed_interrupt(skyhook) {
                return (LinkState::Waiting, says);
            }
            let (state, says) = if self.cluster.is_passed_over(skyhook, self.node) {
                let says = "the operator continues once no other node of the batch is in progress";
                (LinkState::Waiting, says)
            } else {
                let says =
                    "the operator has started work on the node and continues in its next reconcile";
                (LinkState::Working, says)
            };
            return (
                state,
                self.unless_something_is_wrong(skyhook, says.to_owned()),
            );
        }
        (
            LinkState::Waiting,
            "the operator has not started work on the node".to_owned(),
        )
    }

    /// That nothing is wrong is said only where all was read, nothing is found that keeps the node, and the operator does
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
