//! Muted findings in documents.

use schemars::JsonSchema;
use serde::Serialize;

use super::Mute;
use crate::rules::{Finding, Severity, Subject};

/// A muted finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MutedFinding {
    /// The code of the rule.
    pub code: String,
    /// The name of the rule.
    pub name: String,
    /// The severity of the finding.
    pub severity: Severity,
    /// The object that the finding is about.
    pub subject: Subject,
    /// The observed problem.
    pub message: String,
    /// The mute that applies.
    pub mute: Mute,
}

impl MutedFinding {
    pub fn of(finding: &Finding) -> Option<MutedFinding> {
        let mute = finding.muted.as_deref()?;
        Some(MutedFinding {
            code: finding.rule.code.to_owned(),
            name: finding.rule.name.to_owned(),
            severity: finding.severity,
            subject: finding.subject.clone(),
            message: finding.message.clone(),
            mute: mute.clone(),
        })
    }
}
