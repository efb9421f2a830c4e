//! `--baseline`: findings of an earlier run do not fail.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ctx::Ctx;
use crate::error::{Error, Result};
use crate::rules::{self, Finding, Scope, Severity, Subject};
use crate::view::text::{self, Line, Text};
use crate::view::{NodeSet, plural};

/// Maximum number of lines for new findings, and for disappeared findings.
const LISTED: usize = 10;

/// The earlier run that findings are compared with.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct BaselineFlags {
    /// Fail only on findings that are not in this earlier output of -o json, or in this capture
    ///
    /// Findings are the same if their code and subject match. A finding whose severity has risen counts as
    /// new.
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
}

/// The identity of a finding across runs: code, subject, and for a manifest the field.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct FindingKey {
    /// The code of the rule.
    pub code: String,
    /// The object that the finding is about.
    pub subject: Subject,
    /// The path of the field in a manifest; absent for a finding about a cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
}

/// The findings of an earlier run.
#[derive(Debug, Clone)]
pub struct Baseline {
    file: String,
    known: BTreeMap<FindingKey, Severity>,
}

/// The comparison of a run's findings with the baseline: the findings of an earlier run.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// The path of the baseline.
    pub file: String,
    /// Findings that the baseline does not have, or has with a lower severity.
    new: Vec<FindingKey>,
    /// Number of findings that the baseline has, too.
    known: usize,
    /// Findings that only the baseline has, except muted ones and those of rules that could not be checked.
    gone: Vec<FindingKey>,
}

#[derive(Deserialize)]
struct SavedFinding {
    code: String,
    severity: Severity,
    subject: Subject,
    #[serde(default)]
    path: String,
}

impl BaselineFlags {
    /// The baseline of a diagnosis.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is neither a diagnosis nor a capture.
    pub fn of_diagnosis(&self, ctx: &Ctx, scope: &Scope) -> Result<Option<Baseline>> {
        let Some(path) = &self.baseline else {
            return Ok(None);
        };
        if let Some(baseline) = saved(ctx, path, "Diagnosis")? {
            return Ok(Some(baseline));
        }
        let then = ctx.load_capture(path)?;
        let findings = rules::diagnose(&then, scope).findings;
        Ok(Some(Baseline {
            file: path.display().to_string(),
            known: findings.iter().map(|f| (key(f), f.severity)).collect(),
        }))
    }

    /// The baseline of `lint`.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is no output of `lint`.
    pub fn of_lint(&self, ctx: &Ctx) -> Result<Option<Baseline>> {
        let Some(path) = &self.baseline else {
            return Ok(None);
        };
        let baseline = saved(ctx, path, "Lint")?.ok_or_else(|| {
            let path = path.display();
            Error::failed(format!("{path} is not output of `lint -o json`"))
        })?;
        Ok(Some(baseline))
    }
}

/// The findings of a document of this kind; `None` for any other file.
fn saved(ctx: &Ctx, path: &Path, kind: &str) -> Result<Option<Baseline>> {
    if path.is_dir() {
        return Ok(None);
    }
    let bytes = ctx.read_file(path)?;
    let Ok(document) = serde_json::from_slice::<Value>(&bytes) else {
        return Ok(None);
    };
    if document["kind"] != kind {
        return Ok(None);
    }
    let invalid = |error: serde_json::Error| {
        let path = path.display();
        Error::failed(format!("{path}: the findings cannot be read: {error}"))
    };
    let findings = document["findings"].clone();
    let findings: Vec<SavedFinding> = serde_json::from_value(findings).map_err(invalid)?;
    let mut known = BTreeMap::new();
    for SavedFinding { code, severity, subject, path } in findings {
        for subject in subject.on_each_node() {
            let key = FindingKey { code: code.clone(), subject, path: path.clone() };
            let known: &mut Severity = known.entry(key).or_insert(severity);
            *known = severity.max(*known);
        }
    }
    Ok(Some(Baseline { file: path.display().to_string(), known }))
}

pub fn key(finding: &Finding) -> FindingKey {
    FindingKey { code: finding.rule.code.to_owned(), subject: finding.subject.clone(), path: String::new() }
}

impl Baseline {
    /// Whether the baseline lacks the finding, or has it with a lower severity.
    pub fn is_new(&self, key: &FindingKey, severity: Severity) -> bool {
        self.known.get(key).is_none_or(|known| *known < severity)
    }

    /// Compares findings with the baseline. Muted findings, and findings of rules that could not be checked,
    /// do not count as gone.
    pub fn compare(
        &self,
        findings: impl Iterator<Item = (FindingKey, Severity)>,
        muted: impl Iterator<Item = FindingKey>,
        unchecked: &[&str],
    ) -> Comparison {
        let mut gone = self.known.clone();
        gone.retain(|key, _| !unchecked.contains(&key.code.as_str()));
        for key in muted {
            gone.remove(&key);
        }
        let mut new = Vec::new();
        let mut known = 0;
        for (key, severity) in findings {
            gone.remove(&key);
            if self.is_new(&key, severity) {
                new.push(key);
            } else {
                known += 1;
            }
        }
        new.sort();
        new.dedup();
        Comparison { file: self.file.clone(), new, known, gone: gone.into_keys().collect() }
    }
}

impl Comparison {
    pub fn is_new(&self, finding: &Finding) -> bool {
        self.has_new(&key(finding))
    }

    pub fn has_new(&self, key: &FindingKey) -> bool {
        self.new.binary_search(key).is_ok()
    }

    pub fn text(&self) -> Text {
        let mut text = Text::new();
        let counts = format!("{} new, {} known, {} gone", self.new.len(), self.known, self.gone.len());
        text.line(text::heading(format!("Compared with {}: {counts}", self.file)));
        text.append(finding_lines("new", &self.new));
        text.append(finding_lines("gone", &self.gone));
        text
    }
}

/// A line for each group of findings: `new: SKY201 gpu-tune driver on node-[1-3]`.
fn finding_lines(label: &str, keys: &[FindingKey]) -> Text {
    let mut text = Text::new();
    let lines = key_lines(keys);
    let rest = lines.len().saturating_sub(LISTED);
    for line in lines.into_iter().take(LISTED) {
        text.indented(2, Line::from(format!("{label}: {line}")));
    }
    if rest > 0 {
        text.indented(2, text::dim(format!("{} more {label}", plural(rest, "line"))));
    }
    text
}

/// Findings with their nodes folded: `SKY201 gpu-tune driver on node-[1-3]`.
pub fn key_lines(keys: &[FindingKey]) -> Vec<String> {
    let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for FindingKey { code, subject, path } in keys {
        let mut words = vec![code.as_str()];
        words.extend(subject.skyhook.as_deref());
        words.extend(subject.package.as_deref());
        words.extend(subject.compartment.as_deref());
        if subject.skyhook.is_none() && subject.node.is_none() {
            words.push(&subject.name);
        }
        if !path.is_empty() {
            words.push(path);
        }
        let nodes = groups.entry(words.join(" ")).or_default();
        nodes.extend(subject.node.as_deref());
    }
    groups
        .into_iter()
        .map(|(words, nodes)| match nodes.len() {
            0 => words,
            _ => format!("{words} on {}", NodeSet::of(nodes)),
        })
        .collect()
}
