//! Reasons why a stage fails or hangs on a node, and why the operator does not run: states, events and logs.
//! Pure.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use jiff::{SignedDuration, Timestamp};
use regex::Regex;
use schemars::JsonSchema;
use serde::Serialize;

use crate::api::{Entry, State};
use crate::cluster::attempts::{Choice, ContainerLog, choice};
use crate::cluster::pod::{ContainerStatus, ContainerTrouble, Terminated};
use crate::cluster::{Cluster, Deployment, Event, PackageRun, PackageRuns, Pod, attempts};
use crate::redact;
use crate::rules::package_pods_evicted::eviction_cause;
use crate::rules::{Finding, operator_not_running};
use crate::text::time;

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
    let reasons = Reasons { cluster, package_runs: cluster.package_runs(), events: by_object(cluster) };
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
        let operator = self.cluster.operators.iter().find(|d| {
            let reference = d.to_string();
            finding.evidence.iter().any(|e| e.object == reference)
        })?;
        let looping = self.cluster.operator().crash_looping(operator);
        let mut pods: Vec<&Pod> = self.cluster.operator().pods_of(operator).collect();
        pods.sort_by_key(|pod| !looping.is_some_and(|looping| std::ptr::eq(looping, *pod)));
        let mut reason = Reason {
            object: operator.to_string(),
            events: of_operator(&self.events, operator, &pods),
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
            object: package_run.to_string(),
            stage: Some(package_run.stage.to_string()),
            events: of_package_run(&self.events, package_run),
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
        pod.status.init_container_statuses.iter().chain(&pod.status.container_statuses).find_map(|status| {
            let now = status.state.terminated.as_ref();
            let before = now.is_none();
            let end = now.or(status.last_state.terminated.as_ref())?;
            (end.exit_code != 0).then_some(Failed { pod, status, end, before })
        })
    }

    /// The most specific state: `OOMKilled`, else `CrashLoopBackOff`, else `Error`.
    fn state(&self) -> &'a str {
        let waiting = self.status.state.waiting.as_ref().map_or("", |w| w.reason.as_str());
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
        self.meaning = attempts::meaning(self.exit_code, &failed.end.reason).map(str::to_owned);
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
            self.meaning = attempts::meaning(None, &pod.status.reason).map(str::to_owned);
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
            self.meaning = attempts::meaning(None, ending.reason).map(str::to_owned);
            self.message = shown(ending.message).or(self.message.take());
            return;
        }
        let pod = package_run.timed_out();
        let job = package_run.job.and_then(|j| j.failed()).filter(|c| c.reason == OVER);
        let message = pod.map(|p| p.status.message.as_str()).or(job.map(|c| c.message.as_str()));
        if let Some(message) = message {
            self.state = Some(OVER.to_owned());
            self.meaning = attempts::meaning(None, OVER).map(str::to_owned);
            self.message = shown(message).or(self.message.take());
        }
    }

    /// Collects the log of the failing container, then other logs that `package logs` would show.
    fn pieces(&mut self, choice: &Choice) {
        const MOST: usize = 4;
        for piece in choice.attempts.iter().flat_map(|a| a.pieces.iter().rev()) {
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
    let text = redact::log_lines(message.lines().map(plain)).join(" ");
    let text: String = text.trim().chars().take(LONGEST).collect();
    (!text.is_empty()).then_some(text)
}

/// Maximum number of event groups of one package run or operator.
const MOST: usize = 5;
/// Number of characters that Kubernetes appends to the name of a Job to name a pod.
const SUFFIX: usize = 5;

/// Events about objects of one kind with the same reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Recurring {
    /// The object of the latest event, such as `job/NAME` or `pod/NAME`.
    pub object: String,
    /// The reason of the events.
    pub reason: String,
    /// The message of the latest event.
    pub message: String,
    /// Number of occurrences.
    pub count: i64,
    /// The time of the first occurrence; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
    /// The time of the latest occurrence; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<String>,
    #[serde(skip)]
    pub at: Option<Timestamp>,
}

/// Warnings by kind and name of their object. Warnings about pods are also listed under `PodOf` with the name of the
/// Job.
pub fn by_object(cluster: &Cluster) -> HashMap<(&str, &str), Vec<&Event>> {
    let mut by_object: HashMap<(&str, &str), Vec<&Event>> = HashMap::new();
    for event in cluster.events.iter().filter(|e| e.warning) {
        let (kind, name) = (event.kind.as_str(), event.name.as_str());
        by_object.entry((kind, name)).or_default().push(event);
        if kind == "Pod"
            && let Some((job, suffix)) = name.rsplit_once('-')
            && suffix.len() == SUFFIX
        {
            by_object.entry(("PodOf", job)).or_default().push(event);
        }
    }
    by_object
}

/// The warnings about a Job or bare pod, latest first.
pub fn of_package_run(
    events: &HashMap<(&str, &str), Vec<&Event>>,
    package_run: &PackageRun<'_>,
) -> Vec<Recurring> {
    let job = package_run.job.map(|job| job.metadata.name.as_str());
    // `PodOf` has the events about pods that are named after the Job.
    let own = |name: &&str| {
        let rest = job.and_then(|job| name.strip_prefix(job)).unwrap_or_default();
        rest.len() == SUFFIX + 1 && rest.starts_with('-')
    };
    let others = package_run.pods.iter().map(|pod| pod.name()).filter(|name| !own(name));
    let of_job = job.into_iter().flat_map(|job| [("Job", job), ("PodOf", job)]);
    let keys: Vec<(&str, &str)> = of_job.chain(others.map(|name| ("Pod", name))).collect();
    recurring(events, &keys, package_run.created())
}

/// The warnings about a Deployment of the operator and its pods, latest first.
pub fn of_operator(
    events: &HashMap<(&str, &str), Vec<&Event>>,
    operator: &Deployment,
    pods: &[&Pod],
) -> Vec<Recurring> {
    let keys: Vec<(&str, &str)> =
        pods.iter().map(|pod| ("Pod", pod.name())).chain([("Deployment", operator.name())]).collect();
    recurring(events, &keys, None)
}

fn recurring(
    events: &HashMap<(&str, &str), Vec<&Event>>,
    keys: &[(&str, &str)],
    since: Option<Timestamp>,
) -> Vec<Recurring> {
    // Names are reused: an event from before the run was created is about another object.
    let current = |event: &&&Event| event.last.is_none() || event.last >= since;
    let mut alike: BTreeMap<(&str, &str), Vec<&Event>> = BTreeMap::new();
    for event in keys.iter().filter_map(|key| events.get(key)).flatten().filter(current) {
        let key = (event.kind.as_str(), event.reason.as_str());
        alike.entry(key).or_default().push(event);
    }
    let mut recurring: Vec<Recurring> = alike
        .values()
        .filter_map(|events| {
            let newest = events.iter().max_by_key(|e| e.last)?;
            let kind = Recurring {
                object: format!("{}/{}", newest.kind.to_lowercase(), newest.name),
                reason: newest.reason.clone(),
                message: shown(&newest.message).unwrap_or_default(),
                count: events.iter().map(|e| e.count).sum(),
                first: events.iter().filter_map(|e| e.first).min().map(time),
                last: newest.last.map(time),
                at: newest.last,
            };
            Some(kind)
        })
        .collect();
    recurring.sort_by_key(|kind| std::cmp::Reverse(kind.at));
    recurring.truncate(MOST);
    recurring
}

/// Maximum number of lines.
const LINES: usize = 20;
/// Maximum number of characters in a line.
const LONGEST: usize = 300;
/// Maximum number of bytes in all lines.
const BYTES: usize = 4096;

/// The last lines of a container's log: few and short, without escape sequences and without apparent secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LogTail {
    /// The source of the lines: the container, or the log that the operator saved.
    pub from: String,
    /// The lines, oldest first.
    pub lines: Vec<String>,
}

impl LogTail {
    /// Prepares the last lines for display; `None` if all lines are blank.
    pub fn of<'l>(from: String, lines: impl IntoIterator<Item = &'l str>) -> Option<LogTail> {
        let plain: Vec<String> = lines.into_iter().map(plain).collect();
        let mut lines = redact::log_lines(&plain);
        lines.retain(|line| !line.trim().is_empty());
        let lines: Vec<String> = lines.iter().map(|line| short(line)).collect();
        let mut room = BYTES;
        let fits = |line: &&String| {
            let fits = line.len() <= room;
            room = room.saturating_sub(line.len());
            fits
        };
        let kept = lines.iter().rev().take(LINES).take_while(fits).count();
        let lines = lines[lines.len() - kept..].to_vec();
        (!lines.is_empty()).then_some(LogTail { from, lines })
    }

    /// At most `most` last lines. If none of them mentions a failure, the first is replaced by the last
    /// earlier line that does.
    pub fn last(&self, most: usize) -> Vec<&str> {
        static TELLING: LazyLock<Regex> = LazyLock::new(|| {
            let words = "error|fail|failed|failure|fatal|cannot|can't|could not|unable|denied|not found|no such|killed|\
                         traceback|exception|timed out|timeout|panic|refused|invalid|missing";
            Regex::new(&format!(r"(?i)(?-u:\b)(?:{words})(?-u:\b)")).expect("the pattern is valid")
        });
        let from = self.lines.len().saturating_sub(most);
        let telling = |line: &&String| TELLING.is_match(line);
        let mut shown: Vec<&str> = self.lines[from..].iter().map(String::as_str).collect();
        if !self.lines[from..].iter().any(|line| telling(&line))
            && let Some(line) = self.lines[..from].iter().rfind(telling)
            && let Some(first) = shown.first_mut()
        {
            *first = line;
        }
        shown
    }
}

/// Removes colours, control characters and overwritten progress bars from a line.
fn plain(line: &str) -> String {
    static ESCAPES: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
            .expect("the pattern is valid")
    });
    let line = line.trim_end_matches(['\n', '\r']);
    let line = ESCAPES.replace_all(line, "");
    let last = line.rsplit('\r').find(|part| !part.trim().is_empty()).unwrap_or_default().replace('\t', " ");
    last.chars().filter(|c| !c.is_control()).collect()
}

fn short(line: &str) -> String {
    match line.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_owned(),
    }
}

/// Appends the attempts: `package driver fails at stage apply: its job is retrying, 1 failed attempt so far`.
pub fn with_attempts(
    mut what: String,
    cluster: &Cluster,
    entry: &Entry,
    package_run: Option<&PackageRun<'_>>,
    retries: bool,
) -> String {
    let Some((package_run, job)) = package_run.and_then(|run| run.job.map(|job| (run, job))) else {
        return if retries { format!("{what}; the operator is still retrying") } else { what };
    };
    let over = package_run.timed_out().is_some() || job.deadline_exceeded();
    let timeout = job.timeout().map(SignedDuration::from_secs);
    let timeout = timeout.map_or_else(String::new, |timeout| format!(" of {timeout:#}"));
    if let Some(seconds) = package_run.foreign_deadline().filter(|_| job.deadline_exceeded()) {
        let limit = SignedDuration::from_secs(seconds);
        what += &format!(
            ": its job exceeded an activeDeadlineSeconds of {limit:#}, which the operator did not set"
        );
    } else if over {
        what += &format!(": the stage exceeded its timeout{timeout}");
    }
    let pod = job.failed_by_kubelet(&package_run.pods);
    if let Some(pod) = pod {
        what += &format!(": {}", ended_by_kubelet(cluster, pod));
    }
    let failed = package_run.failed_attempts(cluster.flavor(), entry);
    // The entry is erroring, so at least one attempt has failed, even if the Job does not count it yet.
    let attempts = match failed.max(1) {
        1 => "1 failed attempt".to_owned(),
        n => format!("{n} failed attempts"),
    };
    let and = match pod {
        Some(_) => ";",
        None if over => ", and",
        None => ":",
    };
    match job.failed() {
        Some(_) if failed == 0 => format!("{what}{and} its job has failed permanently"),
        Some(_) if package_run.restart_limit_exceeded(cluster.flavor()).is_some() => {
            format!("{what}{and} {attempts}, and the operator ended the job at the restart limit")
        }
        Some(_) => format!("{what}{and} its job has failed permanently ({attempts})"),
        None if !retries => what,
        None if job.status.succeeded > 0 => {
            format!("{what}, but its job has since succeeded; the operator has not recorded the result yet")
        }
        None if job.restarts_in_place() => {
            let until = match (package_run.restart_allowance(cluster.flavor()), job.timeout()) {
                (Some(limit), _) => format!("at most {limit} times"),
                (None, Some(_)) => format!("until the timeout{timeout} expires"),
                (None, None) => "without a limit".to_owned(),
            };
            format!("{what}{and} its container is restarted {until}; {attempts} so far")
        }
        None => format!("{what}{and} its job is retrying, {attempts} so far"),
    }
}

/// Why the kubelet ended the pods of all attempts.
fn ended_by_kubelet(cluster: &Cluster, pod: &Pod) -> String {
    let ending = cluster.ending(pod);
    let (reason, message) = ending.map_or(("", ""), |ending| (ending.reason, ending.message));
    if !pod.evicted() {
        let message = shown(message).map_or_else(String::new, |message| format!(": {message}"));
        return format!("the kubelet rejected all its pods ({reason}{message})");
    }
    format!(
        "the kubelet evicted all its pods ({}), and the job counted this as failed attempts",
        eviction_cause(message)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(lines: &[&str]) -> LogTail {
        LogTail::of("a test".to_owned(), lines.iter().copied()).expect("lines")
    }

    #[test]
    fn what_would_paint_the_terminal_is_taken_out() {
        let shown =
            log(&["\x1b[31mERROR\x1b[0m no\tdisk\r\n", "10%\r50%\r100%\n", "a\x07b\x1b]0;title\x07c\n"]);
        assert_eq!(shown.lines, ["ERROR no disk", "100%", "abc"]);
    }

    #[test]
    fn a_secret_in_the_middle_of_colours_is_one_still() {
        assert_eq!(log(&["tok\x1b[0men=hunter2"]).lines, ["token=<masked>"]);
    }

    #[test]
    fn lines_and_bytes_are_bounded_and_the_last_are_kept() {
        let many: Vec<String> = (0..50).map(|n| format!("line {n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let shown = log(&many);
        assert_eq!((shown.lines.len(), shown.lines[19].as_str()), (LINES, "line 49"));
        let long = "x".repeat(10_000);
        let shown = log(&[long.as_str(); 30]);
        assert!(shown.lines.iter().all(|l| l.chars().count() <= LONGEST + 1));
        assert!(shown.lines.concat().len() <= BYTES, "{}", shown.lines.concat().len());
        assert_eq!(LogTail::of(String::new(), ["", "\x1b[0m"]), None);
    }

    #[test]
    fn the_line_that_tells_is_among_those_shown() {
        let shown = log(&["a", "bash: nvidia-smi: command not found", "b", "c", "d"]);
        assert_eq!(shown.last(3), ["bash: nvidia-smi: command not found", "c", "d"]);
        assert_eq!(shown.last(1), ["bash: nvidia-smi: command not found"]);
        assert_eq!(log(&["a", "b"]).last(1), ["b"]);
    }
}
