//! Side effects of a plan, beyond its writes.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Grade;
use crate::model::{PackageDocument, RolloutDocument};

/// Side effects of a plan, and changes that cannot be undone.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Consequences {
    /// The grade of the worst side effect; absent if there are none above the grade of the changes themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grade: Option<Grade>,
    /// Number of nodes with side effects.
    pub nodes: usize,
    /// Number of `nvidia.com/gpu` resources on those nodes.
    pub gpus: u64,
    /// Number of nodes on which each package runs again, by package.
    pub reruns: BTreeMap<String, usize>,
    /// Number of nodes that are cordoned and drained for an interrupt.
    pub drains: usize,
    /// Number of nodes on which services restart.
    pub restarts: usize,
    /// Number of nodes that reboot.
    pub reboots: usize,
    /// Whether installed files remain on hosts because an uninstall does not run; absent if false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skips_uninstall: bool,
    /// Whether the only record of an installation is removed; absent if false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub loses_record: bool,
    /// Changes that `undo` cannot revert.
    pub cannot_be_undone: Vec<String>,
    /// The resulting work on each package, as in `lint`; absent if unknown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<PackageDocument>,
    /// The effects on the nodes of each custom resource, as in `lint`; absent if unknown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rollouts: Vec<RolloutDocument>,
    /// Further effects, one sentence each; absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Risks to know before confirming, one sentence each.
    pub warnings: Vec<String>,
}

impl Consequences {
    /// The worst effect of the plan on the cluster: at least that of its changes.
    pub fn worst_grade(&self) -> Grade {
        self.grade.map_or(Grade::B1, |grade| grade.max(Grade::B1))
    }

    /// Raises the grade to at least this one.
    pub fn at_least(&mut self, grade: Grade) {
        self.grade = self.grade.max(Some(grade));
    }

    /// The statements of the planner with their grade, without numbers and effects.
    pub fn without_forecast(self) -> Consequences {
        let Consequences { skips_uninstall, loses_record, cannot_be_undone, notes, warnings, .. } = self;
        let grade = (skips_uninstall || loses_record).then_some(Grade::B4);
        let none = Consequences::default();
        Consequences { grade, skips_uninstall, loses_record, cannot_be_undone, notes, warnings, ..none }
    }

    /// Raises the grade and the numbers of nodes to at least those of another estimate of the same side effects.
    pub fn cover(&mut self, other: &Consequences) {
        self.grade = self.grade.max(other.grade);
        self.nodes = self.nodes.max(other.nodes);
        self.gpus = self.gpus.max(other.gpus);
        self.drains = self.drains.max(other.drains);
        self.restarts = self.restarts.max(other.restarts);
        self.reboots = self.reboots.max(other.reboots);
    }

    /// Records that the only record of an installation is removed.
    pub fn lose_record(&mut self) {
        self.loses_record = true;
        self.at_least(Grade::B4);
    }

    /// The worst effect of this plan in a few words; [`Grade::B4`] has several meanings.
    pub fn at_worst(&self, grade: Grade) -> String {
        let all = [
            (self.reboots > 0, "nodes reboot"),
            (self.skips_uninstall, "uninstalls do not run"),
            (self.loses_record, "installation records are lost"),
        ];
        let does: Vec<&str> = all.iter().filter(|(does, _)| *does).map(|(_, what)| *what).collect();
        if grade < Grade::B4 || does.is_empty() {
            return grade.meaning().to_owned();
        }
        does.join(", ")
    }

    /// Adds the side effects of another plan, without its forecast. A node in both plans counts twice.
    pub fn add(&mut self, other: Consequences) {
        self.grade = self.grade.max(other.grade);
        self.nodes += other.nodes;
        self.gpus += other.gpus;
        for (package, nodes) in other.reruns {
            *self.reruns.entry(package).or_default() += nodes;
        }
        self.drains += other.drains;
        self.restarts += other.restarts;
        self.reboots += other.reboots;
        self.skips_uninstall |= other.skips_uninstall;
        self.loses_record |= other.loses_record;
        for lost in other.cannot_be_undone {
            if !self.cannot_be_undone.contains(&lost) {
                self.cannot_be_undone.push(lost);
            }
        }
        self.notes.extend(other.notes);
        other.warnings.into_iter().for_each(|w| self.warn(w));
    }

    /// Adds a warning, once.
    pub fn warn(&mut self, warning: impl Into<String>) {
        let warning = warning.into();
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }
}
