//! The text and the JSON document of `status`: the operator, then one block per custom resource.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::findings::Findings;
use super::item::{Nodes, Package, ProgressReader, SkyhookProgress};
use crate::api::deployment_policy::DEFAULT_COMPARTMENT;
use crate::args::listing::Sorting;
use crate::cluster::Cluster;
use crate::cluster::at_once::AtOnce;
use crate::commands::shared::rule::counted;
use crate::rules::Report;
use crate::view::text::{self, Label, Line, Text};
use crate::view::{FormatError, NodeSet, Table, View, ago, cells, count, list, plural, to_json};

/// The state of the operator and its custom resources.
pub struct StatusReport<'a> {
    cluster: &'a Cluster,
    document: Document,
}

/// The operator, and the progress of each custom resource.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    api_version: String,
    /// Always `Status`.
    kind: String,
    taken_at: String,
    operator: Operator,
    items: Vec<SkyhookProgress>,
    /// Custom resources of the other API, which are not listed.
    legacy: usize,
    /// Findings that are not about a specific custom resource.
    findings: Findings,
    /// Rules that could not be checked.
    not_checked: usize,
}

/// The operator, and the API that it acts on.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Operator {
    api: String,
    reasons: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unknown_reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    /// Whether its Deployment has no available replica.
    down: bool,
}

impl<'a> StatusReport<'a> {
    /// Of all custom resources, or of those named.
    pub fn new(cluster: &'a Cluster, report: &Report, names: &[String]) -> StatusReport<'a> {
        let there = cluster.skyhooks.items().iter().map(|s| s.name());
        let gone = cluster
            .names_on_nodes()
            .into_iter()
            .filter(|name| cluster.skyhook(name).is_none());
        let shown = there
            .chain(gone)
            .filter(|name| names.is_empty() || names.iter().any(|n| n == name));
        let reader = ProgressReader::new(cluster, report);
        let document = Document {
            api_version: crate::view::API_VERSION.to_owned(),
            kind: "Status".to_owned(),
            taken_at: cluster.taken_at.to_string(),
            operator: Operator::of(cluster),
            items: shown
                .map(|name| reader.progress(name, !names.is_empty()))
                .collect(),
            legacy: cluster.legacy.items().len(),
            findings: Findings::about_none(report),
            not_checked: report.not_checked.len(),
        };
        StatusReport { cluster, document }
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

    fn block(&self, item: &SkyhookProgress, wide: bool) -> Text {
        let mut text = Text::new();
        text.line(self.title(item));
        let mut body = Text::new();
        match &item.nodes {
            Some(nodes) if item.exists => body.append(node_counts(nodes, wide)),
            Some(_) => &mut body,
            None => body.line(text::warning("the nodes could not be read")),
        };
        body.table(packages(item));
        body.table(compartments(item, wide));
        body.append(said(item.findings, Some(&item.name)));
        text.indented(2, body);
        text
    }

    /// `gpu-tune  erroring, deleting for 5m, priority 100`
    fn title(&self, item: &SkyhookProgress) -> Line {
        if !item.exists {
            let behind = item.nodes.as_ref().map_or(0, |n| n.left_behind);
            let nodes = plural(behind, "node");
            let behind = match self.cluster.skyhooks.ok() {
                Some(_) => format!("gone, but its annotations or labels are still on {nodes}"),
                None => {
                    format!("not read, may still exist; has annotations or labels on {nodes}")
                }
            };
            return text::heading(&item.name) + "  " + text::warning(behind);
        }
        let mut title =
            text::heading(&item.name) + "  " + Label::of_status(&item.status).on(&item.status);
        let deletion = self
            .cluster
            .skyhook(&item.name)
            .map(|s| s.metadata.deletion_timestamp);
        if let (true, Some(since)) = (item.deleting, deletion) {
            let ago = ago(since, self.cluster.taken_at);
            title = title + ", " + text::warning(format!("deletion started {ago}"));
        }
        for (is, word) in [(item.paused, "paused"), (item.disabled, "disabled")] {
            if is && item.status != word {
                title = title + ", " + text::warning(word);
            }
        }
        if let Some(reason) = &item.stop_reason {
            title = title + format!(" ({reason})");
        }
        title + text::dim(format!(", priority {}", item.priority))
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

    fn line(&self) -> Line {
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

impl View for StatusReport<'_> {
    fn blocks(&self, wide: bool) -> Text {
        let document = &self.document;
        let mut text = Text::new();
        text.line(document.operator.line());
        // Of two operators the older one acts on these.
        if document.legacy > 0 && self.cluster.installations().len() < 2 {
            text.paragraph(text::dim(format!(
                "This operator ignores {}.",
                plural(
                    document.legacy,
                    &format!("{} object", self.cluster.flavor().other().resource())
                )
            )));
        }
        for item in &document.items {
            text.blank();
            text.append(self.block(item, wide));
        }
        let about_all = said(document.findings, None);
        if !about_all.is_empty() || document.not_checked > 0 {
            text.blank();
        }
        text.append(about_all);
        if document.not_checked > 0 {
            let rules = plural(document.not_checked, "rule");
            text.paragraph(
                text::warning(format!("{rules} could not be checked"))
                    + ": "
                    + text::command("kubectl skyhook diagnose stuck"),
            );
        }
        text
    }

    fn names(&self) -> Vec<String> {
        let items = self.document.items.iter().filter(|item| item.exists);
        items
            .map(|item| format!("{}/{}", item.kind.to_lowercase(), item.name))
            .collect()
    }

    fn document(&self) -> Value {
        to_json(&self.document)
    }
}

/// Drains that are shown before the rest is only counted.
const DRAINING: usize = 3;

/// `3 nodes: 2 complete, 1 erroring; 1 ignored`, and with `wide` the names of unfinished nodes.
fn node_counts(nodes: &Nodes, wide: bool) -> Text {
    let mut line = Line::from(plural(nodes.selected, "node"));
    for (at, (status, n)) in nodes.histogram().into_iter().enumerate() {
        let sign = if at == 0 { ": " } else { ", " };
        line = line + sign + Label::of_status(status).on(format!("{} {status}", count(n)));
    }
    if nodes.ignored > 0 {
        line = line + format!("; {} ignored", count(nodes.ignored));
    }
    if nodes.malformed > 0 {
        let malformed = format!("{} with unreadable state", count(nodes.malformed));
        line = line + "; " + text::error(malformed);
    }
    if nodes.left_behind > 0 {
        let behind = count(nodes.left_behind);
        line = line + format!("; {behind} no longer selected");
    }
    let mut text = Text::new();
    text.line(line);
    let shown = if wide { nodes.draining.len() } else { DRAINING };
    for draining in nodes.draining.iter().take(shown) {
        let summary = format!("{}: {}", draining.node, draining.drain.summary);
        text.indented(2, Line::from(summary));
    }
    if nodes.draining.len() > shown {
        let more = plural(nodes.draining.len() - shown, "more node");
        text.indented(2, Line::from(format!("{more} being drained")));
    }
    for (status, names) in nodes.names.iter().filter(|(s, _)| wide && *s != "complete") {
        let set = NodeSet::of(names);
        text.indented(2, Line::from(format!("{status}: {set}")));
    }
    text
}

fn packages(item: &SkyhookProgress) -> Table {
    let mut table = Table::new(["package", "version", "complete", "stages"]).prose();
    for package in &item.packages {
        let mut stages = Line::default();
        for stage in &package.stages {
            if !stages.is_empty() {
                stages = stages + ", ";
            }
            let place = match stage.stage.as_str() {
                "" => stage.state.clone(),
                at => format!("{at}/{}", stage.state),
            };
            let label = match stage.state.as_str() {
                "erroring" => Label::Error,
                _ => Label::Plain,
            };
            stages = stages + label.on(format!("{} {place}", count(stage.nodes)));
            stages = match stage.runs_for.as_str() {
                "" => stages,
                time => stages + text::dim(format!(" ({time})")),
            };
        }
        if !package.in_spec && item.exists {
            stages = stages + text::dim(" (not in the spec)");
        }
        table.row(cells![
            package.name.as_str(),
            package.version.as_str(),
            done(package),
            stages
        ]);
    }
    table
}

/// `2/3`, and `2/3 absent` of a package that is to be uninstalled; nothing of one that is not in the spec.
fn done(package: &Package) -> Line {
    let (done, suffix) = if package.uninstalling {
        (package.absent, " absent")
    } else {
        (package.complete, "")
    };
    let text = format!("{}/{}{suffix}", count(done), count(package.nodes));
    if !package.in_spec {
        Line::default()
    } else if done == package.nodes {
        text::good(text).into()
    } else {
        text.into()
    }
}

/// The compartments of the rollout; a single one without a stop only with `wide`.
fn compartments(item: &SkyhookProgress, wide: bool) -> Table {
    let mut table = Table::new([
        "compartment",
        "batch",
        "complete",
        "at-once",
        "failed",
        "rollout",
    ]);
    let plain = |name: &str| name == DEFAULT_COMPARTMENT && item.deployment_policy.is_empty();
    for part in &item.compartments {
        if !wide && plain(&part.name) && !part.stopped {
            continue;
        }
        let name = part.name.as_str();
        let rollout = if part.stopped {
            text::error("stopped")
        } else if part.completed >= part.nodes {
            text::good("done")
        } else {
            text::plain("not stopped")
        };
        table.row(cells![
            name,
            part.batch,
            format!("{}/{}", part.completed, part.nodes),
            at_once(part.bound),
            part.failed,
            rollout
        ]);
    }
    table
}

fn at_once(bound: AtOnce) -> String {
    match bound {
        AtOnce::UpTo(nodes) => nodes.to_string(),
        AtOnce::Varies => "varies".to_owned(),
        AtOnce::Unknown => "unknown".to_owned(),
    }
}

/// `2 errors and 1 warning: kubectl skyhook diagnose stuck gpu-tune`
fn said(findings: Findings, name: Option<&str>) -> Text {
    let counts = counted(findings.errors, findings.warnings);
    let mut text = Text::new();
    if counts.is_empty() {
        return text;
    }
    let label = match findings.errors {
        0 => Label::Warning,
        _ => Label::Error,
    };
    let command = match name {
        Some(name) => format!("kubectl skyhook diagnose stuck {name}"),
        None => "kubectl skyhook diagnose stuck".to_owned(),
    };
    let about = match name {
        Some(_) => "",
        None => " for the cluster as a whole",
    };
    text.line(label.on(list(&counts)) + about + ": " + text::command(command));
    text
}
