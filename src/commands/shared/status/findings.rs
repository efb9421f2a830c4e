//! Counts of causes by severity.

use schemars::JsonSchema;
use serde::Serialize;

use crate::rules::Severity;
use crate::rules::support::impact::{CauseImpact, Impact};

/// Number of causes that `diagnose stuck` reports, by severity; the findings that they explain do not count.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Findings {
    pub errors: usize,
    pub warnings: usize,
    pub infos: usize,
}

impl Findings {
    /// Counts all causes.
    pub fn all(impact: &Impact<'_>) -> Findings {
        Findings::of(impact.causes.iter())
    }

    /// Counts the causes that concern a custom resource, its nodes, or the whole operator.
    pub fn about(name: &str, impact: &Impact<'_>) -> Findings {
        Findings::of(impact.about(name).iter().map(|at| &impact.causes[*at]))
    }

    fn of<'i>(causes: impl Iterator<Item = &'i CauseImpact<'i>>) -> Findings {
        let mut counts = Findings::default();
        for cause in causes {
            *match cause.severity {
                Severity::Error => &mut counts.errors,
                Severity::Warning => &mut counts.warnings,
                Severity::Info => &mut counts.infos,
            } += 1;
        }
        counts
    }
}
