//! The JUnit report of `diagnose stuck`.

use super::Diagnosis;
use super::group::{Detail, FindingGroup};
use crate::rules::support::causes::Causes;
use crate::rules::{NotChecked, Severity};
use crate::view::junit::{self, Case, TestResult};

impl Diagnosis<'_> {
    /// One test case for each shown cause, each muted cause and each rule that could not be checked; with
    /// `--all`, also for the effects. Notes pass; muted causes are skipped.
    pub(super) fn junit_report(&self) -> quick_junit::Report {
        let groups = self.groups();
        let causes = groups.iter().map(|group| self.cause_case(group));
        let not_checked = self.report.not_checked.iter();
        let unchecked = not_checked.map(|not_checked| self.unchecked_case(not_checked));
        let muted = Causes::of(&self.report.muted).ranked(&self.report.muted);
        let muted = muted.iter().map(|cause| {
            let group = FindingGroup::of(cause, &self.report.muted);
            let reason = group.first().muted.as_ref().map(ToString::to_string);
            let rule = group.first().rule;
            let subject = group.subject(self.cluster, true);
            Case {
                name: format!("{} {}: {subject}", rule.code, rule.name),
                result: TestResult::Skipped,
                message: format!("muted: {}", reason.unwrap_or_default()),
                detail: String::new(),
            }
        });
        junit::report("diagnose stuck", causes.chain(muted).chain(unchecked))
    }

    fn cause_case(&self, group: &FindingGroup<'_>) -> Case {
        let rule = group.first().rule;
        let subject = group.subject(self.cluster, true);
        let failed = group.severity() > Severity::Info;
        Case {
            name: format!("{} {}: {subject}", rule.code, rule.name),
            result: if failed { TestResult::Failed } else { TestResult::Passed },
            message: group.message().into_owned(),
            detail: if failed { group.text(&self.grades, true, Detail::Full).plain() } else { String::new() },
        }
    }

    /// The test case of an unchecked rule: an error if the cluster did not return a source. If no rule was
    /// checked, no test case may be skipped.
    fn unchecked_case(&self, not_checked: &NotChecked) -> Case {
        let rule = not_checked.rule;
        let mut sources = rule.needs.iter().chain(rule.optional_sources);
        let nothing_checked = self.report.not_checked.len() == self.report.counts.rules;
        let withheld = sources.any(|source| self.cluster.missing(*source).is_some());
        Case {
            name: format!("{} {}", rule.code, rule.name),
            result: if withheld || nothing_checked { TestResult::Error } else { TestResult::Skipped },
            message: format!("not checked: {}", not_checked.reason),
            detail: String::new(),
        }
    }
}
