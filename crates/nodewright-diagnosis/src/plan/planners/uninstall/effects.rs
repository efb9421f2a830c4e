//! The preview of an uninstall's effects on nodes.

use std::collections::BTreeMap;

use super::placement_summary::{PlacementSummary, nodes};
use crate::api::{Executor, Package, Skyhook, Stage};
use crate::cluster::{Cluster, Node};
use crate::plan::{Consequences, Grade};
use crate::view::{list, plural};

/// A package with its custom resource and nodes.
#[derive(Clone, Copy)]
pub struct ImpactNotes<'a> {
    pub cluster: &'a Cluster,
    pub skyhook: &'a Skyhook,
    pub name: &'a str,
    pub package: &'a Package,
    pub survey: &'a PlacementSummary<'a>,
}

impl ImpactNotes<'_> {
    /// Adds the effects of the uninstall on each node; `removed_before` are the packages that are uninstalled
    /// before.
    pub fn uninstall(self, enables: bool, removed_before: &[&str], effects: &mut Consequences) {
        let ImpactNotes { name, survey, .. } = self;
        let version = &self.package.version;
        let concerned: Vec<&Node> = survey.concerned().collect();
        let interrupt = self.skyhook.pending_interrupt(name, self.package);
        weigh(&concerned, interrupt, effects);
        if !survey.begun.is_empty() {
            effects.notes.push(format!(
                "the uninstall of {name} is in progress on {}",
                nodes(survey.begun.iter().map(|(n, _)| *n))
            ));
        }
        if !survey.absent.is_empty() {
            effects.notes.push(format!(
                "{name} is not on {}; nothing runs there",
                nodes(survey.absent.iter().copied())
            ));
        }
        let few = survey.unfinished.len() <= 3;
        for (node, entry) in survey.unfinished.iter().filter(|_| few) {
            effects.warn(format!(
                "on {}, {name} is at {} ({}): the uninstall starts only after this stage is complete",
                node.name, entry.stage, entry.state
            ));
        }
        if !few {
            effects.warn(format!(
                "{name} is not complete on {}: the uninstall starts there only after the current stage is complete",
                nodes(survey.unfinished.iter().map(|(n, _)| *n))
            ));
        }
        if let Some(first) = survey.ignored.first() {
            let others = match survey.ignored.len() {
                1 => "",
                _ => "; repeat for each node",
            };
            effects.warn(format!(
                "the uninstall of {name} does not run on {}, which the operator ignores, until you run `kubectl skyhook node \
                 unignore {}`{others}",
                nodes(survey.ignored.iter().copied()),
                first.name
            ));
        }
        let mut others: BTreeMap<&str, Vec<&Node>> = BTreeMap::new();
        for (node, entry) in &survey.other {
            others.entry(entry.version.as_ref()).or_default().push(node);
        }
        for (other, on) in others {
            effects.warn(format!(
                "on {}, {name} is at version {other}: the operator upgrades {name} to {version} before the uninstall, or \
                 leaves {name} stranded (SKY104)",
                nodes(on)
            ));
        }
        if survey.is_absent() && survey.other.is_empty() {
            effects.warn(format!(
                "no selected node has {name}, so there is nothing to uninstall: the operator considers {name} uninstalled and \
                 will not install it (SKY103)"
            ));
        }
        self.left_alone(effects);
        let mut staying = self.skyhook.dependants(name);
        staying.retain(|dependant| {
            let uninstall = self.skyhook.package(dependant).map(Package::uninstall);
            !removed_before.contains(dependant) && !uninstall.is_some_and(|u| u.enabled && u.apply)
        });
        if !staying.is_empty() {
            let (verb, them) = match staying.len() {
                1 => ("depends", format!("{} stays installed, but is", staying[0])),
                _ => ("depend", "they stay installed, but are".to_owned()),
            };
            effects.warn(format!(
                "{} {verb} on {name}: {them} blocked until {name} is installed again (SKY111)",
                list(&staying)
            ));
        }
        if enables {
            effects.warn(format!(
                "--enable requires uninstall.sh and uninstall_check.sh in the package: without these scripts, the uninstall \
                 fails on every node, and neither {name} nor the custom resource can be removed"
            ));
        }
        if !concerned.is_empty() {
            effects.cannot_be_undone.push(format!(
                "host changes made by the uninstall of {name}; --cancel installs the package again"
            ));
        }
    }

    /// Warns about nodes that are no longer selected, and nodes whose state cannot be read.
    fn left_alone(self, effects: &mut Consequences) {
        let ImpactNotes { name, survey, .. } = self;
        if !survey.malformed.is_empty() {
            effects.warn(format!(
                "the node state on {} cannot be read: it is unknown whether {name} is installed there (SKY206)",
                nodes(survey.malformed.iter().copied())
            ));
        }
        if !survey.deselected.is_empty() {
            effects.warn(format!(
                "{name} stays on {}, which {} no longer selects",
                nodes(survey.deselected.iter().copied()),
                self.skyhook.reference()
            ));
        }
    }

    /// Adds the effects of canceling a requested uninstall now.
    pub fn cancel(self, effects: &mut Consequences) {
        let ImpactNotes { cluster, name, survey, .. } = self;
        let at = |stage: Stage| {
            let begun = survey.begun.iter();
            let at: Vec<&Node> = begun.filter(|(_, e)| e.stage == stage).map(|(n, _)| *n).collect();
            at
        };
        let reset = at(Stage::Uninstall);
        let beyond = at(Stage::UninstallInterrupt);
        let again: Vec<&Node> = [&reset[..], &beyond[..], &survey.absent[..]].concat();
        let interrupt = self.skyhook.pending_interrupt(name, self.package);
        weigh(&again, interrupt, effects);
        let untouched = survey.ready.len() + survey.unfinished.len() + survey.ignored.len();
        if untouched > 0 {
            effects.notes.push(format!(
                "the uninstall of {name} has not started on {}; nothing changes there",
                plural(untouched, "node")
            ));
        }
        if !reset.is_empty() {
            effects.notes.push(format!(
                "the uninstall is aborted on {}; {name} is installed there again from its first stage",
                nodes(reset.iter().copied())
            ));
        }
        if !beyond.is_empty() {
            effects.warn(format!(
                "the uninstall can no longer be canceled on {}: the interrupt has started and runs to completion; then the \
                 operator installs {name} again",
                nodes(beyond.iter().copied())
            ));
        }
        if !survey.absent.is_empty() {
            effects.notes.push(format!(
                "{name} is not on {}; it will be installed there{}",
                nodes(survey.absent.iter().copied()),
                if survey.is_absent() { "" } else { " again" }
            ));
        }
        let package_runs = cluster.package_runs_for(self.skyhook.name());
        let running = reset.iter().filter_map(|node| {
            let placement = cluster.placement(self.skyhook, name, node);
            let package_run = package_runs.uninstall_of(&placement)?;
            Some(format!("{} on {}", package_run.reference(), node.name))
        });
        let running: Vec<String> = running.collect();
        if !running.is_empty() {
            let more = running.len().saturating_sub(3);
            let shown = running[..running.len() - more].join(", ");
            let more = match more {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            match cluster.flavor().executor() {
                Executor::Pod => effects.warn(format!(
                    "the operator does not stop {shown}{more}, which may still finish the uninstall; a pod that never \
                     ends blocks the cancellation on all nodes (SKY105)"
                )),
                Executor::Job => effects.notes.push(format!(
                    "the operator deletes {shown}{more}; anything uninstalled by then is installed again"
                )),
            }
        }
        self.left_alone(effects);
    }
}

/// Adds the grade and the numbers of an uninstall or installation on these nodes.
fn weigh(nodes: &[&Node], interrupt: Option<&str>, effects: &mut Consequences) {
    effects.nodes = effects.nodes.max(nodes.len());
    effects.gpus = effects.gpus.max(nodes.iter().map(|n| n.gpus()).sum());
    let interrupt = interrupt.filter(|_| !nodes.is_empty());
    effects.at_least(Grade::of_rerun(interrupt));
    let Some(kind) = interrupt else {
        return;
    };
    effects.drains = effects.drains.max(nodes.len());
    match kind {
        "reboot" => effects.reboots = effects.reboots.max(nodes.len()),
        "noop" => {}
        _ => effects.restarts = effects.restarts.max(nodes.len()),
    }
}
