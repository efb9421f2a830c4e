//! The JSON document of `finalizer status`.

use schemars::JsonSchema;
use serde::Serialize;

use super::deletion::Deletion;
use crate::cluster::Cluster;
use crate::cluster::deletion::Pending;
use crate::model::ProgressState;
use crate::rules::{Remedy, Severity, Subject};
use crate::view::text::Label;
use crate::view::time;

/// How the state of a deletion is shown, its word in documents, and in text.
pub fn words(state: Option<ProgressState>) -> (Label, &'static str, &'static str) {
    match state {
        None => (Label::Info, "not-deleting", "not being deleted"),
        Some(ProgressState::Deleting) => (Label::Good, "progressing", "the deletion is progressing"),
        Some(ProgressState::Waiting) => (Label::Warning, "slow", "the deletion is slow"),
        Some(ProgressState::Stuck) => (Label::Error, "blocked", "the deletion is blocked"),
        Some(ProgressState::Blocked) => {
            (Label::Warning, "held-by-others", "only third-party finalizers are left")
        }
        Some(_) => (Label::Warning, "unknown", "cannot tell whether the deletion is progressing"),
    }
}

/// The state of a deletion, and what blocks it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    /// The custom resource.
    skyhook: String,
    /// The state of the deletion: `not-deleting`, `progressing`, `slow`, `blocked`, `held-by-others` (only
    /// finalizers of third parties remain) or `unknown`.
    state: &'static str,
    /// The reason for the state, in one sentence.
    reason: String,
    /// The time of the deletion request; null if the deletion was not requested.
    deleting_since: Option<String>,
    /// All finalizers of the custom resource.
    finalizers: Vec<String>,
    /// The name of the operator's finalizer.
    finalizer: String,
    /// Packages that must be uninstalled before the operator removes its finalizer.
    pending: Vec<PendingPackage>,
    /// Findings that concern the deletion.
    findings: Vec<DeletionFinding>,
    /// All remedies, least disruptive first.
    remedies: Vec<Remedy>,
    /// The remedy to apply now; null if there is none.
    recommended: Option<Remedy>,
}

/// A package that is still to be uninstalled on a node.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct PendingPackage {
    /// The node.
    node: String,
    /// The package.
    package: String,
    /// The recorded version.
    version: String,
    /// The recorded stage.
    stage: String,
    /// The recorded state of the stage.
    state: String,
    /// Number of failed attempts of the stage.
    restarts: i64,
}

/// A rule's finding about the deletion.
#[derive(Serialize, JsonSchema)]
struct DeletionFinding {
    /// The code of the rule.
    code: String,
    /// The name of the rule.
    name: String,
    /// The severity of the finding.
    severity: Severity,
    /// The object that the finding is about.
    subject: Subject,
    /// The observed problem.
    message: String,
}

impl Document {
    pub fn of(cluster: &Cluster, deletion: &Deletion<'_>) -> Document {
        let skyhook = deletion.skyhook;
        let deleting = skyhook.deleting();
        let pending = deletion.pending.iter().filter(|_| deleting);
        let findings = deletion.findings.iter().filter(|_| deleting);
        Document {
            skyhook: skyhook.name().to_owned(),
            state: words(deletion.state).1,
            reason: deletion.reason.clone(),
            deleting_since: skyhook.metadata.deletion_timestamp.map(time),
            finalizers: skyhook.metadata.finalizers.clone(),
            finalizer: cluster.flavor().finalizer().to_string(),
            pending: pending.map(PendingPackage::of).collect(),
            findings: findings
                .map(|f| DeletionFinding {
                    code: f.rule.code.to_owned(),
                    name: f.rule.name.to_owned(),
                    severity: f.severity,
                    subject: f.subject.clone(),
                    message: f.message.clone(),
                })
                .collect(),
            remedies: if deleting { deletion.remedies() } else { Vec::new() },
            recommended: deletion.recommended().filter(|_| deleting),
        }
    }
}

impl PendingPackage {
    fn of(pending: &Pending<'_>) -> PendingPackage {
        PendingPackage {
            node: pending.node.name.to_string(),
            package: pending.entry.name.to_string(),
            version: pending.entry.version.to_string(),
            stage: pending.entry.stage.to_string(),
            state: pending.entry.state.to_string(),
            restarts: pending.entry.restarts,
        }
    }
}
