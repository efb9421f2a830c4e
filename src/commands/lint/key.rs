//! The identity of a finding across runs.

use crate::commands::shared::baseline::FindingKey;
use crate::lint::LintFinding;

/// The identity of a finding, the same in every run.
pub(super) fn key(finding: &LintFinding) -> FindingKey {
    FindingKey {
        code: finding.rule.code.to_owned(),
        subject: finding.subject.clone(),
        path: finding.path.clone(),
    }
}
