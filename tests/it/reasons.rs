//! `diagnose stuck` reports how a container ended and its last log lines.

mod operator;

use serde_json::{Value, json};

use crate::support::clusters;
use crate::support::fake_api::FakeApi;
use crate::support::object_builder::{NODEWRIGHT, ObjectBuilder, PackageRun, SKYHOOK};
use crate::support::run::{RunOutput, run};
use crate::support::sample::some;

fn driver() -> Value {
    json!({"driver": {"version": "1.0.0", "image": "example.com/driver"}})
}

/// A cluster whose package fails on these nodes, in a pod that restarts in place: its command is not found.
fn looping(nodes: &[&str]) -> FakeApi {
    let fake = SKYHOOK.serve(driver());
    for node in nodes {
        fake.load(SKYHOOK.node(node, "erroring", &["driver|1.0.0 apply erroring"]));
        let place = PackageRun { node, ..PackageRun::default() };
        let containers = ["driver-init done", "driver-apply looping"];
        let mut pod = SKYHOOK.pod(&format!("apply-{node}"), &place, "Pending", &containers);
        let last = &mut pod["status"]["initContainerStatuses"][1]["lastState"]["terminated"];
        last["exitCode"] = json!(127);
        fake.load(pod);
    }
    fake
}

fn wrote(fake: &FakeApi, pod: &str, lines: &[&str]) {
    let lines = lines.iter().map(|line| format!("2026-11-20T11:55:00Z {line}\n"));
    let text: String = lines.collect();
    fake.change(|it| it.logs.write_previous(pod, "driver-apply", &text));
}

fn stuck(fake: &FakeApi, words: &str) -> RunOutput {
    let served = fake.serve();
    run(&format!("diagnose stuck {words}")).kubeconfig(&served.kubeconfig()).output()
}

fn asked(fake: &FakeApi) -> Vec<String> {
    let lines = fake.lines().into_iter();
    lines.filter(|line| line.contains("/log?")).collect()
}

/// The output without ages.
fn shown(ran: &RunOutput) -> String {
    let ages = regex::Regex::new(r"\b\d+[dh](\d+[hm])?\b").expect("a pattern");
    ages.replace_all(&ran.transcript(), "[age]").into_owned()
}

/// Events say why a pod ended where its status does not, and the events of other pods and times say nothing.
#[test]
fn events_show_why_pods_ended() {
    for rule in ["package_erroring.ended", "package_pods_evicted.others"] {
        let ran = run(&format!("diagnose stuck --all --from tests/rules/{rule}.yaml")).output();
        insta::assert_snapshot!(format!("events_{rule}"), ran.transcript());
    }
}

#[test]
fn finding_shows_the_failing_log_line() {
    let fake = looping(&["node-1"]);
    wrote(
        &fake,
        "apply-node-1",
        &["step 1", "\u{1b}[31mapply.sh: line 3: nvidia-smi: command not found\u{1b}[0m"],
    );
    insta::assert_snapshot!(shown(&stuck(&fake, "--rule SKY201")));
    assert_eq!(asked(&fake).len(), 1, "{:?}", asked(&fake));
    let json = stuck(&fake, "--rule SKY201 -o json").json();
    let reason = &json["findings"][0]["reason"];
    assert_eq!(
        (&reason["exitCode"], &reason["meaning"], &reason["log"]["lines"]),
        (
            &json!(127),
            &json!("command not found"),
            &json!(["step 1", "apply.sh: line 3: nvidia-smi: command not found"])
        )
    );
}

/// The image was built for another architecture.
#[test]
fn exec_format_error_names_the_architecture_of_the_node() {
    let fake = SKYHOOK.serve(driver());
    let mut node = SKYHOOK.node("node-1", "erroring", &["driver|1.0.0 apply erroring"]);
    node["status"]["nodeInfo"]["architecture"] = "arm64".into();
    fake.load(node);
    let place = PackageRun { node: "node-1", ..PackageRun::default() };
    let containers = ["driver-init done", "driver-apply looping"];
    let mut pod = SKYHOOK.pod("apply-node-1", &place, "Pending", &containers);
    let last = &mut pod["status"]["initContainerStatuses"][1]["lastState"]["terminated"];
    last["message"] = "exec /skyhook-package/apply.sh: exec format error".into();
    fake.load(pod);
    let json = stuck(&fake, "--rule SKY201 -o json").json();
    let evidence = json["findings"][0]["evidence"].as_array().expect("a list");
    let named = evidence.iter().find(|e| e["field"] == "status.nodeInfo.architecture");
    let named = named.unwrap_or_else(|| panic!("{json:#}"));
    assert_eq!(named["value"], "arm64");
    assert_eq!(named["object"], "node/node-1");
}

#[test]
fn one_log_is_requested_per_group() {
    let fake = looping(&["node-1", "node-2", "node-3"]);
    for node in 1..=3 {
        wrote(&fake, &format!("apply-node-{node}"), &["no such device"]);
    }
    let ran = stuck(&fake, "--rule SKY201");
    ran.expect_stdout("| no such device");
    assert_eq!(asked(&fake).len(), 1, "{:?}", asked(&fake));
}

#[test]
fn no_logs_flag_requests_no_log_but_shows_the_exit_code() {
    let fake = looping(&["node-1"]);
    wrote(&fake, "apply-node-1", &["no such device"]);
    let ran = stuck(&fake, "--rule SKY201 --no-logs");
    ran.expect_no_stdout("no such device");
    ran.expect_stdout("exit code 127 (command not found)");
    assert_eq!(asked(&fake), Vec::<String>::new());
    assert_eq!(ran.code, Some(2));
}

#[test]
fn refused_log_adds_one_line_only() {
    let fake = looping(&["node-1"]);
    let before = stuck(&fake, "--no-logs");
    fake.on("GET pods/log").reply(403);
    let ran = stuck(&fake, "");
    assert_eq!((ran.code, ran.stderr.as_str()), (before.code, ""));
    let more: Vec<&str> = ran.stdout.lines().filter(|line| !before.stdout.contains(line)).collect();
    assert_eq!(more.len(), 1, "{more:?}");
    assert!(more[0].starts_with("Not read: 1 log (forbidden: user "), "{more:?}");
}

#[test]
fn hanging_log_request_is_given_up() {
    let fake = looping(&["node-1"]);
    fake.on("GET pods/log").reply(crate::support::fake_api::Reply::Hang);
    let begun = std::time::Instant::now();
    let ran = stuck(&fake, "");
    assert!(begun.elapsed() < std::time::Duration::from_secs(10));
    ran.expect_stdout("Not read: 1 log (no response within a second)");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(2), ""));
}

/// Secrets in every form that a script may print, in logs, event messages and container messages.
#[test]
fn secrets_in_logs_and_events_are_masked() {
    let planted = [
        "DB_PASSWORD=hunter2",
        "+ login --token hunter2",
        "Authorization: Bearer hunter2",
        r#"{"apiKey":"hunter2"}"#,
        "tok\u{1b}[0men: hunter2",
        "https://me:hunter2@host/x",
    ];
    let fake = looping(&["node-1"]);
    wrote(&fake, "apply-node-1", &planted);
    let mut pod = fake.get("pods", SKYHOOK.namespace(), "apply-node-1").expect("the pod");
    let last = &mut pod["status"]["initContainerStatuses"][1]["lastState"]["terminated"];
    last["message"] = planted.join("\n").into();
    fake.load(pod);
    fake.load(event("Pod", "apply-node-1", "BackOff", &planted.join(" "), 3, SKYHOOK));
    for words in ["", "--all", "-o json", "-o yaml", "-o wide"] {
        let ran = stuck(&fake, words);
        assert!(!ran.transcript().contains("hunter2"), "{}", ran.transcript());
        assert!(ran.transcript().contains("<masked>"), "{}", ran.transcript());
    }
}

fn event(kind: &str, name: &str, reason: &str, message: &str, count: i64, of: ObjectBuilder) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": format!("{name}-{reason}"), "namespace": of.namespace()},
        "involvedObject": {"kind": kind, "name": name, "namespace": of.namespace()},
        "type": "Warning", "reason": reason, "message": message, "count": count,
        "firstTimestamp": "2026-11-20T11:51:00Z", "lastTimestamp": "2026-11-20T11:58:00Z",
    })
}

#[test]
fn equal_events_are_counted_together() {
    let place = PackageRun { job: Some("apply-1"), ..PackageRun::default() };
    let fake = NODEWRIGHT
        .serve(driver())
        .with(NODEWRIGHT.node("node-1", "in_progress", &["driver|1.0.0 apply in_progress"]))
        .with(NODEWRIGHT.job(&place, json!({})))
        .with(event("Job", "apply-1", "FailedCreate", "exceeded quota: pods", 12, NODEWRIGHT))
        .with(event("Pod", "apply-1-abcde", "BackOff", "back-off 10s", 3, NODEWRIGHT))
        .with(event("Pod", "apply-1-bcdef", "BackOff", "back-off 10s", 4, NODEWRIGHT));
    let json = stuck(&fake, "--rule SKY220 -o json").json();
    let events = json["findings"][0]["reason"]["events"].as_array();
    let events = events.unwrap_or_else(|| panic!("{json:#}"));
    let events: Vec<String> =
        events.iter().map(|e| format!("{} {} {}", e["reason"], e["count"], e["message"])).collect();
    assert_eq!(events, [r#""FailedCreate" 12 "exceeded quota: pods""#, r#""BackOff" 7 "back-off 10s""#]);
}

/// The log of the failed attempt is shown even if the next attempt runs; if that log is gone, the log of the
/// running attempt.
#[test]
fn log_of_the_failed_job_attempt_is_shown() {
    let place = |at| PackageRun { job: Some("apply-1"), at, ..PackageRun::default() };
    let (first, second, third) = ("2026-11-20T11:50:00Z", "2026-11-20T11:51:00Z", "2026-11-20T11:52:00Z");
    let failed = ["driver-init done", "driver-apply failed"];
    let fake = NODEWRIGHT
        .serve(driver())
        .with(NODEWRIGHT.node("node-1", "in_progress", &["driver|1.0.0 apply erroring"]))
        .with(NODEWRIGHT.job(&place(first), json!({"failed": 2, "active": 1})))
        .with(NODEWRIGHT.pod("a", &place(first), "Failed", &failed))
        .with(NODEWRIGHT.pod("b", &place(second), "Failed", &failed))
        .with(NODEWRIGHT.pod("c", &place(third), "Pending", &["driver-init done", "driver-apply running"]));
    fake.change(|it| {
        it.logs.write("a", "driver-apply", "2026-11-20T11:50:02Z first\n");
        it.logs.write("b", "driver-apply", "2026-11-20T11:51:02Z second\n");
        it.logs.write("c", "driver-apply", "2026-11-20T11:52:02Z third\n");
    });
    let line = |fake: &FakeApi| {
        let json = stuck(fake, "--rule SKY201 -o json").json();
        json["findings"][0]["reason"]["log"]["lines"][0].clone()
    };
    assert_eq!(line(&fake), "second");
    fake.on("GET pods/log b").reply(404);
    assert_eq!(line(&fake), "third");
}

/// The log tail that the operator keeps of an interrupt without pods is in the capture.
#[test]
fn operator_log_tail_is_shown_from_files() {
    let captured = clusters::named("nodewright-interrupt-restart-limit");
    let ran = run(&format!("diagnose stuck -o json --from {}", captured.path())).output();
    let json = ran.json();
    let findings = json["findings"].as_array().expect("findings");
    let logs: Vec<&Value> = findings.iter().map(|f| &f["reason"]["log"]["lines"]).collect();
    assert!(logs.iter().any(|lines| lines.is_array()), "{json:#}");
}

#[test]
fn log_requests_of_50_groups_run_in_parallel() {
    let fake = SKYHOOK.serve(json!({}));
    for n in 0..50 {
        let package = format!("p{n}");
        let mut skyhook =
            SKYHOOK.skyhook("in_progress", json!({&package: {"version": "1.0.0", "image": "example.com/p"}}));
        skyhook["metadata"]["name"] = format!("gpu-{n}").into();
        fake.load(skyhook);
        let place = PackageRun { node: "node-1", package: &package, ..PackageRun::default() };
        let pod = SKYHOOK.pod(&format!("pod-{n}"), &place, "Pending", &[&format!("{package}-apply looping")]);
        let text = pod.to_string().replace(r#"\"skyhook\":\"gpu\""#, &format!(r#"\"skyhook\":\"gpu-{n}\""#));
        fake.load(serde_json::from_str(&text).expect("a pod"));
        fake.change(|it| {
            it.logs.write_previous(
                &format!("pod-{n}"),
                &format!("{package}-apply"),
                "2026-11-20T11:50:02Z broken\n",
            );
        });
    }
    let mut node = SKYHOOK.node("node-1", "", &[]);
    for n in 0..50 {
        let entry = json!({format!("p{n}|1.0.0"): {"name": format!("p{n}"), "version": "1.0.0", "image": "example.com/p",
            "stage": "apply", "state": "erroring"}});
        let (of, name) = (SKYHOOK.0, format!("gpu-{n}"));
        let key = kubectl_skyhook::api::keys::node_state(of, &name);
        node["metadata"]["annotations"][key] = entry.to_string().into();
    }
    fake.load(node);
    let json = stuck(&fake, "--rule SKY201 -o json").json();
    let findings = json["findings"].as_array().expect("findings");
    let with = findings.iter().filter(|f| f["reason"]["log"]["lines"][0] == "broken");
    assert_eq!((findings.len(), with.count()), (50, 50));
}

#[test]
fn every_remedy_states_impact_and_undo() {
    for captured in some(clusters::all(), 20) {
        let ran = run(&format!("diagnose stuck --all -o json --from {}", captured.path())).output();
        let json = ran.json();
        let findings = json["findings"].as_array().expect("findings").iter();
        let remedies = findings.flat_map(|f| f["remedies"].as_array().expect("remedies").clone());
        for remedy in remedies {
            let (own, reads) = (remedy["argv"][1] == "skyhook", remedy["grade"] == "B0");
            assert_eq!(remedy.get("undo").is_none(), reads, "{remedy:#}");
            let known = remedy["argv"][2] == "finalizer" || remedy["argv"][3] == "retry" || !own;
            assert_eq!(remedy["undo"] == "No", known && !reads, "{remedy:#}");
        }
    }
}
