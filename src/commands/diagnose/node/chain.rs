//! Why a node is not complete: the first reason for each custom resource, and the findings behind it.

use std::cell::OnceCell;
use std::collections::BTreeSet;

use super::relevant::{concerns_all, relevant};
use super::step::{Inspection, NextStep};
use crate::api::Skyhook;
use crate::cluster::{Cluster, Node, NodeRecord};
use crate::model::{Action, Model, NodeProgress, ProgressState, WaitReason};
use crate::rules::{Finding, Report, Severity};

/// The state of one custom resource on the node.
pub struct Link<'a> {
    pub name: &'a str,
    pub priority: Option<i64>,
    /// The model's state, or a worse one implied by a finding that blocks the custom resource here.
    pub state: ProgressState,
    /// The reason for the state, as a sentence.
    pub reason: String,
    pub packages: Vec<NextStep>,
    /// `None` if the custom resource does not select the node.
    pub progress: Option<NodeProgress<'a>>,
}

impl<'a> Link<'a> {
    pub fn is_ignored(&self) -> bool {
        let progress = self.progress.as_ref();
        progress.is_some_and(|progress| matches!(progress.reason, WaitReason::Ignored))
    }

    /// The operator's next action here; `None` if an intervention is needed first.
    pub fn next_action(&self) -> Option<&Action<'a>> {
        let goes_on = matches!(self.state, ProgressState::Running | ProgressState::Waiting);
        let progress = self.progress.as_ref().filter(|_| goes_on)?;
        progress.next_action.as_ref()
    }
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
        links.extend(left.map(|(name, _)| look.missing_resource(name)));
        let open = links.iter().filter(|l| l.state > ProgressState::Complete);
        let open: BTreeSet<&str> = open.map(|l| l.name).collect();
        let waits = cluster.skyhooks.items().iter();
        let waits = waits.filter(|s| open.contains(s.name()));
        let anywhere = waits.filter_map(|s| {
            if s.deleting() {
                Some(s.name())
            } else {
                cluster.predecessor_everywhere(s).map(|predecessor| predecessor.skyhook.name())
            }
        });
        let errors = report.findings.iter();
        let errors = errors.filter(|f| f.severity == Severity::Error);
        let failing = errors.filter_map(|f| f.subject.skyhook.clone());
        let failing_elsewhere = failing.into_iter().find(|name| open.contains(name.as_str()));
        let findings = relevant(node, report.findings, &open, &anywhere.collect());
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
                    || concerns_all(f) && subject.skyhook.as_deref().is_some_and(open))
        };
        let blocked = |link: &Link<'_>| link.state == ProgressState::Blocked && !link.is_ignored();
        self.findings.iter().any(keeps) || self.links.iter().any(blocked)
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
        let progress = self.model.progress(skyhook.name(), &self.node.name);
        let (state, reason) = match &progress {
            Some(progress) => self.judged(skyhook, progress, before),
            None => (
                ProgressState::Complete,
                "it no longer selects the node, but its annotations or labels are still on the node"
                    .to_owned(),
            ),
        };
        Some(Link {
            name: skyhook.name(),
            priority: Some(skyhook.order().0),
            state,
            reason,
            packages: steps,
            progress,
        })
    }

    /// The link for a custom resource that no longer exists, or could not be read.
    fn missing_resource(&self, name: &'a str) -> Link<'a> {
        // Its leftovers may need an intervention; none of them is expected to proceed on its own.
        let worst = match self.worst(name) {
            ProgressState::Running | ProgressState::Waiting => ProgressState::Unknown,
            worst => worst,
        };
        let (state, reason) = match self.cluster.skyhooks.ok() {
            Some(_) if self.cluster.may_leave_out() => {
                (worst, "it is not in the input, but its annotations or labels are on the node")
            }
            Some(_) => (worst, "it no longer exists, but its annotations or labels are still on the node"),
            None => (worst.max(ProgressState::Unknown), "it could not be read, so it may still exist"),
        };
        Link { name, priority: None, state, reason: reason.to_owned(), packages: Vec::new(), progress: None }
    }

    /// The state and its reason: the model's, corrected by the findings.
    fn judged(
        &self,
        skyhook: &'a Skyhook,
        progress: &NodeProgress<'a>,
        before: &[Link<'_>],
    ) -> (ProgressState, String) {
        let sentence = self.sentence(skyhook, progress);
        match &progress.reason {
            WaitReason::Nothing
                if progress.state == ProgressState::Complete
                    && self.cluster.never_installed(skyhook).is_empty() =>
            {
                (progress.state, sentence)
            }
            WaitReason::Paused
            | WaitReason::Disabled
            | WaitReason::Ignored
            | WaitReason::MalformedState { .. }
            | WaitReason::OperatorDown
            | WaitReason::PolicyMissing(_) => (progress.state, sentence),
            WaitReason::Earlier { skyhook: first, .. } => {
                (self.gated(skyhook, first.name(), before), sentence)
            }
            // Node lifecycle taints may be temporary: only a finding shows that one blocks the custom
            // resource.
            WaitReason::Taint(taint) if !taint.of_lifecycle() => (progress.state, sentence),
            _ => match self.found(skyhook) {
                Some(finding) => (self.state(finding), self.prefixed_message(finding)),
                None if progress.state == ProgressState::Waiting && skyhook.deleting() => {
                    (self.worst(skyhook.name()).max(progress.state), sentence)
                }
                None => (progress.state, sentence),
            },
        }
    }

    /// The state of `skyhook`, which waits for `root`: the worst of the state of `root` here and the states
    /// implied by findings that block `skyhook` here.
    fn gated(&self, skyhook: &Skyhook, root: &str, before: &[Link<'_>]) -> ProgressState {
        let root = before.iter().find(|link| link.name == root);
        let own = self.holding(skyhook).map(|(f, _)| self.state(f));
        own.chain(root.map(|link| link.state)).fold(ProgressState::Waiting, ProgressState::max)
    }

    /// The worst state implied by findings about a custom resource, on any node. Info findings and findings
    /// that block nothing do not count.
    fn worst(&self, name: &str) -> ProgressState {
        let about = self.findings.iter();
        let about = about.filter(|f| f.subject.skyhook.as_deref() == Some(name));
        let grave = about.filter(|f| f.severity > Severity::Info && !f.blocks.is_empty());
        let all = grave.map(|f| self.state(f));
        all.max().unwrap_or(ProgressState::Complete)
    }

    /// The state implied by a finding.
    fn state(&self, finding: &Finding) -> ProgressState {
        let here = finding.subject.node.as_deref() == Some(&self.node.name);
        match finding.severity {
            Severity::Error => ProgressState::Blocked,
            _ if finding.blocks_for_good() => ProgressState::Suspended,
            _ if here => ProgressState::Running,
            _ => ProgressState::Waiting,
        }
    }

    /// The finding that blocks a custom resource here: the most severe one, and among equals the closest to
    /// the node.
    fn found(&self, skyhook: &Skyhook) -> Option<&Finding> {
        // Findings are sorted with causes first, so the first of equal ones wins.
        let all: Vec<_> = self.holding(skyhook).collect();
        let best = all.iter().rev().max_by_key(|(f, near)| (f.severity, *near));
        best.map(|(finding, _)| *finding)
    }

    /// The findings that block a custom resource here, each with its closeness to the node. A finding that
    /// ends the operator's reconcile concerns all custom resources.
    fn holding(&self, skyhook: &Skyhook) -> impl Iterator<Item = (&Finding, u8)> {
        let near = |f: &Finding| match f.subject.node.as_deref() {
            Some(node) if node == self.node.name => Some(2),
            _ if f.blocked_nodes.iter().any(|name| self.node.name == *name) => Some(1),
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

    /// The finding's message, prefixed with the name of its node if that is another node.
    fn prefixed_message(&self, finding: &Finding) -> String {
        match finding.subject.node.as_deref() {
            Some(node) if node != self.node.name => format!("{node}: {}", finding.message),
            _ => finding.message.clone(),
        }
    }
}
