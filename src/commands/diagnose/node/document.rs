//! The JSON document of `diagnose node`.

use schemars::JsonSchema;
use serde::Serialize;

use super::step::NextStep;
use crate::cluster::cordon::Holder;
use crate::commands::shared::progress::Progress;
use crate::model::ProgressState;
use crate::rules::{Remedy, Severity, Subject};

/// Why a node is not complete.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Document<'a> {
    /// The node.
    pub(super) node: &'a str,
    /// The worst state of any custom resource on the node; `Blocked` if an error keeps the node from
    /// completing.
    pub(super) state: ProgressState,
    /// The people and programs other than the operator that keep the node cordoned; empty if it is not cordoned.
    pub(super) cordoned_by_others: Vec<Holder>,
    /// The custom resources in the order in which they run.
    pub(super) skyhooks: Vec<LinkDocument<'a>>,
    /// Findings about the node, causes first.
    pub(super) findings: Vec<FindingDocument<'a>>,
    /// The next remedies, in the order to try them.
    pub(super) remedies: Vec<Remedy>,
    /// Sources that could not be read, with the reason; the result may be incomplete.
    pub(super) unreadable: &'a [String],
    /// The time at which ages are calculated.
    pub(super) taken_at: String,
}

/// A custom resource on the node.
#[derive(Serialize, JsonSchema)]
pub(super) struct LinkDocument<'a> {
    /// `Skyhook` or `NodeWright`.
    pub(super) kind: &'static str,
    /// The custom resource.
    pub(super) name: &'a str,
    /// The priority; the lowest runs first. Absent for a deleted custom resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) priority: Option<i64>,
    /// The progress on the node.
    pub(super) state: ProgressState,
    /// Why the custom resource is not complete on the node, or a statement that it is.
    pub(super) message: &'a str,
    /// The progress in detail, with the operator's next action; absent if the custom resource does not select
    /// the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) progress: Option<&'a Progress>,
    /// The packages of the custom resource on the node.
    pub(super) packages: &'a [NextStep],
}

/// A finding about the node.
#[derive(Serialize, JsonSchema)]
pub(super) struct FindingDocument<'a> {
    /// The code of the rule, such as `SKY201`.
    pub(super) code: &'static str,
    /// The name of the rule.
    pub(super) name: &'static str,
    /// The severity of the finding.
    pub(super) severity: Severity,
    /// The object that the finding is about.
    pub(super) subject: &'a Subject,
    /// The observed problem.
    pub(super) message: &'a str,
    /// The reason for muting the finding; absent if it is not muted.
    #[serde(rename = "muteReason", skip_serializing_if = "Option::is_none")]
    pub(super) muted: Option<&'a str>,
}
