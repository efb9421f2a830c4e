//! Reasons why a stage fails or hangs on a node, and why the operator does not run: states, events and logs.
//! Pure.

mod events;
mod log;

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;

pub use self::events::Recurring;
pub use self::log::LogTail;
use crate::api::State;
use crate::cluster::attempts::{Choice, ContainerLog, choice};
use crate::cluster::pod::{ContainerStatus, ContainerTrouble, Terminated};
use crate::cluster::{Cluster, Event, PackageRun, PackageRuns, Pod, exit_code};
use crate::redact;
use crate::rules::{Finding, operator_not_running};

/// Why a stage, or the operator itself, makes no progress: how its last attempt ended, or what it waits for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reason {
    /// The Job or pod that runs the stage, as `job/NAME` or `pod/NAME`; for the operator, its Deployment.
    pub object: String,
    /// The stage; absent if the operator itself does not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// The pod of the attempt; absent if none is known, for example after its deletion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// The container; absent if the state is that of the whole pod or Job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// The reason that Kubernetes gives for the end or the wait: `OOMKilled`, `CrashLoopBackOff`,
    /// `DeadlineExceeded`; `Running` for a running container; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The exit code of the container; absent if the container has not ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// An explanation of exit code and state; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meaning: Option<String>,
    /// The message of the container or of Kubernetes; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Number of restarts of the container.
    pub restarts: i64,
    /// The last lines of the container's log; absent if they were not read or are blank. Of several findings
    /// with the same problem, only one has them, unless the operator saved the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<LogTail>,
    /// Why the log could not be read; absent if it was read or not requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_error: Option<String>,
    /// Warnings about the object and its pods, latest first; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Recurring>,
    /// The useful logs, best first.
    #[serde(skip)]
    pub pieces: Vec<ContainerLog>,
}

/// Sets the reason of each finding about a package on a node, and of findings about an operator that does not
/// run.
pub fn add(cluster: &Cluster, findings: &mut [Finding]) {
    let reasons =
        Reasons { cluster, package_runs: cluster.package_runs(), events: events::by_object(cluster) };
    for finding in findings {
        finding.reason = reasons.of(finding).map(Box::new);
    }
}

struct Reasons<'a> {
    cluster: &'a Cluster,
    package_runs: PackageRuns<'a>,
    events: HashMap<(&'a str, &'a str), Vec<&'a Event>>,
}

impl<'a> Reasons<'a> {
    fn of(&self, finding: &Finding) -> Option<Reason> {
        let subject = &finding.subject;
        if finding.rule.code == operator_not_running::RULE.code {
            return self.of_operator(finding);
        }
        let (skyhook, package) = (subject.skyhook.as_deref()?, subject.package.as_deref()?);
        let (package_run, failing) = self.attempt(skyhook, package, subject.node.as_deref()?)?;
        let succeeded = package_run.job.and_then(|j| j.finished()).is_some_and(|c| c.kind == "Complete");
        if succeeded {
            return None;
        }
        let reason = self.of_run(package_run, failing);
        reason.has_content().then_some(reason)
    }

    /// The state of the operator's pods while the operator does not run.
    fn of_operator(&self, finding: &Finding) -> Option<Reason> {
        let mut operators = self.cluster.operators.items().iter();
        let operator = operators.find(|d| {
            let reference = d.reference();
            finding.evidence.iter().any(|e| e.object == reference)
        })?;
        let looping = self.cluster.crash_looping(operator);
        let mut pods: Vec<&Pod> = self.cluster.pods_of(operator).collect();
        pods.sort_by_key(|pod| !looping.is_some_and(|looping| std::ptr::eq(looping, *pod)));
        let mut reason = Reason {
            object: operator.reference(),
            events: events::of_operator(&self.events, operator, &pods),
            ..Reason::default()
        };
        if let Some(failed) = pods.iter().find_map(|pod| Failed::in_pod(pod)) {
            reason.failed(&failed);
        } else if let Some((pod, trouble)) = pods.iter().find_map(|p| Some((*p, p.trouble()?))) {
            reason.troubled(pod, &trouble);
        }
        reason.has_content().then_some(reason)
    }

    /// The package run at the recorded stage of a package on a node, and whether it fails.
    fn attempt<'s>(&'s self, skyhook: &str, package: &str, node: &str) -> Option<(&'s PackageRun<'a>, bool)> {
        let newest = |of_it: &mut dyn Iterator<Item = &'s PackageRun<'a>>| {
            let of_it = of_it.filter(|run| run.package == package);
            Some((of_it.max_by_key(|run| run.created())?, false))
        };
        let Some(node) = self.cluster.node(node) else {
            let mut all = self.package_runs.all().iter();
            return newest(&mut all.by_ref().filter(|run| run.skyhook == skyhook && run.node == node));
        };
        let on = self.cluster.on_node(node, skyhook);
        let spec = self.cluster.skyhook(skyhook);
        let entries = on.map_or_else(Vec::new, |on| on.entries_of(spec, package));
        let Some(entry) = entries.into_iter().find(|e| e.state != State::Complete) else {
            return newest(&mut self.package_runs.of_skyhook_on(skyhook, &node.name));
        };
        let newest = self.package_runs.newest(skyhook, &node.name, entry);
        let at_it = newest.filter(|run| run.stage == entry.stage || run.interrupt);
        Some((at_it?, entry.state == State::Erroring))
    }

    fn of_run(&self, package_run: &PackageRun<'a>, failing: bool) -> Reason {
        let choice = choice(self.cluster, package_run, false);
        let mut reason = Reason {
            object: package_run.reference(),
            stage: Some(package_run.stage.to_string()),
            events: events::of_package_run(&self.events, package_run),
            ..Reason::default()
        };
        let running = package_run.pods.iter().find_map(|p| p.running().map(|r| (*p, r.0)));
        let failed = package_run.pods.iter().filter(|p| !p.disrupted()).find_map(|p| Failed::in_pod(p));
        match (failed, running) {
            (Some(failed), None) => reason.failed(&failed),
            (Some(failed), Some(_)) if failing => reason.failed(&failed),
            (_, Some((pod, container))) => {
                reason.pod = Some(pod.name().to_owned());
                reason.container = Some(container.to_owned());
                reason.state = Some("Running".to_owned());
            }
            (None, None) => reason.waits(package_run),
        }
        reason.ended_as_a_whole(self.cluster, package_run);
        reason.pieces(&choice);
        if let Some(kept) = &choice.last_logs {
            let from = format!("{} (saved by the operator)", choice.reference);
            reason.log = LogTail::of(from, kept.lines());
        }
        reason
    }
}

/// The last ended run of a failed container.
struct Failed<'a> {
    pod: &'a Pod,
    status: &'a ContainerStatus,
    end: &'a Terminated,
    /// Whether the container has been started again since, or waits for a restart.
    before: bool,
}

impl<'a> Failed<'a> {
    fn in_pod(pod: &'a Pod) -> Option<Failed<'a>> {
        let inits = pod.status.init_container_statuses.iter();
        let mut all = inits.chain(&pod.status.container_statuses);
        all.find_map(|status| {
            let now = status.state.terminated.as_ref();
            let before = now.is_none();
            let end = now.or(status.last_state.terminated.as_ref())?;
            (end.exit_code != 0).then_some(Failed { pod, status, end, before })
        })
    }

    /// The most specific state: `OOMKilled`, else `CrashLoopBackOff`, else `Error`.
    fn state(&self) -> &'a str {
        let waiting = self.status.state.waiting.as_ref();
        let waiting = waiting.map_or("", |w| w.reason.as_str());
        match self.end.reason.as_str() {
            "" | "Error" if !waiting.is_empty() => waiting,
            "" => "Error",
            reason => reason,
        }
    }

    fn piece(&self) -> ContainerLog {
        ContainerLog {
            run: self.status.restart_count - i64::from(self.before),
            // A waiting container has only the log of its previous run, which the server returns with and
            // without `previous`.
            previous: self.before,
            ..ContainerLog::of(self.pod, self.status)
        }
    }
}

impl Reason {
    fn has_content(&self) -> bool {
        self.state.is_some() || self.log.is_some() || !self.events.is_empty()
    }

    fn failed(&mut self, failed: &Failed<'_>) {
        self.pod = Some(failed.pod.name().to_owned());
        self.container = Some(failed.status.name.clone());
        self.state = Some(failed.state().to_owned());
        self.exit_code = Some(failed.end.exit_code);
        self.meaning = exit_code::meaning(self.exit_code, &failed.end.reason).map(str::to_owned);
        self.message = shown(&failed.end.message);
        self.restarts = failed.status.restart_count;
        self.pieces.push(failed.piece());
    }

    /// Sets the reason why a container does not start, or why the pod or the Job ended as a whole.
    fn waits(&mut self, package_run: &PackageRun<'_>) {
        let troubled = package_run.trouble();
        if let Some((pod, trouble)) = troubled {
            self.troubled(pod, &trouble);
        } else if let Some(pod) = package_run.pods.iter().find(|p| !p.status.reason.is_empty()) {
            self.pod = Some(pod.name().to_owned());
            self.state = Some(pod.status.reason.clone());
            self.message = shown(&pod.status.message);
            self.meaning = exit_code::meaning(None, &pod.status.reason).map(str::to_owned);
        } else if let Some(failed) = package_run.job.and_then(|j| j.failed()) {
            self.state = Some(failed.reason.to_string());
            self.message = shown(&failed.message);
        }
    }

    fn troubled(&mut self, pod: &Pod, trouble: &ContainerTrouble<'_>) {
        self.pod = Some(pod.name().to_owned());
        self.container = Some(trouble.container.to_owned());
        self.state = Some(trouble.reason.to_owned());
        self.message = shown(trouble.message);
        self.restarts = trouble.restarts;
    }

    /// Replaces the container's exit by the end of the whole pod, which explains more: an eviction, a rejection, a
    /// shutdown of the node, or an exceeded deadline.
    fn ended_as_a_whole<'a>(&mut self, cluster: &'a Cluster, package_run: &PackageRun<'a>) {
        const OVER: &str = "DeadlineExceeded";
        let runs = self.state.as_deref() == Some("Running");
        if let Some((pod, ending)) = package_run.ended_as_a_whole(cluster).filter(|_| !runs) {
            self.pod = Some(pod.name().to_owned());
            self.state = Some(ending.reason.to_owned());
            self.meaning = exit_code::meaning(None, ending.reason).map(str::to_owned);
            self.message = shown(ending.message).or(self.message.take());
            return;
        }
        let pod = package_run.timed_out();
        let job = package_run.job.and_then(|j| j.failed());
        let job = job.filter(|c| c.reason == OVER);
        let message = pod.map(|p| p.status.message.as_str());
        let message = message.or(job.map(|c| c.message.as_str()));
        if let Some(message) = message {
            self.state = Some(OVER.to_owned());
            self.meaning = exit_code::meaning(None, OVER).map(str::to_owned);
            self.message = shown(message).or(self.message.take());
        }
    }

    /// Collects the log of the failing container, then other logs that `package logs` would show.
    fn pieces(&mut self, choice: &Choice) {
        const MOST: usize = 4;
        let others = choice.attempts.iter().flat_map(|a| a.pieces.iter().rev());
        for piece in others {
            if self.pieces.len() < MOST && !self.pieces.contains(piece) {
                self.pieces.push(piece.clone());
            }
        }
    }

    /// Sets the log tail from these lines of `piece`; keeps the previous tail if all lines are blank.
    pub fn set_log(&mut self, piece: &ContainerLog, lines: &[String]) {
        let run = if piece.previous { ", previous run" } else { "" };
        let from = format!("{}{run}", piece.place());
        self.log = LogTail::of(from, lines.iter().map(String::as_str)).or(self.log.take());
    }

    /// The end of the attempt: `apply: OOMKilled, exit code 137 (…)`; `None` if neither exit code nor meaning
    /// is known.
    pub fn outcome(&self) -> Option<String> {
        let state = self.state.as_deref()?;
        if self.exit_code.is_none() && self.meaning.is_none() {
            return None;
        }
        let mut text = match &self.container {
            Some(container) => format!("{container}: {state}"),
            None => state.to_owned(),
        };
        if let Some(code) = self.exit_code {
            text += &format!(", exit code {code}");
        }
        if let Some(meaning) = &self.meaning {
            text += &format!(" ({meaning})");
        }
        Some(text)
    }
}

/// The shown part of a message from the cluster, without secrets; `None` if it is empty.
pub(in crate::rules) fn shown(message: &str) -> Option<String> {
    const LONGEST: usize = 300;
    let text = redact::log::lines(message.lines().map(log::plain)).join(" ");
    let text: String = text.trim().chars().take(LONGEST).collect();
    (!text.is_empty()).then_some(text)
}
