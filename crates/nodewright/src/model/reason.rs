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
    /// The operator rejects a stored spec, which aborts every reconcile. `error`: `spec.packages is …`.
    InvalidSpec {
        skyhook: &'a Skyhook,
        error: String,
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

/// The words for a reason.
pub struct Description {
    /// The name of the reason in printed documents.
    pub code: &'static str,
    /// The responsible object as `kind/name`, or its plain name if it is not a Kubernetes object.
    pub object: Option<String>,
    pub text: String,
}

impl WaitReason<'_> {
    pub fn describe(&self) -> Description {
        let words = |code, object, text| Description { code, object: Some(object), text };
        let without_object = |code, text: &str| Description { code, object: None, text: text.to_owned() };
        match self {
            WaitReason::Nothing => without_object("Nothing", "nothing to wait for"),
            WaitReason::Paused => without_object("Paused", "the custom resource is paused"),
            WaitReason::Disabled => without_object("Disabled", "the custom resource is disabled"),
            WaitReason::OperatorDown => without_object("OperatorDown", "the operator is not running"),
            WaitReason::Ignored => without_object("Ignored", "the node is ignored"),
            WaitReason::MigrationHold(skyhook) => words(
                "MigrationHold",
                skyhook.to_string(),
                format!("the operator waits for the rollout of {skyhook}"),
            ),
            WaitReason::MalformedState { skyhook, node } => words(
                "MalformedState",
                node.to_string(),
                format!("the node state of {skyhook} on {node} cannot be read"),
            ),
            WaitReason::InvalidSpec { skyhook, error } => words(
                "InvalidSpec",
                skyhook.to_string(),
                format!("the spec of {skyhook} is invalid, which stops the operator: {error}"),
            ),
            WaitReason::Taint(taint) => {
                let taint = taint.kubectl_notation();
                let text = format!("the custom resource does not tolerate the taint {taint}");
                words("Taint", taint, text)
            }
            WaitReason::Earlier { skyhook, node, everywhere } => words(
                "Earlier",
                skyhook.to_string(),
                if *everywhere {
                    format!(
                        "{skyhook} must first complete on all of its nodes, and is not complete on {node}"
                    )
                } else {
                    format!("{skyhook} runs first on the node")
                },
            ),
            WaitReason::PolicyMissing(name) => words(
                "PolicyMissing",
                format!("deploymentpolicy/{name}"),
                format!("deployment policy {name} does not exist"),
            ),
            WaitReason::RolloutStopped(compartment) => {
                let title = compartment_title(compartment);
                let text = format!("failures have stopped the rollout of compartment {title}");
                words("RolloutStopped", (*compartment).to_owned(), text)
            }
            WaitReason::Batch { compartment, node } => {
                let title = compartment_title(compartment);
                let (object, text) = match node {
                    Some(node) => (
                        node.to_string(),
                        format!("the batch of compartment {title} is in progress on {node}"),
                    ),
                    None => (
                        (*compartment).to_owned(),
                        format!("the next batch of compartment {title} has not been chosen yet"),
                    ),
                };
                words("Batch", object, text)
            }
            WaitReason::BatchSibling(node) => words(
                "BatchSibling",
                node.to_string(),
                format!("the operator continues once {node} is no longer in progress"),
            ),
            WaitReason::Dependency { package, dependency } => words(
                "Dependency",
                (*dependency).to_owned(),
                format!("{package} depends on {dependency}, which is not complete"),
            ),
            WaitReason::NeverScheduled(package) => words(
                "NeverScheduled",
                (*package).to_owned(),
                format!("the operator does not schedule {package} anymore"),
            ),
            WaitReason::Stage { package, stage } => {
                words("Stage", package.clone(), format!("stage {stage} of {package} is running"))
            }
            WaitReason::Kubelet(pod) => {
                words("Kubelet", pod.to_string(), format!("the kubelet has not started {pod}"))
            }
            WaitReason::GivenUp { package, stage, run } => words(
                "GivenUp",
                run.clone(),
                format!("stage {stage} of {package} has failed permanently: {run}"),
            ),
            WaitReason::ProtectedPod(pod) => words(
                "ProtectedPod",
                pod.to_string(),
                format!("{pod} forbids an interrupt while it runs on the node"),
            ),
            WaitReason::Drain(pods) => Description {
                code: "Drain",
                object: pods.first().map(ToString::to_string),
                text: match pods.as_slice() {
                    [pod] => format!("the drain waits for {pod}"),
                    pods => format!("the drain waits for {} pods", pods.len()),
                },
            },
            WaitReason::OtherRun { run, .. } => {
                words("OtherRun", run.clone(), format!("the interrupt waits for {run}"))
            }
            WaitReason::OtherInterrupt(package) => words(
                "OtherInterrupt",
                (*package).to_owned(),
                format!("the interrupt of {package} runs first"),
            ),
            WaitReason::Deletion(node) => {
                words("Deletion", node.to_string(), format!("packages must first be uninstalled from {node}"))
            }
            WaitReason::Unread(source) => {
                words("Unread", source.to_string(), format!("{source} were not read"))
            }
        }
    }
}

/// Formats the reason as a clause that follows "because" or is used alone.
impl fmt::Display for WaitReason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe().text)
    }
}
