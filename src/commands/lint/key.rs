//! The identity of a finding across runs.

use crate::commands::shared::baseline::FindingKey;
use crate::lint::LintFinding;

/// What identifies the finding in another run.
pub(super) fn key(finding: &LintFinding) -> FindingKey {
    FindingKey {
        code: finding.rule.code.to_owned(),
        subject: finding.subject.clone(),
        path: finding.path.clone(),
    }
}
