//! One check, and its outcome.

use schemars::JsonSchema;
use serde::Serialize;

use crate::cluster::{Cluster, Unread};
use crate::rules::{Finding, Severity};
use crate::view::plural;
use crate::view::shell_words;

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub enum CheckResult {
    /// No problem was found.
    Good,
    /// The finding may cause a problem later, or may be intended.
    Warning,
    /// A problem was found.
    Error,
    /// A problem was found, and is muted.
    Muted,
    /// A required source could not be read.
    NotChecked,
}

/// One check of the installation.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// The part of the installation: `operator`, `webhooks` …
    #[serde(rename = "area")]
    pub subject: &'static str,
    /// The expected state.
    pub title: &'static str,
    /// The result of the check.
    pub outcome: CheckResult,
    /// The observed state, or why the check could not run.
    pub message: String,
    /// How to fix the problem; absent if the check is good or no fix is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Whether the cluster did not return a required source.
    #[serde(skip)]
    pub withheld: bool,
}

/// A question that the reader has to answer: the cluster does not show the answer.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Question {
    /// The question.
    pub question: &'static str,
    /// How to find the answer.
    pub hint: String,
}

impl Check {
    pub fn hint(self, hint: impl Into<String>) -> Check {
        Check { hint: Some(hint.into()), ..self }
    }
}

/// The subject of a check and its expected state.
#[derive(Clone, Copy)]
pub struct Expectation(pub &'static str, pub &'static str);

impl Expectation {
    fn check(self, outcome: CheckResult, message: impl Into<String>) -> Check {
        Check {
            subject: self.0,
            title: self.1,
            outcome,
            message: message.into(),
            hint: None,
            withheld: false,
        }
    }

    pub fn good(self, message: impl Into<String>) -> Check {
        self.check(CheckResult::Good, message)
    }

    pub fn warning(self, message: impl Into<String>) -> Check {
        self.check(CheckResult::Warning, message)
    }

    pub fn error(self, message: impl Into<String>) -> Check {
        self.check(CheckResult::Error, message)
    }

    pub fn not_checked(self, message: impl Into<String>) -> Check {
        self.check(CheckResult::NotChecked, message)
    }

    pub fn unread(self, why: &Unread) -> Check {
        let check = self.not_checked(why.to_string());
        Check { withheld: true, ..check.hint("kubectl skyhook rbac --for 'diagnose check'") }
    }

    /// Result "not checked" for a source that was not requested: missing from the input, or the operator's
    /// namespace is unknown.
    pub fn not_asked(self, cluster: &Cluster) -> Check {
        let message = if cluster.from_files {
            "the objects needed for this check were not read from the input"
        } else {
            "the objects needed for this check were not read"
        };
        self.not_checked(message)
    }

    /// The check result for the most severe finding of these rules; `None` without findings above info.
    pub fn check_findings(self, findings: &[Finding], codes: &[&str]) -> Option<Check> {
        let of = findings.iter().filter(|f| codes.contains(&f.rule.code));
        let of: Vec<&Finding> = of.filter(|f| f.severity > Severity::Info).collect();
        let worst = of.iter().max_by_key(|f| f.severity)?;
        // Use the most severe finding that is not muted.
        let open = of.iter().filter(|f| f.muted.is_none());
        let worst = open.max_by_key(|f| f.severity).unwrap_or(worst);
        let outcome = match (&worst.muted, worst.severity) {
            (Some(_), _) => CheckResult::Muted,
            (None, Severity::Error) => CheckResult::Error,
            (None, _) => CheckResult::Warning,
        };
        let more = match of.len() {
            1 => String::new(),
            n => format!(" (and {})", plural(n - 1, "more finding")),
        };
        let muted = worst.muted.as_ref();
        let muted = muted.map_or_else(String::new, |mute| format!("; muted: {mute}"));
        let message = format!("{}{more} ({}){muted}", worst.message, worst.rule.code);
        let check = self.check(outcome, message);
        Some(check.hint(match worst.remedies().next() {
            Some(remedy) => shell_words(&remedy.argv),
            None => format!("kubectl skyhook explain {}", worst.rule.code),
        }))
    }
}

/// The command that prints the operator's log.
pub fn operator_log(cluster: &Cluster) -> String {
    match cluster.operator() {
        Some(operator) => format!(
            "kubectl logs -n {} deployment/{} --all-containers --tail 100",
            operator.namespace(),
            operator.name()
        ),
        None if cluster.operators.ok().is_some_and(|all| all.is_empty()) => {
            "install the operator: no deployment of it was found".to_owned()
        }
        None => "see the log of the operator".to_owned(),
    }
}
