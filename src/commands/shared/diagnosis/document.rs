//! The JSON document of `diagnose stuck`.

use std::collections::{BTreeSet, HashMap};

use schemars::JsonSchema;
use serde::Serialize;

use super::Diagnosis;
use super::group::{Detail, FindingGroup, OWN};
use super::reason::most_informative;
use crate::cluster::contrast::Contrast;
use crate::commands::shared::grouped::grouped;
use crate::commands::shared::remedy::{command_with_grade, remedy_text};
use crate::commands::shared::{cause_table, mutes};
use crate::rules::support::blockers::CauseImpact;
use crate::rules::support::causes::{Cause, Causes};
use crate::rules::support::mute::{LapsedMute, MutedFinding};
use crate::rules::{Blocks, Counts, Evidence, Finding, Grade, Reason, Remedy, Severity, Subject, Verdict};
use crate::view::text::{Layout, Line, Text};
use crate::view::{NodeSet, shell_words, some_of, text, time};

/// The findings with evidence and remedies, and the rules that could not run.
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
    /// The causes, with those that explain the most findings first.
    causes: Vec<CauseDocument>,
    /// The findings: the causes in the same order, then the explained findings.
    findings: Vec<FindingDocument>,
    /// The rules that could not run.
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
    /// The highest severity of the cause's findings, and of the findings that they explain and no graver cause does.
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

/// A rule that could not run.
#[derive(Serialize, JsonSchema)]
struct NotCheckedDocument {
    /// The code of the rule.
    code: String,
    /// Why the rule could not run.
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
            let blocked = impact.blocked.iter().filter(|(skyhook, _)| !skyhook.is_empty());
            CauseDocument {
                code: first.rule.code.to_owned(),
                name: first.rule.name.to_owned(),
                severity: impact.severity(),
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
        // Before the findings, because only a number of commands is graded.
        let causes: Vec<CauseDocument> = causes.collect();
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
            causes,
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

/// The groups of all findings, in the order of their first members.
pub struct AlikeFindings<'a> {
    pub groups: Vec<Alike<'a>>,
    /// The group of each finding.
    group_of: Vec<usize>,
}

/// Findings that differ only in their node.
pub struct Alike<'a> {
    pub group: FindingGroup<'a>,
    /// The groups that explain any of the findings.
    pub explained_by: BTreeSet<usize>,
}

/// The properties in which findings of one group agree.
#[derive(PartialEq, Eq, Hash)]
struct Key<'a> {
    code: &'static str,
    severity: Severity,
    message: &'a str,
    skyhook: Option<&'a str>,
    package: Option<&'a str>,
    remedies: Vec<Remedy>,
    /// The finding itself, if it is not about a node.
    alone: Option<usize>,
}

impl<'a> Key<'a> {
    fn of(at: usize, finding: &'a Finding) -> Key<'a> {
        // Placeholder for the node.
        const ANY: &str = "\0";
        let subject = &finding.subject;
        let node =
            subject.node.as_deref().filter(|node| *node == subject.name && subject.compartment.is_none());
        let remedies = finding.remedies().map(|mut remedy| {
            let words = remedy.argv.iter_mut().filter(|word| Some(word.as_str()) == node);
            words.for_each(|word| ANY.clone_into(word));
            // A look at the pod of one node is an example for all.
            if !remedy.changes() && remedy.own().is_none() {
                remedy.argv.clear();
            }
            remedy
        });
        Key {
            code: finding.rule.code,
            severity: finding.severity,
            message: finding.trouble(),
            skyhook: subject.skyhook.as_deref(),
            package: subject.package.as_deref(),
            remedies: if node.is_some() { remedies.collect() } else { Vec::new() },
            alone: node.is_none().then_some(at),
        }
    }
}

impl<'a> AlikeFindings<'a> {
    /// Groups the findings; members of a group are explained by the same groups.
    pub fn of(findings: &'a [Finding]) -> AlikeFindings<'a> {
        let edges = Causes::of(findings);
        let mut kinds: HashMap<Key<'a>, usize> = HashMap::new();
        let mut kind_of = Vec::with_capacity(findings.len());
        for (at, finding) in findings.iter().enumerate() {
            let next = kinds.len();
            kind_of.push(*kinds.entry(Key::of(at, finding)).or_insert(next));
        }
        let mut groups: HashMap<(usize, BTreeSet<usize>), usize> = HashMap::new();
        let mut members: Vec<Vec<usize>> = Vec::new();
        let mut group_of = Vec::with_capacity(findings.len());
        for at in 0..findings.len() {
            let explaining = edges.explaining(at).iter().map(|cause| kind_of[*cause]).collect();
            let next = members.len();
            let group = *groups.entry((kind_of[at], explaining)).or_insert(next);
            if group == next {
                members.push(Vec::new());
            }
            members[group].push(at);
            group_of.push(group);
        }
        let groups = members.into_iter().map(|members| Alike {
            explained_by: members
                .iter()
                .flat_map(|at| edges.explaining(*at))
                .map(|at| group_of[*at])
                .collect(),
            group: FindingGroup::of(&Cause::alone(members), findings),
        });
        AlikeFindings { groups: groups.collect(), group_of }
    }

    /// The groups of these findings, each once.
    pub fn groups_of(&self, findings: &[usize]) -> Vec<usize> {
        let groups: BTreeSet<usize> = findings.iter().map(|at| self.group_of[*at]).collect();
        groups.into_iter().collect()
    }
}

impl Alike<'_> {
    /// The subject of all findings: several nodes as a folded set.
    pub fn subject(&self) -> Subject {
        let subject = self.group.first().subject.clone();
        match self.group.findings.len() {
            1 => subject,
            _ => {
                let nodes = NodeSet::of(self.group.nodes()).to_string();
                Subject { name: nodes.clone(), node: Some(nodes), ..subject }
            }
        }
    }

    /// The most informative attempt: one with a log, else the first.
    pub fn reason(&self) -> Option<Box<Reason>> {
        most_informative(&self.group.findings)?.0.reason.clone()
    }
}

/// Maximum number of causes that are shown in full.
const IN_FULL: usize = 1;

/// Maximum number of causes whose messages a table shows whole, with titles of their next commands if these fit.
const WHOLE: usize = 8;
/// Maximum number of notes that are shown beside a cause, and whose numbers are shown for each rule.
pub(super) const SHOWN_NOTES: usize = 3;

/// A cause in the table, with its graded remedies.
struct Indexed<'a> {
    /// The index of the cause.
    at: usize,
    group: FindingGroup<'a>,
    remedies: Vec<(Remedy, Option<String>)>,
}

impl Diagnosis<'_> {
    /// The indices of the errors and warnings that a table lists; `None` if they are few enough to show in
    /// full.
    pub(super) fn indexed(&self) -> Option<Vec<usize>> {
        let causes = self.impact.causes.iter().enumerate();
        let grave: Vec<usize> =
            causes.filter(|(_, cause)| cause.severity() > Severity::Info).map(|(at, _)| at).collect();
        (grave.len() > IN_FULL && !self.unfolded && self.chosen.is_none()).then_some(grave)
    }

    /// The table of causes, then as many of their commands as fit into the lines: of a few causes with titles.
    pub(super) fn index(&self, causes: &[usize], lines: usize) -> Text {
        // In a pipe, rows of a table are not cut. The empty lines around the text count as well.
        let fits = |text: &Text| super::rows(text, Layout::PIPE) + 2 <= lines;
        let rows: Vec<Indexed<'_>> = causes
            .iter()
            .map(|at| {
                let group = FindingGroup::of(&self.impact.causes[*at].cause, &self.report.findings);
                let remedies = group.graded_remedies(&self.grades, Detail::Brief);
                Indexed { at: *at, group, remedies }
            })
            .collect();
        let few = causes.len() <= WHOLE;
        let forms = [(true, usize::MAX), (false, usize::MAX), (false, 1)];
        let mut texts = forms
            .into_iter()
            .filter(|(explained, _)| few || !explained)
            .map(|(explained, most)| self.index_with(&rows, explained, most));
        texts.find(fits).unwrap_or_else(|| self.index_with(&rows, false, 1))
    }

    /// The first command of each cause, and the first one that changes something, at most `most`: `explained` with
    /// titles, otherwise without refused commands.
    fn index_with(&self, causes: &[Indexed<'_>], explained: bool, most: usize) -> Text {
        let findings = &self.report.findings;
        let rows = causes.iter().map(|cause| (cause.at, &self.impact.causes[cause.at]));
        let mut text = Text::new();
        text.blank().table(cause_table::table(self.cluster, findings, rows, causes.len() <= WHOLE));
        text.blank().line("next:");
        for Indexed { at, group, remedies } in causes {
            let number = format!("{:>2}  ", at + 1);
            let mut marks = std::iter::once(&*number).chain(std::iter::repeat("    "));
            let changes_first = remedies.first().is_some_and(|(remedy, _)| remedy.changes());
            let most = if !explained && changes_first { 1 } else { most };
            let shown = remedies.iter().enumerate().filter(|(place, (remedy, _))| {
                // Commands that would be refused or change nothing now have an effect without a grade.
                let acts = remedy.grade.is_some() || remedy.effect.is_none();
                // Except for the recommended command, only commands that show their effects before they act.
                let is_safe = *place == 0 || remedy.own().is_some() || remedy.grade <= Some(Grade::B1);
                explained || acts && is_safe
            });
            let shown: Vec<_> = shown.map(|(_, remedy)| remedy).take(most).collect();
            for ((remedy, repeat), mark) in shown.iter().zip(&mut marks) {
                if explained {
                    text.append(remedy_text(mark, remedy, repeat.clone()));
                } else {
                    text.line(Line::from(mark) + command_with_grade(remedy));
                }
            }
            if shown.is_empty() {
                let words = OWN.into_iter().chain(["explain", group.first().rule.code]);
                text.line(text::plain(&*number) + text::command(shell_words(&words.collect::<Vec<_>>())));
            }
            if causes.len() <= WHOLE
                && let Some(contrast) = super::group::sentence(&group.contrasts(self.cluster))
            {
                text.indented(4, contrast);
            }
        }
        let first = causes.first().map_or(1, |cause| cause.at + 1);
        if let Some(command) = self.command_for(first) {
            text.blank().line(text::dim("one cause in full: ") + text::command(command));
        }
        text.append(self.notes());
        text
    }

    /// The numbers of the notes, one line for each rule.
    pub(super) fn notes(&self) -> Text {
        let causes = self.impact.causes.iter().enumerate();
        let notes = causes.filter(|(_, cause)| cause.severity() == Severity::Info).map(|(at, cause)| {
            let rule = self.report.findings[cause.cause.findings[0]].rule;
            ((rule.code, rule.name), (at + 1).to_string())
        });
        let mut text = Text::new();
        for ((code, name), numbers) in grouped(notes) {
            let note = if numbers.len() == 1 { "note" } else { "notes" };
            text.line(text::dim(format!("{note} {}: {code} {name}", some_of(&numbers, SHOWN_NOTES))));
        }
        text
    }

    /// The command that shows the cause with this number in full; `None` if the causes have no numbers outside this
    /// report.
    pub(super) fn command_for(&self, number: usize) -> Option<String> {
        let arguments = self.arguments.as_ref()?.iter().cloned();
        let words = OWN.into_iter().chain(["diagnose", "stuck"]).map(str::to_owned);
        let words = words.chain(arguments).chain([number.to_string()]);
        Some(shell_words(&words.collect::<Vec<_>>()))
    }

    /// One line for each cause: `SKY201 nodewright/gpu-tune gpu-[1-3]`.
    pub(super) fn cause_names(&self) -> Vec<String> {
        let causes = self.impact.causes.iter().enumerate();
        let chosen = causes.filter(|(at, _)| self.chosen.is_none_or(|chosen| chosen == *at));
        let name = |(_, impact): (usize, &CauseImpact<'_>)| {
            let group = FindingGroup::of(&impact.cause, &self.report.findings);
            let subject = &group.first().subject;
            let kind = match &subject.skyhook {
                Some(_) => self.cluster.flavor().kind(),
                None => &subject.kind,
            };
            let object = format!("{}/{}", kind.to_lowercase(), group.objects());
            let nodes: Vec<&str> = group.nodes().collect();
            match nodes.len() {
                0 => format!("{} {object}", group.first().rule.code),
                _ => format!("{} {object} {}", group.first().rule.code, NodeSet::of(&nodes)),
            }
        };
        chosen.map(name).collect()
    }
}
