//! Effects as data: printed by `lint`, and part of plans.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Effects, PackageChange, PackageEffect};
use crate::api::Stage;
use crate::cluster::Node;
use crate::model::WaitReason;
use crate::text::any_case;

/// The effects of an edit on one package of a custom resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PackageDocument {
    /// The custom resource.
    pub skyhook: String,
    /// The package.
    pub package: String,
    /// The kind of effect.
    #[serde(deserialize_with = "any_case")]
    pub change: PackageChange,
    /// The old version; absent unless `change` is `Upgrade` or `Downgrade`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The new version; absent unless `change` is `Upgrade` or `Downgrade`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Nodes on which stages run, in the order in which they start.
    pub nodes: Vec<String>,
    /// Stages that run, in this order.
    pub stages: Vec<String>,
    /// The type of the package's interrupt, such as `reboot`; absent if the nodes are not interrupted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupt: Option<String>,
    /// Maximum number of these nodes at work at the same time, or twice as many where `batchesMayOverlap`; absent if only some
    /// nodes were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_once: Option<usize>,
    /// Estimated time in seconds until the whole custom resource is complete; absent if no stage runs or the
    /// time is unknown.
    #[serde(rename = "estimateSeconds", alias = "estimate", skip_serializing_if = "Option::is_none")]
    pub estimate: Option<f64>,
}

/// The effects of an edit on the nodes of a custom resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutDocument {
    /// The custom resource.
    pub skyhook: String,
    /// Number of nodes in one batch, summed over all compartments; absent if only some nodes were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<usize>,
    /// Whether a second batch may start beside the first: without a deploymentPolicy, the operator chooses nodes in no
    /// fixed order, also before it sees which it has just chosen.
    #[serde(default)]
    pub batches_may_overlap: bool,
    /// Nodes that are no longer selected: packages, cordons and taints stay on them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deselected: Vec<String>,
    /// Nodes that are cordoned.
    pub cordoned: Vec<String>,
    /// Nodes that are interrupted before they are cordoned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interrupted_uncordoned: Vec<String>,
    /// Nodes that lose the runtime-required taint once they are complete.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub untainted: Vec<String>,
    /// Number of pods evicted from these nodes; absent if their pods were not read, as in a capture of
    /// `collect`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evicted_pods: Option<usize>,
    /// PodDisruptionBudgets that refuse evictions now.
    pub refusing_budgets: Vec<RefusingBudget>,
    /// Custom resources that wait for this one, on shared nodes or everywhere.
    pub waiting: Vec<String>,
    /// Why the rollout never completes; absent if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stuck: Option<String>,
    /// Estimated time in seconds until the custom resource is complete; absent if unknown.
    #[serde(rename = "estimateSeconds", alias = "estimate", skip_serializing_if = "Option::is_none")]
    pub estimate: Option<f64>,
    /// Relative uncertainty of the estimate, such as 0.5 if the time may be half as long again, or shorter by the same
    /// factor; absent without an estimate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncertainty: Option<f64>,
}

/// A PodDisruptionBudget that refuses evictions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RefusingBudget {
    /// The budget, as `NAMESPACE/NAME`.
    pub budget: String,
    /// The cordoned nodes with pods that the budget protects.
    pub nodes: Vec<String>,
}

impl PackageDocument {
    /// Whether the change starts on more nodes than a batch holds: the operator starts it on all nodes,
    /// regardless of the batch (operator `HandleVersionChange`, `HandleConfigUpdates`,
    /// `HandleUninstallRequests`, `HandleCancelledUninstalls`).
    pub fn exceeds_budget(&self, rollout: &RolloutDocument) -> bool {
        let everywhere = matches!(
            self.change,
            PackageChange::Configure | PackageChange::Uninstall | PackageChange::CancelUninstall
        ) || self.stages.contains(&Stage::Upgrade.to_string());
        let exceeds = |(at_once, batch): (usize, usize)| at_once > batch;
        everywhere && self.at_once.zip(rollout.batch).is_some_and(exceeds)
    }
}

impl Effects<'_> {
    pub fn packages(&self) -> Vec<PackageDocument> {
        let estimate = self.remaining.map(|remaining| remaining.seconds);
        let document = |package: &PackageEffect<'_>| {
            let versions = package.versions;
            let (from, to) = versions.map(|(from, to)| (from.to_owned(), to.to_owned())).unzip();
            PackageDocument {
                skyhook: self.skyhook.to_owned(),
                package: package.package.to_owned(),
                change: package.change,
                from,
                to,
                nodes: names(&package.nodes),
                stages: package.stages.iter().map(ToString::to_string).collect(),
                interrupt: package.interrupt.map(str::to_owned),
                at_once: package.at_once,
                estimate: estimate.filter(|_| !package.nodes.is_empty()),
            }
        };
        self.packages.iter().map(document).collect()
    }

    /// Why the rollout never completes, with the node if the reason names none.
    pub fn why_stuck(&self) -> Option<String> {
        let reason = self.stuck.as_ref()?;
        Some(match (reason, self.stuck_on) {
            (WaitReason::Ignored, Some(node)) => format!("{node} is ignored"),
            (
                WaitReason::Taint(_)
                | WaitReason::Dependency { .. }
                | WaitReason::NeverScheduled(_)
                | WaitReason::GivenUp { .. },
                Some(node),
            ) => format!("{reason} on {node}"),
            (WaitReason::Batch { node: None, .. }, _) => "no node of the next batch can start".to_owned(),
            _ => reason.to_string(),
        })
    }

    pub fn rollout(&self) -> RolloutDocument {
        let refusing = self.refusing.iter().map(|(budget, nodes)| RefusingBudget {
            budget: budget.path(),
            nodes: owned(nodes.iter().copied()),
        });
        RolloutDocument {
            skyhook: self.skyhook.to_owned(),
            batch: self.allowed,
            batches_may_overlap: self.overlapping,
            deselected: names(&self.deselected),
            cordoned: names(&self.cordoned),
            interrupted_uncordoned: names(&self.interrupted_uncordoned),
            untainted: names(&self.untainted),
            evicted_pods: self.evicted,
            refusing_budgets: refusing.collect(),
            waiting: owned(self.waiting.iter().copied()),
            stuck: self.why_stuck(),
            estimate: self.remaining.map(|remaining| remaining.seconds),
            uncertainty: self.remaining.map(|remaining| remaining.uncertainty),
        }
    }
}

fn names(nodes: &[&Node]) -> Vec<String> {
    owned(nodes.iter().map(|node| node.name.as_str()))
}

fn owned<'n>(names: impl Iterator<Item = &'n str>) -> Vec<String> {
    names.map(str::to_owned).collect()
}
