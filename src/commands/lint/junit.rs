//! The report of `lint` for continuous integration.

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use super::subject::subject_text;
use crate::commands::shared::fail_on::FailOn;
use crate::lint::{LintFinding, LintReport};

/// A JUnit report: one suite for each file, and one test case for each finding. Findings that cause exit code 2 are
/// failures, suppressed findings are skipped tests. A file without findings has one passed test case.
pub(super) fn report(lint: &LintReport, fail_on: FailOn) -> Report {
    let mut report = Report::new("lint");
    for file in lint.files.keys() {
        let mut suite = TestSuite::new(file.as_str());
        let findings = lint.findings.iter().filter(|f| f.file == *file);
        suite.add_test_cases(findings.map(|finding| test_case(finding, fail_on)));
        if suite.test_cases.is_empty() {
            suite.add_test_case(TestCase::new("no findings", TestCaseStatus::success()));
        }
        report.add_test_suite(suite);
    }
    report
}

fn test_case(finding: &LintFinding, fail_on: FailOn) -> TestCase {
    let subject = subject_text(&finding.subject);
    let skipped = &finding.suppressed;
    let mut status = match skipped {
        Some(_) => TestCaseStatus::skipped(),
        None if fail_on.includes(finding.severity) => TestCaseStatus::non_success(NonSuccessKind::Failure),
        None => TestCaseStatus::success(),
    };
    status.set_message(skipped.as_ref().unwrap_or(&finding.message).as_str());
    status.set_type(finding.severity.to_string());
    if skipped.is_none() {
        let fix = finding.fix.as_ref().map_or_else(String::new, |fix| format!("\n{fix}"));
        let place = format!("{}:{}", finding.file, finding.line);
        status.set_description(format!("{place}: {subject}: {}{fix}", finding.message));
    }
    let name = format!("{} {}: {subject}", finding.rule.code, finding.rule.name);
    let mut case = TestCase::new(name, status);
    case.set_classname(finding.file.as_str());
    case.extra.insert("file".into(), finding.file.as_str().into());
    case.extra.insert("line".into(), finding.line.to_string().as_str().into());
    case
}
