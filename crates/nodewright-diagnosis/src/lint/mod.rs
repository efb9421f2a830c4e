//! Checks of manifests before they are applied.
//!
//! ```text
//! files ─roots─► Documents ─┐
//!               Cluster ────┴─► Input ─rules─► LintReport
//! ```
//!
//! Each root, which has the manifests of one cluster, is an input of its own; their reports are merged.
//!
//! To add a rule: write `crates/nodewright-diagnosis/src/lint/rules/NAME.rs` with `lint_rule!` and `check`, list it in `rules/mod.rs`,
//! and write `tests/lint/NAME/bad.yaml` and `good.yaml`.

pub mod compatibility;
mod config;
pub mod files;
mod finding;
mod input;
mod manifest;
mod parts;
mod references;
mod rules;
mod schema;
mod selection;
mod violation;
mod yaml;

use std::collections::BTreeMap;

use crate::model::Effects;
use crate::rules::Severity;
use crate::suggestions::near;

pub use config::{CONFIG_FILE, Config};
pub use finding::{LintFinding, LintFindings};
pub use input::Input;
pub use manifest::{Documents, Manifest, ManifestFile, ManifestObject, Tally, Unreadable, UnreadableReason};
pub use references::{Existence, ReferenceKind, References};
pub use rules::{ALL, FOLDED};
pub use schema::Schemas;

/// One rule about manifests.
#[derive(Debug)]
pub struct LintRule {
    /// A permanent code, never renumbered or reused. Up to `SKY804`: problems of the file, such as its syntax
    /// or its comments. `SKY805` to `SKY839`: kubectl, the API server, the webhook or the operator rejects
    /// the manifest; exceptions are warnings. From `SKY840` on: the manifest is accepted and causes a
    /// problem.
    pub code: &'static str,
    /// The problem in a few words: `apply-without-enabled`.
    pub name: &'static str,
    /// Severity of the findings, unless the rule sets another one for a finding.
    pub severity: Severity,
    /// The full text: meaning, fix, sources.
    pub docs: &'static str,
    pub check: Check,
}

/// A former rule, whose check is part of another one.
#[derive(Debug, PartialEq, Eq)]
pub struct FoldedRule {
    pub code: &'static str,
    pub name: &'static str,
    /// The code of the rule that it is part of.
    pub into: &'static str,
}

impl FoldedRule {
    pub fn find(code_or_name: &str) -> Option<&'static FoldedRule> {
        FOLDED.iter().find(|rule| is_named((rule.code, rule.name), code_or_name))
    }
}

/// Whether a code or name is that of a rule.
fn is_named((code, name): (&str, &str), code_or_name: &str) -> bool {
    code.eq_ignore_ascii_case(code_or_name) || name.eq_ignore_ascii_case(code_or_name)
}

/// The objects that a rule checks.
#[derive(Debug)]
pub enum Check {
    /// The manifests.
    Manifests(fn(&Input<'_>, &mut LintFindings)),
    /// The effects of applying the accepted manifests, which the model of the operator predicts.
    Effects(fn(&Input<'_>, &[Effects<'_>], &mut LintFindings)),
    /// The refusals of the server.
    Server(fn(&Input<'_>, &mut LintFindings)),
}

impl LintRule {
    /// The first line of the documentation.
    pub fn summary(&self) -> &'static str {
        self.docs.lines().next().unwrap_or_default().trim()
    }
}

/// The rule with this code or name, or the one that it is part of.
pub fn find(code_or_name: &str) -> Option<&'static LintRule> {
    let name = FoldedRule::find(code_or_name).map_or(code_or_name, |rule| rule.into);
    ALL.iter().copied().find(|rule| is_named((rule.code, rule.name), name))
}

/// The result of all rules for the given manifests.
#[derive(Debug, Clone, Default)]
pub struct LintReport {
    /// The number of documents by the path of the file.
    pub files: BTreeMap<String, Tally>,
    /// All findings, sorted by file, line and code. Suppressed findings are included.
    pub findings: Vec<LintFinding>,
}

impl LintReport {
    /// The findings that are not suppressed.
    pub fn open(&self) -> impl Iterator<Item = &LintFinding> {
        self.findings.iter().filter(|f| f.suppressed.is_none())
    }

    /// Adds the findings about the effects of applying the manifests.
    pub fn add_effects(&mut self, input: &Input<'_>, effects: &[Effects<'_>]) {
        self.run(input, |rule, findings| match rule.check {
            Check::Manifests(_) | Check::Server(_) => {}
            Check::Effects(check) => check(input, effects, findings),
        });
    }

    /// Adds the refusals of the server.
    pub fn add_refusals(&mut self, input: &Input<'_>) {
        self.run(input, |rule, findings| match rule.check {
            Check::Manifests(_) | Check::Effects(_) => {}
            Check::Server(check) => check(input, findings),
        });
    }

    /// Adds the findings of every rule.
    fn run(&mut self, input: &Input<'_>, check: impl Fn(&LintRule, &mut LintFindings)) {
        for rule in ALL.iter().copied() {
            let mut found = LintFindings::of(rule);
            check(rule, &mut found);
            self.findings.extend(found.into_vec().into_iter().map(|finding| input.configured(finding)));
        }
        self.sort();
    }

    /// Adds the report of another root. A base of several kustomizations is in the report of each.
    pub fn merge(&mut self, other: LintReport) {
        self.files.extend(other.files);
        self.findings.extend(other.findings);
        self.sort();
        self.findings.dedup_by(|a, b| {
            let key = |f: &LintFinding| (f.line, f.rule.code, f.path.clone(), f.message.clone());
            a.file == b.file && key(a) == key(b)
        });
    }

    fn sort(&mut self) {
        self.findings.sort_by_cached_key(|f| {
            (f.file.clone(), f.line, f.rule.code, f.subject.clone(), f.message.clone())
        });
    }

    /// The number of documents in all files.
    pub fn tally(&self) -> Tally {
        let mut sum = Tally::default();
        for tally in self.files.values() {
            sum.manifests += tally.manifests;
            sum.others += tally.others;
            sum.documents += tally.documents;
            sum.templates += tally.templates;
            sum.parts += tally.parts;
        }
        sum
    }

    /// The number of open findings with this severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.open().filter(|f| f.severity == severity).count()
    }
}

/// Runs all rules about manifests. [`LintReport::add_effects`] adds the findings about their effects.
pub fn lint(input: &Input<'_>) -> LintReport {
    let mut report = LintReport { files: input.documents.files.clone(), findings: Vec::new() };
    report.run(input, |rule, findings| match rule.check {
        Check::Manifests(check) => check(input, findings),
        Check::Effects(_) | Check::Server(_) => {}
    });
    report
}

/// Suggests the most similar known name: `; did you mean "driver"?`. Empty if no known name is similar.
fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    match near(name, known).first() {
        Some(near) => format!("; did you mean {near:?}?"),
        None => String::new(),
    }
}
