//! The document of `status`.

pub mod assessment;
pub mod findings;
pub mod item;

use schemars::JsonSchema;
use serde::Serialize;

use self::assessment::Assessor;
use self::findings::Findings;
use self::item::{ProgressReader, SkyhookProgress};
use crate::args::listing::Sorting;
use crate::cluster::Cluster;
use crate::model::{Model, Timeline};
use crate::rules::support::impact::Impact;
use crate::rules::{Finding, Report, Severity, Verdict};
use crate::view::text::{self, Line};
use crate::view::{FormatError, time, to_json};

/// The state of the operator and its custom resources.
pub struct StatusReport<'a> {
    pub cluster: &'a Cluster,
    pub model: Model<'a>,
    pub findings: Vec<Finding>,
    pub impact: Impact<'a>,
    pub timeline: Timeline<'a>,
    pub document: Document,
    /// Whether custom resources were named, so that each has its own page.
    pub named: bool,
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
    pub findings: Findings,
    /// Number of nodes that errors block.
    blocked_nodes: usize,
    /// Number of nodes that any custom resource selects.
    selected_nodes: usize,
    /// Number of rules that could not be checked.
    pub not_checked: usize,
    /// Number of muted causes; they affect neither the verdict nor `findings`.
    pub muted: usize,
    /// Number of muted causes whose mute has no expiry.
    pub muted_without_expiry: usize,
    /// Number of mutes that no longer apply.
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
    /// Whether the operator's Deployment has no available replica.
    down: bool,
}

impl<'a> StatusReport<'a> {
    /// The report of the named custom resources, or of all if `names` is empty.
    pub fn new(cluster: &'a Cluster, report: Report, names: &[String]) -> StatusReport<'a> {
        let there = cluster.skyhooks.items().iter().map(|s| s.name());
        let gone = cluster.names_on_nodes().into_iter().filter(|name| cluster.skyhook(name).is_none());
        let shown = there.chain(gone).filter(|name| names.is_empty() || names.iter().any(|n| n == name));
        let model = Model::new(cluster);
        // A mute hides a cause from the list, but does not change the assessment of its custom resource.
        let all = (!report.muted.is_empty()).then(|| report.all_findings());
        let findings = report.findings;
        let impact = Impact::new(cluster, &model, &findings);
        let impact_of_all = all.as_ref().map(|all| Impact::new(cluster, &model, all));
        let reader = ProgressReader::new(Assessor {
            cluster,
            model: &model,
            findings: all.as_ref().unwrap_or(&findings),
            impact: impact_of_all.as_ref().unwrap_or(&impact),
            timeline: Model::new(cluster).estimates(),
        });
        let named = !names.is_empty();
        let document = Document {
            taken_at: time(cluster.taken_at),
            verdict: report.verdict,
            operator: Operator::of(cluster),
            items: shown.map(|name| reader.progress(name, named)).collect(),
            legacy: cluster.legacy.items().len(),
            findings: Findings::all(&impact),
            blocked_nodes: impact.blocked_nodes(),
            selected_nodes: impact.selected,
            not_checked: report.not_checked.len(),
            muted: report.counts.muted,
            muted_without_expiry: report.counts.muted_without_expiry,
            lapsed_mutes: report.lapsed.len(),
        };
        let timeline = reader.assessor.timeline;
        StatusReport { cluster, model, findings, impact, timeline, document, named }
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
        self.impact.causes[at].severity > Severity::Info
    }
}

impl Operator {
    fn of(cluster: &Cluster) -> Operator {
        let version = cluster.active_api.operator_version.as_ref();
        let deployment = cluster.operator();
        Operator {
            api: cluster.flavor().api_version(),
            reasons: cluster.active_api.reasons.clone(),
            version: version.map(ToString::to_string),
            unknown_reason: cluster.why_no_operator_version(),
            namespace: deployment.map(|d| d.namespace().to_owned()),
            down: deployment.is_some_and(|d| d.observed() && d.available_replicas() == 0),
        }
    }

    pub fn line(&self) -> Line {
        let mut line = Line::from(match (&self.version, &self.unknown_reason) {
            (Some(version), _) => format!("Operator {version}"),
            (None, Some(why)) => format!("Operator (version unknown: {why})"),
            (None, None) => "Operator (version unknown)".to_owned(),
        });
        if let Some(namespace) = &self.namespace {
            line = line + format!(" in {namespace}");
        }
        if self.down {
            line = line + ", " + text::error("no replica available");
        }
        line + format!(", acting on {}", self.api)
    }
}
