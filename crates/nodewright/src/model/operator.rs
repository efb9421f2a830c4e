//! The version of the modeled operator.

use crate::api::{Entry, Stage, State};
use crate::cluster::Cluster;
use crate::cluster::placement::is_last;

/// The operator of a cluster. An unknown version counts as the newest of its API.
#[derive(Clone, Copy)]
pub(super) struct Operator<'a> {
    cluster: &'a Cluster,
    /// Builds between v0.15 and v0.16 have explicit uninstalls and report v0.15.
    explicit_uninstall: bool,
}

impl<'a> Operator<'a> {
    pub fn new(cluster: &'a Cluster) -> Operator<'a> {
        Operator { cluster, explicit_uninstall: cluster.operator().knows_uninstall() }
    }

    pub fn before(&self, major: u64, minor: u64) -> bool {
        match (major, minor) {
            (0, 16) => !self.explicit_uninstall,
            _ => self.cluster.operator().before(major, minor),
        }
    }
}

/// Stage and state of a package on a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Slot {
    pub stage: Stage,
    pub state: State,
}

/// The operator's step for a due package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Starts a stage, after a cordon and a drain if the package interrupts the node.
    Start { stage: Stage, drains: bool },
    /// Interrupts the node.
    Interrupt,
    /// Leaves the interrupt to another package.
    Skip,
    /// Counts a skipped interrupt as done.
    Promote,
    /// Waits for the interrupt of another package.
    Wait,
}

impl Slot {
    pub fn new(stage: Stage, state: State) -> Slot {
        Slot { stage, state }
    }

    pub fn read(entry: &Entry) -> Slot {
        Slot::new(entry.stage.clone(), entry.state.clone())
    }

    /// Whether the stage runs or fails (operator `IsActive`).
    pub fn active(&self) -> bool {
        matches!(self.state, State::InProgress | State::Erroring)
    }

    /// Whether the package is complete (operator `IsPackageComplete`).
    pub fn complete(&self, operator: &Operator<'_>, interrupts: bool) -> bool {
        self.state == State::Complete && is_last(&self.stage, interrupts, operator.before(0, 17))
    }

    /// The stage that follows a complete one (operator `NextStage`).
    fn next(&self, operator: &Operator<'_>, interrupts: bool) -> Option<Stage> {
        if self.state != State::Complete {
            return None;
        }
        match self.stage {
            Stage::Apply | Stage::Upgrade => Some(Stage::Config),
            Stage::Config if interrupts => Some(Stage::Interrupt),
            Stage::Interrupt if interrupts || !operator.before(0, 17) => Some(Stage::PostInterrupt),
            // Since v0.16 a package with an interrupt also interrupts the node after its uninstall.
            Stage::Uninstall if !interrupts || operator.before(0, 16) => Some(Stage::Apply),
            _ => None,
        }
    }
}

/// The step for a package (operator `ProcessInterrupt`, then `ApplyPackage`). `wins`: whether the interrupt
/// of this package serves all due packages of the node.
pub(super) fn step(operator: &Operator<'_>, slot: Option<&Slot>, interrupts: bool, wins: bool) -> Step {
    let next = slot.and_then(|slot| slot.next(operator, interrupts));
    if interrupts {
        if let Some(slot) = slot {
            if slot.state == State::Skipped {
                // Since v0.17 a skipped interrupt counts as done if the package would now interrupt the node
                // itself (upstream 270).
                let promotes = wins && !operator.before(0, 17);
                return if promotes { Step::Promote } else { Step::Wait };
            }
            if matches!(slot.stage, Stage::Interrupt | Stage::UninstallInterrupt)
                && slot.state != State::Complete
            {
                return if slot.active() { Step::Interrupt } else { Step::Wait };
            }
        }
        if next == Some(Stage::Interrupt) {
            return if wins { Step::Interrupt } else { Step::Skip };
        }
    }
    let resumed = slot.map(|slot| &slot.stage).filter(|stage| {
        matches!(stage, Stage::Config | Stage::Upgrade | Stage::Uninstall | Stage::UninstallInterrupt)
    });
    // If the package interrupts the node, stage apply and resumed stages start with a drain.
    let drains = interrupts && next.as_ref().is_none_or(|stage| *stage == Stage::Apply);
    let stage = next.or_else(|| resumed.cloned()).unwrap_or(Stage::Apply);
    Step::Start { stage, drains }
}
