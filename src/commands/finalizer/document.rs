//! The JSON document of `finalizer status`.

use schemars::JsonSchema;
use serde::Serialize;

use super::deletion::{Deletion, DeletionState};
use crate::cluster::Cluster;
use crate::cluster::deletion::Pending;
use crate::rules::{Remedy, Severity, Subject};
use crate::view::time;

/// Whether a deletion is progressing, and its blockers.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    skyhook: String,
    state: DeletionState,
    /// The reason for this state.
    reason: String,
    /// Null where the deletion was not requested.
    deleting_since: Option<String>,
    finalizers: Vec<String>,
    /// The operator's own finalizer.
    finalizer: String,
    /// Packages that have to be uninstalled first.
    pending: Vec<PendingPackage>,
    findings: Vec<DeletionFinding>,
    /// Every remedy, least disruptive first.
    remedies: Vec<Remedy>,
    /// The remedy to apply now; null if there is none.
    recommended: Option<Remedy>,
}

/// A package on a node that is still to be uninstalled.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct PendingPackage {
    node: String,
    package: String,
    version: String,
    stage: String,
    state: String,
    /// Failed attempts of the current stage.
    restarts: i64,
}

/// A rule's finding about the deletion.
#[derive(Serialize, JsonSchema)]
struct DeletionFinding {
    code: String,
    name: String,
    severity: Severity,
    subject: Subject,
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
            state: deletion.state,
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
