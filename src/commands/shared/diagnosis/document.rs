//! The JSON document of `diagnose stuck`.

use schemars::JsonSchema;
use serde::Serialize;

use super::Diagnosis;
use super::group::FindingGroup;
use crate::cluster::contrast::Contrast;
use crate::commands::shared::baseline::Comparison;
use crate::commands::shared::mutes;
use crate::rules::causes::Causes;
use crate::rules::mute::{LapsedMute, MutedFinding};
use crate::rules::{Blocks, Counts, Evidence, Reason, Remedy, Severity, Subject, Verdict};
use crate::view::time;

/// The findings with evidence and remedies, and the rules that could not be checked.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    verdict: Verdict,
    /// The time at which ages are calculated: when the cluster was read, or the best estimate from the files.
    taken_at: String,
    /// The source of that time.
    taken_at_from: String,
    active_api: ActiveApiDocument,
    /// Causes first, those that explain the most at the top; then the findings that they explain.
    findings: Vec<FindingDocument>,
    /// The causes in the same order.
    causes: Vec<CauseDocument>,
    not_checked: Vec<NotCheckedDocument>,
    /// Nodes that errors block.
    blocked_nodes: usize,
    /// Nodes that some custom resource selects.
    selected_nodes: usize,
    counts: Counts,
    /// Findings that are muted; they count in neither the verdict nor the exit code.
    muted: Vec<MutedFinding>,
    /// Mutes that no longer apply.
    lapsed_mutes: Vec<LapsedMute>,
    /// With --baseline, the comparison with the earlier run.
    #[serde(skip_serializing_if = "Option::is_none")]
    baseline: Option<Comparison>,
}

/// Which API the operator acts on, and what decided it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ActiveApiDocument {
    api: String,
    reasons: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    operator_version: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct FindingDocument {
    code: String,
    name: String,
    severity: Severity,
    subject: Subject,
    message: String,
    /// The operations blocked while the finding exists.
    blocks: Vec<Blocks>,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    evidence: Vec<Evidence>,
    remedies: Vec<Remedy>,
    /// How the stage of a package ended on a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Box<Reason>>,
    /// The findings that explain this one, by their place in `findings`, from 0. Absent for a cause.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    explained_by: Vec<usize>,
}

/// Findings that are one trouble on different nodes and that no other finding explains.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct CauseDocument {
    code: String,
    name: String,
    /// The highest severity of the findings and of those that they explain.
    severity: Severity,
    /// What is wrong, in words that are true of all its findings.
    message: String,
    /// The nodes on which it is found.
    nodes: Vec<String>,
    /// How many nodes make no progress because of it, each counted once.
    blocked_nodes: usize,
    /// The same by custom resource.
    blocks: Vec<BlockedDocument>,
    /// Its findings, as indexes into `findings`, starting at 0.
    findings: Vec<usize>,
    /// Findings that they explain, directly or through others, as indexes into `findings`.
    explains: Vec<usize>,
    /// Attributes that the failing nodes have and the healthy ones lack, best match first.
    contrasts: Vec<Contrast>,
}

/// A custom resource that a cause blocks.
#[derive(Serialize, JsonSchema)]
struct BlockedDocument {
    skyhook: String,
    /// The nodes on which it makes no progress.
    nodes: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
struct NotCheckedDocument {
    code: String,
    reason: String,
}

impl Document {
    pub(super) fn of(diagnosis: &Diagnosis<'_>) -> Document {
        let (cluster, report) = (diagnosis.cluster, &diagnosis.report);
        let active_api = &cluster.active_api;
        let edges = Causes::of(&report.findings);
        let causes = diagnosis.impact.causes.iter().map(|impact| {
            let cause = &impact.cause;
            let group = FindingGroup::of(cause, &report.findings);
            let first = &report.findings[cause.findings[0]];
            let blocked = impact.blocked.iter();
            let blocked = blocked.filter(|(skyhook, _)| !skyhook.is_empty());
            CauseDocument {
                code: first.rule.code.to_owned(),
                name: first.rule.name.to_owned(),
                severity: group.severity(),
                contrasts: group.contrasts(cluster),
                message: group.message().to_owned(),
                nodes: group.node_names().into_iter().map(str::to_owned).collect(),
                blocked_nodes: impact.nodes().len(),
                blocks: blocked
                    .map(|(skyhook, nodes)| BlockedDocument {
                        skyhook: (*skyhook).to_owned(),
                        nodes: nodes.iter().map(|node| (*node).to_owned()).collect(),
                    })
                    .collect(),
                findings: cause.findings.clone(),
                explains: cause.effects.clone(),
            }
        });
        let findings = report.findings.iter().enumerate().map(|(at, f)| FindingDocument {
            code: f.rule.code.to_owned(),
            name: f.rule.name.to_owned(),
            severity: f.severity,
            subject: f.subject.clone(),
            message: f.message.clone(),
            blocks: f.blocks.to_vec(),
            since: f.since.map(time),
            evidence: f.evidence.clone(),
            remedies: f.remedies.clone(),
            reason: f.reason.clone(),
            explained_by: edges.explaining(at).to_vec(),
        });
        Document {
            verdict: report.verdict,
            taken_at: time(cluster.taken_at),
            taken_at_from: cluster.clock.words().to_owned(),
            active_api: ActiveApiDocument {
                api: active_api.flavor.api_version(),
                reasons: active_api.reasons.clone(),
                operator_version: active_api.operator_version.as_ref().map(ToString::to_string),
            },
            findings: findings.collect(),
            causes: causes.collect(),
            not_checked: report
                .not_checked
                .iter()
                .map(|n| NotCheckedDocument { code: n.rule.code.to_owned(), reason: n.reason.clone() })
                .collect(),
            blocked_nodes: diagnosis.impact.blocked_nodes(),
            selected_nodes: diagnosis.impact.selected,
            counts: report.counts,
            muted: mutes::documents(report),
            lapsed_mutes: report.lapsed.clone(),
            baseline: diagnosis.comparison.clone(),
        }
    }
}
