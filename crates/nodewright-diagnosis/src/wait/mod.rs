//! Waiting for the operator: the progress of goals, and the findings that block them. Pure.
//!
//! [`Condition`] evaluates custom resources, [`Blockers`] runs the rules. `ctx/wait.rs` repeats both when a watch
//! shows a change.

pub mod drain;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;

use crate::api::{Executor, Skyhook, Status};
use crate::cluster::{Cluster, Node, NodeRecord, Phase, Placement, Read};
use crate::model::Model;
use crate::rules::support::blockers::BlockingFindings;
use crate::rules::{self, Finding, FindingKey, Goal, Report, Scope, uninstall_argument, uninstall_command};
use crate::view::{list, plural};

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

/// The goal of a wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// Every selected node is done with every package, and the operator reports complete.
    Complete,
    /// The package is absent from all selected nodes, or from all nodes once the custom resource is deleted.
    /// `None` means all packages with a requested uninstall.
    Uninstalled(Option<String>),
    /// The object is deleted.
    Deleted,
    /// The operator reports the custom resource or one of its nodes as erroring.
    Erroring,
}

/// A custom resource whose condition is awaited.
pub struct AwaitedResource {
    pub name: String,
    uid: Option<String>,
    pub state: Wait,
}

impl AwaitedResource {
    pub fn new(cluster: &Cluster, name: &str) -> AwaitedResource {
        let found = cluster.skyhook(name);
        AwaitedResource {
            name: name.to_owned(),
            uid: found.and_then(|skyhook| skyhook.metadata.uid.clone()),
            state: Wait::Pending(String::new()),
        }
    }

    pub fn is_met(&self) -> bool {
        self.state == Wait::Met
    }

    /// The custom resource; `None` if it was deleted, even if it was created again under the same name.
    ///
    /// # Errors
    ///
    /// Custom resources cannot be read. The text is the progress to show.
    pub fn find<'a>(&self, cluster: &'a Cluster) -> Result<Option<&'a Skyhook>, String> {
        let found = cluster.skyhook(&self.name);
        match (found, &cluster.skyhooks) {
            (Some(skyhook), _) => {
                let same = self.uid.is_none() || skyhook.metadata.uid == self.uid;
                Ok(same.then_some(skyhook))
            }
            (None, Read::Ok(_)) => Ok(None),
            (None, _) => Err("the custom resource cannot be read".to_owned()),
        }
    }

    /// Updates the state. A met condition stays met.
    pub fn judge<'a>(&mut self, cluster: &'a Cluster, model: &OnceCell<Model<'a>>, condition: &Condition) {
        if !self.is_met() {
            self.state = condition.state(cluster, model, self);
        }
    }
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Condition, String> {
        let (word, package) = match text.split_once('=') {
            Some((word, package)) => (word, Some(package.to_owned())),
            None => (text, None),
        };
        match (word.to_lowercase().as_str(), package) {
            ("complete", None) => Ok(Condition::Complete),
            ("uninstalled", package) if package.as_deref() != Some("") => Ok(Condition::Uninstalled(package)),
            ("deleted" | "delete", None) => Ok(Condition::Deleted),
            ("erroring", None) => Ok(Condition::Erroring),
            _ => Err("expected complete, uninstalled, uninstalled=PACKAGE, deleted or erroring".to_owned()),
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Condition::Complete => f.write_str("complete"),
            Condition::Uninstalled(None) => f.write_str("uninstalled"),
            Condition::Uninstalled(Some(package)) => write!(f, "uninstalled={package}"),
            Condition::Deleted => f.write_str("deleted"),
            Condition::Erroring => f.write_str("erroring"),
        }
    }
}

impl Condition {
    /// Whether it is sufficient that one of several custom resources meets the condition.
    pub fn any(&self) -> bool {
        *self == Condition::Erroring
    }

    /// The goal that findings may block; `None` when waiting for a failure.
    pub fn goal(&self) -> Option<Goal<'_>> {
        match self {
            Condition::Complete => Some(Goal::Install),
            Condition::Uninstalled(package) => Some(Goal::Uninstall(package.as_deref())),
            Condition::Deleted => Some(Goal::Deletion),
            Condition::Erroring => None,
        }
    }

    /// The progress of a custom resource; `Pending` if it could not be read.
    fn state<'a>(
        &self,
        cluster: &'a Cluster,
        model: &OnceCell<Model<'a>>,
        awaited: &AwaitedResource,
    ) -> Wait {
        let name = &awaited.name;
        let original = match awaited.find(cluster) {
            Ok(original) => original,
            Err(progress) => return Wait::Pending(progress),
        };
        match (self, cluster.skyhook(name)) {
            (Condition::Deleted, _) => original.map_or(Wait::Met, |own| deleted(cluster, own)),
            (Condition::Uninstalled(package), skyhook) => {
                uninstalled(cluster, name, skyhook, package.as_deref())
            }
            (Condition::Complete | Condition::Erroring, None) => Wait::Never(format!("{name} is gone"), None),
            (Condition::Complete, Some(skyhook)) => {
                complete(cluster, model.get_or_init(|| Model::new(cluster)), skyhook)
            }
            (Condition::Erroring, Some(skyhook)) => erroring(cluster, skyhook),
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
    let may_drain = |node: &&&Node| {
        let record = cluster.on_node(node, skyhook.name());
        record.is_some_and(NodeRecord::may_drain)
    };
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

fn deleted(cluster: &Cluster, skyhook: &Skyhook) -> Wait {
    if !skyhook.deleting() {
        return Wait::Pending("not being deleted yet".to_owned());
    }
    let pending = cluster.pending_uninstalls(skyhook);
    let mut nodes: Vec<&str> = pending.iter().map(|p| p.node.name.as_str()).collect();
    nodes.dedup();
    Wait::Pending(match nodes.len() {
        0 => format!("being deleted, {}", plural(skyhook.metadata.finalizers.len(), "finalizer")),
        n => format!("being deleted, packages left to uninstall on {}", plural(n, "node")),
    })
}

fn uninstalled(cluster: &Cluster, name: &str, skyhook: Option<&Skyhook>, package: Option<&str>) -> Wait {
    if !matches!(cluster.nodes, Read::Ok(_)) {
        return Wait::Pending("the nodes cannot be read".to_owned());
    }
    let asked = |package: &str| {
        let asked = skyhook.and_then(|s| s.uninstall_asked_by(s.package(package)?));
        asked.is_some()
    };
    // The operator does nothing on nodes that are not selected.
    let counts = |p: &Placement<'_>| p.selected || skyhook.is_none();
    let (mut left, mut under_way, mut installed) = (BTreeSet::new(), false, false);
    for placement in cluster.placements(name).filter(counts) {
        let uninstall = placement.phase.is_uninstall();
        let wanted = match package {
            Some(package) => package == placement.package,
            None => uninstall || asked(placement.package),
        };
        under_way |= wanted && uninstall;
        installed |= placement.entry.is_some();
        // A malformed node state may contain the package.
        if placement.phase == Phase::Malformed || (wanted && placement.entry.is_some()) {
            left.insert(&placement.node.name);
        }
    }
    let package_runs = cluster.package_runs();
    let running = package_runs.all().iter().filter(|run| {
        run.skyhook == name
            && run.stage.is_uninstall()
            && run.alive()
            && package.is_none_or(|p| p == run.package)
    });
    let requested = skyhook.is_none_or(Skyhook::requests_uninstall);
    match (left.len(), running.count()) {
        (0, 0) if package.is_none() && installed && !requested => Wait::Never(
            format!("no uninstall of a package of {name} was requested, and packages are installed"),
            Some(format!("kubectl skyhook uninstall {} PACKAGE", uninstall_argument(name))),
        ),
        (0, 0) => Wait::Met,
        (0, n) => Wait::Pending(format!("gone from all nodes, but {} still running", plural(n, "uninstall"))),
        (left, _) => match (skyhook, package) {
            (None, _) => Wait::Never(
                format!("{name} is gone, but a record of it remains on {}", plural(left, "node")),
                Some(format!("kubectl skyhook status {name}")),
            ),
            (Some(skyhook), Some(package)) if !asked(package) && !under_way => Wait::Never(
                format!(
                    "no uninstall of {package} was requested, but the package is still on {}",
                    plural(left, "node")
                ),
                Some(uninstall_command(skyhook, package)),
            ),
            _ => Wait::Pending(format!("still on {}", plural(left, "node"))),
        },
    }
}

/// Time for which failures of a pod that restarts in place are tolerated: about four attempts.
const RESTARTS: Duration = Duration::from_secs(120);

/// The blockers that the last check found, each with the time at which it was first found, and the blockers
/// that ended the wait.
pub struct Blockers {
    /// Time for which failures of retried operations are tolerated.
    tolerate: Duration,
    seen: BTreeMap<FindingKey, Timestamp>,
    /// Whether the last check found new blockers, which the next check may confirm.
    pub look_again: bool,
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
        Blockers {
            tolerate: tolerate.unwrap_or(usual),
            seen: BTreeMap::new(),
            look_again: false,
            found: None,
        }
    }

    /// Checks the goals of custom resources. Returns the findings that block them in this check and the
    /// previous one, and for the tolerated time, in a few words each.
    pub fn judge(&mut self, cluster: &Cluster, goals: &[(&str, Goal<'_>)]) -> Vec<String> {
        let scope = Scope {
            skyhooks: goals.iter().map(|(name, _)| (*name).to_owned()).collect(),
            ..Scope::default()
        };
        let (_, report) = self.confirm(cluster, &scope, |report| {
            let findings = &report.findings;
            let blocking = BlockingFindings::of(findings);
            let known = goals.iter().filter_map(|(name, goal)| Some((cluster.skyhook(name)?, *goal)));
            known.flat_map(|(skyhook, goal)| blocking.of_goal(findings, cluster, skyhook, goal)).collect()
        });
        let names: Vec<String> = report.findings.iter().map(name_of).collect();
        if !names.is_empty() {
            self.found = Some((cluster.clone(), report));
        }
        names
    }

    /// Runs the rules. Returns the whole report, and a report of the findings selected by `of` that the
    /// previous check also found and that have lasted. Sources are read in parallel, so a single check may
    /// combine data of different times.
    pub fn confirm(
        &mut self,
        cluster: &Cluster,
        scope: &Scope,
        of: impl Fn(&Report) -> Vec<&Finding>,
    ) -> (Report, Report) {
        let report = rules::diagnose(cluster, scope);
        let before = std::mem::take(&mut self.seen);
        let mut confirmed = BTreeSet::new();
        self.look_again = false;
        for finding in of(&report) {
            let key = finding.key();
            let since = before.get(&key).copied();
            match since {
                Some(since) if self.lasted(finding, since, cluster.taken_at) => {
                    confirmed.insert(key.clone());
                }
                Some(_) => {}
                None => self.look_again = true,
            }
            self.seen.insert(key, since.unwrap_or(cluster.taken_at));
        }
        let confirmed = report.clone().stuck_by(&confirmed);
        (report, confirmed)
    }

    /// Forgets the findings, before the command waits for something else.
    pub fn clear(&mut self) {
        self.seen.clear();
        self.look_again = false;
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
