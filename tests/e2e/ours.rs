//! Runs our binary as a user would.

use std::{
    collections::BTreeMap,
    io::Read,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use regex::Regex;
use serde_json::Value;

use crate::{report_stats, unfolded::on_each_node};

/// The result of one run.
#[derive(Clone, Debug)]
pub struct RunResult {
    pub exit: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

#[derive(Clone, Debug)]
pub struct Report {
    pub ran: RunResult,
    pub json: Value,
}

pub fn command(kubeconfig: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(crate::run::binary());
    command
        .args(args)
        .env("KUBECONFIG", kubeconfig)
        // Each scenario has its own journal, which is deleted together with its directory.
        .env("XDG_STATE_HOME", kubeconfig.with_file_name("state"))
        .env_remove("NO_COLOR");
    command
}

pub fn run(kubeconfig: &Path, args: &[&str]) -> RunResult {
    let out = command(kubeconfig, args).output().expect("cargo has built it");
    if !args.starts_with(&["package", "logs"]) {
        report_stats::no_secret(&out.stdout);
        report_stats::no_secret(&out.stderr);
    }
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the output is UTF-8");
    RunResult { exit: out.status.code(), stdout: text(out.stdout), stderr: text(out.stderr) }
}

pub fn diagnose(kubeconfig: &Path, more: &[&str]) -> Report {
    let args = [&["diagnose", "stuck", "--all", "-o", "json"], more].concat();
    let ran = run(kubeconfig, &args);
    let json = serde_json::from_str(&ran.stdout)
        .unwrap_or_else(|error| panic!("diagnose prints JSON: {error}: {ran:?}"));
    if !more.iter().any(|word| ["--no-logs", "--from"].contains(word)) {
        report_stats::count(&json);
    }
    Report { ran, json: on_each_node(json) }
}

impl Report {
    pub fn findings(&self) -> &[Value] {
        self.json["findings"].as_array().map(Vec::as_slice).unwrap_or_default()
    }

    pub fn errors(&self) -> Vec<&Value> {
        self.findings().iter().filter(|finding| finding["severity"] == "Error").collect()
    }

    pub fn with_code(&self, code: &str) -> Vec<&Value> {
        self.findings().iter().filter(|finding| finding["code"] == code).collect()
    }

    /// Returns a finding with this code whose subject has at least these fields; panics without one.
    #[track_caller]
    pub fn has(&self, code: &str, subject: &Value) -> &Value {
        let wanted = subject.as_object().expect("a subject is an object");
        let fits = |f: &&Value| wanted.iter().all(|(key, value)| &f["subject"][key] == value);
        let found = self.with_code(code).into_iter().find(fits);
        found.unwrap_or_else(|| panic!("no {code} on {subject}: {:#}", self.json))
    }

    /// Asserts that the exit code matches the verdict.
    #[track_caller]
    pub fn exit_fits(&self) {
        let expected = match self.json["verdict"].as_str() {
            Some("Healthy" | "Blocked") => 0,
            Some("Stuck") => 2,
            _ => 1,
        };
        assert_eq!(self.ran.exit, Some(expected), "exit code of {:#?}", self.ran);
    }
}

/// Errors and warnings of a diagnosis, by code and subject; the value is whether it is an error.
fn stuck(kubeconfig: &Path) -> BTreeMap<(String, String), bool> {
    let report = diagnose(kubeconfig, &[]);
    let grave = report.findings().iter();
    let grave = grave.filter(|finding| finding["severity"] != "Info");
    let of = |finding: &Value| {
        let which = (finding["code"].to_string(), finding["subject"].to_string());
        (which, finding["severity"] == "Error")
    };
    grave.map(of).collect()
}

/// Diagnoses twice a second and asserts that no error disappears, and that none appears without an earlier
/// warning. Repeats the diagnosis once, or for `STEADY` seconds (`STEADY=60`).
#[track_caller]
pub fn stays_so(kubeconfig: &Path) {
    let seconds = std::env::var("STEADY").map(|text| text.parse().expect("seconds"));
    let looks = seconds.map_or(1, |seconds: u32| 2 * seconds);
    let mut before = stuck(kubeconfig);
    for look in 1..=looks {
        std::thread::sleep(Duration::from_millis(500));
        let now = stuck(kubeconfig);
        let errors = now.iter().filter(|(_, error)| **error);
        let new: Vec<_> = errors.filter(|(which, _)| !before.contains_key(*which)).collect();
        let errors = before.iter().filter(|(_, error)| **error);
        let gone: Vec<_> = errors.filter(|(which, _)| now.get(*which) != Some(&true)).collect();
        assert!(new.is_empty() && gone.is_empty(), "look {look} of {looks}: {new:?} new, {gone:?} gone");
        before = now;
    }
}

/// Asserts that the report of a collected file equals the live report; tries again while the cluster changes.
#[track_caller]
pub fn collects(kubeconfig: &Path) {
    const TRIES: usize = 10;
    let file = kubeconfig.with_file_name("collected.tar.gz");
    let file = file.to_str().expect("a path of letters");
    let mut ran = Vec::new();
    for _ in 0..TRIES {
        let before = timeless(diagnose(kubeconfig, &["--all"]).json);
        let collected = run(kubeconfig, &["collect", "--force", "-o", file]);
        // A pod may disappear before its log is read.
        if collected.exit == Some(4) && collected.stderr.contains("404 pods") {
            ran = vec![serde_json::json!(collected.stderr)];
            continue;
        }
        assert_eq!(collected.exit, Some(0), "{collected:?}");
        no_secret_inside(file);
        let after = timeless(diagnose(kubeconfig, &["--all"]).json);
        let read = timeless(diagnose(kubeconfig, &["--all", "--from", file]).json);
        if read == before || read == after {
            return;
        }
        ran = vec![before, read, after];
    }
    panic!("the report of the collected file differs: {ran:#?}");
}

#[track_caller]
fn no_secret_inside(archive: &str) {
    let packed = std::fs::File::open(archive).expect("the archive exists");
    let mut files = tar::Archive::new(flate2::read::MultiGzDecoder::new(packed));
    for file in files.entries().expect("an archive") {
        let mut bytes = Vec::new();
        let read = file.and_then(|mut file| file.read_to_end(&mut bytes));
        read.expect("each file is whole");
        report_stats::no_secret(&bytes);
    }
}

/// Removes what may differ between two reports of the same state: times, restart counts, and reasons for
/// missing logs.
fn timeless(mut report: Value) -> Value {
    for field in ["takenAt", "takenAtFrom"] {
        report.as_object_mut().map(|report| report.remove(field));
    }
    let restarts = Regex::new(r#"\d+ restarts?|"restarts":\d+"#).expect("a regular expression");
    let text = report.to_string();
    let text =
        restarts.replace_all(
            &text,
            |found: &regex::Captures<'_>| {
                if found[0].starts_with('"') { r#""restarts":0"# } else { "restarts" }
            },
        );
    let log = Regex::new(r#","logError":"([^"\\]|\\.)*""#).expect("a regular expression");
    serde_json::from_str(&log.replace_all(&text, "")).expect("the report is still JSON")
}

/// Diagnoses again and again during a scenario, and collects all findings at error level.
pub struct Watcher {
    looks: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Watched>,
}

#[derive(Default)]
pub struct Watched {
    pub looks: usize,
    /// Number of diagnoses that were incomplete or had no report because the server was down.
    pub unanswered: usize,
    pub errors: Vec<Value>,
    /// Number of warnings per code.
    pub warned: BTreeMap<String, usize>,
}

/// Pause between two diagnoses. Without one they would take most of the processor time of all scenarios.
const PAUSE: Duration = Duration::from_millis(150);

impl Watcher {
    pub fn start(kubeconfig: PathBuf) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let looks = Arc::new(AtomicUsize::new(0));
        let counted = looks.clone();
        let thread = std::thread::spawn(move || {
            let mut watched = Watched::default();
            while !stopped.load(Ordering::Relaxed) {
                std::thread::sleep(PAUSE);
                watched.looks += 1;
                counted.store(watched.looks, Ordering::Relaxed);
                let ran = run(&kubeconfig, &["diagnose", "stuck", "--all", "-o", "json"]);
                let Ok(json) = serde_json::from_str::<Value>(&ran.stdout) else {
                    assert!(ran.exit == Some(1) && ran.stdout.is_empty(), "{ran:?}");
                    watched.unanswered += 1;
                    continue;
                };
                let report = Report { ran, json };
                watched.unanswered += usize::from(report.json["verdict"] == "NotFullyChecked");
                watched.errors.extend(report.errors().into_iter().cloned());
                for finding in report.findings() {
                    if finding["severity"] == "Warning" {
                        let code = finding["code"].as_str().unwrap_or_default();
                        *watched.warned.entry(code.to_owned()).or_default() += 1;
                    }
                }
            }
            watched
        });
        Self { looks, stop, thread }
    }

    /// Number of diagnoses so far.
    pub fn looks(&self) -> usize {
        self.looks.load(Ordering::Relaxed)
    }

    pub fn stop(self) -> Watched {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the watcher did not panic")
    }
}
