//! The JUnit report of `diagnose stuck`.

use super::Diagnosis;
use super::group::{Detail, FindingGroup};
use crate::rules::{NotChecked, Severity};
use crate::view::junit::{self, Case, TestResult};

impl Diagnosis<'_> {
    /// One test case for each cause and for each rule that could not be checked. Notes pass.
    pub(super) fn junit_report(&self) -> String {
        let groups = self.groups();
        let causes = groups.iter().map(|group| self.cause_case(group));
        let not_checked = self.report.not_checked.iter();
        let unchecked = not_checked.map(|not_checked| self.unchecked_case(not_checked));
        junit::report("diagnose stuck", causes.chain(unchecked))
    }

    fn cause_case(&self, group: &FindingGroup<'_>) -> Case {
        let rule = group.first().rule;
        let subject = group.subject(self.cluster, true);
        let failed = group.severity() > Severity::Info;
        Case {
            name: format!("{} {}: {subject}", rule.code, rule.name),
            result: if failed {
                TestResult::Failed
            } else {
                TestResult::Passed
            },
            message: group.message().to_owned(),
            detail: if failed {
                group.text(self.cluster, true, Detail::Full).plain()
            } else {
                String::new()
            },
        }
    }

    /// An error if the cluster did not return a source. With nothing checked, no case may look like a pass.
    fn unchecked_case(&self, not_checked: &NotChecked) -> Case {
        let rule = not_checked.rule;
        let mut sources = rule.needs.iter().chain(rule.optional_sources);
        let nothing_checked = self.report.not_checked.len() == self.report.counts.rules;
        let withheld = sources.any(|source| self.cluster.missing(*source).is_some());
        Case {
            name: format!("{} {}", rule.code, rule.name),
            result: if withheld || nothing_checked {
                TestResult::Error
            } else {
                TestResult::Skipped
            },
            message: format!("not checked: {}", not_checked.reason),
            detail: String::new(),
        }
    }
}
