//! JUnit reports of checks on a cluster.

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestResult {
    Passed,
    Failed,
    /// The cluster did not return a required source.
    Error,
    /// The input lacks an optional source.
    Skipped,
}

pub struct Case {
    pub name: String,
    pub result: TestResult,
    /// The result in one sentence.
    pub message: String,
    /// The evidence and the next command, for cases that did not pass.
    pub detail: String,
}

/// A report with one suite. A suite without cases gets a passed one, because CI systems reject empty suites.
pub fn report(suite_name: &str, cases: impl IntoIterator<Item = Case>) -> Report {
    let mut suite = TestSuite::new(suite_name);
    suite.add_test_cases(cases.into_iter().map(|case| test_case(suite_name, case)));
    if suite.test_cases.is_empty() {
        suite.add_test_case(TestCase::new("no findings", TestCaseStatus::success()));
    }
    let mut report = Report::new(suite_name);
    report.add_test_suite(suite);
    report
}

/// The suites of several reports, each under the name of its context. A context without a report has a suite
/// with the error.
pub fn of_contexts<'a>(
    answers: impl IntoIterator<Item = (&'a str, Option<&'a Report>, Option<&'a str>)>,
) -> Report {
    let mut all = Report::new("kubectl skyhook");
    for (context, report, error) in answers {
        let suites = report.map_or(&[][..], |report| &report.test_suites);
        for suite in suites {
            let mut suite = suite.clone();
            suite.name = format!("{context}: {}", suite.name.as_str()).into();
            all.add_test_suite(suite);
        }
        if suites.is_empty() {
            let error = Case {
                name: "read the cluster".to_owned(),
                result: TestResult::Error,
                message: error.unwrap_or("the command printed no report").to_owned(),
                detail: String::new(),
            };
            let mut suite = TestSuite::new(context);
            suite.add_test_case(test_case(context, error));
            all.add_test_suite(suite);
        }
    }
    all
}

fn test_case(suite: &str, case: Case) -> TestCase {
    let mut status = match case.result {
        TestResult::Passed => TestCaseStatus::success(),
        TestResult::Failed => TestCaseStatus::non_success(NonSuccessKind::Failure),
        TestResult::Error => TestCaseStatus::non_success(NonSuccessKind::Error),
        TestResult::Skipped => TestCaseStatus::skipped(),
    };
    status.set_message(case.message);
    if !case.detail.is_empty() {
        status.set_description(case.detail);
    }
    let mut test_case = TestCase::new(case.name, status);
    test_case.set_classname(suite);
    test_case
}
