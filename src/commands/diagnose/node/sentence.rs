//! The progress of a custom resource on the node, as a sentence.

use super::step::Inspection;
use crate::api::deployment_policy::compartment_title;
use crate::api::{Skyhook, Status};
use crate::model::{Action, Model, NodeProgress, ProgressState, QueuePosition, WaitReason};
use crate::rules::Severity;
use crate::view::{NodeSet, ago, count, for_how_long, plural};
use crate::wait::drain;

impl<'a> Inspection<'_, 'a> {
    /// Why the custom resource is not complete, or a statement that it is.
    pub fn sentence(&self, skyhook: &'a Skyhook, progress: &NodeProgress<'a>) -> String {
        let sentence = match self.calm(skyhook, progress) {
            Some(calm) => self.unless_something_is_wrong(skyhook, calm),
            None => self.reason(skyhook, progress),
        };
        if skyhook.deleting() { format!("it is being deleted; {sentence}") } else { sentence }
    }

    /// The sentence for a custom resource that waits in a queue, or on which the operator acts next; `None`
    /// for other states.
    fn calm(&self, skyhook: &'a Skyhook, progress: &NodeProgress<'a>) -> Option<String> {
        match (&progress.reason, progress.queue) {
            (_, Some(queue)) => Some(self.queue(skyhook, queue)),
            (WaitReason::BatchSibling(_), _) => Some(progress.reason.to_string()),
            (WaitReason::Nothing, _) if progress.state == ProgressState::Running => {
                Some("the operator continues here in its next reconcile".to_owned())
            }
            _ => None,
        }
    }

    fn reason(&self, skyhook: &'a Skyhook, progress: &NodeProgress<'a>) -> String {
        let now = self.cluster.taken_at;
        match (&progress.reason, &progress.next_action) {
            (WaitReason::Nothing, Some(Action::Uncordon)) => {
                "all of its packages are done, but the operator has not removed its cordon from the node yet"
                    .to_owned()
            }
            (WaitReason::Nothing, _) => "all of its packages are done".to_owned(),
            (WaitReason::Stage { package, stage }, _) => {
                let since = progress.since;
                let lasts = since.map_or("for <unknown>".to_owned(), |at| for_how_long(at, now));
                format!("stage {stage} of {package} has been running {lasts}")
            }
            (WaitReason::Kubelet(pod), _) => format!(
                "{pod} was assigned to the node {}, but the kubelet has not started it",
                ago(pod.metadata.creation_timestamp, now)
            ),
            (WaitReason::OtherRun { skyhook, package, stage, .. }, _) => format!(
                "an interrupt waits until stage {stage} of {package} of {skyhook} has ended here and its pod is gone"
            ),
            (WaitReason::Deletion(_), _) => {
                let pending = self.cluster.pending_uninstalls(skyhook);
                let nodes = NodeSet::of(pending.iter().map(|p| p.node.name.as_str()));
                format!("packages must first be uninstalled from {}", nodes.limited(4))
            }
            (WaitReason::Drain(_), _) => {
                let drain = self.outlook.model.drain_progress(skyhook.name(), self.node);
                drain.map_or_else(
                    || progress.reason.to_string(),
                    |drain| drain::sentence(self.cluster, &drain),
                )
            }
            _ => progress.reason.to_string(),
        }
    }

    /// The position in the queue of a compartment.
    fn queue(&self, skyhook: &Skyhook, queue: QueuePosition<'_>) -> String {
        let place = match (queue.number, queue.waiting) {
            (_, 1) => "the node is the only one waiting in".to_owned(),
            (Some(number), all) => {
                format!("the node is number {} of {} in the queue of", count(number), count(all))
            }
            (None, all) => {
                format!("the node is one of {} waiting, in no fixed order, in", plural(all, "node"))
            }
        };
        let batch = match queue.batch {
            0 => String::new(),
            n => format!(", whose next batch has {}", plural(n, "node")),
        };
        let now = match queue.working {
            0 => "; the operator chooses the next nodes in its next reconcile".to_owned(),
            1 => "; one node is in progress now".to_owned(),
            n => format!("; {} are in progress now", plural(n, "node")),
        };
        let start = self.start(skyhook, queue.number.is_some());
        format!("{place} compartment {}{batch}{now}{start}", compartment_title(queue.compartment))
    }

    /// When the node is expected to start, as the end of a sentence; empty if the order is arbitrary or
    /// durations are unknown.
    fn start(&self, skyhook: &Skyhook, ordered: bool) -> String {
        let simulated = || Model::new(self.cluster).timeline();
        let timeline = ordered.then(|| self.timeline.get_or_init(simulated));
        let start = timeline.and_then(|t| t.start(skyhook.name(), &self.node.name));
        start.map_or_else(String::new, |start| format!("; work starts here in {start}"))
    }

    /// Adds `nothing is wrong` if every source was read, no finding is above info, and the operator does not
    /// report the node as erroring.
    fn unless_something_is_wrong(&self, skyhook: &Skyhook, sentence: String) -> String {
        if self.cluster.status_on(skyhook, self.node) == Status::Erroring {
            return format!("{sentence}; the operator still reports the node as erroring");
        }
        let mut found = self.outlook.findings.iter();
        if !self.whole || found.any(|f| f.severity > Severity::Info) {
            sentence
        } else {
            format!("nothing is wrong: {sentence}")
        }
    }
}
