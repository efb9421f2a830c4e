//! Findings about manifests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use glob::{MatchOptions, Pattern};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::manifest::{Manifest, path_text};
use super::{Input, LintRule};
use crate::api::Version;
use crate::model::spec_errors::SpecErrorKind;
use crate::rules::support::mute::Mute;
use crate::rules::{Evidence, Severity, Subject};
use crate::text::API_VERSION;

/// A finding about a manifest.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "FindingDocument")]
pub struct LintFinding {
    #[serde(flatten)]
    pub rule: &'static LintRule,
    /// The severity of the finding.
    pub severity: Severity,
    /// The object that the finding is about.
    pub subject: Subject,
    /// The problem.
    pub message: String,
    /// How to fix the problem; absent without advice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// Values that support the finding.
    pub evidence: Vec<Evidence>,
    /// The path of the file, or `stdin`.
    pub file: String,
    /// The line number, from 1.
    pub line: usize,
    /// The column of the field in that line, from 1.
    pub column: usize,
    /// The path of the field; empty if the finding is about the whole document.
    pub path: String,
    /// Why the finding is suppressed; absent if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suppressed: Option<String>,
}

impl LintFinding {
    /// A mute of this finding.
    pub fn mute(&self, now: Timestamp) -> Mute {
        let mut mute = Mute::known(self.rule.code, &self.subject, self.severity, now);
        mute.path = (!self.path.is_empty()).then(|| self.path.clone());
        mute
    }
}

/// Collects the findings of one rule.
#[derive(Debug)]
pub struct LintFindings {
    rule: &'static LintRule,
    pub(super) found: Vec<LintFinding>,
}

impl LintFindings {
    pub(super) fn of(rule: &'static LintRule) -> LintFindings {
        LintFindings { rule, found: Vec::new() }
    }

    /// Reports the field at a path of keys and indexes. If the field does not exist, the finding gets the
    /// line of its nearest existing parent.
    ///
    /// The subject is the object, with the package or the compartment if the path lies in one. The message
    /// begins in lower case and has no full stop.
    pub fn report<S: AsRef<str>>(
        &mut self,
        manifest: &Manifest,
        path: &[S],
        message: impl Into<String>,
    ) -> &mut LintFinding {
        let path: Vec<&str> = path.iter().map(AsRef::as_ref).collect();
        let range = manifest.range(&path);
        let finding = self.report_line(manifest, range.first, message);
        finding.column = range.column;
        finding.path = path_text(&path);
        match path[..] {
            ["spec", "packages", package, ..] => finding.subject.package = Some(package.to_owned()),
            ["spec", "compartments", index, ..] => {
                finding.subject.compartment = compartment(manifest, index);
            }
            _ => {}
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
        let finding = self.report_at(&manifest.file, line, subject(manifest), message);
        finding.suppressed = manifest.suppression(finding);
        finding
    }

    /// Reports the spec errors of one kind.
    pub fn report_spec_errors(&mut self, input: &Input<'_>, kind: SpecErrorKind) {
        for (manifest, error) in input.spec_errors(kind) {
            self.report(manifest, &error.whole_path(), error.message()).fix(error.fix());
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
    Some(name.and_then(|name| name.as_str()).filter(|name| !name.is_empty()).unwrap_or(index).to_owned())
}

/// The name of the configuration file. The nearest one above a manifest applies.
pub const CONFIG_FILE: &str = ".skyhook-lint.yaml";

const KIND: &str = "LintConfig";

/// The settings for the manifests in the directory of the file and below it.
#[derive(Debug, Default)]
pub struct Config {
    /// The path of the file; empty without one.
    pub path: String,
    /// The directory of the file; empty without one.
    pub(super) directory: PathBuf,
    settings: Settings,
    pub operator_version: Option<Version>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Settings {
    api_version: String,
    kind: String,
    #[serde(default)]
    operator_version: Option<String>,
    /// Glob patterns of files that are not read.
    #[serde(default)]
    exclude: Vec<Glob>,
    /// Glob patterns of directories that belong to a cluster of their own.
    #[serde(default)]
    roots: Vec<Glob>,
    /// Severities by the code or the name of a rule.
    #[serde(default)]
    rules: BTreeMap<String, Level>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    Off,
    Info,
    Warning,
    Error,
}

#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct Glob(Pattern);

impl TryFrom<String> for Glob {
    type Error = String;

    fn try_from(text: String) -> Result<Glob, String> {
        Pattern::new(&text).map(Glob).map_err(|error| format!("invalid pattern {text:?}: {}", error.msg))
    }
}

impl Config {
    /// Parses the file at this path.
    ///
    /// # Errors
    ///
    /// The text is no configuration, or names an unknown rule.
    pub fn parse(path: &Path, text: &str) -> Result<Config, String> {
        let options = serde_saphyr::options! { with_snippet: false, };
        let settings: Settings = serde_saphyr::from_str_with_options(text, options)
            .map_err(|error| error.to_string().lines().next().unwrap_or_default().to_owned())?;
        if settings.api_version != API_VERSION || settings.kind != KIND {
            return Err(format!("expected apiVersion: {API_VERSION} and kind: {KIND}"));
        }
        if let Some(unknown) = settings.rules.keys().find(|name| super::find(name).is_none()) {
            return Err(format!("rule {unknown:?} not found; `kubectl skyhook explain` lists them"));
        }
        let version = settings.operator_version.as_deref();
        let version = version.map(|text| Version::parse(text).ok_or(format!("invalid version {text:?}")));
        Ok(Config {
            path: path.display().to_string(),
            directory: path.parent().unwrap_or(path).to_owned(),
            operator_version: version.transpose()?,
            settings,
        })
    }

    /// Whether the file at this path is not read.
    pub(super) fn excludes(&self, path: &Path) -> bool {
        self.any_matches(&self.settings.exclude, path)
    }

    /// Whether the manifests in this directory belong to a cluster of their own.
    pub(super) fn is_root(&self, directory: &Path) -> bool {
        self.any_matches(&self.settings.roots, directory)
    }

    fn any_matches(&self, globs: &[Glob], path: &Path) -> bool {
        let options = MatchOptions { require_literal_separator: true, ..MatchOptions::new() };
        let below = path.strip_prefix(&self.directory).ok();
        below.is_some_and(|path| globs.iter().any(|Glob(glob)| glob.matches_path_with(path, options)))
    }

    /// The configured severity of a finding: `Some(None)` if its rule is off.
    pub(super) fn severity(&self, finding: &LintFinding) -> Option<Option<Severity>> {
        let (_, level) = self.settings.rules.iter().find(|(name, _)| finding.rule.is_named(name))?;
        Some(match level {
            Level::Off => None,
            Level::Info => Some(Severity::Info),
            Level::Warning => Some(Severity::Warning),
            Level::Error => Some(Severity::Error),
        })
    }
}
