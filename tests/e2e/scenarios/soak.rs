//! Commands that wait for a long time, while objects change, streams are cut and the API server restarts:
//! their memory does not grow, they use little CPU, and they miss no event, in particular not the end.
//!
//! `SOAK=60 cargo test --locked --test e2e -- soak --nocapture` runs for 60 minutes, and prints the
//! measurements.

use std::{
    fs::File,
    path::Path,
    process::Child,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures::{StreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::teardown::uninstallable;
use crate::{
    cluster::{Cluster, PATIENCE},
    kubelet::StepResult,
    ours,
    rollout::pods,
    view::{complete, that},
};

/// Interval between two log lines.
const BEAT: SignedDuration = SignedDuration::from_millis(200);
/// Size of a memory page.
const PAGE: u64 = 4096;
/// Maximum CPU use of a waiting command, as a fraction of one CPU.
const BUSY: f64 = 0.2;
const MEBIBYTE: u64 = 1 << 20;

/// Duration of the test, and intervals of the disturbances.
struct Plan {
    lasts: Duration,
    cut_every: Duration,
    restart_every: Duration,
    away: Duration,
}

impl Plan {
    fn of_this_run() -> Plan {
        let seconds = Duration::from_secs;
        let minutes: Option<u64> = std::env::var("SOAK").ok().and_then(|m| m.parse().ok());
        match minutes {
            Some(minutes) => Plan {
                lasts: seconds(60 * minutes),
                cut_every: seconds(20),
                restart_every: seconds(300),
                away: seconds(5),
            },
            None => Plan {
                lasts: seconds(12),
                cut_every: seconds(3),
                restart_every: seconds(7),
                away: seconds(1),
            },
        }
    }
}

/// A simulated log with one numbered line per beat since its start, the same for all readers.
#[derive(Clone)]
struct Beats {
    began: Timestamp,
    over: Arc<AtomicBool>,
}

impl Beats {
    fn new() -> Beats {
        Beats { began: Timestamp::now(), over: Arc::default() }
    }

    fn at(&self, number: i32) -> Timestamp {
        self.began + BEAT * number
    }

    /// Answers a log request as a kubelet does: `sinceTime`, `tailLines` and `follow`.
    fn lines(self, query: &str) -> stream::BoxStream<'static, Bytes> {
        let value = |name: &str| {
            let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            let mut values = pairs.filter(|(key, _)| *key == name).map(|(_, value)| value);
            values.next().map(|value| value.replace("%3A", ":"))
        };
        let since: Option<Timestamp> = value("sinceTime").and_then(|time| time.parse().ok());
        let mut number = 0;
        while since.is_some_and(|since| self.at(number) < since) {
            number += 1;
        }
        if let Some(tail) = value("tailLines").and_then(|lines| lines.parse::<i32>().ok()) {
            let mut next = number;
            while self.at(next) <= Timestamp::now() {
                next += 1;
            }
            number = number.max(next - tail);
        }
        let follows = value("follow").is_some();
        let lines = stream::unfold(number, move |number| {
            let beats = self.clone();
            async move {
                let at = beats.at(number);
                while at > Timestamp::now() {
                    if !follows || beats.over.load(Ordering::Relaxed) {
                        return None;
                    }
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Some((Bytes::from(format!("{at} {number}\n")), number + 1))
            }
        });
        lines.boxed()
    }
}

/// A command that runs during the test.
struct Waits {
    words: &'static str,
    child: Child,
    begun: Instant,
    /// Maximum memory in the first quarter.
    settled: u64,
    /// Maximum memory in each quarter of the test.
    most: [u64; 4],
    last: u64,
}

impl Waits {
    fn start(kubeconfig: &Path, dir: &Path, words: &'static str) -> Waits {
        let args: Vec<&str> = words.split(' ').collect();
        let name = words.split(' ').next().unwrap_or_default();
        let file = |what: &str| File::create(dir.join(format!("{name}.{what}"))).expect("a file");
        let mut command = ours::command(kubeconfig, &args);
        let command = command.stdout(file("out")).stderr(file("err"));
        Waits {
            words,
            child: command.spawn().expect("cargo has built it"),
            begun: Instant::now(),
            settled: 0,
            most: [0; 4],
            last: 0,
        }
    }

    fn output(&self, dir: &Path) -> [String; 2] {
        let name = self.words.split(' ').next().unwrap_or_default();
        ["out", "err"]
            .map(|what| std::fs::read_to_string(dir.join(format!("{name}.{what}"))).unwrap_or_default())
    }

    fn proc(&self, file: &str) -> String {
        let path = format!("/proc/{}/{file}", self.child.id());
        std::fs::read_to_string(path).unwrap_or_default()
    }

    fn look(&mut self, quarter: usize) {
        let resident = self.proc("statm");
        let pages = resident.split(' ').nth(1).and_then(|p| p.parse::<u64>().ok());
        self.last = pages.unwrap_or(0) * PAGE;
        self.most[quarter] = self.most[quarter].max(self.last);
        if quarter == 0 {
            self.settled = self.settled.max(self.last);
        }
    }

    /// CPU use since the start, as a fraction of one CPU.
    fn busy(&self) -> f64 {
        let stat = self.proc("stat");
        let (_, fields) = stat.rsplit_once(") ").unwrap_or_default();
        // utime and stime, in hundredths of a second.
        let ticks = fields.split(' ').skip(11).take(2);
        let ticks: f64 = ticks.filter_map(|t| t.parse::<f64>().ok()).sum();
        ticks / 100.0 / self.begun.elapsed().as_secs_f64()
    }

    fn runs(&mut self) -> bool {
        self.child.try_wait().expect("the process can be polled").is_none()
    }
}

/// Runs all commands that can wait for a deletion, whose uninstall does not end.
pub fn soak(cluster: &Cluster) {
    let plan = Plan::of_this_run();
    let gpu = cluster.apply(&uninstallable("gpu"));
    gpu.until(complete());
    cluster.result(pods("driver", "uninstall"), StepResult::Hang);
    let beats = Beats::new();
    let lines = beats.clone();
    let proxy = cluster.proxy().serving_logs(Arc::new(move |query| lines.clone().lines(query)));
    let kubeconfig = proxy.kubeconfig();
    let dir = kubeconfig.with_file_name("said");
    std::fs::create_dir(&dir).expect("a directory");
    let start = |words| Waits::start(&kubeconfig, &dir, words);
    let mut all = vec![start("teardown --timeout 0 --confirm")];
    gpu.until(that("uninstalling everywhere", |view| {
        let running = |pod: &&serde_json::Value| {
            let states = pod["status"]["initContainerStatuses"].as_array();
            let mut states = states.into_iter().flatten();
            states.any(|c| c["state"]["running"].is_object())
        };
        let pods = view.pods_of("driver", "uninstall");
        pods.iter().filter(|pod| running(pod)).count() == 3
    }));
    all.push(start("wait gpu --for=deleted --timeout 0"));
    all.push(start("package logs driver --skyhook gpu --tail -1 -f"));

    let begun = Instant::now();
    let (mut turn, mut cuts, mut restarts) = (0_u32, 0_u32, 0_u32);
    while begun.elapsed() < plan.lasts {
        turn += 1;
        // Change objects that the commands watch or read.
        let node = format!("/api/v1/nodes/node-{}", turn % 3 + 1);
        for path in [node, gpu.path()] {
            let churn = json!({"metadata": {"annotations": {"example.com/churn": turn.to_string()}}});
            // Ignore errors: after a restart the server may be too busy, and the next turn comes soon.
            let _ = cluster.api.merge(&path, &churn);
        }
        churn_pods(cluster, turn);
        if begun.elapsed() > plan.cut_every * (cuts + 1) {
            cuts += 1;
            proxy.cut_streams();
        }
        if begun.elapsed() > plan.restart_every * (restarts + 1) {
            restarts += 1;
            proxy.cut_streams();
            cluster.restart_api_server(plan.away);
        }
        for each in &mut all {
            each.look(quarter(begun.elapsed(), plan.lasts));
            assert!(each.runs(), "{} ended: {:#?}", each.words, each.output(&dir));
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    for each in &all {
        eprintln!(
            "{} for {:.0?}: at most {:.1?} MiB in each quarter, {:.1} MiB at the end; {:.2} % of a processor; {turn} turns, \
             {cuts} cuts, {restarts} restarts",
            each.words,
            each.begun.elapsed(),
            each.most.map(mebibytes),
            mebibytes(each.last),
            each.busy() * 100.0,
        );
        assert!(each.busy() < BUSY, "{} is busy: {:.2}", each.words, each.busy());
        let grown = each.last.saturating_sub(each.settled);
        assert!(grown < 4 * MEBIBYTE, "{} grew by {grown} bytes", each.words);
    }
    cluster.heal();
    let last = last_beat(&beats);
    beats.over.store(true, Ordering::Relaxed);
    let healed = Instant::now();
    for each in &mut all {
        while each.runs() {
            let [out, err] = each.output(&dir);
            assert!(healed.elapsed() < PATIENCE, "{} does not end: {out}{err}", each.words);
            std::thread::sleep(Duration::from_millis(50));
        }
        let code = each.child.wait().expect("the process can be awaited").code();
        assert_eq!(code, Some(0), "{}: {:#?}", each.words, each.output(&dir));
    }
    every_line_once(&all[2].output(&dir)[0], last);
}

/// The quarter of the test, from 0 to 3.
fn quarter(elapsed: Duration, whole: Duration) -> usize {
    let quarters = 4 * elapsed.as_millis() / whole.as_millis();
    usize::try_from(quarters).map_or(3, |quarter| quarter.min(3))
}

/// The number of the latest log line.
fn last_beat(beats: &Beats) -> usize {
    let since = Timestamp::now().duration_since(beats.began);
    usize::try_from(since.as_millis() / BEAT.as_millis()).expect("the number fits")
}

/// Asserts that the output has every log line of each of the three pods once and in order.
///
/// Every container serves the same log. The uninstallcheck container starts only at the end, and may be
/// deleted before its log is read, so its last lines may be missing.
#[track_caller]
fn every_line_once(out: &str, last: usize) {
    for node in ["node-1", "node-2", "node-3"] {
        let of = |container: &str| -> Vec<usize> {
            let lines = out.lines().filter_map(|line| line.split_once(" │ "));
            let lines = lines.filter(|(from, _)| from.split_whitespace().eq([node, container]));
            lines.filter_map(|(_, line)| line.parse().ok()).collect()
        };
        for container in ["driver-uninstall", "driver-uninstallcheck"] {
            let numbers = of(container);
            let wrong = numbers.iter().enumerate().find(|(at, n)| at != *n);
            assert_eq!(wrong, None, "{node} {container}: a line is lost, or comes twice");
        }
        let numbers = of("driver-uninstall").len();
        assert!(numbers > last, "{node}: {numbers} of {last} lines");
    }
}

fn mebibytes(bytes: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let bytes = bytes as f64;
    bytes / 1_048_576.0
}

/// Deletes and creates unrelated pods in the operator's namespace.
fn churn_pods(cluster: &Cluster, turn: u32) {
    let pods = "/api/v1/namespaces/skyhook/pods";
    let name = |turn: u32| format!("churn-{}", turn % 10);
    let _ = cluster.api.delete(&format!("{pods}/{}", name(turn)), &json!({"gracePeriodSeconds": 0}));
    let pod = json!({
        "metadata": {"name": name(turn)},
        "spec": {
            "nodeName": "node-1", "automountServiceAccountToken": false,
            "containers": [{"name": "work", "image": "example.com/work:1"}],
        },
    });
    // Ignore errors: after a restart the server may not know the service account yet.
    let _ = cluster.api.post(pods, &pod);
}
