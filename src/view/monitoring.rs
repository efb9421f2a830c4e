//! OpenMetrics text for node_exporter's textfile collector, and JUnit reports of checks.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge as Value;
use prometheus_client::registry::Registry;
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

/// Label names and values of a sample.
pub type Labels = Vec<(&'static str, String)>;

/// Prefix of every metric.
const PREFIX: &str = "kubectl_skyhook";

/// Gauges, in the order in which they are added.
#[derive(Debug, Default)]
pub struct Metrics(Vec<Gauge>);

#[derive(Debug)]
struct Gauge {
    name: &'static str,
    help: &'static str,
    samples: Vec<(Labels, u64)>,
}

impl Metrics {
    /// Adds samples to a gauge. The value of a label set is the sum of its samples; a gauge without samples is omitted.
    pub fn gauge(
        &mut self,
        name: &'static str,
        help: &'static str,
        samples: impl IntoIterator<Item = (Labels, u64)>,
    ) {
        let samples = samples.into_iter();
        match self.0.iter_mut().find(|gauge| gauge.name == name) {
            Some(gauge) => gauge.samples.extend(samples),
            None => self.0.push(Gauge { name, help, samples: samples.collect() }),
        }
    }

    /// Adds the metrics of one context, with its name as the label `context`.
    pub fn add_context(&mut self, context: &str, metrics: &Metrics) {
        for Gauge { name, help, samples } in &metrics.0 {
            let samples = samples.iter().map(|(labels, value)| {
                let mut labels = labels.clone();
                labels.insert(0, ("context", context.to_owned()));
                (labels, *value)
            });
            self.gauge(name, help, samples);
        }
    }

    /// The text, ending with `# EOF`.
    pub fn text(&self) -> String {
        let mut registry = Registry::with_prefix(PREFIX);
        for gauge in self.0.iter().filter(|gauge| !gauge.samples.is_empty()) {
            let family = Family::<Labels, Value<u64, AtomicU64>>::default();
            for (labels, value) in &gauge.samples {
                family.get_or_create(labels).inc_by(*value);
            }
            registry.register(gauge.name, gauge.help, family);
        }
        let mut text = String::new();
        encode(&mut text, &registry).expect("writes to a string never fail");
        sorted_samples(&text)
    }
}

/// Sorts the samples of each metric: the library keeps them in a hash map. Values have no line breaks.
fn sorted_samples(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    for samples in lines.split_mut(|line| line.starts_with('#')) {
        samples.sort_unstable();
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

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
