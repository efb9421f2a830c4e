//! Attempts of a package run, ordered by the usefulness of their logs.

use std::collections::HashMap;

use jiff::Timestamp;

use super::capture::{LogEntry, ReadOutcome};
use super::pod::{ContainerStatus, TroubleKind};
use super::{Cluster, PackageRun, Pod};
use crate::api::Stage;

/// Length to which the operator truncates the package's name in the name of a stage container, in characters.
const NAME: usize = 43;

/// One stage of a package on one node, with its logs and messages.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    pub node: String,
    pub stage: String,
    /// `pod/NAME` or `job/NAME`.
    pub reference: String,
    /// Attempts in order of usefulness: running, succeeded, failed, disrupted, not started.
    pub attempts: Vec<Attempt>,
    /// Log tail that the operator keeps on a failed Job.
    pub last_logs: Option<String>,
    /// Messages from the objects: why nothing runs, or how the run ended.
    pub messages: Vec<String>,
    /// Whether the run may still produce logs.
    pub alive: bool,
}

/// One pod of a package run.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    pub pod: String,
    pub pieces: Vec<ContainerLog>,
    /// Description of the failure, if the attempt failed.
    pub failure: Option<String>,
}

/// The log of one run of one container.
#[derive(Debug, Clone, PartialEq)]
pub struct ContainerLog {
    pub node: String,
    pub namespace: String,
    pub pod: String,
    pub uid: String,
    pub container: String,
    /// Restart count of the container at this run.
    pub run: i64,
    /// Whether the log is of the container's previous run, because the container waits.
    pub previous: bool,
    pub running: bool,
}

impl ContainerLog {
    /// The container with its pod: `driver-apply in pod/skyhook/apply-1-a`.
    pub fn place(&self) -> String {
        format!("{} in pod/{}/{}", self.container, self.namespace, self.pod)
    }

    /// Log of the container's latest run, finished or not.
    pub fn of(pod: &Pod, status: &ContainerStatus) -> ContainerLog {
        ContainerLog {
            node: pod.spec.node_name.clone(),
            namespace: pod.namespace().to_owned(),
            pod: pod.name().to_owned(),
            uid: pod.metadata.uid.clone().unwrap_or_default(),
            container: status.name.clone(),
            run: status.restart_count,
            previous: false,
            running: false,
        }
    }
}

/// Attempts and messages of a package run; with `previous`, of the preceding attempt or container run.
pub fn choice(cluster: &Cluster, package_run: &PackageRun<'_>, previous: bool) -> Choice {
    let names = containers(&package_run.package, &package_run.stage, package_run.interrupt);
    let mut pods = package_run.pods.clone();
    pods.sort_by_key(|pod| rank(pod));
    if previous && !package_run.bare() && !pods.is_empty() {
        pods.remove(0);
    }
    let of_before = previous && package_run.bare();
    let attempts = pods.iter().map(|pod| Attempt {
        pod: pod.name().to_owned(),
        pieces: pieces(package_run.node, pod, &names, of_before),
        failure: pod.trouble().filter(|t| t.kind == TroubleKind::Failed).map(|t| {
            let code = t.exit_code.map_or_else(String::new, |c| format!(", exit code {c}"));
            format!("{} {}{code}", t.container, t.reason)
        }),
    });
    let key = cluster.flavor().key("last-logs");
    Choice {
        node: package_run.node.to_owned(),
        stage: package_run.stage.to_string(),
        reference: package_run.to_string(),
        attempts: attempts.collect(),
        last_logs: package_run.job.and_then(|j| j.metadata.annotations.get(&key).cloned()),
        messages: object_messages(cluster, package_run),
        alive: package_run.alive(),
    }
}

/// Rank in the order of usefulness: running, succeeded, failed, disrupted, not started. Sorting by rank keeps
/// pods of equal rank newest first.
fn rank(pod: &Pod) -> u8 {
    match pod.status.phase.as_str() {
        _ if pod.disrupted() => 3,
        "Succeeded" => 1,
        "Failed" => 2,
        _ if started(pod) => 0,
        // No output yet: the previous attempt is more useful.
        _ => 4,
    }
}

fn started(pod: &Pod) -> bool {
    pod.status.init_container_statuses.iter().any(|c| {
        c.state.running.is_some() || c.state.terminated.is_some() || c.last_state.terminated.is_some()
    })
}

/// Names of a stage's containers that write logs, in the order in which they run.
pub fn containers(package: &str, stage: &Stage, interrupt: bool) -> Vec<String> {
    if interrupt {
        return vec!["interrupt".to_owned()];
    }
    let package: String = package.chars().take(NAME).collect();
    vec![format!("{package}-{stage}"), format!("{package}-{stage}check")]
}

fn pieces(node: &str, pod: &Pod, names: &[String], of_before: bool) -> Vec<ContainerLog> {
    let mut pieces = Vec::new();
    for status in &pod.status.init_container_statuses {
        let ended = status.last_state.terminated.is_some();
        let failed = status.state.terminated.as_ref().is_some_and(|t| t.exit_code != 0);
        // The container that copies the package matters only if it failed or was restarted.
        let telling = names.contains(&status.name) || failed || ended;
        let (running, done) = (status.state.running.is_some(), status.state.terminated.is_some());
        let previous = match (of_before, running || done) {
            (true, _) | (false, false) => ended.then_some(true),
            (false, true) => Some(false),
        };
        let (true, Some(previous)) = (telling, previous) else {
            continue;
        };
        pieces.push(ContainerLog {
            node: node.to_owned(),
            run: status.restart_count - i64::from(of_before && (running || done)),
            previous,
            running: running && !of_before,
            ..ContainerLog::of(pod, status)
        });
    }
    pieces
}

/// Messages from the objects: why nothing runs, or how the run ended.
fn object_messages(cluster: &Cluster, package_run: &PackageRun<'_>) -> Vec<String> {
    let mut messages = Vec::new();
    let reason_and_message = |reason: &str, message: &str| match message {
        "" => reason.to_owned(),
        message => format!("{reason}: {message}"),
    };
    if let Some(job) = package_run.job {
        if let Some(failed) = job.failed() {
            messages
                .push(format!("the job has failed: {}", reason_and_message(&failed.reason, &failed.message)));
        } else if job.spec.suspend {
            messages.push("the job is suspended".to_owned());
        } else if package_run.pods.is_empty() && job.finished().is_none() {
            messages.push("the job has no pod yet".to_owned());
        }
    }
    if let Some(pod) = package_run.pods.first() {
        if let Some(ending) = cluster.ending(pod) {
            messages.push(reason_and_message(ending.reason, ending.message));
        }
        for status in &pod.status.init_container_statuses {
            let waiting = status.state.waiting.as_ref();
            // Skip the wait that every container starts with. In a crash loop the failure of the previous run
            // is more useful.
            if let Some(w) =
                waiting.filter(|w| !matches!(w.reason.as_str(), "" | "PodInitializing" | "CrashLoopBackOff"))
            {
                messages.push(format!(
                    "{} waits: {}",
                    status.name,
                    reason_and_message(&w.reason, &w.message)
                ));
            }
        }
        if messages.is_empty() && !pod.ended() && !started(pod) {
            messages.push("no container has started yet".to_owned());
        }
    }
    messages
}

/// Number of last lines kept per log of a capture, and requested per live log: a report shows the same lines
/// for both.
pub const LINES: usize = 100;
/// Maximum number of bytes kept per log.
const BYTES: usize = 1 << 20;

/// The logs of a capture.
#[derive(Debug, Clone, Default)]
pub struct KeptLogs {
    pub entries: Vec<LogEntry>,
    /// The last lines of the logs, by file.
    pub texts: HashMap<String, Vec<String>>,
}

impl KeptLogs {
    /// The last lines of the first log that is not empty, and the index of this log.
    ///
    /// # Errors
    ///
    /// The reason why the first missing log is not in the capture. An empty log is not an error.
    pub fn tail(
        &self,
        pieces: &[ContainerLog],
        lines: usize,
    ) -> Result<Option<(usize, Vec<String>)>, String> {
        let mut failed = None;
        for (at, piece) in pieces.iter().enumerate() {
            match self.log(piece) {
                Ok([]) => {}
                Ok(found) => {
                    let last = found[found.len().saturating_sub(lines)..].iter();
                    let text = |line: &String| {
                        String::from_utf8_lossy(split_timestamp(line.as_bytes()).1).into_owned()
                    };
                    let lines = last.map(text);
                    return Ok(Some((at, lines.collect())));
                }
                Err(why) => {
                    failed.get_or_insert(why);
                }
            }
        }
        failed.map_or(Ok(None), Err)
    }

    /// Whether the index of the capture lists the log, also if it could not be read.
    pub fn lists(&self, piece: &ContainerLog) -> bool {
        self.entries.iter().any(|log| log.matches(piece))
    }

    /// The last lines of a log, with their timestamps.
    ///
    /// # Errors
    ///
    /// The reason why the log is missing from the capture. An empty log is not an error.
    pub fn log(&self, piece: &ContainerLog) -> Result<&[String], String> {
        let Some(entry) = self.entries.iter().find(|log| log.matches(piece)) else {
            return Err("the capture does not include this log".to_owned());
        };
        match (entry.outcome, &entry.file) {
            (ReadOutcome::Read, None) => Ok(&[]),
            (ReadOutcome::Read, Some(file)) => {
                let text =
                    self.texts.get(file).ok_or_else(|| format!("{file} is missing from the capture"))?;
                Ok(text)
            }
            _ => Err(entry.message.clone().unwrap_or_default()),
        }
    }
}

impl LogEntry {
    /// Whether the entry is for this container log.
    pub fn matches(&self, piece: &ContainerLog) -> bool {
        self.previous == piece.previous
            && self.namespace == piece.namespace
            && self.pod == piece.pod
            && self.container == piece.container
    }
}

/// The last lines of a log that was read with timestamps.
pub fn last_lines(log: &[u8]) -> Vec<String> {
    let mut room = BYTES;
    let all: Vec<&[u8]> = log.split_inclusive(|b| *b == b'\n').collect();
    let last = all.iter().rev().copied().take(LINES);
    let fits = |line: &&[u8]| {
        let fits = line.len() <= room;
        room = room.saturating_sub(line.len());
        fits
    };
    let mut last: Vec<String> =
        last.take_while(fits).map(|line| String::from_utf8_lossy(line).into_owned()).collect();
    last.reverse();
    last
}

/// Splits a line into the timestamp that Kubernetes puts in front, and the text.
pub fn split_timestamp(line: &[u8]) -> (Option<Timestamp>, &[u8]) {
    let end = line.iter().position(|b| *b == b' ').unwrap_or(0);
    let time = std::str::from_utf8(&line[..end]).ok();
    match time.and_then(|t| t.parse().ok()) {
        Some(time) => (Some(time), &line[end + 1..]),
        None => (None, line),
    }
}

/// The meaning of an exit code with its Kubernetes reason; `None` if each program defines its own.
pub fn meaning(code: Option<i64>, reason: &str) -> Option<&'static str> {
    match reason {
        "OOMKilled" => return Some("killed: it exceeded its memory limit"),
        "DeadlineExceeded" => return Some("terminated: it exceeded its deadline"),
        "ContainerCannotRun" | "StartError" => return Some("the container could not be started"),
        "Evicted" => {
            return Some("evicted: the node was low on resources, or the pod exceeded a storage limit");
        }
        _ => {}
    }
    Some(match code? {
        126 => "the command cannot be executed: permission denied, or not an executable",
        127 => "command not found",
        130 => "interrupted (SIGINT)",
        132 => "crashed: illegal instruction (SIGILL)",
        134 => "aborted (SIGABRT)",
        135 => "crashed: bus error (SIGBUS)",
        136 => "crashed: arithmetic error (SIGFPE)",
        137 => {
            "killed (SIGKILL): it did not stop within the grace period (pod deleted, evicted or past its deadline), \
             the node ran out of memory, or someone killed the process"
        }
        139 => "crashed: segmentation fault (SIGSEGV)",
        141 => "broken pipe (SIGPIPE)",
        143 => {
            "terminated (SIGTERM): its pod was deleted, evicted or past its deadline, the node was shut down, or \
             someone terminated the process"
        }
        _ => return None,
    })
}

/// `exit code 127 (command not found)`.
pub fn with_meaning(code: i64, reason: &str) -> String {
    match meaning(Some(code), reason) {
        Some(meaning) => format!("exit code {code} ({meaning})"),
        None => format!("exit code {code}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_are_named_as_the_operator_names_them() {
        let long = "a".repeat(60);
        assert_eq!(
            containers("dax", &Stage::PostInterrupt, false),
            ["dax-post-interrupt", "dax-post-interruptcheck"]
        );
        assert_eq!(containers(&long, &Stage::Apply, false)[1], format!("{}-applycheck", "a".repeat(43)));
        assert_eq!(containers("dax", &Stage::Interrupt, true), ["interrupt"]);
    }

    #[test]
    fn the_time_is_told_from_the_line() {
        let (time, line) = split_timestamp(b"2026-11-20T17:43:15.123456789Z a b\n");
        assert_eq!(time.map(|t| t.to_string()).as_deref(), Some("2026-11-20T17:43:15.123456789Z"));
        assert_eq!(line, b"a b\n");
        assert_eq!(split_timestamp(b"a b\n"), (None, &b"a b\n"[..]));
        assert_eq!(split_timestamp(b"2026-11-20T17:43:15Z \n").1, b"\n");
    }

    #[test]
    fn the_last_lines_are_kept_and_bounded() {
        let many: String = (0..500).map(|n| format!("2026-11-20T17:43:15Z line {n}\n")).collect();
        let kept = last_lines(many.as_bytes());
        let last = "2026-11-20T17:43:15Z line 499\n";
        assert_eq!((kept.len(), kept[99].as_str()), (LINES, last));
        let long = format!("{}\n", "x".repeat(BYTES / 2)).repeat(5);
        let kept = last_lines(long.as_bytes());
        assert!(kept.concat().len() <= BYTES, "{}", kept.len());
    }

    #[test]
    fn what_kubernetes_says_goes_before_the_number() {
        assert_eq!(with_meaning(127, "Error"), "exit code 127 (command not found)");
        assert_eq!(with_meaning(3, "Error"), "exit code 3");
        assert_eq!(with_meaning(137, "OOMKilled"), "exit code 137 (killed: it exceeded its memory limit)");
    }
}
