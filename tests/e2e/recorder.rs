//! Records the watch streams of a scenario in the format of tests/model/recordings, for `crates/nodewright/tests/model`.

use std::{
    collections::HashMap,
    io::Write,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use flate2::{Compression, write::GzEncoder};
use futures::{AsyncBufReadExt, StreamExt, TryStreamExt, stream::FuturesUnordered};
use http::Request;
use serde_json::{Value, json};

use crate::api::Access;

/// Environment variable with the directory for recordings; without it, none are written.
pub const ASKED_FOR: &str = "KUBECTL_SKYHOOK_E2E_RECORD";

const WATCHED: [&str; 7] = [
    "/api/v1/nodes",
    "/api/v1/pods",
    "/api/v1/configmaps",
    "/apis/apps/v1/deployments",
    "/apis/policy/v1/poddisruptionbudgets",
    "/apis/skyhook.nvidia.com/v1alpha1/deploymentpolicies",
    "/apis/skyhook.nvidia.com/v1alpha1/skyhooks",
];

/// Records a cluster; writes the file when it is dropped.
pub struct Recorder {
    file: PathBuf,
    begun: jiff::Timestamp,
    lines: Arc<Mutex<Vec<Line>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

struct Line {
    t: f64,
    event: Value,
}

impl Recorder {
    /// Starts a recording, if the environment variable is set.
    pub fn start(access: &Access, name: &str) -> Option<Recorder> {
        let directory = PathBuf::from(std::env::var_os(ASKED_FOR)?);
        std::fs::create_dir_all(&directory).expect("a directory for recordings");
        let mut recorder = Recorder {
            file: directory.join(format!("{}.ndjson.gz", name.replace("::", "-"))),
            begun: jiff::Timestamp::now(),
            lines: Arc::default(),
            stop: Arc::default(),
            thread: None,
        };
        let (access, lines, stop) = (access.clone(), recorder.lines.clone(), recorder.stop.clone());
        let begun = Instant::now();
        recorder.thread = Some(std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(record(&access, begun, &lines, &stop));
        }));
        Some(recorder)
    }

    /// Ends the recording: later changes are not the operator's work.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let mut lines = std::mem::take(&mut *self.lines.lock().expect("no holder panics"));
        // Revisions are unique in the whole store, so they give the order of the writes.
        lines.sort_by_key(|line| revision(&line.event));
        let file = std::fs::File::create(&self.file).expect("a file for the recording");
        let mut file = GzEncoder::new(file, Compression::default());
        let first = json!({"t": 0.0, "type": "EDIT", "time": self.begun.to_string()});
        writeln!(file, "{first}").expect("written");
        let mut latest: f64 = 0.0;
        let mut known: HashMap<String, Value> = HashMap::new();
        for mut line in lines {
            latest = latest.max(line.t);
            let kind = line.event["type"].take();
            let object = &mut line.event["object"];
            let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
            let before = known.insert(uid.to_owned(), object.clone());
            if is_edit(&kind, before.as_ref(), object) {
                writeln!(file, "{}", json!({"t": latest, "type": "EDIT"})).expect("written");
            }
            // Like kubectl, omit `managedFields`.
            let metadata = object["metadata"].as_object_mut();
            metadata.map(|metadata| metadata.remove("managedFields"));
            let line = json!({"t": latest, "type": kind, "object": object});
            writeln!(file, "{line}").expect("written");
        }
        file.finish().expect("written");
    }
}

/// Whether the writer was someone other than the operator, a controller or a kubelet.
fn is_edit(kind: &Value, before: Option<&Value>, object: &Value) -> bool {
    let of_kubelet = match object["kind"].as_str() {
        Some("Pod") if kind != "ADDED" => return false,
        Some("Pod" | "Node") => true,
        _ => false,
    };
    if kind == "DELETED" {
        return object["kind"] == "Node";
    }
    let deleting = |object: &Value| !object["metadata"]["deletionTimestamp"].is_null();
    if deleting(object) && !before.is_some_and(deleting) {
        return true;
    }
    let all = |object: &Value| {
        let entries = object["metadata"]["managedFields"].as_array().cloned();
        entries.unwrap_or_default().into_iter()
    };
    let of_controller = |entry: &Value| {
        let manager = entry["manager"].as_str().unwrap_or_default();
        manager.starts_with("operator") || manager.starts_with("kube-")
    };
    let by_others = |object: &Value| -> Vec<Value> {
        let status = |entry: &Value| of_kubelet && entry["subresource"] == "status";
        let others = all(object).filter(|entry| !of_controller(entry) && !status(entry));
        others.collect()
    };
    let Some(before) = before else {
        return !by_others(object).is_empty();
    };
    // Removing another manager's field changes that manager's `managedFields` entry, but not its time.
    let removed = all(object).filter(of_controller).any(|entry| {
        let was = all(before)
            .find(|was| ["manager", "subresource", "time"].iter().all(|key| was[key] == entry[key]));
        let fields = |entry: &Value| entry["fieldsV1"].to_string().len();
        was.is_some_and(|was| fields(&entry) < fields(&was))
    });
    removed || by_others(object) != by_others(before)
}

fn revision(event: &Value) -> u64 {
    let revision = &event["object"]["metadata"]["resourceVersion"];
    revision.as_str().and_then(|r| r.parse().ok()).unwrap_or(0)
}

async fn record(access: &Access, begun: Instant, lines: &Mutex<Vec<Line>>, stop: &AtomicBool) {
    let client = access.client(None).expect("a client");
    let watches = WATCHED.map(async |path| {
        let request = Request::get(format!("{path}?watch=true")).body(Vec::new());
        let stream = client.request_stream(request.expect("a request")).await?;
        let mut stream = stream.lines();
        while let Some(line) = stream.try_next().await.ok().flatten() {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let event: Value = serde_json::from_str(&line).expect("JSON");
            let t = begun.elapsed().as_secs_f64();
            lines.lock().expect("no holder panics").push(Line { t, event });
        }
        Ok::<(), kube::Error>(())
    });
    let mut all: FuturesUnordered<_> = watches.into_iter().collect();
    while !stop.load(Ordering::Relaxed) {
        let next = tokio::time::timeout(Duration::from_millis(50), all.next());
        if let Ok(None) = next.await {
            break;
        }
    }
}
