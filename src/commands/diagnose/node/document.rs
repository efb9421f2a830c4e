//! The JSON document of `diagnose node`.

use schemars::JsonSchema;
use serde::Serialize;

use super::step::NextStep;
use crate::commands::shared::progress::Progress;
use crate::model::ProgressState;
use crate::rules::{Remedy, Severity};

/// Why a node is not done.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Document<'a> {
    pub(super) node: &'a str,
    /// The worst state among the custom resources.
    pub(super) state: ProgressState,
    /// In the order in which they run.
    pub(super) skyhooks: Vec<LinkDocument<'a>>,
    /// Findings that concern the node, causes first.
    pub(super) findings: Vec<FindingDocument<'a>>,
    /// Remedies, least disruptive first.
    pub(super) remedies: Vec<&'a Remedy>,
    /// What could not be read from the cluster; it may affect the result.
    pub(super) unreadable: &'a [String],
    pub(super) taken_at: String,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct LinkDocument<'a> {
    pub(super) kind: &'static str,
    pub(super) skyhook: &'a str,
    /// Lower runs first; absent for a deleted custom resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) priority: Option<i64>,
    pub(super) state: ProgressState,
    /// Why it is not complete here, or that it is complete.
    pub(super) reason: &'a str,
    /// The operator's next action here; absent if the custom resource does not select the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) progress: Option<Progress>,
    pub(super) packages: &'a [NextStep],
}

#[derive(Serialize, JsonSchema)]
pub(super) struct FindingDocument<'a> {
    pub(super) code: &'static str,
    pub(super) name: &'static str,
    pub(super) severity: Severity,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) node: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) skyhook: Option<&'a str>,
    pub(super) message: &'a str,
    /// The reason of the mute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) muted: Option<&'a str>,
}
