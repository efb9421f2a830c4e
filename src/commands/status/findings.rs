//! How many findings there are, by severity.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::rules::{Finding, Report, Severity};

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Findings {
    pub errors: usize,
    pub warnings: usize,
    pub infos: usize,
}

/// Findings by custom resource.
#[derive(Default)]
pub struct FindingCounts<'a> {
    /// Those about one custom resource that stop all of them.
    stopping_all: Findings,
    others: HashMap<&'a str, Findings>,
}

impl<'a> FindingCounts<'a> {
    pub fn of(report: &'a Report) -> FindingCounts<'a> {
        let mut counts = FindingCounts::default();
        for finding in &report.findings {
            match finding.subject.skyhook.as_deref() {
                Some(_) if finding.blocks_reconcile() => counts.stopping_all.add(finding),
                Some(skyhook) => counts.others.entry(skyhook).or_default().add(finding),
                None => {}
            }
        }
        counts
    }

    /// The findings about a custom resource, and those that stop all custom resources.
    pub fn of_skyhook(&self, name: &str) -> Findings {
        let (all, own) = (self.stopping_all, self.others.get(name).copied());
        let own = own.unwrap_or_default();
        Findings {
            errors: all.errors + own.errors,
            warnings: all.warnings + own.warnings,
            infos: all.infos + own.infos,
        }
    }
}

impl Findings {
    /// The findings that are about no custom resource.
    pub fn about_none(report: &Report) -> Findings {
        let mut counts = Findings::default();
        let all = report.findings.iter();
        all.filter(|f| f.subject.skyhook.is_none())
            .for_each(|f| counts.add(f));
        counts
    }

    fn add(&mut self, finding: &Finding) {
        match finding.severity {
            Severity::Error => self.errors += 1,
            Severity::Warning => self.warnings += 1,
            Severity::Info => self.infos += 1,
        }
    }
}
