//! Why a node is not complete: the first reason for each custom resource, and the findings behind it.

use std::cell::OnceCell;
use std::collections::BTreeSet;

use super::relevant::relevant;
use super::step::{Inspection, NextStep};
use crate::api::Skyhook;
use crate::cluster::{Cluster, Node, NodeRecord};
use crate::commands::shared::progress::Progress;
use crate::model::{ProgressState, WaitReason};
use crate::outlook::{OnNode, Outlook};
use crate::rules::{Finding, Report, Severity};

/// The state of one custom resource on the node.
pub struct Link<'a> {
    pub name: &'a str,
    pub priority: Option<i64>,
    pub state: ProgressState,
    /// The reason for the state, as a sentence.
    pub reason: String,
    pub packages: Vec<NextStep>,
    /// `None` if the custom resource does not select the node.
    pub progress: Option<Progress>,
    /// The operator's next action, as a sentence; `None` if an intervention is needed first.
    pub next_action: Option<String>,
    pub is_ignored: bool,
}

/// The custom resources on a node, with the findings that concern the node, causes first.
pub struct Chain<'a> {
    pub links: Vec<Link<'a>>,
    pub findings: Vec<Finding>,
    /// An unfinished custom resource whose errors on other nodes do not block this node.
    pub failing_elsewhere: Option<String>,
}

impl<'a> Chain<'a> {
    /// `whole`: whether all sources were read. Otherwise no reason claims that the node has no problem.
    pub fn of(cluster: &'a Cluster, node: &'a Node, report: Report, whole: bool) -> Chain<'a> {
        let package_runs = cluster.package_runs();
        let outlook = Outlook::new(cluster, report.findings);
        let look = Inspection {
            cluster,
            node,
            package_runs: &package_runs,
            outlook: &outlook,
            timeline: OnceCell::new(),
            whole,
        };
        let skyhooks = cluster.skyhooks.items().iter();
        let mut links: Vec<Link<'a>> = skyhooks.filter_map(|skyhook| look.link(skyhook)).collect();
        let known = |name: &str| cluster.skyhook(name).is_some();
        let left = node.keys(cluster.flavor()).skyhooks.iter();
        let left = left.filter(|(name, on)| on.has_keys() && !known(name));
        links.extend(left.map(|(name, _)| look.missing_resource(name)));
        let open = links.iter().filter(|l| l.state > ProgressState::Complete);
        let open: BTreeSet<&str> = open.map(|l| l.name).collect();
        let waits = cluster.skyhooks.items().iter();
        let waits = waits.filter(|s| open.contains(s.name()));
        let anywhere = waits.filter_map(|s| {
            if s.deleting() {
                Some(s.name())
            } else {
                outlook.model.predecessor_everywhere(s).map(|predecessor| predecessor.skyhook.name())
            }
        });
        let errors = outlook.findings.iter();
        let errors = errors.filter(|f| f.severity == Severity::Error);
        let failing = errors.filter_map(|f| f.subject.skyhook.clone());
        let failing_elsewhere = failing.into_iter().find(|name| open.contains(name.as_str()));
        let on_node = cluster.skyhooks.items().iter().filter_map(|s| outlook.on_node(s.name(), &node.name));
        let reasons: Vec<*const Finding> = on_node
            .filter(OnNode::explained_by_finding)
            .filter_map(|on| on.held_up_by)
            .map(std::ptr::from_ref)
            .collect();
        let explains = |finding: &Finding| reasons.iter().any(|reason| std::ptr::eq(*reason, finding));
        let reasons = (0..outlook.findings.len()).filter(|at| explains(&outlook.findings[*at])).collect();
        let findings = relevant(node, outlook.findings, &open, &anywhere.collect(), reasons);
        Chain { links, findings, failing_elsewhere }
    }

    /// The worst state of the custom resources, or `Blocked` if the node is stuck.
    pub fn state(&self, node: &Node) -> ProgressState {
        let worst = self.links.iter().map(|link| link.state).max();
        if self.is_stuck(node) { ProgressState::Blocked } else { worst.unwrap_or(ProgressState::Complete) }
    }

    /// Whether an error keeps the node from completing, or a custom resource is blocked by more than the
    /// node's ignore label.
    pub fn is_stuck(&self, node: &Node) -> bool {
        let open = |name: &str| {
            let mut links = self.links.iter();
            links.any(|link| link.name == name && link.state > ProgressState::Complete)
        };
        let keeps = |f: &Finding| {
            let subject = &f.subject;
            f.severity == Severity::Error
                && (f.blocks_reconcile()
                    || f.blocked_nodes.iter().any(|name| node.name == *name)
                    || subject.node.as_deref() == Some(&node.name)
                    || f.concerns_all_nodes() && subject.skyhook.as_deref().map_or(f.blocks_installs(), open))
        };
        let blocked = |link: &Link<'_>| link.state == ProgressState::Blocked && !link.is_ignored;
        self.findings.iter().any(keeps) || self.links.iter().any(blocked)
    }
}

impl<'a> Inspection<'_, 'a> {
    fn link(&self, skyhook: &'a Skyhook) -> Option<Link<'a>> {
        let record = self.cluster.on_node(self.node, skyhook.name());
        let selected = skyhook.selects(self.node);
        if !selected && !record.is_some_and(NodeRecord::has_keys) {
            return None;
        }
        let packages = self.cluster.placements_on(skyhook.name(), self.node);
        let packages = packages.iter().map(|p| self.step(skyhook, p)).collect();
        let mut link = Link {
            name: skyhook.name(),
            priority: Some(skyhook.order().0),
            state: ProgressState::Complete,
            reason: "it no longer selects the node, but its annotations or labels are still on the node"
                .to_owned(),
            packages,
            progress: None,
            next_action: None,
            is_ignored: false,
        };
        if let Some(on) = self.outlook.on_node(skyhook.name(), &self.node.name) {
            link.state = on.state;
            link.reason = self.because(skyhook, &on);
            link.progress = Some(Progress::from(&on));
            link.next_action = on.next_action().map(|action| format!("the operator {action}"));
            link.is_ignored = matches!(on.progress.reason, WaitReason::Ignored);
        } else {
            let (state, error) = self.outlook.on_deselected(skyhook, self.node);
            link.state = state;
            if let Some(error) = error {
                link.reason.clone_from(&error.message);
            }
        }
        Some(link)
    }

    /// The link for a custom resource that no longer exists, or could not be read.
    fn missing_resource(&self, name: &'a str) -> Link<'a> {
        let state = self.outlook.leftovers(name);
        let (state, reason) = match self.cluster.skyhooks.ok() {
            Some(_) if self.cluster.may_leave_out() => {
                (state, "it is not in the input, but its annotations or labels are on the node")
            }
            Some(_) => (state, "it no longer exists, but its annotations or labels are still on the node"),
            None => (state.max(ProgressState::Unknown), "it could not be read, so it may still exist"),
        };
        Link {
            name,
            priority: None,
            state,
            reason: reason.to_owned(),
            packages: Vec::new(),
            progress: None,
            next_action: None,
            is_ignored: false,
        }
    }

    /// The reason for a state: the finding that holds the custom resource up, or else the model's reason.
    fn because(&self, skyhook: &'a Skyhook, on: &OnNode<'_, 'a>) -> String {
        match on.held_up_by {
            Some(finding) if on.explained_by_finding() => self.prefixed_message(finding),
            _ => self.sentence(skyhook, &on.progress),
        }
    }

    /// The finding's message, prefixed with the name of its node if that is another node.
    fn prefixed_message(&self, finding: &Finding) -> String {
        match finding.subject.node.as_deref() {
            Some(node) if node != self.node.name => format!("{node}: {}", finding.message),
            _ => finding.message.clone(),
        }
    }
}
