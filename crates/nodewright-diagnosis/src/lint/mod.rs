//! Checks of manifests before they are applied.
//!
//! ```text
//! files ─parse─► Documents ─┐
//!               Cluster ────┴─► Input ─rules─► LintReport
//! ```
//!
//! To add a rule: write `crates/nodewright-diagnosis/src/lint/rules/NAME.rs` with `lint_rule!` and `check`, list it in `rules/mod.rs`,
//! and write `tests/lint/NAME/bad.yaml` and `good.yaml`.

pub mod compatibility;
pub mod files;
mod finding;
mod input;
mod manifest;
mod references;
mod rules;
mod schema;
mod selection;
mod violation;
mod yaml;

use crate::model::Effects;
use crate::rules::Severity;
use crate::suggestions::near;

pub use finding::{LintFinding, LintFindings};
pub use input::Input;
pub use manifest::{Documents, Manifest, ManifestFile, ManifestObject, Unreadable, UnreadableReason};
pub use references::{Existence, ReferenceKind, References};
pub use rules::ALL;
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

/// The objects that a rule checks.
#[derive(Debug)]
pub enum Check {
    /// The manifests.
    Manifests(fn(&Input<'_>, &mut LintFindings)),
    /// The effects of applying the accepted manifests, which the model of the operator predicts.
    Effects(fn(&Input<'_>, &[Effects<'_>], &mut LintFindings)),
}

impl LintRule {
    /// The first line of the documentation.
    pub fn summary(&self) -> &'static str {
        self.docs.lines().next().unwrap_or_default().trim()
    }
}

/// The rule with this code or name.
pub fn find(code_or_name: &str) -> Option<&'static LintRule> {
    let mut all = ALL.iter().copied();
    all.find(|rule| {
        rule.code.eq_ignore_ascii_case(code_or_name) || rule.name.eq_ignore_ascii_case(code_or_name)
    })
}

/// The result of all rules for the given manifests.
#[derive(Debug)]
pub struct LintReport {
    /// All files that were read.
    pub files: Vec<String>,
    /// All findings, sorted by file, line and code. Suppressed findings are included.
    pub findings: Vec<LintFinding>,
    /// Number of objects of either API.
    pub manifests: usize,
    /// Number of objects of other API groups, which are not checked.
    pub others: usize,
    /// Number of skipped templates, which mention neither API.
    pub templates_skipped: usize,
}

impl LintReport {
    /// The findings that no comment suppresses.
    pub fn open(&self) -> impl Iterator<Item = &LintFinding> {
        self.findings.iter().filter(|f| f.suppressed.is_none())
    }

    /// Adds the findings about the effects of applying the manifests.
    pub fn add_effects(&mut self, input: &Input<'_>, effects: &[Effects<'_>]) {
        self.run(input, |rule, findings| match rule.check {
            Check::Manifests(_) => {}
            Check::Effects(check) => check(input, effects, findings),
        });
    }

    /// Adds the findings of every rule.
    fn run(&mut self, input: &Input<'_>, check: impl Fn(&LintRule, &mut LintFindings)) {
        for rule in ALL.iter().copied() {
            let mut found = LintFindings::of(rule);
            check(rule, &mut found);
            self.findings.extend(found.into_vec().into_iter().map(|mut finding| {
                let mut manifests = input.documents.manifests.iter();
                finding.suppressed = manifests.find_map(|manifest| suppression(manifest, &finding));
                finding
            }));
        }
        self.findings.sort_by(|a, b| {
            let key = |f: &LintFinding| (f.line, f.rule.code, f.subject.clone(), f.message.clone());
            a.file.cmp(&b.file).then_with(|| key(a).cmp(&key(b)))
        });
    }

    /// The number of open findings with this severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.open().filter(|f| f.severity == severity).count()
    }
}

/// Runs all rules about manifests. [`LintReport::add_effects`] adds the findings about their effects.
pub fn lint(input: &Input<'_>) -> LintReport {
    let mut report = LintReport {
        files: input.documents.files.clone(),
        manifests: input.manifests().count(),
        others: input.others().count(),
        templates_skipped: input.documents.templates_skipped,
        findings: Vec::new(),
    };
    report.run(input, |rule, findings| match rule.check {
        Check::Manifests(check) => check(input, findings),
        Check::Effects(_) => {}
    });
    report
}

/// The reason in the manifest's comment that suppresses a finding; `None` without such a comment or without a
/// reason.
fn suppression(manifest: &Manifest, finding: &LintFinding) -> Option<String> {
    let (rule, line) = (finding.rule, finding.line);
    let mut comments = manifest.suppressions.iter();
    let comment =
        comments.find(|c| c.covers(rule.code, rule.name, line)).filter(|_| manifest.file == finding.file)?;
    (!comment.reason.is_empty()).then(|| comment.reason.clone())
}

/// Suggests the most similar known name: `; did you mean "driver"?`. Empty if no known name is similar.
fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    match near(name, known).first() {
        Some(near) => format!("; did you mean {near:?}?"),
        None => String::new(),
    }
}
