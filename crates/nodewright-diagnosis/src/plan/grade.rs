//! The impact grade: the worst effect of a command on the cluster.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The worst effect of a command on the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Grade {
    /// Only reads.
    B0,
    /// Changes objects; nothing runs.
    B1,
    /// Packages run again.
    B2,
    /// Services restart, or pods are evicted.
    B3,
    /// Nodes reboot, or the only record of an installation is lost.
    B4,
}

impl Grade {
    pub const ALL: [Grade; 5] = [Grade::B0, Grade::B1, Grade::B2, Grade::B3, Grade::B4];

    /// Parses a grade or its word, ignoring case.
    pub fn named(name: &str) -> Option<Grade> {
        let mut all = Grade::ALL.into_iter();
        all.find(|grade| {
            grade.to_string().eq_ignore_ascii_case(name) || grade.word().eq_ignore_ascii_case(name)
        })
    }

    /// The grade as one word.
    pub fn word(self) -> &'static str {
        match self {
            Grade::B0 => "read",
            Grade::B1 => "objects",
            Grade::B2 => "rerun",
            Grade::B3 => "restart",
            Grade::B4 => "reboot",
        }
    }

    /// The grade of rerunning packages with this interrupt, if any: every interrupt drains the node.
    pub fn of_rerun(interrupt: Option<&str>) -> Grade {
        match interrupt {
            None => Grade::B2,
            Some("reboot") => Grade::B4,
            Some(_) => Grade::B3,
        }
    }

    /// The meaning of the grade in a few words.
    pub fn meaning(self) -> &'static str {
        match self {
            Grade::B0 => "reads only",
            Grade::B1 => "changes objects, runs nothing",
            Grade::B2 => "packages run again",
            Grade::B3 => "services restart, pods are evicted",
            Grade::B4 => "nodes reboot, or installation records are lost",
        }
    }
}

impl fmt::Display for Grade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}
