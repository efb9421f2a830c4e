//! One check, and what came of it.

use schemars::JsonSchema;
use serde::Serialize;

use crate::cluster::{Cluster, Unread};
use crate::commands::shared::shell_words::shell_words;
use crate::rules::{Finding, Severity};
use crate::view::plural;

/// What came of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum CheckResult {
    Good,
    /// Will bite later, or may be meant so.
    Warning,
    Error,
    /// What it takes could not be read.
    NotChecked,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// What was checked: `operator`, `webhooks` …
    pub about: String,
    /// The expected state.
    pub title: String,
    pub outcome: CheckResult,
    /// What was observed, or why the check could not run.
    pub says: String,
    /// What to do, where it is not good.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The cluster would not give what it takes.
    #[serde(skip)]
    pub withheld: bool,
}

impl Check {
    pub fn new(about: &str, title: &str, outcome: CheckResult, says: impl Into<String>) -> Check {
        Check {
            about: about.to_owned(),
            title: title.to_owned(),
            outcome,
            says: says.into(),
            hint: None,
            withheld: false,
        }
    }

    pub fn hint(self, hint: impl Into<String>) -> Check {
        Check {
            hint: Some(hint.into()),
            ..self
        }
    }

    pub fn unread(about: &str, title: &str, why: &Unread) -> Check {
        let check = Check::new(about, title, CheckResult::NotChecked, why.to_string());
        Check {
            withheld: true,
            ..check.hint("kubectl skyhook rbac --for 'diagnose check'")
        }
    }

    /// Of files, and of what nobody could know where to look for.
    pub fn not_asked(about: &str, title: &str, cluster: &Cluster) -> Check {
        let says = if cluster.from_files {
            "the objects needed for this check were not read from the input"
        } else {
            "the objects needed for this check were not read"
        };
        Check::new(about, title, CheckResult::NotChecked, says)
    }

    /// As bad as the findings of a rule, the worst first; nothing where there are none.
    pub fn by(about: &str, title: &str, findings: &[Finding], codes: &[&str]) -> Option<Check> {
        let of = findings.iter().filter(|f| codes.contains(&f.rule.code));
        let of: Vec<&Finding> = of.filter(|f| f.severity > Severity::Info).collect();
        let worst = of.iter().max_by_key(|f| f.severity)?;
        let outcome = match worst.severity {
            Severity::Error => CheckResult::Error,
            _ => CheckResult::Warning,
        };
        let more = match of.len() {
            1 => String::new(),
            n => format!(" (and {})", plural(n - 1, "more finding")),
        };
        let says = format!("{}{more} ({})", worst.message, worst.rule.code);
        let check = Check::new(about, title, outcome, says);
        Some(check.hint(match worst.remedies.first() {
            Some(remedy) => shell_words(&remedy.argv),
            None => format!("kubectl skyhook explain {}", worst.rule.code),
        }))
    }
}
