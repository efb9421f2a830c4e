//! The configuration file of a repository: rules, excluded files, and the operator's version.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use glob::{MatchOptions, Pattern};
use serde::Deserialize;

use super::finding::LintFinding;
use super::is_named;
use crate::api::Version;
use crate::rules::Severity;
use crate::view::API_VERSION;

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
        let named = |name: &str| finding.names().any(|rule| is_named(rule, name));
        let (_, level) = self.settings.rules.iter().find(|(name, _)| named(name))?;
        Some(match level {
            Level::Off => None,
            Level::Info => Some(Severity::Info),
            Level::Warning => Some(Severity::Warning),
            Level::Error => Some(Severity::Error),
        })
    }
}
