//! Reasons why a custom resource does not progress on a node.

use std::fmt;

use crate::api::skyhook::compartment_title;
use crate::api::{Skyhook, Stage};
use crate::cluster::node::Taint;
use crate::cluster::{Node, Pod, Source};

/// Why a custom resource does not progress on a node, with the responsible object.
#[derive(Debug, Clone)]
pub enum WaitReason<'a> {
    /// No reason: the custom resource is complete, or the next reconcile acts.
    Nothing,
    Paused,
    Disabled,
    /// The operator has no available replica, or no Deployment.
    OperatorDown,
    /// The newer operator waits for the rollout of an object of the older API.
    MigrationHold(&'a Skyhook),
    /// A node state that cannot be read aborts every reconcile; see `gates/malformed_state.rs` for the
    /// exception.
    MalformedState {
        skyhook: &'a Skyhook,
        node: &'a Node,
    },
    /// The node has the ignore label.
    Ignored,
    Taint(&'a Taint),
    /// An earlier custom resource has to finish first: on this node, or `everywhere` on all of its nodes.
    Earlier {
        skyhook: &'a Skyhook,
        node: &'a Node,
        everywhere: bool,
    },
    PolicyMissing(&'a str),
    /// Failures have stopped the rollout of the compartment.
    RolloutStopped(&'a str),
    /// The node is not in the batch.
    Batch {
        compartment: &'a str,
        /// A node that the batch waits for.
        node: Option<&'a Node>,
    },
    /// Before v0.20, the other nodes of the batch wait for its nodes in progress. Since v0.20, only those
    /// beyond the batch size wait.
    BatchSibling(&'a Node),
    /// A package depends on a package that is neither complete nor running.
    Dependency {
        package: &'a str,
        dependency: &'a str,
    },
    /// Before v0.18 the operator no longer considers a package without dependencies once the number of
    /// complete packages exceeds the number of packages without dependencies.
    NeverScheduled(&'a str),
    /// A stage is running.
    Stage {
        package: String,
        stage: Stage,
    },
    /// The kubelet has not started the pod of a stage.
    Kubelet(&'a Pod),
    /// A stage whose Job has failed permanently, or whose pod has ended.
    GivenUp {
        package: String,
        stage: Stage,
        run: String,
    },
    /// A pod that forbids an interrupt is running on the node.
    ProtectedPod(&'a Pod),
    /// Pods have to leave the node first.
    Drain(Vec<&'a Pod>),
    /// The interrupt waits for another package stage on the node.
    OtherRun {
        skyhook: String,
        package: String,
        stage: Stage,
        run: String,
    },
    /// An interrupt of another package on the node comes first.
    OtherInterrupt(&'a str),
    /// The deletion waits for uninstalls on another node.
    Deletion(&'a Node),
    /// A required source was not read.
    Unread(Source),
}

impl WaitReason<'_> {
    /// The name of the reason in printed documents.
    pub fn code(&self) -> &'static str {
        match self {
            WaitReason::Nothing => "Nothing",
            WaitReason::Paused => "Paused",
            WaitReason::Disabled => "Disabled",
            WaitReason::OperatorDown => "OperatorDown",
            WaitReason::MigrationHold(_) => "MigrationHold",
            WaitReason::MalformedState { .. } => "MalformedState",
            WaitReason::Ignored => "Ignored",
            WaitReason::Taint(_) => "Taint",
            WaitReason::Earlier { .. } => "Earlier",
            WaitReason::PolicyMissing(_) => "PolicyMissing",
            WaitReason::RolloutStopped(_) => "RolloutStopped",
            WaitReason::Batch { .. } => "Batch",
            WaitReason::BatchSibling(_) => "BatchSibling",
            WaitReason::Dependency { .. } => "Dependency",
            WaitReason::NeverScheduled(_) => "NeverScheduled",
            WaitReason::Stage { .. } => "Stage",
            WaitReason::Kubelet(_) => "Kubelet",
            WaitReason::GivenUp { .. } => "GivenUp",
            WaitReason::ProtectedPod(_) => "ProtectedPod",
            WaitReason::Drain(_) => "Drain",
            WaitReason::OtherRun { .. } => "OtherRun",
            WaitReason::OtherInterrupt(_) => "OtherInterrupt",
            WaitReason::Deletion(_) => "Deletion",
            WaitReason::Unread(_) => "Unread",
        }
    }

    /// The responsible object as `kind/name`, or its plain name if it is not a Kubernetes object.
    pub fn object(&self) -> Option<String> {
        Some(match self {
            WaitReason::Nothing
            | WaitReason::Paused
            | WaitReason::Disabled
            | WaitReason::OperatorDown
            | WaitReason::Ignored => return None,
            WaitReason::MigrationHold(skyhook) => skyhook.reference(),
            WaitReason::MalformedState { node, .. } => node.reference(),
            WaitReason::Taint(taint) => taint.kubectl_notation(),
            WaitReason::Earlier { skyhook, .. } => skyhook.reference(),
            WaitReason::PolicyMissing(name) => format!("deploymentpolicy/{name}"),
            WaitReason::RolloutStopped(compartment) => (*compartment).to_owned(),
            WaitReason::Batch { compartment, node } => match node {
                Some(node) => node.reference(),
                None => (*compartment).to_owned(),
            },
            WaitReason::BatchSibling(node) | WaitReason::Deletion(node) => node.reference(),
            WaitReason::Dependency { dependency, .. } => (*dependency).to_owned(),
            WaitReason::NeverScheduled(package) => (*package).to_owned(),
            WaitReason::Stage { package, .. } => package.clone(),
            WaitReason::Kubelet(pod) | WaitReason::ProtectedPod(pod) => pod.to_string(),
            WaitReason::GivenUp { run, .. } | WaitReason::OtherRun { run, .. } => run.clone(),
            WaitReason::Drain(pods) => pods.first()?.to_string(),
            WaitReason::OtherInterrupt(package) => (*package).to_owned(),
            WaitReason::Unread(source) => source.to_string(),
        })
    }
}

/// Formats the reason as a clause that follows "because" or is used alone.
impl fmt::Display for WaitReason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WaitReason::Nothing => f.write_str("nothing to wait for"),
            WaitReason::Paused => f.write_str("the custom resource is paused"),
            WaitReason::Disabled => f.write_str("the custom resource is disabled"),
            WaitReason::OperatorDown => f.write_str("the operator is not running"),
            WaitReason::MigrationHold(skyhook) => {
                write!(f, "the operator waits for the rollout of {skyhook}")
            }
            WaitReason::MalformedState { skyhook, node } => {
                write!(f, "the node state of {skyhook} on {node} cannot be read")
            }
            WaitReason::Ignored => f.write_str("the node is ignored"),
            WaitReason::Taint(taint) => {
                write!(f, "the custom resource does not tolerate the taint {}", taint.kubectl_notation())
            }
            WaitReason::Earlier { skyhook, node, everywhere: true } => {
                write!(f, "{skyhook} must first complete on all of its nodes, and is not complete on {node}")
            }
            WaitReason::Earlier { skyhook, .. } => write!(f, "{skyhook} runs first on the node"),
            WaitReason::PolicyMissing(name) => {
                write!(f, "deployment policy {name} does not exist")
            }
            WaitReason::RolloutStopped(compartment) => {
                write!(
                    f,
                    "failures have stopped the rollout of compartment {}",
                    compartment_title(compartment)
                )
            }
            WaitReason::Batch { compartment, node } => match node {
                Some(node) => write!(
                    f,
                    "the batch of compartment {} is in progress on {node}",
                    compartment_title(compartment)
                ),
                None => write!(
                    f,
                    "the next batch of compartment {} has not been chosen yet",
                    compartment_title(compartment)
                ),
            },
            WaitReason::BatchSibling(node) => {
                write!(f, "the operator continues once {node} is no longer in progress")
            }
            WaitReason::Dependency { package, dependency } => {
                write!(f, "{package} depends on {dependency}, which is not complete")
            }
            WaitReason::NeverScheduled(package) => {
                write!(f, "the operator does not schedule {package} anymore")
            }
            WaitReason::Stage { package, stage } => write!(f, "stage {stage} of {package} is running"),
            WaitReason::Kubelet(pod) => write!(f, "the kubelet has not started {pod}"),
            WaitReason::GivenUp { package, stage, run } => {
                write!(f, "stage {stage} of {package} has failed permanently: {run}")
            }
            WaitReason::ProtectedPod(pod) => {
                write!(f, "{pod} forbids an interrupt while it runs on the node")
            }
            WaitReason::Drain(pods) => match pods.as_slice() {
                [pod] => write!(f, "the drain waits for {pod}"),
                pods => write!(f, "the drain waits for {} pods", pods.len()),
            },
            WaitReason::OtherRun { run, .. } => write!(f, "the interrupt waits for {run}"),
            WaitReason::OtherInterrupt(package) => {
                write!(f, "the interrupt of {package} runs first")
            }
            WaitReason::Deletion(node) => {
                write!(f, "packages must first be uninstalled from {node}")
            }
            WaitReason::Unread(source) => write!(f, "{source} were not read"),
        }
    }
}
