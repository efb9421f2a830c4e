//! Reads the logs that explain a failure: of failing or hanging containers, and of the operator.

use bytes::{Buf, BytesMut};
use futures::StreamExt;

use super::log::{LogError, LogStream, Request};
use super::record::Recorder;
use super::sources::Reader;
use crate::cluster::attempts::ContainerLog;
use crate::cluster::capture::ReadOutcome;
use crate::cluster::capture::index::{LOG, LOGS, LogEntry, Source};
use crate::cluster::pod::ContainerStatus;
use crate::cluster::source::Read;
use crate::cluster::{Cluster, Pod};

/// Maximum number of package pods whose logs are read.
const MOST_PODS: usize = 200;
/// Maximum number of logs that are read concurrently.
const AT_ONCE: usize = 16;
/// The maximum time per log is the total time divided by this number: logs on nodes that are down never
/// arrive, and there may be many.
const SHARE: u32 = 6;
/// Maximum number of bytes kept per log.
const MOST_BYTES: usize = 1 << 20;
/// Maximum number of bytes read per log.
const MOST_READ: usize = 64 << 20;
/// Number of lines of the operator's log, as a multiple of the lines of other logs.
const OPERATORS: u64 = 10;
/// Maximum length of a name in the path of a log, in characters.
const NAME: usize = 60;

/// Reads the logs, beginning with the logs in `asked`. Returns the result for each log and for the source.
pub(super) async fn read(
    reader: &Reader<'_>,
    recorder: Recorder<'_>,
    cluster: &Cluster,
    lines: u64,
    asked: Vec<ContainerLog>,
) -> (Vec<LogEntry>, Source) {
    let mut wanted: Vec<Request> = Vec::new();
    for piece in asked {
        let request = Request { timestamps: true, tail: Some(lines), ..Request::from(&piece) };
        if !wanted.contains(&request) {
            wanted.push(request);
        }
    }
    for pod in cluster.operator_pods.items() {
        wanted.extend(of_operator(pod, lines * OPERATORS));
    }
    let mut pods: Vec<&Pod> = cluster.pods.items().iter().filter(|p| has_useful_logs(p)).collect();
    pods.sort_by_key(|pod| (pod.trouble().is_none(), pod.path()));
    let beyond = pods.len().saturating_sub(MOST_PODS);
    for pod in pods.into_iter().take(MOST_PODS) {
        let of_package = of_package(pod, lines).into_iter();
        let more: Vec<Request> = of_package.filter(|r| !wanted.contains(r)).collect();
        wanted.extend(more);
    }
    let mut logs: Vec<LogEntry> = futures::stream::iter(wanted.into_iter().enumerate())
        .map(|(number, request)| one(reader.client, recorder, number, request))
        .buffered(AT_ONCE)
        .collect()
        .await;
    logs.sort_by(|a, b| a.file.cmp(&b.file));
    let mut noted = Source::of("logs", &Read::Ok(logs.iter().filter(|l| l.file.is_some()).count()));
    if beyond > 0 {
        noted.message = Some(format!("the logs of {beyond} more pods were not read"));
    }
    (logs, noted)
}

/// Whether the pod failed or is running.
fn has_useful_logs(pod: &Pod) -> bool {
    pod.trouble().is_some() || pod.status.phase == "Failed" || pod.running().is_some()
}

fn request(pod: &Pod, status: &ContainerStatus, lines: u64, previous: bool) -> Request {
    Request { previous, timestamps: true, tail: Some(lines), ..Request::from(&ContainerLog::of(pod, status)) }
}

fn of_operator(pod: &Pod, lines: u64) -> Vec<Request> {
    let statuses = pod.status.container_statuses.iter();
    let both = statuses.flat_map(|status| {
        let before = status.last_state.terminated.is_some();
        let runs = [(true, false), (before, true)].into_iter();
        runs.filter(|(there, _)| *there).map(move |(_, previous)| request(pod, status, lines, previous))
    });
    both.collect()
}

/// Requests for containers that are running or failed, and for their previous runs that failed.
fn of_package(pod: &Pod, lines: u64) -> Vec<Request> {
    let mut requests = Vec::new();
    let statuses = &pod.status.init_container_statuses;
    for status in statuses.iter().chain(&pod.status.container_statuses) {
        let failed = status.state.terminated.as_ref().is_some_and(|t| t.exit_code != 0);
        let at_work = status.state.running.is_some() && statuses.iter().any(|s| s.name == status.name);
        if failed || at_work {
            requests.push(request(pod, status, lines, false));
        }
        if status.last_state.terminated.as_ref().is_some_and(|t| t.exit_code != 0) {
            requests.push(request(pod, status, lines, true));
        }
    }
    requests
}

/// Reads and records one log. The entry has no file if no log exists.
async fn one(client: &kube::Client, recorder: Recorder<'_>, number: usize, request: Request) -> LogEntry {
    let share = recorder.patience / SHARE;
    let log = tokio::time::timeout(share, text(client, &request));
    let log = tokio::time::timeout_at(recorder.deadline, log).await;
    let late = |_| LogError { code: None, why: format!("no response within {} s", share.as_secs_f32()) };
    let log = log.map(|log| log.map_err(late).flatten());
    let mut noted = LogEntry {
        outcome: ReadOutcome::Read,
        message: None,
        file: None,
        namespace: request.namespace,
        pod: request.pod,
        container: request.container,
        previous: request.previous,
    };
    let (outcome, message) = match log {
        Ok(Ok(text)) => {
            let file = file(number, &noted);
            if recorder.tape.keep_log(&file, &recorder.tape.masks.log(&text)) {
                noted.file = Some(file);
                return noted;
            }
            (ReadOutcome::LeftOut, "omitted: the capture reached its size limit".to_owned())
        }
        Ok(Err(error)) if error.nothing_there() => return noted,
        Ok(Err(error)) if error.code == Some(403) => (ReadOutcome::Refused, error.why),
        Ok(Err(error)) => (ReadOutcome::Failed, error.why),
        Err(_) => (ReadOutcome::Failed, recorder.too_late()),
    };
    noted.outcome = outcome;
    noted.message = Some(recorder.tape.masks.words(&message));
    noted
}

/// Reads the last lines of a log, limited to `MOST_BYTES`.
async fn text(client: &kube::Client, request: &Request) -> Result<String, LogError> {
    let mut log = LogStream::open(client, request).await?;
    let (mut bytes, mut read) = (BytesMut::new(), 0);
    while read < MOST_READ
        && let Some(chunk) = log.chunk().await?
    {
        read += chunk.len();
        bytes.extend_from_slice(&chunk);
        let beyond = bytes.len().saturating_sub(MOST_BYTES);
        if beyond > 0 {
            // Drop the partial first line together with its timestamp.
            let rest = bytes[beyond..].iter().position(|b| *b == b'\n');
            bytes.advance(rest.map_or(beyond, |at| beyond + at + 1));
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn file(number: usize, log: &LogEntry) -> String {
    let cut = |name: &str| name.chars().take(NAME).collect::<String>();
    let previous = if log.previous { ".previous" } else { "" };
    format!(
        "{LOGS}/{}/{}/{number:03}-{}{previous}{LOG}",
        cut(&log.namespace),
        cut(&log.pod),
        cut(&log.container)
    )
}
