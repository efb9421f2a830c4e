//! Waiting for the operator: how far a [`Goal`] is, and the findings that block it. Pure.
//!
//! [`Goal::reached`] evaluates custom resources, [`Blockers`] runs the rules. `ctx/wait.rs` repeats both when a watch
//! shows a change.

pub mod drain;
pub mod uninstall;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use crate::api::{Executor, Meta, Skyhook, Status};
use crate::cluster::{Cluster, Node, NodeRecord};
use crate::model::Model;
use crate::outlook::remaining_uninstalls;
use crate::plan::{Condition, Goal, Kind, Target};
use crate::rules::support::blockers::BlockingFindings;
use crate::rules::{self, Finding, FindingKey, Report, Scope};
use crate::text::{list, plural};
use uninstall::UninstallProgress;

/// The state of a goal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wait {
    Met,
    /// Not met yet, with the progress so far.
    Pending(String),
    /// Not met until someone intervenes, with a few words about each blocker.
    Blocked(Vec<String>),
    /// Can no longer be met, with the reason and a command to run instead.
    Never(String, Option<String>),
}

impl Wait {
    fn unread() -> Wait {
        Wait::Pending("the object cannot be read".to_owned())
    }
}

/// A custom resource or a deployment policy at the last read.
#[derive(Debug, Clone, Copy)]
pub struct LiveObject<'a> {
    pub metadata: &'a Meta,
    /// The whole object, if it is a custom resource.
    pub skyhook: Option<&'a Skyhook>,
}

/// A custom resource or a deployment policy of either API. `Some(None)` if it is known to be deleted, even if it was
/// created again under the same name; `None` if its kind could not be read.
pub fn find<'a>(cluster: &'a Cluster, target: &Target) -> Option<Option<LiveObject<'a>>> {
    let flavor = cluster.flavor();
    let (skyhooks, policies) = if target.kind == flavor.into() || target.kind == Kind::policy(flavor) {
        (&cluster.skyhooks, &cluster.policies)
    } else {
        (&cluster.legacy, &cluster.legacy_policies)
    };
    let (object, read) = if matches!(target.kind, Kind::SkyhookPolicy | Kind::NodeWrightPolicy) {
        let policy = policies.iter().find(|policy| policy.metadata.name == target.name);
        let object = policy.map(|policy| LiveObject { metadata: &policy.metadata, skyhook: None });
        (object, policies.ok().is_some())
    } else {
        let skyhook = skyhooks.iter().find(|skyhook| skyhook.name() == target.name);
        let object = skyhook.map(|s| LiveObject { metadata: &s.metadata, skyhook: Some(s) });
        (object, skyhooks.ok().is_some())
    };
    let same = |object: &LiveObject<'_>| target.uid.is_none() || object.metadata.uid == target.uid;
    (object.is_some() || read).then(|| object.filter(same))
}

impl Goal {
    /// The goal of a command for a custom resource.
    pub fn of(cluster: &Cluster, name: &str, condition: Condition) -> Goal {
        let uid = cluster.skyhook(name).and_then(|skyhook| skyhook.metadata.uid.as_deref());
        Goal { target: Target::skyhook(cluster.flavor(), name, uid), condition, at_most: 0 }
    }

    /// How far the goal is; `Pending` if the object could not be read.
    pub fn reached<'a>(&self, cluster: &'a Cluster, model: &OnceCell<Model<'a>>) -> Wait {
        let name = &self.target.name;
        let Some(object) = find(cluster, &self.target) else {
            return Wait::unread();
        };
        match (&self.condition, cluster.skyhook(name)) {
            (Condition::Uninstalled { .. }, _) => {
                UninstallProgress::of(cluster, self).map_or_else(|end| end, |uninstall| uninstall.reached())
            }
            (Condition::Complete | Condition::Erroring, None) => Wait::Never(format!("{name} is gone"), None),
            (Condition::Complete, Some(skyhook)) => {
                complete(cluster, model.get_or_init(|| Model::new(cluster)), skyhook)
            }
            (Condition::Erroring, Some(skyhook)) => erroring(cluster, skyhook),
            (Condition::Gone, _) => {
                object.map_or(Wait::Met, |object| Wait::Pending(self.deletion(cluster, object)))
            }
            // The other conditions are those of plans, which are judged on the object.
            _ => Wait::Pending(self.describe()),
        }
    }

    /// The remaining work before the object is deleted.
    fn deletion(&self, cluster: &Cluster, object: LiveObject<'_>) -> String {
        if !object.metadata.deleting() {
            return "not being deleted yet".to_owned();
        }
        let known = self.target.kind == cluster.flavor().into() && cluster.nodes.ok().is_some();
        let Some(skyhook) = object.skyhook.filter(|skyhook| known && skyhook.has_finalizer()) else {
            return "its finalizers have not been removed yet".to_owned();
        };
        let pending = cluster.pending_uninstalls(skyhook);
        let left = remaining_uninstalls(&pending);
        match skyhook.stopped().filter(|_| !pending.is_empty()) {
            Some(stopped) => format!("{left}; none starts while the custom resource is {stopped}"),
            None => left,
        }
    }
}

/// Met if the operator reports complete for the current spec and every selected node is complete: the status
/// alone may be about the previous spec. The operator records the generation in the status only when the status
/// becomes complete, and in the condition `Ready` with each reconcile. Not met while a package that was never
/// installed counts as complete.
fn complete(cluster: &Cluster, model: &Model<'_>, skyhook: &Skyhook) -> Wait {
    let status = &skyhook.status;
    let ready = skyhook.condition("Ready").and_then(|condition| condition.observed_generation);
    let observed = status.observed_generation.max(ready.unwrap_or_default());
    let current =
        status.observed_generation == 0 || observed >= skyhook.metadata.generation || skyhook.deleting();
    let says_so = status.status == Some(Status::Complete);
    let nodes: Vec<_> = cluster.selected(skyhook).collect();
    // A selector that matches nothing, for example because of a typo, must not pass for an installation.
    if nodes.is_empty() {
        return Wait::Pending("no node is selected".to_owned());
    }
    let complete = nodes.len() - model.unfinished(skyhook).count();
    let never_installed = cluster.never_installed(skyhook);
    if says_so && current && complete == nodes.len() {
        return if never_installed.is_empty() {
            Wait::Met
        } else {
            let packages = list(&never_installed);
            Wait::Pending(format!("the operator reports complete, but never installs {packages}"))
        };
    }
    let status = status.status.clone().unwrap_or(Status::Unknown);
    let held = match (skyhook.paused(), skyhook.disabled()) {
        (true, _) if status != Status::Paused => ", paused",
        (_, true) if status != Status::Disabled => ", disabled",
        _ => "",
    };
    Wait::Pending(format!(
        "{status}{held}, {complete} of {} done{}",
        plural(nodes.len(), "node"),
        draining(cluster, model, skyhook, &nodes)
    ))
}

/// Describes the first drain: `, gpu-1 draining for 3m, 1 pod left`; then the number of further nodes being
/// drained.
fn draining(cluster: &Cluster, model: &Model<'_>, skyhook: &Skyhook, nodes: &[&Node]) -> String {
    let may_drain = |node: &&&Node| cluster.on_node(node, skyhook.name()).is_some_and(NodeRecord::may_drain);
    let mut drains = nodes.iter().filter(may_drain).filter_map(|node| {
        let drain = model.drain_progress(skyhook.name(), node)?;
        Some(format!(", {} {}", node.name, drain::summary(cluster, &drain)))
    });
    match (drains.next(), drains.count()) {
        (None, _) => String::new(),
        (Some(first), 0) => first,
        (Some(first), more) => format!("{first}; {} being drained", plural(more, "more node")),
    }
}

fn erroring(cluster: &Cluster, skyhook: &Skyhook) -> Wait {
    let failing = cluster
        .selected(skyhook)
        .filter_map(|node| cluster.on_node(node, skyhook.name()))
        .any(|on| on.status == Some(Status::Erroring));
    if failing || skyhook.status.status == Some(Status::Erroring) {
        return Wait::Met;
    }
    let status = skyhook.status.status.clone().unwrap_or(Status::Unknown);
    Wait::Pending(status.to_string())
}

/// Time for which failures of a pod that restarts in place are tolerated: about four attempts.
const RESTARTS: Duration = Duration::from_secs(120);

/// The result of a check for blockers.
#[derive(Default)]
pub struct BlockerCheck {
    /// Short descriptions of the blockers that need an intervention.
    pub blockers: Vec<String>,
    /// Whether there are new blockers, which another check has to confirm.
    pub look_again: bool,
}

/// The blockers that the last check found, each with the time at which it was first found, and the blockers
/// that ended the wait.
pub struct Blockers {
    /// Time for which failures of retried operations are tolerated.
    tolerate: Duration,
    seen: BTreeMap<FindingKey, Timestamp>,
    /// The cluster and the report that ended the wait.
    pub found: Option<(Cluster, Report)>,
}

impl Blockers {
    /// Tolerates failures of retried operations for `tolerate`. The default is two minutes for bare pods, and
    /// none for Jobs, which count their attempts themselves: the rules detect a permanent failure.
    pub fn new(cluster: &Cluster, tolerate: Option<Duration>) -> Blockers {
        let usual = match cluster.flavor().executor() {
            Executor::Pod => RESTARTS,
            Executor::Job => Duration::ZERO,
        };
        Blockers { tolerate: tolerate.unwrap_or(usual), seen: BTreeMap::new(), found: None }
    }

    /// Checks the goals of custom resources. Returns the findings that block them in this check and the
    /// previous one, and for the tolerated time, in a few words each.
    pub fn judge(&mut self, cluster: &Cluster, goals: &[Goal]) -> BlockerCheck {
        let skyhooks = goals.iter().map(|goal| goal.target.name.clone()).collect();
        let scope = Scope { skyhooks, ..Scope::default() };
        let (_, report, look_again) = self.confirm(cluster, &scope, |report| {
            let findings = &report.findings;
            let blocking = BlockingFindings::of(findings);
            goals
                .iter()
                .filter_map(|goal| Some((cluster.skyhook(&goal.target.name)?, goal)))
                .flat_map(|(skyhook, goal)| blocking.of_goal(findings, cluster, skyhook, &goal.condition))
                .collect()
        });
        let blockers: Vec<String> = report.findings.iter().map(name_of).collect();
        if !blockers.is_empty() {
            self.found = Some((cluster.clone(), report));
        }
        BlockerCheck { blockers, look_again }
    }

    /// Runs the rules. Returns the whole report, a report of the findings selected by `of` that the previous
    /// check also found and that have lasted, and whether any selected finding is new. Sources are read in parallel, so a single check may
    /// combine data of different times.
    pub fn confirm(
        &mut self,
        cluster: &Cluster,
        scope: &Scope,
        of: impl Fn(&Report) -> Vec<&Finding>,
    ) -> (Report, Report, bool) {
        let report = rules::diagnose(cluster, scope);
        let before = std::mem::take(&mut self.seen);
        let mut confirmed = BTreeSet::new();
        let mut look_again = false;
        for finding in of(&report) {
            let key = finding.key();
            let since = before.get(&key).copied();
            match since {
                Some(since) if self.lasted(finding, since, cluster.taken_at) => {
                    confirmed.insert(key.clone());
                }
                Some(_) => {}
                None => look_again = true,
            }
            self.seen.insert(key, since.unwrap_or(cluster.taken_at));
        }
        let confirmed = report.clone().stuck_by(&confirmed);
        (report, confirmed, look_again)
    }

    /// Forgets the findings, before the command waits for something else.
    pub fn clear(&mut self) {
        self.seen.clear();
    }

    /// Whether the finding blocks now: it is not retried, or has failed for the tolerated time.
    fn lasted(&self, finding: &Finding, since: Timestamp, now: Timestamp) -> bool {
        let since = finding.failing_since.map_or(since, |at| at.min(since));
        let lasted = Duration::try_from(now.duration_since(since));
        !finding.rule.retried || lasted.is_ok_and(|lasted| lasted >= self.tolerate)
    }
}

/// Formats a finding: `SKY112 gpu driver node-2`.
fn name_of(finding: &Finding) -> String {
    let subject = &finding.subject;
    let mut words = vec![finding.rule.code];
    words.extend(subject.skyhook.as_deref());
    words.extend(subject.package.as_deref());
    words.extend(subject.node.as_deref());
    if words.len() == 1 {
        words.push(&subject.name);
    }
    words.join(" ")
}
