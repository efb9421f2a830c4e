//! The JSON document of `diagnose stuck`.

use schemars::JsonSchema;
use serde::Serialize;

use super::Diagnosis;
use super::alike::AlikeFindings;
use super::group::FindingGroup;
use crate::cluster::contrast::Contrast;
use crate::commands::shared::mutes;
use crate::rules::support::mute::{LapsedMute, MutedFinding};
use crate::rules::{Blocks, Counts, Evidence, Reason, Remedy, Severity, Subject, Verdict};
use crate::view::{NodeSet, time};

/// The findings with evidence and remedies, and the rules that could not be checked.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    /// The overall result.
    verdict: Verdict,
    /// The time at which ages are calculated: when the cluster was read, or the best estimate from the files.
    taken_at: String,
    /// The source of `takenAt`.
    taken_at_from: String,
    /// The API that the operator acts on.
    active_api: ActiveApiDocument,
    /// The causes, with those that explain the most findings first; then the explained findings.
    findings: Vec<FindingDocument>,
    /// The causes, in the same order as in `findings`.
    causes: Vec<CauseDocument>,
    /// The rules that could not be checked.
    not_checked: Vec<NotCheckedDocument>,
    /// Number of nodes that errors block.
    blocked_nodes: usize,
    /// Number of nodes that any custom resource selects.
    selected_nodes: usize,
    /// Number of rules, objects and causes.
    counts: Counts,
    /// Muted findings; they affect neither the verdict nor the exit code.
    muted: Vec<MutedFinding>,
    /// Mutes that no longer apply.
    lapsed_mutes: Vec<LapsedMute>,
}

/// The API that the operator acts on.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ActiveApiDocument {
    /// The API group and version.
    api: String,
    /// The observations that determined the API.
    reasons: Vec<String>,
    /// The version of the operator; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    operator_version: Option<String>,
}

/// A finding of a rule, on a node or on several nodes that differ in nothing else.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct FindingDocument {
    /// The code of the rule, such as `SKY201`.
    code: String,
    /// The name of the rule.
    name: String,
    /// The severity of the finding.
    severity: Severity,
    /// The object that the finding is about. Several nodes are a folded set, such as `gpu-[01-12]`, in `node` and in
    /// `name`; all commands accept such sets as nodes.
    subject: Subject,
    /// Number of nodes with the finding; 0 if it is not about a node.
    node_count: usize,
    /// The observed problem.
    message: String,
    /// The operations that are blocked while the finding exists; absent if there are none, and for an explained finding
    /// without `--all`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    blocks: Vec<Blocks>,
    /// The start of the problem, of several nodes the earliest; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    /// Values that support the finding, of several nodes those of the first; absent if there are none, and for an
    /// explained finding without `--all`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    evidence: Vec<Evidence>,
    /// Remedies, least disruptive first; absent without `--all`, because those of the causes suffice.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedies: Option<Vec<Remedy>>,
    /// Why a package's stage, or the operator, makes no progress; absent if the finding is about neither.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Box<Reason>>,
    /// The findings that explain this one, as indexes into `findings`, starting at 0; absent for a cause.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    explained_by: Vec<usize>,
}

/// Findings with the same problem on different nodes or of different objects, which no other finding explains.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct CauseDocument {
    /// The code of the rule.
    code: String,
    /// The name of the rule.
    name: String,
    /// The highest severity of the cause's findings and of the findings that they explain.
    severity: Severity,
    /// The problem, in words that apply to all findings of the cause.
    message: String,
    /// The time since which the oldest of the cause's findings exists; absent if it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    /// The custom resources with the problem; empty if the problem is not that of a custom resource.
    skyhooks: Vec<String>,
    /// The nodes with the problem.
    nodes: Vec<String>,
    /// Remedies of the first of the cause's findings, least disruptive first, for all nodes where one command can name them.
    remedies: Vec<Remedy>,
    /// Number of nodes that make no progress because of the cause, each counted once.
    blocked_nodes: usize,
    /// The blocked nodes by custom resource.
    blocked: Vec<BlockedDocument>,
    /// The findings of the cause, as indexes into `findings`, starting at 0.
    #[serde(rename = "findingIndexes")]
    findings: Vec<usize>,
    /// Findings that the cause explains, directly or through others, as indexes into `findings`.
    explains: Vec<usize>,
    /// Attributes that the failing nodes have and the healthy nodes lack, best match first; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    contrasts: Vec<Contrast>,
}

/// A custom resource that a cause blocks.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct BlockedDocument {
    /// The custom resource.
    skyhook: String,
    /// The nodes on which the custom resource makes no progress, as a folded set such as `gpu-[01-12]`.
    node: String,
    /// Number of these nodes.
    node_count: usize,
}

/// A rule that could not be checked.
#[derive(Serialize, JsonSchema)]
struct NotCheckedDocument {
    /// The code of the rule.
    code: String,
    /// Why the rule could not be checked.
    message: String,
}

impl Document {
    pub(super) fn of(diagnosis: &Diagnosis<'_>) -> Document {
        let (cluster, report) = (diagnosis.cluster, &diagnosis.report);
        let active_api = &cluster.active_api;
        let alike = AlikeFindings::of(&report.findings);
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
                message: group.message().into_owned(),
                since: group.since().map(time),
                skyhooks: group.skyhooks().into_iter().map(str::to_owned).collect(),
                nodes: group.node_names().into_iter().map(str::to_owned).collect(),
                blocked_nodes: impact.nodes().len(),
                blocked: blocked
                    .map(|(skyhook, nodes)| BlockedDocument {
                        skyhook: (*skyhook).to_owned(),
                        node: NodeSet::of(nodes.iter().copied()).to_string(),
                        node_count: nodes.len(),
                    })
                    .collect(),
                remedies: group.remedies_for_all(&diagnosis.grades),
                findings: alike.groups_of(&cause.findings),
                explains: alike.groups_of(&cause.effects),
            }
        });
        let findings = alike.groups.iter().map(|findings| {
            let first = findings.group.first();
            let whole = diagnosis.unfolded || findings.explained_by.is_empty();
            FindingDocument {
                code: first.rule.code.to_owned(),
                name: first.rule.name.to_owned(),
                severity: first.severity,
                subject: findings.subject(),
                node_count: findings.group.node_count(),
                message: findings.group.message().into_owned(),
                blocks: if whole { first.blocks.to_vec() } else { Vec::new() },
                since: findings.group.since().map(time),
                evidence: if whole { first.evidence.clone() } else { Vec::new() },
                remedies: diagnosis.unfolded.then(|| findings.group.remedies_for_all(&diagnosis.grades)),
                reason: findings.reason(),
                explained_by: findings.explained_by.iter().copied().collect(),
            }
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
                .map(|n| NotCheckedDocument { code: n.rule.code.to_owned(), message: n.reason.clone() })
                .collect(),
            blocked_nodes: diagnosis.impact.blocked_nodes(Severity::Error),
            selected_nodes: diagnosis.impact.selected,
            counts: report.counts,
            muted: mutes::documents(report),
            lapsed_mutes: report.lapsed.clone(),
        }
    }
}
