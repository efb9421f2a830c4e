//! Rules and severities in arguments and in output.

use schemars::JsonSchema;
use serde::Serialize;

use crate::cluster::Source;
use crate::error::{Error, Exit, Result};
use crate::lint::{self, LintRule};
use crate::rules::{self, Blocks, Rule, Severity};
use crate::view::text::{self, Label, Text};
use crate::view::{Table, cells, list, plural};

/// Finds a rule by its code or name.
pub fn find_rule(code_or_name: &str) -> Result<&'static Rule> {
    rules::find(code_or_name).ok_or_else(|| {
        if let Ok(number) = code_or_name.parse::<usize>() {
            let why = format!("expected the code or name of a rule, not the number of a cause: {number}");
            let cause = format!("kubectl skyhook diagnose stuck {number}");
            return Error::usage(why).hint(cause).hint("kubectl skyhook explain");
        }
        let known = rules::ALL.iter().flat_map(|r| [r.code, r.name]);
        let error = Error { exit: Exit::Usage, ..Error::unknown("rule", code_or_name, known) };
        error.hint("kubectl skyhook explain")
    })
}

/// The nonzero counts in words: `2 errors`, `1 warning`.
pub fn counted(errors: usize, warnings: usize) -> Vec<String> {
    let all = [(errors, "error"), (warnings, "warning")].into_iter();
    all.filter(|(number, _)| *number > 0).map(|(number, noun)| plural(number, noun)).collect()
}

/// The headline of an incomplete check without errors: the unchecked part, and the findings of the rest.
pub fn incomplete(unchecked: &str, nothing_left: bool, found: &[String], warnings: usize) -> String {
    let rest = match found {
        _ if nothing_left => String::new(),
        [] => "; the others found no problems".to_owned(),
        found if warnings == 0 => format!("; the others found {}", list(found)),
        found => format!("; the others found {}, but no errors", list(found)),
    };
    format!("Incomplete diagnosis: {unchecked}{rest}")
}

pub fn label_of(severity: Severity) -> Label {
    match severity {
        Severity::Error => Label::Error,
        Severity::Warning => Label::Warning,
        Severity::Info => Label::Info,
    }
}

pub fn severity(severity: Severity) -> text::Span {
    label_of(severity).span(severity)
}

/// A rule and its documentation.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    /// The code of the rule, such as `SKY201`.
    pub code: String,
    /// The name of the rule.
    pub name: String,
    /// The severity of its findings, unless a finding sets another one.
    pub severity: Severity,
    /// The problem in one sentence.
    summary: String,
    /// Sources that the rule must read to report that no problem exists.
    needs: Vec<String>,
    /// Sources that make its findings more certain or better explained.
    optional_sources: Vec<String>,
    /// The operations that are blocked while a finding of the rule exists.
    pub blocks: Vec<Blocks>,
    /// Whether the operation that failed is retried automatically.
    pub retried: bool,
    /// The documentation: the meaning of a finding, how to confirm it, and how to fix it.
    explanation: String,
    #[serde(skip)]
    pub docs: &'static str,
    /// Whether `lint` checks the rule.
    #[serde(skip)]
    pub of_manifests: bool,
}

impl Document {
    fn new(code: &str, name: &str, severity: Severity, summary: &str, docs: &'static str) -> Document {
        Document {
            code: code.to_owned(),
            name: name.to_owned(),
            severity,
            summary: summary.to_owned(),
            needs: Vec::new(),
            optional_sources: Vec::new(),
            blocks: Vec::new(),
            retried: false,
            explanation: Text::markdown(docs).plain(),
            docs,
            of_manifests: false,
        }
    }

    /// The document of a `lint` rule.
    pub fn of_lint(rule: &LintRule) -> Document {
        Document {
            of_manifests: true,
            ..Document::new(rule.code, rule.name, rule.severity, rule.summary(), rule.docs)
        }
    }

    pub fn of(rule: &Rule) -> Document {
        let sources = |sources: &[Source]| sources.iter().map(ToString::to_string).collect();
        Document {
            needs: sources(rule.needs),
            optional_sources: sources(rule.optional_sources),
            blocks: rule.blocks.to_vec(),
            retried: rule.retried,
            ..Document::new(rule.code, rule.name, rule.severity, rule.summary(), rule.docs)
        }
    }
}

pub fn table(rules: &[Document]) -> Table {
    let mut table = Table::new(["code", "name", "severity", "summary"]).wrap_last();
    for rule in rules {
        table.row(cells![
            text::name(&rule.code),
            rule.name.as_str(),
            severity(rule.severity),
            rule.summary.as_str()
        ]);
    }
    table
}

/// All rules in the order of codes: first those about clusters, then those about manifests.
pub fn all() -> Vec<Document> {
    let of_clusters = rules::ALL.iter().map(|rule| Document::of(rule));
    of_clusters.chain(lint::ALL.iter().map(|rule| Document::of_lint(rule))).collect()
}

/// Minimum severity of findings that cause exit code 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum FailOn {
    Error,
    Warning,
    Info,
    Never,
}

impl FailOn {
    /// The lowest severity that causes exit code 2; `None` if no severity does.
    pub fn threshold(self) -> Option<Severity> {
        match self {
            FailOn::Error => Some(Severity::Error),
            FailOn::Warning => Some(Severity::Warning),
            FailOn::Info => Some(Severity::Info),
            FailOn::Never => None,
        }
    }

    /// Whether a finding of this severity causes exit code 2.
    pub fn includes(self, severity: Severity) -> bool {
        self.threshold().is_some_and(|threshold| severity >= threshold)
    }
}
