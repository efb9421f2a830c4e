//! Mutes set known findings apart in reports: they are counted and listed in short, but do not affect the
//! verdict.
//!
//! A mute names a code and a subject. It lapses at its expiry, or when its findings concern or block more
//! nodes than it allows: a known problem of one node must not hide a problem of the fleet. Only reports apply
//! mutes; commands that wait or change something see every finding.

use std::collections::BTreeSet;
use std::fmt;
use std::rc::Rc;

use jiff::{Timestamp, civil};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use serde_saphyr::Spanned;

use super::blockers::{CauseImpact, Impact};
use crate::api::Skyhook;
use crate::cluster::Cluster;
use crate::model::Model;
use crate::rules::{Finding, FindingSummary, Severity, Subject};
use crate::text::{API_VERSION, NodeSet, expand, plural};

/// The annotation of a custom resource that holds mutes for its findings, as a YAML list.
pub const ANNOTATION: &str = "kubectl-skyhook/mutes";
/// Default of the maximum number of nodes that a mute covers.
const MAX_NODES: usize = 1;

/// Moves known findings to a list of their own, where they do not affect the verdict.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Mute {
    /// The code of the findings' rule.
    pub code: String,
    /// The custom resource; absent for any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skyhook: Option<String>,
    /// The package; absent for any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
    /// The nodes; empty for all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// The object, for findings about neither a custom resource nor a node; absent for any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The path of the field, for findings about a manifest; absent for any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The highest severity that the mute covers; absent for any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<Severity>,
    /// The reason for muting.
    pub reason: String,
    /// The time at which the mute lapses; absent if it does not expire.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Maximum number of nodes that the findings may concern or block; the mute lapses above it.
    pub max_nodes: usize,
    /// The place of the mute: `FILE:LINE`, or the custom resource with the annotation.
    pub source: String,
    #[serde(skip)]
    ends: Option<Timestamp>,
}

/// A mute that no longer applies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LapsedMute {
    /// The mute.
    pub mute: Mute,
    /// Why it lapsed.
    #[serde(rename = "message")]
    pub reason: String,
}

/// All mutes of a run.
#[derive(Debug, Clone, Default)]
pub struct Mutes {
    all: Vec<Rc<Mute>>,
}

/// A mute that cannot be parsed or is incomplete.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{source_name}:{line}: {problem}")]
pub struct InvalidMute {
    /// The file, or the custom resource with the annotation.
    source_name: String,
    line: u64,
    problem: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct MuteFile {
    #[serde(rename = "apiVersion")]
    api_version: Spanned<String>,
    kind: Spanned<String>,
    mutes: Vec<Spanned<Entry>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Entry {
    code: String,
    skyhook: Option<String>,
    package: Option<String>,
    node: Option<String>,
    name: Option<String>,
    path: Option<String>,
    severity: Option<Severity>,
    reason: String,
    until: Option<String>,
    max_nodes: Option<usize>,
}

impl Mutes {
    /// Parses the mutes of a file.
    ///
    /// # Errors
    ///
    /// Returns the first invalid mute, with its line.
    pub fn parse(path: &str, text: &str) -> Result<Mutes, InvalidMute> {
        let file: MuteFile = read(path, text)?;
        for (field, expected) in [(&file.api_version, API_VERSION), (&file.kind, "Mutes")] {
            if field.value != expected {
                let problem = format!("expected {expected:?}, found {:?}", field.value);
                return Err(invalid(path, field.referenced.line(), problem));
            }
        }
        Mutes::of(path, file.mutes, None)
    }

    /// Adds the mutes in the annotations of custom resources, and returns the invalid ones.
    pub fn add_annotations(&mut self, cluster: &Cluster) -> Vec<InvalidMute> {
        let mut wrong = Vec::new();
        for skyhook in &cluster.skyhooks {
            let Some(text) = skyhook.metadata.annotations.get(ANNOTATION) else {
                continue;
            };
            let kind = cluster.flavor().resource();
            let source = format!("{kind}/{}, annotation {ANNOTATION}", skyhook.name());
            let entries = read(&source, text);
            match entries.and_then(|entries| Mutes::of(&source, entries, Some(skyhook.name()))) {
                Ok(mutes) => self.all.extend(mutes.all),
                Err(error) => wrong.push(error),
            }
        }
        wrong
    }

    fn of(source: &str, entries: Vec<Spanned<Entry>>, owner: Option<&str>) -> Result<Mutes, InvalidMute> {
        let mutes = entries.into_iter().map(|entry| {
            let line = entry.referenced.line();
            let place = if owner.is_some() { source.to_owned() } else { format!("{source}:{line}") };
            let mute = entry.value.checked(place, owner);
            mute.map(Rc::new).map_err(|problem| invalid(source, line, problem))
        });
        Ok(Mutes { all: mutes.collect::<Result<_, _>>()? })
    }

    /// Adds the mutes in the annotation of a manifest.
    ///
    /// # Errors
    ///
    /// Returns the first invalid mute, with its line in the annotation.
    pub fn add_annotation(&mut self, skyhook: &Skyhook) -> Result<(), InvalidMute> {
        if let Some(text) = skyhook.metadata.annotations.get(ANNOTATION) {
            let entries = read(ANNOTATION, text)?;
            self.all.extend(Mutes::of(ANNOTATION, entries, Some(skyhook.name()))?.all);
        }
        Ok(())
    }

    /// The mute of a finding about a manifest: its reason; or why the mute has lapsed.
    pub fn of_manifest(
        &self,
        rule: (&str, &str),
        (subject, path): (&Subject, &str),
        severity: Severity,
        now: Timestamp,
    ) -> Option<Result<String, String>> {
        let mute = self.all.iter().find(|mute| {
            mute.path.as_ref().is_none_or(|own| own == path) && mute.covers(rule, subject, severity)
        })?;
        Some(match mute.why_lapsed(now, 0) {
            None => Ok(mute.to_string()),
            Some(why) => Err(why),
        })
    }

    /// Marks the findings of a report that are muted, and returns the mutes that have lapsed.
    ///
    /// An effect is muted, too, if all findings of each of its causes are muted.
    pub fn mark(&self, cluster: &Cluster, findings: &mut [Finding]) -> Vec<LapsedMute> {
        let mut lapsed = Vec::new();
        if self.all.is_empty() {
            return lapsed;
        }
        let impact = Impact::new(cluster, &Model::new(cluster), findings);
        for mute in &self.all {
            let matched = |at: usize| mute.covers_finding(&findings[at]);
            let Some(nodes) = affected(&impact, findings, &matched) else {
                continue;
            };
            if let Some(reason) = mute.why_lapsed(cluster.taken_at, nodes.len()) {
                lapsed.push(LapsedMute { mute: Mute::clone(mute), reason });
                continue;
            }
            for finding in findings.iter_mut().filter(|f| mute.covers_finding(f)) {
                finding.muted.get_or_insert_with(|| Rc::clone(mute));
            }
        }
        mark_effects(&impact, findings);
        lapsed
    }
}

/// The nodes of the matched findings, and the nodes blocked by causes whose findings all match; `None` if no
/// finding matches.
fn affected(
    impact: &Impact<'_>,
    findings: &[Finding],
    matched: &dyn Fn(usize) -> bool,
) -> Option<BTreeSet<String>> {
    let mut found = None;
    for CauseImpact { cause, blocked, .. } in &impact.causes {
        let own: Vec<usize> = cause.findings.iter().copied().filter(|at| matched(*at)).collect();
        let effects = cause.effects.iter().copied().filter(|at| matched(*at));
        let all: Vec<usize> = own.iter().copied().chain(effects).collect();
        if all.is_empty() {
            continue;
        }
        let nodes: &mut BTreeSet<String> = found.get_or_insert_default();
        for at in all {
            let finding = &findings[at];
            nodes.extend(finding.subject.node.iter().cloned());
            nodes.extend(finding.blocked_nodes.iter().cloned());
        }
        if !own.is_empty() && own.len() == cause.findings.len() {
            nodes.extend(blocked.values().flatten().map(|node| (*node).to_owned()));
        }
    }
    found
}

fn mark_effects(impact: &Impact<'_>, findings: &mut [Finding]) {
    // The mute of the first finding, if all findings of the cause are muted.
    let muted_cause = |CauseImpact { cause, .. }: &CauseImpact<'_>| {
        let own = cause.findings.iter().map(|at| findings[*at].muted.clone());
        own.reduce(|first, other| other.and(first)).flatten()
    };
    let mutes: Vec<_> = impact.causes.iter().map(muted_cause).collect();
    let kept: BTreeSet<usize> = impact
        .causes
        .iter()
        .zip(&mutes)
        .filter(|(_, mute)| mute.is_none())
        .flat_map(|(cause, _)| cause.cause.effects.iter().copied())
        .collect();
    for (cause, mute) in impact.causes.iter().zip(&mutes) {
        let Some(mute) = mute else { continue };
        for at in cause.cause.effects.iter().filter(|at| !kept.contains(at)) {
            findings[*at].muted.get_or_insert_with(|| Rc::clone(mute));
        }
    }
}

impl Mute {
    fn covers_finding(&self, finding: &Finding) -> bool {
        self.path.is_none()
            && self.covers((finding.rule.code, finding.rule.name), &finding.subject, finding.severity)
    }

    fn covers(&self, (code, name): (&str, &str), subject: &Subject, severity: Severity) -> bool {
        let same = |wanted: &Option<String>, found: &Option<String>| wanted.is_none() || wanted == found;
        let node = self.nodes.is_empty() || subject.node.as_ref().is_some_and(|n| self.nodes.contains(n));
        (code.eq_ignore_ascii_case(&self.code) || name == self.code)
            && same(&self.skyhook, &subject.skyhook)
            && same(&self.package, &subject.package)
            && node
            && self.severity.is_none_or(|most| severity <= most)
            && self.name.as_ref().is_none_or(|name| *name == subject.name)
    }

    fn why_lapsed(&self, now: Timestamp, nodes: usize) -> Option<String> {
        if let (Some(ends), Some(until)) = (self.ends, &self.until)
            && ends <= now
        {
            return Some(format!("it ended on {until}"));
        }
        (nodes > self.max_nodes).then(|| {
            let verb = if nodes == 1 { "is" } else { "are" };
            let nodes = plural(nodes, "node");
            format!("its maxNodes is {}, but {nodes} {verb} affected", self.max_nodes)
        })
    }
}

/// A file of mutes for known findings.
pub fn file(mutes: &[Value]) -> Value {
    json!({"apiVersion": API_VERSION, "kind": "Mutes", "mutes": mutes})
}

/// The mutes of these findings, as in a file: one for each rule, custom resource and package. Each covers as many
/// nodes as its findings affect now, and lapses above that.
pub fn mutes_of(cluster: &Cluster, findings: &[Finding], known: impl Fn(&Finding) -> bool) -> Vec<Value> {
    let impact = Impact::new(cluster, &Model::new(cluster), findings);
    let mut mutes: Vec<Mute> = Vec::new();
    for finding in findings.iter().filter(|finding| known(finding)) {
        let new = Mute::known(finding.rule.code, &finding.subject, finding.severity, cluster.taken_at);
        let same = |old: &&mut Mute| {
            (&old.code, &old.skyhook, &old.package, &old.name, old.nodes.is_empty())
                == (&new.code, &new.skyhook, &new.package, &new.name, new.nodes.is_empty())
        };
        match mutes.iter_mut().find(same) {
            Some(old) => {
                old.nodes.extend(new.nodes);
                old.severity = old.severity.max(new.severity);
            }
            None => mutes.push(new),
        }
    }
    let entry = |mut mute: Mute| {
        let matched = |at: usize| mute.covers_finding(&findings[at]);
        mute.max_nodes = affected(&impact, findings, &matched).unwrap_or_default().len();
        mute.entry()
    };
    mutes.into_iter().map(entry).collect()
}

impl Mute {
    /// A mute of exactly this finding, without expiry.
    pub fn known(code: &str, subject: &Subject, severity: Severity, now: Timestamp) -> Mute {
        let named = subject.skyhook.is_none() && subject.node.is_none();
        Mute {
            code: code.to_owned(),
            skyhook: subject.skyhook.clone(),
            package: subject.package.clone(),
            nodes: subject.node.iter().cloned().collect(),
            name: named.then(|| subject.name.clone()),
            severity: Some(severity),
            reason: format!("known on {}", now.strftime("%Y-%m-%d")),
            max_nodes: MAX_NODES,
            ..Mute::default()
        }
    }

    /// The mute as an entry of a file.
    pub fn entry(&self) -> Value {
        let mut entry = serde_json::to_value(self).unwrap_or_default();
        if let Value::Object(fields) = &mut entry {
            fields.remove("source");
            if fields.remove("nodes").is_some() {
                fields.insert("node".to_owned(), NodeSet::of(&self.nodes).to_string().into());
            }
        }
        entry
    }
}

impl fmt::Display for Mute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        match &self.until {
            Some(until) => write!(f, " (until {until})"),
            None => f.write_str(" (no expiry)"),
        }
    }
}

impl Entry {
    /// The mute, or why the entry is invalid.
    fn checked(self, source: String, owner: Option<&str>) -> Result<Mute, String> {
        let code = self.code;
        // Rules of lint, which come after this module, are muted by code.
        let of_lint = code.len() == 6 && code.to_ascii_uppercase().starts_with("SKY8");
        if crate::rules::find(&code).is_none() && !of_lint {
            return Err(format!("rule {code:?} not found; `kubectl skyhook explain` lists them"));
        }
        let reason = self.reason.trim();
        if reason.is_empty() {
            return Err("the reason is empty".to_owned());
        }
        if self.skyhook.is_none() && self.node.is_none() && self.name.is_none() && owner.is_none() {
            return Err("a subject is required: skyhook, node or name".to_owned());
        }
        if let (Some(owner), Some(other)) = (owner, &self.skyhook)
            && owner != other
        {
            return Err(format!("an annotation mutes only its own custom resource, not {other:?}"));
        }
        let nodes = match self.node {
            None => Vec::new(),
            Some(node) => match expand(&node) {
                None => vec![node],
                Some(nodes) => nodes.map_err(|why| format!("invalid node set {node:?}: {why}"))?,
            },
        };
        let ends = self.until.as_ref().map(|until| {
            end(until).ok_or_else(|| {
                format!(
                    "invalid time {until:?}; expected a date such as 2026-12-31, or a time such as 2026-12-31T06:00:00Z"
                )
            })
        });
        Ok(Mute {
            code,
            skyhook: self.skyhook.or(owner.map(str::to_owned)),
            package: self.package,
            max_nodes: self.max_nodes.unwrap_or(nodes.len().max(MAX_NODES)),
            nodes,
            name: self.name,
            path: self.path,
            severity: self.severity,
            reason: reason.to_owned(),
            ends: ends.transpose()?,
            until: self.until,
            source,
        })
    }
}

/// Parses an expiry: a timestamp, or a date, which includes that whole day in UTC.
fn end(text: &str) -> Option<Timestamp> {
    if let Ok(at) = text.parse::<Timestamp>() {
        return Some(at);
    }
    let day: civil::Date = text.parse().ok()?;
    Some(day.tomorrow().ok()?.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
}

fn read<T: serde::de::DeserializeOwned>(source: &str, text: &str) -> Result<T, InvalidMute> {
    let options = serde_saphyr::options! { with_snippet: false, };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let line = error.location().map_or(1, |location| location.line());
        let text = error.to_string();
        let problem = text.lines().next().unwrap_or_default();
        invalid(source, line, problem.to_owned())
    })
}

fn invalid(source: &str, line: u64, problem: String) -> InvalidMute {
    InvalidMute { source_name: source.to_owned(), line, problem }
}

/// A muted finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MutedFinding {
    #[serde(flatten)]
    pub finding: FindingSummary,
    /// The mute that applies.
    pub mute: Mute,
}

impl MutedFinding {
    pub fn of(finding: &Finding) -> Option<MutedFinding> {
        let mute = finding.muted.as_deref()?.clone();
        Some(MutedFinding { finding: finding.summary(), mute })
    }
}
