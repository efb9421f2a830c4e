//! Workflow commands of GitHub Actions: annotations beside the lines of a pull request.

use super::subject::subject_text;
use crate::lint::LintFinding;
use crate::rules::Severity;

/// The command for a finding: `::error file=gpu.yaml,line=14,col=5,title=SKY819::…`.
pub(super) fn annotation(finding: &LintFinding) -> String {
    let command = match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "notice",
    };
    let message = format!("{}: {}", subject_text(&finding.subject), finding.message);
    format!(
        "::{command} file={},line={},col={},title={}::{}",
        property(&finding.file),
        finding.line,
        finding.column,
        finding.rule.code,
        escaped(&message)
    )
}

fn escaped(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    escaped(text).replace(':', "%3A").replace(',', "%2C")
}
