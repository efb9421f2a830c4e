//! The last lines of a failing container are captured, and printed from the capture as from the cluster.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Scene, timeless};
use crate::support::fake_api::{FakeApi, Reply};
use crate::support::object_builder::{NODEWRIGHT, PackageRun, SKYHOOK};
use crate::support::run::RunOutput;

fn driver() -> Value {
    json!({"driver": {"version": "1.0.0", "image": "example.com/driver"}})
}

/// A cluster whose package fails on this many nodes, in pods that restart in place.
fn looping(nodes: usize) -> FakeApi {
    let fake = SKYHOOK.serve(driver());
    for n in 1..=nodes {
        let node = format!("node-{n:03}");
        fake.load(SKYHOOK.node(&node, "erroring", &["driver|1.0.0 apply erroring"]));
        let place = PackageRun { node: &node, ..PackageRun::default() };
        let containers = ["driver-init done", "driver-apply looping"];
        fake.load(SKYHOOK.pod(&pod(n, nodes), &place, "Pending", &containers));
    }
    fake
}

/// Name of the pod on node n; names sort in the reverse order of their nodes.
fn pod(n: usize, nodes: usize) -> String {
    format!("apply-{:03}", nodes - n)
}

/// A cluster with a Job of three attempts: two failed, and one has just started.
fn job() -> FakeApi {
    let place = |at| PackageRun { job: Some("apply-1"), at, ..PackageRun::default() };
    let (first, second, third) = ("2026-11-20T11:50:00Z", "2026-11-20T11:51:00Z", "2026-11-20T11:52:00Z");
    let failed = ["driver-init done", "driver-apply failed"];
    let running = ["driver-init done", "driver-apply running"];
    NODEWRIGHT
        .serve(driver())
        .with(NODEWRIGHT.node("node-1", "in_progress", &["driver|1.0.0 apply erroring"]))
        .with(NODEWRIGHT.job(&place(first), json!({"failed": 2, "active": 1})))
        .with(NODEWRIGHT.pod("a", &place(first), "Failed", &failed))
        .with(NODEWRIGHT.pod("b", &place(second), "Failed", &failed))
        .with(NODEWRIGHT.pod("c", &place(third), "Pending", &running))
}

/// A cluster in which a package's container succeeded, and its check failed without output.
fn silent_check() -> FakeApi {
    let place = PackageRun { job: Some("apply-1"), at: "2026-11-20T11:50:00Z", ..PackageRun::default() };
    let containers = ["driver-init done", "driver-apply done", "driver-applycheck failed"];
    let fake = NODEWRIGHT
        .serve(driver())
        .with(NODEWRIGHT.node("node-1", "in_progress", &["driver|1.0.0 apply erroring"]))
        .with(NODEWRIGHT.job(&place, json!({"failed": 1})))
        .with(NODEWRIGHT.pod("a", &place, "Failed", &containers));
    fake.change(|it| {
        it.logs.write("a", "driver-applycheck", "");
        it.logs.write("a", "driver-apply", "2026-11-20T11:50:02Z installed\n");
    });
    fake
}

/// The text without ages and without the sentence that is printed only for files.
fn comparable_text(text: &str) -> String {
    let ages = regex::Regex::new(r"\b\d+[smhd](\d+[smh])?\b").expect("a pattern");
    let kept = text.replace('\n', " ");
    let kept = kept.split(" Ages are relative to ").next().expect("a part");
    let kept = ages.replace_all(kept, "[age]").into_owned();
    kept.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Collects, asserts that the cluster and the capture give the same report, and returns the capture's report.
fn report_of_both(scene: &Scene, place: &str) -> Value {
    let collected = scene.collect("");
    assert!(matches!(collected.code, Some(0 | 4)), "{place}: {}", collected.transcript());
    for arguments in ["", "--all", "--no-logs"] {
        let asked = format!("diagnose stuck {arguments}");
        let (live, from) = (scene.live(&asked), scene.from(&asked));
        assert_eq!(comparable_text(&live.stdout), comparable_text(&from.stdout), "{place}");
        assert_eq!((&live.stderr, live.code), (&from.stderr, from.code), "{place}");
    }
    let asked = "diagnose stuck -o json";
    let (live, from) = (scene.live(asked), scene.from(asked));
    assert_eq!(timeless(&live), timeless(&from), "{place}");
    from.json()
}

/// Log lines of the failing package.
fn lines(report: &Value) -> Value {
    let mut findings = report["findings"].as_array().expect("findings").iter();
    let failing = findings.find(|f| f["code"] == "SKY201");
    failing.expect("a failing package")["reason"]["log"]["lines"].clone()
}

#[test]
fn failing_line_is_the_same_from_a_capture() {
    let fake = looping(2);
    let log = "2026-11-20T11:55:00Z step 1\n\
               2026-11-20T11:55:01.123456789Z \u{1b}[31mapply.sh: nvidia-smi: command not found\u{1b}[0m\n";
    fake.change(|it| {
        for n in 1..=2 {
            it.logs.write_previous(&pod(n, 2), "driver-apply", log);
        }
    });
    let report = report_of_both(&Scene::of(&fake), "a container that is started again");
    assert_eq!(lines(&report), json!(["step 1", "apply.sh: nvidia-smi: command not found"]));
}

#[test]
fn job_attempt_shown_is_the_same_from_a_capture() {
    let fake = job();
    fake.change(|it| {
        for (pod, line) in [("a", "first"), ("b", "second"), ("c", "third")] {
            let log = format!("2026-11-20T11:50:02Z {line}\n");
            it.logs.write(pod, "driver-apply", &log);
        }
    });
    let report = report_of_both(&Scene::of(&fake), "the last attempt that failed");
    assert_eq!(lines(&report), json!(["second"]));
    fake.on("GET pods/log b").reply(404);
    let report = report_of_both(&Scene::of(&fake), "its log is gone");
    assert_eq!(lines(&report), json!(["third"]));
    let report = report_of_both(&Scene::of(&silent_check()), "the container before the one that failed");
    assert_eq!(lines(&report), json!(["installed"]));
}

/// With too many pods, the logs that a report shows are read first.
#[test]
fn log_of_the_reported_pod_is_always_captured() {
    let fake = looping(230);
    fake.change(|it| {
        for n in 1..=230 {
            let log = format!("2026-11-20T11:55:00Z no such device on {n}\n");
            it.logs.write_previous(&pod(n, 230), "driver-apply", &log);
        }
    });
    let scene = Scene::of(&fake);
    let report = report_of_both(&scene, "many pods");
    assert_eq!(lines(&report), json!(["no such device on 1"]));
    let other = scene.from("diagnose stuck --node node-002").stdout;
    assert!(other.contains("Not read: 1 log (the capture does not include this log)"), "{other}");
}

/// A log that the server refused is reported as on the server; one removed from the capture is reported as
/// missing.
#[test]
fn missing_log_is_reported() {
    let fake = looping(1);
    fake.on("GET pods/log").reply(403);
    let scene = Scene::of(&fake);
    report_of_both(&scene, "refused");
    let report = scene.from("diagnose stuck").stdout;
    assert!(report.contains("Not read: 1 log (forbidden: user "), "{report}");
    let fake = looping(1);
    fake.change(|it| {
        it.logs.write_previous(&pod(1, 1), "driver-apply", "2026-11-20T11:55:00Z broken\n");
    });
    let scene = Scene::of(&fake);
    assert_eq!(scene.collect("").code, Some(0));
    let directory = scene.directory.path().join("unpacked");
    let mut log = None;
    for (name, text) in scene.files() {
        let path = directory.join(&name);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        std::fs::write(&path, text).expect("a file");
        log = log.or(name.ends_with(".log").then_some((name, path)));
    }
    let unpacked = || {
        let words = format!("diagnose stuck --from {}", directory.display());
        crate::support::run::run(&words).output().stdout
    };
    assert!(unpacked().contains("| broken"), "{}", unpacked());
    let (name, path) = log.expect("a log");
    std::fs::remove_file(path).expect("the log file exists");
    assert!(unpacked().contains(&format!("{name} is missing from the capture")), "{}", unpacked());
}

/// Masked and empty lines count the same live and in a capture.
#[test]
fn masked_lines_are_the_same_live_and_captured() {
    let fake = looping(1);
    let line = |text: &str| format!("2026-11-20T11:55:00Z {text}\n");
    let mut log: String = (0..60).map(|n| line(&format!("unpacking {n}"))).collect();
    log += &line("-----BEGIN RSA PRIVATE KEY-----");
    log += &line(&"A".repeat(64)).repeat(25);
    log += &line("-----END RSA PRIVATE KEY-----");
    log += &line("");
    log += &line("no space left on device");
    fake.change(|it| it.logs.write_previous(&pod(1, 1), "driver-apply", &log));
    let report = report_of_both(&Scene::of(&fake), "a key");
    let mut wanted: Vec<String> = (42..60).map(|n| format!("unpacking {n}")).collect();
    wanted.extend(["<masked>", "no space left on device"].map(str::to_owned));
    assert_eq!(lines(&report), json!(wanted));
}

/// Nodes that are down do not prevent other logs from being read.
#[test]
fn hanging_log_requests_do_not_cost_other_logs() {
    const ALL: usize = 40;
    const DOWN: usize = 20;
    let fake = looping(ALL);
    for n in 1..=ALL {
        let name = pod(n, ALL);
        if n > ALL - DOWN {
            fake.on(&format!("GET pods/log {name}")).reply(Reply::Hang);
        }
        let log = format!("2026-11-20T11:55:00Z no such device on {n}\n");
        fake.change(|it| it.logs.write_previous(&name, "driver-apply", &log));
    }
    let scene = Scene::of(&fake);
    let collected = scene.collect("--timeout 12s");
    collected.expect_code(4);
    let index = scene.index();
    let logs = index["logs"].as_array().expect("logs").iter();
    let (read, missing): (Vec<&Value>, Vec<&Value>) = logs.partition(|log| log["outcome"] == "read");
    let why: BTreeSet<&str> = missing.iter().filter_map(|log| log["message"].as_str()).collect();
    assert_eq!(
        (read.len(), missing.len(), why),
        (ALL - DOWN, DOWN, BTreeSet::from(["no response within 2 s"]))
    );
}

/// A long log is cut at its beginning, and secrets in it are masked.
#[test]
fn long_log_is_truncated_at_its_start_and_masked() {
    let fake = looping(1);
    let mut log = String::new();
    for n in 0..400 {
        log += &format!("2026-11-20T11:55:00Z {n} {}\n", "x".repeat(5_000));
    }
    log += "2026-11-20T11:56:00Z password=hunter2-hunter2\n2026-11-20T11:56:01Z with ghp_0123456789abcdefABCD: \
            no space left\n";
    fake.change(|it| it.logs.write_previous(&pod(1, 1), "driver-apply", &log));
    let scene = Scene::of(&fake);
    let report = report_of_both(&scene, "a long log");
    let kept: String = scene.files().into_values().collect();
    assert!(!kept.contains("ghp_") && !kept.contains("hunter2"));
    let lines = lines(&report);
    let last = lines.as_array().expect("lines").iter().rev().take(2);
    let last: Vec<&str> = last.filter_map(Value::as_str).collect();
    assert_eq!(last, ["with <masked>: no space left", "password=<masked>"]);
}

/// Without a cluster, the capture gives the same lines.
#[test]
fn package_logs_are_the_same_from_a_capture() {
    let fake = looping(2);
    fake.change(|it| {
        for n in 1..=2 {
            let line = |at: u32, text: &str| format!("2026-11-20T11:5{at}:0{n}Z {text} on {n}\n");
            let log = line(4, "begins") + &line(5, "no such device") + &line(6, "  indented");
            it.logs.write_previous(&pod(n, 2), "driver-apply", &log);
        }
    });
    let scene = Scene::of(&fake);
    assert_eq!(scene.collect("").code, Some(0));
    let words = "package logs driver --skyhook gpu";
    for flags in ["", "--timestamps", "--tail 1", "--previous", "--node node-002", "--prefix --node node-002"]
    {
        let words = format!("{words} {flags}");
        let (live, kept) = (scene.live(&words), scene.from(&words));
        live.expect_code(0);
        let result = |ran: &RunOutput| (ran.code, ran.stdout.clone(), ran.stderr.clone());
        assert_eq!(result(&kept), result(&live), "{flags}");
        kept.expect_stdout("  indented on");
    }
    fake.on("GET pods/log").reply(403);
    assert_eq!(scene.collect("--force").code, Some(4));
    let ran = scene.from(&format!("{words} --node node-001"));
    let message = "cannot read the log of driver-apply in pod/skyhook/apply-001: forbidden: ";
    ran.expect_code(1);
    ran.expect_stderr(message);
}
