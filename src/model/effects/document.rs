//! Effects as data: printed by `lint`, and part of plans.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Effects, PackageChange, PackageEffect};

/// What the operator does to a package after an edit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PackageDocument {
    pub skyhook: String,
    pub package: String,
    pub change: PackageChange,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Where stages run, in the order in which they begin.
    pub nodes: Vec<String>,
    /// In the order in which they run.
    pub stages: Vec<String>,
    /// The type of the interrupt of these nodes.
    pub interrupt: Option<String>,
    /// The most nodes at work at the same time; null if only some nodes were read.
    pub at_once: Option<usize>,
    /// The time until the custom resource is complete, in seconds; null where it is unknown.
    pub estimate: Option<f64>,
}

/// What happens to the nodes of a custom resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutDocument {
    pub skyhook: String,
    /// The nodes that one batch may have; null if only some nodes were read.
    pub batch: Option<usize>,
    pub cordoned: Vec<String>,
    /// Null if the pods on these nodes were not read, as in a capture of `collect`.
    pub evicted_pods: Option<usize>,
    pub refusing_budgets: Vec<RefusingBudget>,
    /// Custom resources that wait for this one.
    pub waiting: Vec<String>,
    /// What keeps the rollout from its end; null if it comes to its end.
    pub stuck: Option<String>,
    /// The time until the custom resource is complete, in seconds; null where it is unknown.
    pub estimate: Option<f64>,
    /// How far off the estimate may be, in proportion; null without an estimate.
    pub uncertainty: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RefusingBudget {
    /// `NAMESPACE/NAME`.
    pub budget: String,
    pub nodes: Vec<String>,
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
                nodes: owned(package.nodes.iter().map(|node| node.name.as_str())),
                stages: package.stages.iter().map(ToString::to_string).collect(),
                interrupt: package.interrupt.map(str::to_owned),
                at_once: package.at_once,
                estimate: estimate.filter(|_| !package.nodes.is_empty()),
            }
        };
        self.packages.iter().map(document).collect()
    }

    pub fn rollout(&self) -> RolloutDocument {
        let refusing = self.refusing.iter().map(|(budget, nodes)| RefusingBudget {
            budget: budget.clone(),
            nodes: owned(nodes.iter().copied()),
        });
        RolloutDocument {
            skyhook: self.skyhook.to_owned(),
            batch: self.allowed,
            cordoned: owned(self.cordoned.iter().map(|node| node.name.as_str())),
            evicted_pods: self.evicted,
            refusing_budgets: refusing.collect(),
            waiting: owned(self.waiting.iter().copied()),
            stuck: self.stuck.as_ref().map(ToString::to_string),
            estimate: self.remaining.map(|remaining| remaining.seconds),
            uncertainty: self.remaining.map(|remaining| remaining.uncertainty),
        }
    }
}

fn owned<'n>(names: impl Iterator<Item = &'n str>) -> Vec<String> {
    names.map(str::to_owned).collect()
}
