//! Why a node is not complete: for each custom resource the first reason, and the findings behind it.

use std::cell::OnceCell;
use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use super::relevant::{concerns_all, relevant};
use super::step::{Inspection, NextStep};
use crate::api::Skyhook;
use crate::cluster::{Cluster, Node, NodeRecord};
use crate::commands::shared::drain;
use crate::model::{Action, Model, NodeProgress};
use crate::rules::{Finding, Report, Severity};
use crate::view::{NodeSet, list};

/// The state of a custom resource on a node, or of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LinkState {
    Done,
    /// A stage runs or is retried.
    Working,
    /// It waits for something that is progressing.
    Waiting,
    /// It could not be read.
    Unknown,
    /// Someone stopped it on purpose, such as by a pause.
    Held,
    /// It does not continue until someone intervenes.
    Stuck,
}

/// One custom resource on the node.
pub struct Link<'a> {
    pub name: &'a str,
    pub priority: Option<i64>,
    pub state: LinkState,
    /// Why it is not done, in a sentence.
    pub reason: String,
    pub packages: Vec<NextStep>,
    /// `None` where it does not select the node.
    pub progress: Option<NodeProgress<'a>>,
}

impl<'a> Link<'a> {
    /// The operator's next action here, unless someone has to intervene first.
    pub fn next_action(&self) -> Option<&Action<'a>> {
        let goes_on = matches!(self.state, LinkState::Working | LinkState::Waiting);
        let progress = self.progress.as_ref().filter(|_| goes_on)?;
        progress.next_action.as_ref()
    }
}

/// All of it, with the findings that have to do with the node, causes first.
pub struct Chain<'a> {
    pub links: Vec<Link<'a>>,
    pub findings: Vec<Finding>,
    /// A custom resource that is not done here and has errors on other nodes that do not keep this one.
    pub failing_elsewhere: Option<String>,
}

impl<'a> Chain<'a> {
    /// `whole`: no source is missing, without which nothing counts as fine.
    pub fn of(cluster: &'a Cluster, node: &'a Node, report: Report, whole: bool) -> Chain<'a> {
        let package_runs = cluster.package_runs();
        let model = Model::new(cluster);
        let look = Inspection {
            cluster,
            node,
            package_runs: &package_runs,
            model: &model,
            timeline: OnceCell::new(),
            findings: &report.findings,
            whole,
        };
        let mut links: Vec<Link<'a>> = Vec::new();
        for skyhook in cluster.skyhooks.items() {
            links.extend(look.link(skyhook, &links));
        }
        let known = |name: &str| cluster.skyhook(name).is_some();
        let left = node.keys(cluster.flavor()).skyhooks.iter();
        let left = left.filter(|(name, on)| on.has_keys() && !known(name));
        links.extend(left.map(|(name, _)| look.gone(name)));
        let open = links.iter().filter(|l| l.state > LinkState::Done);
        let open: BTreeSet<&str> = open.map(|l| l.name).collect();
        let waits = cluster.skyhooks.items().iter();
        let waits = waits.filter(|s| open.contains(s.name()));
        let anywhere = waits.filter_map(|s| {
            if s.deleting() {
                Some(s.name())
            } else {
                cluster.gate_everywhere(s).map(|gate| gate.skyhook.name())
            }
        });
        let errors = report.findings.iter();
        let errors = errors.filter(|f| f.severity == Severity::Error);
        let failing = errors.filter_map(|f| f.subject.skyhook.clone());
        let failing_elsewhere = failing
            .into_iter()
            .find(|name| open.contains(name.as_str()));
        let findings = relevant(node, report.findings, &open, &anywhere.collect());
        Chain {
            links,
            findings,
            failing_elsewhere,
        }
    }

    /// The worst of the custom resources; no better than an error that keeps the node from being done.
    pub fn state(&self, node: &Node) -> LinkState {
        let worst = self.links.iter().map(|link| link.state).max();
        let open = |name: &str| {
            let mut links = self.links.iter();
            links.any(|link| link.name == name && link.state > LinkState::Done)
        };
        let keeps = |f: &Finding| {
            let subject = &f.subject;
            f.severity == Severity::Error
                && (f.blocks_reconcile()
                    || f.holds_up.iter().any(|name| node.name == *name)
                    || subject.node.as_deref() == Some(&node.name)
                    || concerns_all(f) && subject.skyhook.as_deref().is_some_and(open))
        };
        if self.findings.iter().any(keeps) {
            LinkState::Stuck
        } else {
            worst.unwrap_or(LinkState::Done)
        }
    }
}

impl<'a> Inspection<'_, 'a> {
    fn link(&self, skyhook: &'a Skyhook, before: &[Link<'_>]) -> Option<Link<'a>> {
        let on = self.cluster.on_node(self.node, skyhook.name());
        let selected = skyhook.selects(self.node);
        if !selected && !on.is_some_and(NodeRecord::has_keys) {
            return None;
        }
        let packages = self.cluster.placements_on(skyhook.name(), self.node);
        let steps: Vec<NextStep> = packages.iter().map(|p| self.step(skyhook, p)).collect();
        let (state, reason) = if selected {
            self.stands(skyhook, before)
        } else {
            (
                LinkState::Done,
                "it no longer selects the node, but its annotations or labels are still there"
                    .to_owned(),
            )
        };
        Some(Link {
            name: skyhook.name(),
            priority: Some(skyhook.order().0),
            state,
            reason,
            packages: steps,
            progress: self.model.progress(skyhook.name(), &self.node.name),
        })
    }

    /// A custom resource that no longer exists, or could not be read.
    fn gone(&self, name: &'a str) -> Link<'a> {
        // Its leftovers may need an intervention.
        let worst = self.worst(name);
        let (state, reason) = match self.cluster.skyhooks.ok() {
            Some(_) => (
                worst,
                "it no longer exists, but its annotations or labels are still on the node",
            ),
            None => (
                worst.max(LinkState::Unknown),
                "it could not be read, so it may still exist",
            ),
        };
        Link {
            name,
            priority: None,
            state,
            reason: reason.to_owned(),
            packages: Vec::new(),
            progress: None,
        }
    }

    /// The first thing that keeps it from completing, in the order in which the operator checks.
    fn stands(&self, skyhook: &'a Skyhook, before: &[Link<'_>]) -> (LinkState, String) {
        let (cluster, node) = (self.cluster, self.node);
        let on = cluster.on_node(node, skyhook.name());
        let done = cluster.is_complete_on(skyhook, node) && !skyhook.deleting();
        if done && cluster.never_installed(skyhook).is_empty() {
            let says = if on.is_some_and(|on| on.cordon) {
                "all of its packages are done, but the operator has not removed its cordon from the node yet"
            } else {
                "all of its packages are done"
            };
            return (LinkState::Done, says.to_owned());
        }
        if skyhook.paused() {
            return (LinkState::Held, "it is paused".to_owned());
        }
        if skyhook.disabled() {
            return (LinkState::Held, "it is disabled".to_owned());
        }
        if node.ignored(cluster.flavor()) {
            return (
                LinkState::Held,
                "the node is ignored, so nothing new is started on it".to_owned(),
            );
        }
        if on.is_some_and(NodeRecord::is_malformed) {
            return (LinkState::Stuck, "its node state cannot be read".to_owned());
        }
        if cluster.operator_down() || cluster.operator_absent() {
            return (LinkState::Stuck, "the operator is not running".to_owned());
        }
        if cluster.policy_missing(skyhook) {
            let policy = &skyhook.spec.deployment_policy;
            return (
                LinkState::Stuck,
                format!("its deployment policy {policy} does not exist"),
            );
        }
        if let Some(gate) = cluster.gate_everywhere(skyhook) {
            let (name, at) = (gate.skyhook.reference(), &gate.node.name);
            let says = format!(
                "it waits for {name}, which must first finish on all of its nodes, but has not finished on {at}"
            );
            return (self.gated(skyhook, gate.skyhook.name(), before), says);
        }
        if let Some(gate) = cluster.gate_on(skyhook, node) {
            let says = format!(
                "it waits for {}, which runs first",
                gate.skyhook.reference()
            );
            return (self.gated(skyhook, gate.skyhook.name(), before), says);
        }
        let taints = cluster.untolerated_by(skyhook, node);
        let spelled: Vec<String> = taints.iter().map(|t| t.spelled()).collect();
        let spelled = list(&spelled);
        if taints.iter().any(|t| !t.of_lifecycle()) {
            let says = format!("it does not tolerate the taint {spelled} on the node");
            return (LinkState::Stuck, says);
        }
        // For a taint that comes and goes with the node, the rule decides whether it blocks the custom resource.
        if let Some(finding) = self.found(skyhook) {
            return (self.state(finding), self.told(finding));
        }
        if !taints.is_empty() && self.running(skyhook).is_none() {
            let says = format!("it waits for the taint {spelled} to be removed from the node");
            return (LinkState::Waiting, says);
        }
        if skyhook.deleting() {
            return self.deletion(skyhook);
        }
        self.works(skyhook)
    }

    fn deletion(&self, skyhook: &Skyhook) -> (LinkState, String) {
        let pending = self.cluster.pending_uninstalls(skyhook);
        let (here, elsewhere): (Vec<_>, Vec<_>) =
            pending.iter().partition(|p| p.node.name == self.node.name);
        let here: Vec<&str> = here.iter().map(|p| p.name).collect();
        if !here.is_empty() {
            let here = list(&here);
            let drain = self.drain(skyhook);
            let drain = drain.map(|drain| format!("; {}", drain::sentence(self.cluster, &drain)));
            let says = format!(
                "it is being deleted, and {here} must still be uninstalled from this node{}",
                drain.unwrap_or_default()
            );
            return (LinkState::Working, says);
        }
        let state = self.worst(skyhook.name()).max(LinkState::Waiting);
        let nodes = elsewhere.iter().map(|p| p.node.name.as_str());
        let nodes = NodeSet::of(nodes).limited(4);
        if elsewhere.is_empty() {
            (state, "it is being deleted".to_owned())
        } else {
            (
                state,
                format!("it is being deleted, and the deletion waits for {nodes}"),
            )
        }
    }

    /// The state of a custom resource behind another one: as bad as that one here, or as its own findings.
    fn gated(&self, skyhook: &Skyhook, root: &str, before: &[Link<'_>]) -> LinkState {
        let root = before.iter().find(|link| link.name == root);
        let own = self.holding(skyhook).map(|(f, _)| self.state(f));
        own.chain(root.map(|link| link.state))
            .fold(LinkState::Waiting, LinkState::max)
    }

    /// The worst finding about a custom resource, on any node.
    fn worst(&self, name: &str) -> LinkState {
        let about = self.findings.iter();
        let about = about.filter(|f| f.subject.skyhook.as_deref() == Some(name));
        let grave = about.filter(|f| f.severity > Severity::Info && !f.blocks.is_empty());
        let all = grave.map(|f| self.state(f));
        all.max().unwrap_or(LinkState::Done)
    }

    /// The state that follows from a finding.
    fn state(&self, finding: &Finding) -> LinkState {
        let here = finding.subject.node.as_deref() == Some(&self.node.name);
        match finding.severity {
            Severity::Error => LinkState::Stuck,
            _ if finding.blocks_for_good() => LinkState::Held,
            _ if here => LinkState::Working,
            _ => LinkState::Waiting,
        }
    }

    /// The blocker of a custom resource here: the gravest finding, and of these the closest to the node.
    fn found(&self, skyhook: &Skyhook) -> Option<&Finding> {
        // Findings are sorted with causes first, so the first of equal ones wins.
        let all: Vec<_> = self.holding(skyhook).collect();
        let best = all.iter().rev().max_by_key(|(f, near)| (f.severity, *near));
        best.map(|(finding, _)| *finding)
    }

    /// The findings that keep it from completing, each with how near it is to the node. What ends the operator's
    /// reconcile concerns all custom resources.
    fn holding(&self, skyhook: &Skyhook) -> impl Iterator<Item = (&Finding, u8)> {
        let near = |f: &Finding| match f.subject.node.as_deref() {
            Some(node) if node == self.node.name => Some(2),
            _ if f.holds_up.iter().any(|name| self.node.name == *name) => Some(1),
            Some(_) => f.blocks_reconcile().then_some(0),
            None => concerns_all(f).then_some(0),
        };
        let own = |f: &&Finding| {
            (f.subject.skyhook.as_deref() == Some(skyhook.name()) || f.blocks_reconcile())
                && f.severity > Severity::Info
                && !f.blocks.is_empty()
        };
        let all = self.findings.iter().filter(own);
        all.filter_map(move |f| near(f).map(|near| (f, near)))
    }

    /// Its message, with the node if it is another one. Findings that halt the operator name their node themselves.
    fn told(&self, finding: &Finding) -> String {
        match finding.subject.node.as_deref() {
            Some(node) if node != self.node.name => format!("{node}: {}", finding.message),
            _ => finding.message.clone(),
        }
    }
}
