use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::shared::command::command;
use super::shared::rows::PackageRows;
use crate::api::{Executor, Skyhook, Status};
use crate::cluster::provenance::changeable;
use crate::cluster::{Cluster, Node, NodeRecord, Read, Source};
use crate::ctx::Ctx;
use crate::error::{Error, Exit, Result};
use crate::redact::BEGIN as MASKED;
use crate::rules::{self, Finding, Report, Scope, Severity, Subject};
use crate::view::text::{self, Label, Line, Text};
use crate::view::{NodeSet, View, document, list, plural, time};

/// Show what changed between two captures, or between a capture and the cluster
///
/// Compares custom resources (spec, labels, annotations, status), the nodes that they select, packages with version, stage
/// and state on each node, their pods or jobs, cordons, taints and findings. Nodes that changed in the same way share a line. Data that was not read on one of the
/// sides, or that a capture masks, is listed as not compared.
///
/// Without NEW, OLD is compared with the cluster, or with the capture of --from.
///
/// Exits with 0 if nothing changed, with 2 if something changed, and with 1 on errors, or if no change was found but
/// the cluster did not return all data to compare.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # What changed since this capture
  kubectl skyhook collect -o before.tar.gz
  kubectl skyhook diff before.tar.gz

  # Two captures
  kubectl skyhook diff before.tar.gz after.tar.gz -o json")]
pub struct Args {
    /// The earlier capture
    #[arg(value_name = "OLD")]
    old: PathBuf,

    /// The later capture; default: the cluster
    #[arg(value_name = "NEW")]
    new: Option<PathBuf>,
}

command! {
    "diff": Args => run,
    needs: Scope::default().needs(),
    prints: { "Diff": Document },
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    if args.new.is_some() && !ctx.global().reading.from.is_empty() {
        return Err(Error::usage("NEW and --from are mutually exclusive"));
    }
    let old = ctx.load_capture(&args.old)?;
    let needs = Scope::default().needs();
    let (new, name) = match &args.new {
        Some(path) => (ctx.load_capture(path)?, path.display().to_string()),
        None => {
            let cluster = ctx.load(&needs).await?;
            let name = if cluster.from_files { "input" } else { "cluster" };
            (cluster, name.to_owned())
        }
    };
    if old.taken_at.as_second() > new.taken_at.as_second() {
        ctx.warn("OLD was captured after NEW: exchange them to see the changes in order of time");
    }
    let report = Document::new((&old, &args.old.display().to_string()), (&new, &name));
    ctx.show(&report)?;
    let withheld = |cluster: &Cluster| needs.iter().any(|s| cluster.missing(*s).is_some());
    Ok(if report.different {
        Exit::Findings
    } else if withheld(&old) || withheld(&new) {
        Exit::Failed
    } else {
        Exit::Done
    })
}

/// The subject of a fact.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct FactKey {
    /// The custom resource; `None` for facts of a node or of the operator.
    skyhook: Option<String>,
    /// `package driver`, `spec.packages.driver.version`, `cordon`.
    field: String,
    node: Option<String>,
}

type Facts = BTreeMap<FactKey, String>;

/// The compared source of package runs: pods or Jobs, depending on the operator.
fn runs_in(cluster: &Cluster) -> Source {
    match cluster.flavor().executor() {
        Executor::Pod => Source::Pods,
        Executor::Job => Source::Jobs,
    }
}

/// The sources that could not be read completely on either side, with reasons.
fn not_compared(old: &Cluster, new: &Cluster) -> Vec<(Source, String)> {
    let unread = |cluster: &Cluster, source| match cluster.source(source) {
        Read::Ok(_) => None,
        Read::NotRequested => Some("not in the capture".to_owned()),
        Read::Incomplete(_, why) | Read::Unreadable(why) => Some(why.to_string()),
    };
    let missing = |source| {
        let sides = [("old", unread(old, source)), ("new", unread(new, source))];
        let reasons: Vec<String> =
            sides.into_iter().filter_map(|(side, why)| Some(format!("{side}: {}", why?))).collect();
        (!reasons.is_empty()).then(|| (source, list(&reasons)))
    };
    let runs = BTreeSet::from([runs_in(old), runs_in(new)]);
    [Source::Skyhooks, Source::Nodes, Source::Operator].into_iter().chain(runs).filter_map(missing).collect()
}

/// The facts of a cluster, except those of the excluded sources.
fn facts(cluster: &Cluster, without: &BTreeSet<Source>) -> Facts {
    let mut facts = Collector(Facts::new());
    if !without.contains(&Source::Operator) {
        for deployment in cluster.operator().acting() {
            let version = deployment.operator_version().map_or("unknown".to_owned(), |v| v.to_string());
            let field = format!("operator in namespace {}", deployment.namespace());
            facts.add(None, &field, None, version);
        }
    }
    if !without.contains(&Source::Skyhooks) {
        cluster.skyhooks.iter().for_each(|skyhook| facts.skyhook(skyhook));
    }
    if !without.contains(&Source::Nodes) {
        cluster.nodes.iter().for_each(|node| facts.node(cluster, node));
        facts.packages(cluster);
    }
    let is_compared = |sources: &[Source]| sources.iter().all(|source| !without.contains(source));
    if is_compared(&[Source::Skyhooks, Source::Nodes]) {
        facts.selections(cluster);
    }
    if is_compared(&[Source::Pods, Source::Jobs]) {
        facts.runs(cluster);
    }
    facts.0
}

/// The field of a node that a custom resource selects.
const SELECTED: &str = "selected";

struct Collector(Facts);

impl Collector {
    fn add(&mut self, skyhook: Option<&str>, field: &str, node: Option<&str>, value: String) {
        let key = FactKey {
            skyhook: skyhook.map(str::to_owned),
            field: field.to_owned(),
            node: node.map(str::to_owned),
        };
        self.0.insert(key, value);
    }

    fn skyhook(&mut self, skyhook: &Skyhook) {
        let name = Some(skyhook.name());
        self.add(name, "custom resource", None, "exists".to_owned());
        let status = skyhook.status.status.as_ref().unwrap_or(&Status::Unknown);
        self.add(name, "status", None, status.to_string());
        if skyhook.deleting() {
            self.add(name, "deletion", None, "requested".to_owned());
        }
        self.fields(skyhook.name(), "", &changeable(&skyhook.whole));
    }

    /// Adds the leaves of a JSON value as facts, by path.
    fn fields(&mut self, skyhook: &str, path: &str, value: &Value) {
        let children: Vec<(String, &Value)> = match value {
            Value::Object(members) if !members.is_empty() => {
                members.iter().map(|(key, value)| (format!("{path}.{key}"), value)).collect()
            }
            Value::Array(items) if !items.is_empty() => {
                items.iter().enumerate().map(|(at, value)| (format!("{path}[{at}]"), value)).collect()
            }
            _ => {
                let value = match value {
                    Value::String(text) => text.clone(),
                    value => value.to_string(),
                };
                let path = path.trim_start_matches('.');
                return self.add(Some(skyhook), path, None, value);
            }
        };
        for (path, value) in children {
            self.fields(skyhook, &path, value);
        }
    }

    fn node(&mut self, cluster: &Cluster, node: &Node) {
        let name = Some(node.name.as_str());
        let keys = node.keys(cluster.flavor());
        self.add(None, "node", name, "exists".to_owned());
        for (field, value) in
            [("ready", node.ready()), ("schedulable", node.cordoned().map(|cordoned| !cordoned))]
        {
            if let Some(value) = value {
                self.add(None, field, name, value.to_string());
            }
        }
        for taint in node.taints() {
            // Taints of the node controller repeat other facts.
            if !taint.key.starts_with("node.kubernetes.io/") {
                let field = format!("taint {}:{}", taint.key, taint.effect);
                self.add(None, &field, name, taint.value.clone());
            }
        }
        if let Some(ignore) = &keys.ignore {
            self.add(None, "ignore label", name, ignore.clone());
        }
        for (skyhook, record) in &keys.skyhooks {
            if record.status.is_some() {
                let status: Status = NodeRecord::operator_status(record);
                self.add(Some(skyhook), "node status", name, status.to_string());
            }
            if record.cordon {
                self.add(Some(skyhook), "cordon", name, "held".to_owned());
            }
        }
    }

    fn selections(&mut self, cluster: &Cluster) {
        for skyhook in &cluster.skyhooks {
            for node in cluster.selected(skyhook) {
                self.add(Some(skyhook.name()), SELECTED, Some(&node.name), "true".to_owned());
            }
        }
    }

    fn runs(&mut self, cluster: &Cluster) {
        for run in cluster.package_runs().all().iter().filter(|run| !run.package.is_empty()) {
            let kind = if run.job.is_some() { "job" } else { "pod" };
            let field = format!("{kind} of package {} {} at stage {}", run.package, run.version, run.stage);
            let value = if run.works() {
                "running"
            } else if run.alive() {
                "suspended"
            } else if run.given_up() {
                "failed"
            } else {
                "ended"
            };
            self.add(Some(&run.skyhook), &field, Some(run.node), value.to_owned());
        }
    }

    fn packages(&mut self, cluster: &Cluster) {
        let nodes: Vec<&Node> = cluster.nodes.iter().collect();
        for skyhook in cluster.names_on_nodes() {
            for row in PackageRows::of(cluster, &nodes, [skyhook], None).iter() {
                let node = Some(row.node);
                if let Some(why) = row.malformed {
                    self.add(Some(skyhook), "node state", node, format!("unreadable: {why}"));
                } else if row.recorded {
                    let field = format!("package {} {}", row.package, row.version);
                    let value = format!("{}/{}", row.stage, row.state);
                    self.add(Some(skyhook), &field, node, value);
                }
            }
        }
    }
}

/// The facts that differ, and the differing fields that a capture masks.
fn differences(old: &Facts, new: &Facts) -> (Vec<Change>, Vec<String>) {
    let keys: BTreeSet<&FactKey> = old.keys().chain(new.keys()).collect();
    let mut found: BTreeMap<_, Vec<String>> = BTreeMap::new();
    let mut masked = BTreeSet::new();
    for key in keys {
        let (before, after) = (old.get(key), new.get(key));
        if before == after {
            continue;
        }
        let hidden = |value: Option<&String>| value.is_some_and(|value| value.contains(MASKED));
        if before.is_some() && after.is_some() && (hidden(before) || hidden(after)) {
            let skyhook = key.skyhook.as_deref().unwrap_or_default();
            masked.insert(format!("{skyhook} {}", key.field));
            continue;
        }
        // A created or deleted object is one difference, without its fields.
        if created_or_deleted(old, new, key) {
            continue;
        }
        let group = (key.skyhook.clone(), key.field.clone(), before, after);
        found.entry(group).or_default().extend(key.node.clone());
    }
    let found = found.into_iter().map(|((skyhook, field, before, after), nodes)| Change {
        skyhook,
        field,
        before: before.cloned(),
        after: after.cloned(),
        nodes,
    });
    (found.collect(), masked.into_iter().collect())
}

/// Whether the fact is a field of a node or custom resource that exists on one side only.
fn created_or_deleted(old: &Facts, new: &Facts, key: &FactKey) -> bool {
    let (field, skyhook) = match (&key.skyhook, &key.node) {
        (Some(name), None) => ("custom resource", Some(name.clone())),
        (Some(name), Some(_)) if key.field == SELECTED => ("custom resource", Some(name.clone())),
        (None, Some(_)) => ("node", None),
        _ => return false,
    };
    let node = key.node.clone().filter(|_| field == "node");
    let object = FactKey { skyhook, field: field.to_owned(), node };
    key.field != field && old.contains_key(&object) != new.contains_key(&object)
}

/// The differences between two captures, or between a capture and the cluster.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    /// Whether anything differs.
    different: bool,
    /// The earlier side.
    old: Side,
    /// The later side.
    new: Side,
    /// The changed fields.
    items: Vec<Change>,
    /// Findings above info that only the new side has, of rules that could be checked on the old side.
    new_findings: Vec<FindingKey>,
    /// Findings above info that only the old side has, of rules that could be checked on the new side.
    gone_findings: Vec<FindingKey>,
    /// Parts that were not compared, each with the reason.
    not_compared: Vec<String>,
}

/// One side of the comparison.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Side {
    /// The path of the capture, or `cluster`.
    source: String,
    /// The time at which this side was read.
    taken_at: String,
}

/// A change of one field.
#[derive(Serialize, JsonSchema)]
struct Change {
    /// The custom resource; absent for a field of a node or of the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    skyhook: Option<String>,
    /// A path such as `spec.packages.driver.version`; or `package NAME VERSION`, `node status`, `selected`, `cordon`,
    /// `taint KEY:EFFECT`.
    field: String,
    /// The value on the old side; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<String>,
    /// The value on the new side; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<String>,
    /// The nodes with this change; empty if the field is not part of a node.
    nodes: Vec<String>,
}

impl Document {
    fn new(old: (&Cluster, &str), new: (&Cluster, &str)) -> Document {
        let unread = not_compared(old.0, new.0);
        let without: BTreeSet<_> = unread.iter().map(|(source, _)| *source).collect();
        let (changes, masked) = differences(&facts(old.0, &without), &facts(new.0, &without));
        let before = rules::diagnose(old.0, &Scope::default());
        let after = rules::diagnose(new.0, &Scope::default());
        let new_findings = only_in(&after, &before);
        let gone_findings = only_in(&before, &after);
        let sources = unread.iter().map(|(source, why)| format!("{source} ({why})"));
        let masked = masked.into_iter().map(|field| format!("{field} (masked)"));
        let undecided = undecided(&before, &after);
        let findings = (!undecided.is_empty())
            .then(|| format!("findings of {} (not checked on one side)", list(&undecided)));
        Document {
            different: !(changes.is_empty() && new_findings.is_empty() && gone_findings.is_empty()),
            old: Side::of(old),
            new: Side::of(new),
            items: changes,
            new_findings,
            gone_findings,
            not_compared: sources.chain(masked).chain(findings).collect(),
        }
    }

    fn verdict(&self) -> Line {
        let sides = format!(
            " between {} ({}) and {} ({})",
            self.old.source, self.old.taken_at, self.new.source, self.new.taken_at
        );
        if !self.different {
            let verdict = if self.not_compared.is_empty() {
                text::good("No changes")
            } else {
                text::warning("No changes in the compared data")
            };
            return verdict + sides;
        }
        let parts = [
            (self.items.len(), "change"),
            (self.new_findings.len(), "new finding"),
            (self.gone_findings.len(), "gone finding"),
        ];
        let parts = parts.into_iter().filter(|(number, _)| *number > 0);
        let parts: Vec<String> = parts.map(|(number, noun)| plural(number, noun)).collect();
        text::heading(list(&parts)) + sides
    }
}

/// The identity of a finding on both sides.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
struct FindingKey {
    /// The code of the rule.
    code: String,
    /// The object that the finding is about.
    subject: Subject,
}

fn key(finding: &Finding) -> FindingKey {
    FindingKey { code: finding.rule.code.to_owned(), subject: finding.subject.clone() }
}

/// Findings with their nodes folded: `SKY201 gpu-tune driver on node-[1-3]`.
fn key_lines(keys: &[FindingKey]) -> Vec<String> {
    let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for FindingKey { code, subject } in keys {
        let mut words = vec![code.as_str()];
        words.extend(subject.skyhook.as_deref());
        words.extend(subject.package.as_deref());
        words.extend(subject.compartment.as_deref());
        if subject.skyhook.is_none() && subject.node.is_none() {
            words.push(&subject.name);
        }
        groups.entry(words.join(" ")).or_default().extend(subject.node.as_deref());
    }
    let line = |(words, nodes): (String, Vec<&str>)| match nodes.len() {
        0 => words,
        _ => format!("{words} on {}", NodeSet::of(nodes)),
    };
    groups.into_iter().map(line).collect()
}

/// The findings above info that only `report` has, except for rules that `other` could not check.
fn only_in(report: &Report, other: &Report) -> Vec<FindingKey> {
    let other_keys: BTreeSet<FindingKey> = other.findings.iter().map(key).collect();
    let unchecked: BTreeSet<&str> = other.not_checked.iter().map(|n| n.rule.code).collect();
    let keys: BTreeSet<FindingKey> = report
        .findings
        .iter()
        .filter(|f| f.severity > Severity::Info && !unchecked.contains(f.rule.code))
        .map(key)
        .filter(|key| !other_keys.contains(key))
        .collect();
    keys.into_iter().collect()
}

/// Codes with findings on one side that the other side could not check.
fn undecided(old: &Report, new: &Report) -> Vec<&'static str> {
    let codes_unchecked_in = |report: &Report, other: &Report| -> Vec<&'static str> {
        let found = report.findings.iter().map(|f| f.rule.code);
        found.filter(|code| other.not_checked.iter().any(|n| n.rule.code == *code)).collect()
    };
    let codes: BTreeSet<_> =
        [codes_unchecked_in(old, new), codes_unchecked_in(new, old)].concat().into_iter().collect();
    codes.into_iter().collect()
}

impl Side {
    fn of((cluster, source): (&Cluster, &str)) -> Side {
        Side { source: source.to_owned(), taken_at: time(cluster.taken_at) }
    }
}

impl Change {
    /// The change as a line: `spec.packages.driver.version: 2.0.0 → 2.0.1`.
    fn line(&self) -> Line {
        let nodes = match self.nodes.len() {
            0 => String::new(),
            1 => format!("  on {}", self.nodes[0]),
            number => {
                let set = NodeSet::of(&self.nodes).limited(4);
                format!("  on {set} ({})", plural(number, "node"))
            }
        };
        let value = |value: &Option<String>| match value.as_deref() {
            None => "(none)".to_owned(),
            Some("") => "\"\"".to_owned(),
            Some(value) => value.to_owned(),
        };
        text::name(&self.field)
            + format!(": {} → {}", value(&self.before), value(&self.after))
            + text::dim(nodes)
    }
}

impl View for Document {
    fn blocks(&self, _wide: bool) -> Text {
        let mut text = Text::new();
        text.line(self.verdict());
        let mut groups: BTreeMap<Option<&str>, Vec<&Change>> = BTreeMap::new();
        for change in &self.items {
            groups.entry(change.skyhook.as_deref()).or_default().push(change);
        }
        for (skyhook, changes) in groups {
            let heading = skyhook.unwrap_or("nodes and operator");
            text.blank().line(text::heading(heading));
            for change in changes {
                text.indented(2, change.line());
            }
        }
        if !(self.new_findings.is_empty() && self.gone_findings.is_empty()) {
            text.blank().line(text::heading("findings"));
            for line in key_lines(&self.new_findings) {
                text.indented(2, Label::Error.span("new") + format!(": {line}"));
            }
            for line in key_lines(&self.gone_findings) {
                text.indented(2, Label::Good.span("gone") + format!(": {line}"));
            }
        }
        if !self.not_compared.is_empty() {
            text.blank().line(text::warning("not compared"));
            for what in &self.not_compared {
                text.indented(2, Line::from(what.as_str()));
            }
        }
        text
    }

    fn names(&self) -> Vec<String> {
        let skyhooks = self.items.iter().filter_map(|c| c.skyhook.as_deref());
        let skyhooks = skyhooks.map(|name| format!("skyhook/{name}"));
        let nodes = self.items.iter().flat_map(|c| &c.nodes).map(|name| format!("node/{name}"));
        let names: BTreeSet<String> = skyhooks.chain(nodes).collect();
        names.into_iter().collect()
    }

    fn document(&self) -> Value {
        document("Diff", self)
    }
}
