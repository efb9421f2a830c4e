//! Muted findings in documents.

use schemars::JsonSchema;
use serde::Serialize;

use super::Mute;
use crate::rules::{Finding, Severity, Subject};

/// A finding that is muted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MutedFinding {
    pub code: String,
    pub name: String,
    pub severity: Severity,
    pub subject: Subject,
    pub message: String,
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
