//! The document of `status`.

pub mod item;
pub mod uninstalls;

use item::SkyhookProgress;
use schemars::JsonSchema;
use serde::Serialize;

use super::deletion::Deletion;
use crate::args::listing::Sorting;
use crate::cluster::Cluster;
use crate::model::ProgressState;
use crate::outlook::Outlook;
use crate::rules::support::blockers::{CauseImpact, Impact};
use crate::rules::{Finding, Report, Severity, Verdict};
use crate::view::text::{self, Label, Line};
use crate::view::{FormatError, time, to_json};

/// The state of the operator and its custom resources.
pub struct StatusReport<'a> {
    pub cluster: &'a Cluster,
    pub outlook: Outlook<'a>,
    /// The findings that are not muted, with their causes; `None` if none is muted.
    unmuted: Option<(Vec<Finding>, Impact<'a>)>,
    pub document: Document,
    /// Whether custom resources were named, so that each has its own page.
    pub named: bool,
    /// The flags with which `diagnose stuck` mutes the same findings.
    pub mute_words: Vec<String>,
    /// Whether the text of all custom resources is only their rows, for scripts.
    pub only_rows: bool,
}

/// The operator, and the progress of each custom resource.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    /// The time at which ages are calculated.
    taken_at: String,
    /// The overall result of the rules.
    verdict: Verdict,
    /// The operator.
    pub operator: Operator,
    /// The custom resources.
    pub items: Vec<SkyhookProgress>,
    /// Number of custom resources of the other API, which are not listed.
    pub legacy: usize,
    /// Number of causes that `diagnose stuck` reports, by severity.
    #[serde(rename = "counts")]
    pub findings: Findings,
    /// Number of nodes that errors block.
    blocked_nodes: usize,
    /// Number of nodes that any custom resource selects.
    selected_nodes: usize,
    /// Number of rules that could not run.
    #[serde(rename = "notCheckedRules")]
    pub not_checked: usize,
    /// Number of muted causes; they affect neither the verdict nor `findings`.
    #[serde(rename = "mutedCauses")]
    pub muted: usize,
    /// Number of muted causes whose mute has no expiry.
    pub muted_without_expiry: usize,
    /// Number of mutes that no longer apply.
    #[serde(rename = "lapsedMuteCount")]
    pub lapsed_mutes: usize,
}

/// The operator, and the API that it acts on.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Operator {
    /// The API group and version.
    api: String,
    /// The observations that determined the API.
    reasons: Vec<String>,
    /// The version of the operator; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// Why the version is unknown; absent if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    unknown_reason: Option<String>,
    /// The namespace of the operator; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    /// Whether the operator does not act: no replica is available, or none renews its Lease.
    down: bool,
}

impl<'a> StatusReport<'a> {
    /// The report of the named custom resources, or of all if `names` is empty.
    pub fn new(cluster: &'a Cluster, report: Report, names: &[String]) -> StatusReport<'a> {
        let there = cluster.skyhooks.iter().map(|s| s.name());
        let gone = cluster.names_on_nodes().into_iter().filter(|name| cluster.skyhook(name).is_none());
        let shown = there.chain(gone).filter(|name| names.is_empty() || names.iter().any(|n| n == name));
        // A mute hides a cause from the list, but does not change the assessment of its custom resource.
        let all = (!report.muted.is_empty()).then(|| report.all_findings());
        let (findings, unmuted) = match all {
            None => (report.findings, None),
            Some(all) => (all, Some(report.findings)),
        };
        let outlook = Outlook::new(cluster, findings);
        let unmuted = unmuted.map(|findings| {
            let impact = Impact::new(cluster, &outlook.model, &findings);
            (findings, impact)
        });
        let package_runs = cluster.package_runs();
        let shown_impact = unmuted.as_ref().map_or(&outlook.impact, |(_, impact)| impact);
        let named = !names.is_empty();
        let items = shown.map(|name| item::progress(&outlook, &package_runs, name, named)).collect();
        let document = Document {
            taken_at: time(cluster.taken_at),
            verdict: report.verdict,
            operator: Operator::of(cluster),
            items,
            legacy: cluster.legacy.items().len(),
            findings: Findings::all(shown_impact),
            blocked_nodes: shown_impact.blocked_nodes(Severity::Error),
            selected_nodes: shown_impact.selected,
            not_checked: report.not_checked.len(),
            muted: report.counts.muted,
            muted_without_expiry: report.counts.muted_without_expiry,
            lapsed_mutes: report.lapsed.len(),
        };
        StatusReport { cluster, outlook, unmuted, document, named, mute_words: Vec::new(), only_rows: false }
    }

    /// The requested deletion of a custom resource that was named.
    pub fn deletion(&self, name: &str) -> Option<Deletion<'_, 'a>> {
        let skyhook = self.cluster.skyhook(name).filter(|_| self.named)?;
        Deletion::of(&self.outlook, skyhook)
    }

    /// The causes that are not muted.
    pub fn impact(&self) -> &Impact<'a> {
        self.unmuted.as_ref().map_or(&self.outlook.impact, |(_, impact)| impact)
    }

    /// The findings that are not muted; the causes hold indexes of this list.
    pub fn findings(&self) -> &[Finding] {
        self.unmuted.as_ref().map_or(&self.outlook.findings, |(findings, _)| findings)
    }

    /// Sorts the custom resources.
    ///
    /// # Errors
    ///
    /// See [`Sorting::sort`].
    pub fn sort(&mut self, sorting: &Sorting) -> Result<(), FormatError> {
        sorting.sort(&mut self.document.items, to_json)
    }

    pub fn is_empty(&self) -> bool {
        self.document.items.is_empty()
    }

    /// Whether the severity of the cause with this index is above info.
    pub fn is_grave(&self, at: usize) -> bool {
        self.impact().causes[at].severity() > Severity::Info
    }
}

/// How a state is shown.
pub fn label(state: ProgressState) -> Label {
    match state {
        ProgressState::Complete => Label::Good,
        ProgressState::Stuck | ProgressState::Failed => Label::Error,
        ProgressState::Degraded | ProgressState::Blocked | ProgressState::Unknown | ProgressState::Gone => {
            Label::Warning
        }
        _ => Label::Plain,
    }
}

impl Operator {
    fn of(cluster: &Cluster) -> Operator {
        let version = cluster.active_api.operator_version.as_ref();
        let deployment = cluster.operator().deployment();
        Operator {
            api: cluster.flavor().api_version(),
            reasons: cluster.active_api.reasons.clone(),
            version: version.map(ToString::to_string),
            unknown_reason: cluster.operator().why_no_version(),
            namespace: deployment.map(|d| d.namespace().to_owned()),
            down: !cluster.operator().is_absent() && cluster.operator().why_down().is_some(),
        }
    }

    pub fn line(&self) -> Line {
        let mut line = Line::from(match &self.version {
            Some(version) => format!("Operator {version}"),
            None => {
                format!("Operator (version unknown: {})", self.unknown_reason.as_deref().unwrap_or_default())
            }
        });
        if let Some(namespace) = &self.namespace {
            line = line + format!(" in {namespace}");
        }
        if self.down {
            line = line + ", " + text::error("down");
        }
        line + format!(", acting on {}", self.api)
    }
}

/// Number of causes that `diagnose stuck` reports, by severity; the findings that they explain do not count.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Findings {
    pub errors: usize,
    pub warnings: usize,
    pub infos: usize,
}

impl Findings {
    /// Counts all causes.
    pub fn all(impact: &Impact<'_>) -> Findings {
        Findings::of(impact.causes.iter())
    }

    /// Counts the causes that concern a custom resource, its nodes, or the whole operator.
    pub fn about(name: &str, impact: &Impact<'_>) -> Findings {
        Findings::of(impact.about(name).iter().map(|at| &impact.causes[*at]))
    }

    fn of<'i>(causes: impl Iterator<Item = &'i CauseImpact<'i>>) -> Findings {
        let mut counts = Findings::default();
        for cause in causes {
            *match cause.severity() {
                Severity::Error => &mut counts.errors,
                Severity::Warning => &mut counts.warnings,
                Severity::Info => &mut counts.infos,
            } += 1;
        }
        counts
    }
}
