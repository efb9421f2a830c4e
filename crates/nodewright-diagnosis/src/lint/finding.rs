//! Findings about manifests.

use jiff::Timestamp;

use super::manifest::{Manifest, path_text};
use super::{FoldedRule, Input, LintRule};
use crate::model::spec_errors::SpecErrorKind;
use crate::rules::support::mute::Mute;
use crate::rules::{Evidence, Severity, Subject};

/// A rule that fired on a manifest.
#[derive(Debug, Clone)]
pub struct LintFinding {
    pub rule: &'static LintRule,
    /// The former rule of the check.
    pub folded: Option<&'static FoldedRule>,
    pub severity: Severity,
    pub subject: Subject,
    pub message: String,
    /// The fix as one imperative sentence without a full stop.
    pub fix: Option<String>,
    pub evidence: Vec<Evidence>,
    pub file: String,
    pub line: usize,
    /// The column of the field in that line, from 1.
    pub column: usize,
    /// The field, as in `spec.packages.driver.version`.
    pub path: String,
    /// Why the finding is suppressed: the reason in a comment or a mute, or the configuration; `None` if it is not
    /// suppressed.
    pub suppressed: Option<String>,
}

impl LintFinding {
    /// Code and name of the rule, then of its former rule.
    pub fn names(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let folded = self.folded.map(|folded| (folded.code, folded.name));
        std::iter::once((self.rule.code, self.rule.name)).chain(folded)
    }

    /// A mute of this finding.
    pub fn mute(&self, now: Timestamp) -> Mute {
        let mut mute = Mute::known(
            self.folded.map_or(self.rule.code, |folded| folded.code),
            &self.subject,
            self.severity,
            now,
        );
        mute.path = (!self.path.is_empty()).then(|| self.path.clone());
        mute
    }
}

/// Collects the findings of one rule.
#[derive(Debug)]
pub struct LintFindings {
    rule: &'static LintRule,
    folded: Option<&'static FoldedRule>,
    found: Vec<LintFinding>,
}

impl LintFindings {
    pub(super) fn of(rule: &'static LintRule) -> LintFindings {
        LintFindings { rule, folded: None, found: Vec::new() }
    }

    /// The next findings are of the check with this former code.
    pub(super) fn fold(&mut self, code: &str) {
        self.folded = FoldedRule::find(code);
    }

    pub(super) fn into_vec(self) -> Vec<LintFinding> {
        self.found
    }

    /// The findings so far.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut LintFinding> {
        self.found.iter_mut()
    }

    /// Reports the field at a path of keys and indexes. If the field does not exist, the finding gets the
    /// line of its nearest existing parent.
    ///
    /// The subject is the object, with the package or the compartment if the path lies in one. The message
    /// begins in lower case and has no full stop.
    pub fn report(
        &mut self,
        manifest: &Manifest,
        path: &[&str],
        message: impl Into<String>,
    ) -> &mut LintFinding {
        let range = manifest.range(path);
        let finding = self.report_line(manifest, range.first, message);
        finding.column = range.column;
        finding.path = path_text(path);
        if let ["spec", "packages", package, ..] = path {
            finding.subject.package = Some((*package).to_owned());
        }
        if let ["spec", "compartments", index, ..] = path {
            finding.subject.compartment = compartment(manifest, index);
        }
        finding
    }

    /// Reports a line of a manifest.
    pub fn report_line(
        &mut self,
        manifest: &Manifest,
        line: usize,
        message: impl Into<String>,
    ) -> &mut LintFinding {
        let suppressed = manifest.suppression(self.rule, self.folded, line);
        let finding = self.report_at(&manifest.file, line, subject(manifest), message);
        finding.suppressed = suppressed;
        finding
    }

    /// Reports the spec errors of one kind.
    pub fn report_spec_errors(&mut self, input: &Input<'_>, kind: SpecErrorKind) {
        for (manifest, error) in input.spec_errors(kind) {
            self.report(manifest, &error.whole_path(), error.message()).fix(kind.fix());
        }
    }

    /// Reports a line of a file.
    pub fn report_at(
        &mut self,
        file: &str,
        line: usize,
        subject: Subject,
        message: impl Into<String>,
    ) -> &mut LintFinding {
        self.found.push(LintFinding {
            rule: self.rule,
            folded: self.folded,
            severity: self.rule.severity,
            subject,
            message: message.into(),
            fix: None,
            evidence: Vec::new(),
            file: file.to_owned(),
            line,
            column: 1,
            path: String::new(),
            suppressed: None,
        });
        self.found.last_mut().expect("a finding was just added")
    }
}

impl LintFinding {
    /// Sets the fix: an imperative sentence without a full stop.
    pub fn fix(&mut self, fix: impl Into<String>) -> &mut Self {
        self.fix = Some(fix.into());
        self
    }

    pub fn severity(&mut self, severity: Severity) -> &mut Self {
        self.severity = severity;
        self
    }

    /// Sets the compartment that the finding is about.
    pub fn compartment(&mut self, name: &str) -> &mut Self {
        self.subject.compartment = Some(name.to_owned());
        self
    }

    /// Adds an observation: the object as `kind/name`, a field, and its value.
    pub fn evidence(
        &mut self,
        object: impl ToString,
        field: impl ToString,
        value: impl ToString,
    ) -> &mut Self {
        self.evidence.push(Evidence {
            object: object.to_string().into(),
            field: field.to_string().into(),
            value: value.to_string().into(),
        });
        self
    }
}

/// The manifest's object as a subject. An object without a name is named by its file.
fn subject(manifest: &Manifest) -> Subject {
    let name = match manifest.name.as_str() {
        "" => &manifest.file,
        name => name,
    };
    let kind = match manifest.kind.as_str() {
        "" => "object",
        kind => kind,
    };
    let skyhook = manifest.skyhook().map(|skyhook| skyhook.name().to_owned());
    Subject { skyhook, ..Subject::object(kind, name) }
}

/// The name of the compartment at an index; the index if the compartment has no name.
fn compartment(manifest: &Manifest, index: &str) -> Option<String> {
    let name = manifest.get(&["spec", "compartments", index, "name"]);
    let name = name.and_then(|name| name.as_str()).filter(|name| !name.is_empty());
    Some(name.unwrap_or(index).to_owned())
}
