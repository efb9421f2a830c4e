//! `--fail-on`: the findings that cause exit code 2.

use crate::rules::Severity;

/// Minimum severity of findings that cause exit code 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum FailOn {
    Error,
    Warning,
    Info,
    Never,
}

impl FailOn {
    /// The lowest severity that causes exit code 2; `None` if no severity does.
    pub fn threshold(self) -> Option<Severity> {
        match self {
            FailOn::Error => Some(Severity::Error),
            FailOn::Warning => Some(Severity::Warning),
            FailOn::Info => Some(Severity::Info),
            FailOn::Never => None,
        }
    }

    /// Whether a finding of this severity causes exit code 2.
    pub fn includes(self, severity: Severity) -> bool {
        self.threshold().is_some_and(|threshold| severity >= threshold)
    }
}
