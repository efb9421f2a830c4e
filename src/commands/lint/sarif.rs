//! The report of `lint` in SARIF 2.1.0, for code scanning.

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde_json::{Value, json};

use super::subject::subject_text;
use crate::lint::{ALL, LintFinding, LintReport, LintRule};
use crate::rules::Severity;

/// Characters that a URI must not contain.
const ESCAPED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'`')
    .add(b'{')
    .add(b'}');

/// A log with one run. Suppressed findings are included and marked.
pub(super) fn log(lint: &LintReport) -> Value {
    let driver = json!({
        "name": "kubectl-skyhook",
        "version": env!("CARGO_PKG_VERSION"),
        "informationUri": env!("CARGO_PKG_REPOSITORY"),
        "rules": ALL.iter().map(|rule| descriptor(rule)).collect::<Vec<_>>(),
    });
    let results: Vec<Value> = lint.findings.iter().map(result).collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}],
    })
}

fn descriptor(rule: &LintRule) -> Value {
    let page = format!("{}/blob/main/docs/codes/{}.md", env!("CARGO_PKG_REPOSITORY"), rule.code);
    json!({
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.summary()},
        "help": {"text": rule.docs, "markdown": rule.docs},
        "helpUri": page,
        "defaultConfiguration": {"level": level(rule.severity)},
    })
}

fn result(finding: &LintFinding) -> Value {
    let subject = subject_text(&finding.subject);
    let fix = finding.fix.as_ref().map_or_else(String::new, |fix| format!(". {fix}"));
    let uri = finding.file.trim_start_matches("./");
    let check = finding.folded.map_or(finding.rule.code, |folded| folded.code);
    let mut result = json!({
        "ruleId": finding.rule.code,
        "ruleIndex": ALL.iter().position(|rule| rule.code == finding.rule.code),
        "level": level(finding.severity),
        "message": {"text": format!("{subject}: {}{fix}", finding.message)},
        "locations": [{"physicalLocation": {
            "artifactLocation": {"uri": utf8_percent_encode(uri, ESCAPED).to_string()},
            "region": {"startLine": finding.line, "startColumn": finding.column},
        }}],
        "partialFingerprints": {"finding/v1": format!("{check} {subject} {}", finding.path)},
    });
    if let Some(reason) = &finding.suppressed {
        result["suppressions"] = json!([{"kind": "inSource", "justification": reason}]);
    }
    result
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "note",
    }
}
