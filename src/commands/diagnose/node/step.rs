//! One package on the node.

use std::cell::OnceCell;

use schemars::JsonSchema;
use serde::Serialize;

use crate::api::{Skyhook, Stage, State};
use crate::cluster::{Cluster, Node, PackageRuns, Phase, Placement};
use crate::model::Timeline;
use crate::outlook::Outlook;
use crate::rules::Finding;
use crate::view::{ago, for_how_long, list};

/// A package on the node, and its progress.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct NextStep {
    /// The package.
    #[serde(rename = "name")]
    pub package: String,
    /// The version of the package.
    pub version: String,
    /// The phase of the package.
    pub phase: Phase,
    /// Whether the package is done on the node: complete, or absent if it is to be uninstalled.
    pub done: bool,
    /// The current stage, or why the package waits or fails; absent if neither is known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// A node with the data that explains its state.
pub struct Inspection<'l, 'a> {
    pub cluster: &'a Cluster,
    pub node: &'a Node,
    pub package_runs: &'l PackageRuns<'a>,
    pub outlook: &'l Outlook<'a>,
    /// The simulation of all rollouts, computed only if a node waits in a queue.
    pub timeline: OnceCell<Timeline<'a>>,
    /// Whether all requested sources were read.
    pub whole: bool,
}

impl<'a> Inspection<'_, 'a> {
    pub fn step(&self, skyhook: &Skyhook, placement: &Placement<'a>) -> NextStep {
        // A stage that has just started is not recorded yet.
        let started = placement.phase == Phase::NotStarted && self.runs_next(placement).is_some();
        NextStep {
            package: placement.package.to_owned(),
            version: placement.version.to_owned(),
            phase: if started { Phase::Running } else { placement.phase },
            done: placement.is_done(),
            message: self.message(skyhook, placement),
        }
    }

    fn message(&self, skyhook: &Skyhook, placement: &Placement<'a>) -> String {
        match placement.phase {
            Phase::Malformed => placement.malformed.unwrap_or_default().to_owned(),
            Phase::Running | Phase::Uninstalling | Phase::Failing | Phase::UninstallFailing => {
                let stage = placement.entry.map_or("", |e| e.stage.as_str());
                let state = placement.entry.filter(|e| e.state == State::Complete);
                let next = state.and_then(|_| self.runs_next(placement));
                let at = match (state, next) {
                    (Some(_), Some(next)) => {
                        format!("stage {stage} is done; stage {next} has started")
                    }
                    (Some(_), None) => {
                        format!("stage {stage} is done; the next stage has not started")
                    }
                    (None, _) => format!("at stage {stage}"),
                };
                let now = self.cluster.taken_at;
                let since = match self.package_runs.unacknowledged_since(placement) {
                    Some(at) => {
                        Some(format!(", pod assigned {} but not started by the kubelet", ago(Some(at), now)))
                    }
                    None => {
                        let since = self.package_runs.since(placement);
                        since.map(|at| format!(" {}", for_how_long(at, now)))
                    }
                };
                let outcome = self.outcome(placement).map(|o| format!(", {o}"));
                format!("{at}{}{}", since.unwrap_or_default(), outcome.unwrap_or_default())
            }
            Phase::NotStarted => {
                if let Some(stage) = self.runs_next(placement) {
                    return format!("at stage {stage}");
                }
                let missing = self.dependencies(skyhook, placement);
                if missing.is_empty() {
                    String::new()
                } else {
                    format!(
                        "depends on {}, which {} not done",
                        list(&missing),
                        if missing.len() == 1 { "is" } else { "are" }
                    )
                }
            }
            _ => String::new(),
        }
    }

    /// The running stage, if the record still shows the stage before it.
    fn runs_next(&self, placement: &Placement<'a>) -> Option<&Stage> {
        let recorded = placement.entry.map(|entry| &entry.stage);
        let here = self.package_runs;
        let mut here = here.of_skyhook_on(placement.skyhook, &placement.node.name);
        let next = here.find(|run| {
            run.package == placement.package
                && run.version == placement.version
                && Some(&run.stage) != recorded
                && run.alive()
                && run.unacknowledged().is_none()
        });
        next.map(|run| &run.stage)
    }

    /// The dependencies that are not complete on the node.
    fn dependencies(&self, skyhook: &Skyhook, placement: &Placement<'_>) -> Vec<String> {
        let Some(package) = skyhook.package(placement.package) else {
            return Vec::new();
        };
        let on = self.cluster.on_node(self.node, skyhook.name());
        let state = on.and_then(|on| on.state.as_deref());
        let phase = |name: &str| skyhook.phase(self.cluster, name, state);
        let open = package.depends_on.keys().filter(|name| phase(name) != Phase::Complete);
        open.cloned().collect()
    }

    /// How the package's attempt ended, from its findings.
    fn outcome(&self, placement: &Placement<'_>) -> Option<String> {
        let of_it = |f: &&Finding| {
            f.subject.skyhook.as_deref() == Some(placement.skyhook)
                && f.subject.package.as_deref() == Some(placement.package)
                && f.subject.node.as_deref() == Some(self.node.name.as_str())
        };
        let mut reasons = self.outlook.findings.iter().filter(of_it);
        reasons.find_map(|f| f.reason.as_ref()?.outcome())
    }
}
