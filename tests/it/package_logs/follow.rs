//! `-f`: new lines, new attempts and nodes, broken connections, and the end.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{NODEWRIGHT, SKYHOOK, driver, logs, requested_logs};
use crate::support::fake_api::{FakeApi, Reply, State};
use crate::support::object_builder::PackageRun;
use crate::support::run::{Child, RunOutput, run};

const FOLLOW: &str = "driver -f";
const READ: &str = "GET pods/log";
const WATCH: &str = "WATCH pods";
const PATIENCE: Duration = Duration::from_secs(60);

fn applying(containers: &[&str]) -> FakeApi {
    SKYHOOK
        .serve(driver())
        .with(SKYHOOK.node("node-1", "in_progress", &["driver|1.0.0 apply in_progress"]))
        .with(SKYHOOK.pod("p", &PackageRun::default(), "Pending", containers))
}

/// The stage completes: the pod is deleted, and the node state is updated.
fn finish(it: &mut State) {
    it.logs.end("p", "driver-apply");
    it.store.forget("pods", SKYHOOK.namespace(), "p");
    it.store.load(SKYHOOK.node("node-1", "complete", &["driver|1.0.0 config complete"]));
}

/// Follows the logs while `meanwhile` changes the cluster.
fn follow(fake: &FakeApi, meanwhile: impl FnOnce() + Send) -> RunOutput {
    let child = Child::default();
    let served = fake.serve();
    let command = format!("package logs {FOLLOW} --skyhook gpu");
    let command = run(&command).kubeconfig(&served.kubeconfig()).child(&child);
    std::thread::scope(|scope| {
        let command = scope.spawn(|| command.output());
        let done = scope.spawn(meanwhile).join();
        if done.is_err() {
            child.kill()(&mut ());
        }
        let ran = command.join().expect("the command ends without a panic");
        done.expect("`meanwhile` does not panic");
        ran
    })
}

/// Waits until a log of the pod was requested this many times.
fn until_asked(fake: &FakeApi, pod: &str, times: usize) {
    let begun = Instant::now();
    let of_pod = || requested_logs(fake).iter().filter(|a| a.starts_with(pod)).count();
    fake.wait_until(|| {
        assert!(begun.elapsed() < PATIENCE, "{:?}", fake.lines());
        of_pod() >= times
    });
}

#[test]
fn following_ends_when_the_package_is_complete() {
    let fake = applying(&["driver-apply running"]);
    fake.change(|it| it.logs.write("p", "driver-apply", "2026-11-20T11:51:00Z one\n"));
    let ran = follow(&fake, || {
        until_asked(&fake, "p", 1);
        fake.change(|it| {
            it.logs.write("p", "driver-apply", "2026-11-20T11:51:01Z two\n");
            it.logs.end("p", "driver-apply");
        });
        // By the pod's status the container still runs, so its log is requested again.
        until_asked(&fake, "p", 2);
        fake.change(finish);
    });
    assert_eq!(
        ran.parts(),
        ("one\ntwo\n", "node-1 driver-apply:\nNo more output from driver on 1 node.\n", Some(0))
    );
}

#[test]
fn refused_log_fails_at_the_end() {
    let fake = applying(&["driver-apply running"]);
    fake.on(READ).reply(403);
    fake.on(WATCH).nth(1).after(finish);
    insta::assert_snapshot!(logs(&fake, FOLLOW).transcript());
}

#[test]
fn broken_stream_reconnects_without_duplicate_lines() {
    let fake = applying(&["driver-apply running"]);
    fake.change(|it| {
        let text = "2026-11-20T11:51:00.1Z one\n2026-11-20T11:51:00.1Z two\n2026-11-20T11:51:00.2Z three\n2026-11-20T11:51:00.3Z four\n";
        it.logs.write("p", "driver-apply", text);
    });
    fake.on(READ).times(1).reply(Reply::Half);
    fake.on(READ).times(1).reply(Reply::Cut);
    fake.on(READ).times(1).reply(500);
    let ran = follow(&fake, || {
        until_asked(&fake, "p", 4);
        fake.change(|it| it.logs.end("p", "driver-apply"));
        until_asked(&fake, "p", 5);
        fake.change(finish);
    });
    assert_eq!((ran.stdout.as_str(), ran.code), ("one\ntwo\nthree\nfour\n", Some(0)));
    assert_eq!(
        requested_logs(&fake)[..2],
        [
            "p?container=driver-apply&follow=true&timestamps=true",
            "p?container=driver-apply&follow=true&sinceTime=2026-11-20T11:51:00Z&timestamps=true",
        ]
    );
}

#[test]
fn each_container_run_is_shown_once() {
    let fake = applying(&["driver-apply looping"]);
    fake.change(|it| it.logs.write_previous("p", "driver-apply", "2026-11-20T11:51:00Z fifth run\n"));
    fake.on(WATCH).nth(1).after(|it| {
        let mut pod = SKYHOOK.pod("p", &PackageRun::default(), "Pending", &["driver-apply running"]);
        pod["status"]["initContainerStatuses"][0]["restartCount"] = 5.into();
        it.store.load(pod);
        it.logs.write("p", "driver-apply", "2026-11-20T11:52:00Z sixth run\n");
    });
    let ran = follow(&fake, || {
        until_asked(&fake, "p", 2);
        fake.change(finish);
    });
    assert_eq!((ran.stdout.as_str(), ran.code), ("fifth run\nsixth run\n", Some(0)));
}

#[test]
fn new_attempts_are_followed_until_the_job_fails() {
    let place = |at| PackageRun { job: Some("apply-1"), at, ..PackageRun::default() };
    let (first, second) = ("2026-11-20T11:50:00Z", "2026-11-20T11:51:00Z");
    let fake = NODEWRIGHT
        .serve(driver())
        .with(NODEWRIGHT.node("node-1", "in_progress", &["driver|1.0.0 apply in_progress"]))
        .with(NODEWRIGHT.job(&place(first), json!({"active": 1})))
        .with(NODEWRIGHT.pod("a", &place(first), "Running", &["driver-apply running"]));
    fake.change(|it| it.logs.write("a", "driver-apply", "2026-11-20T11:50:02Z first\n"));
    fake.on(WATCH).nth(1).after(move |it| {
        it.logs.end("a", "driver-apply");
        it.store.load(NODEWRIGHT.pod("a", &place(first), "Failed", &["driver-apply failed"]));
        it.store.load(NODEWRIGHT.pod("b", &place(second), "Running", &["driver-apply running"]));
        it.logs.write("b", "driver-apply", "2026-11-20T11:51:02Z second\n");
    });
    let gives_up = move |it: &mut State| {
        it.logs.end("b", "driver-apply");
        it.store.load(NODEWRIGHT.pod("b", &place(second), "Failed", &["driver-apply failed"]));
        it.store.load(NODEWRIGHT.node("node-1", "erroring", &["driver|1.0.0 apply erroring"]));
        let status = json!({"failed": 2, "conditions": [
            {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"},
        ]});
        it.store.load(NODEWRIGHT.job(&place(first), status));
    };
    let ran = follow(&fake, || {
        until_asked(&fake, "b", 1);
        fake.change(gives_up);
    });
    assert_eq!(
        ran.parts(),
        (
            "first\nsecond\n",
            "node-1 driver-apply:\n\
             node-1 apply (job/nodewright/apply-1): driver-apply Error, exit code 3; the job has failed: BackoffLimitExceeded; 1 \
             earlier attempt kept: --previous\n\
             No more output from driver on 1 node.\n",
            Some(0)
        )
    );
}

#[test]
fn node_that_starts_later_is_followed() {
    let fake = applying(&["driver-apply running"]).with(SKYHOOK.node("node-2", "", &[]));
    fake.change(|it| it.logs.write("p", "driver-apply", "2026-11-20T11:51:00Z one\n"));
    let goes_on = |it: &mut State| {
        finish(it);
        let place = PackageRun { node: "node-2", ..PackageRun::default() };
        it.store.load(SKYHOOK.pod("q", &place, "Pending", &["driver-apply running"]));
        it.logs.write("q", "driver-apply", "2026-11-20T11:52:00Z two\n");
    };
    let ran = follow(&fake, || {
        until_asked(&fake, "p", 1);
        fake.change(goes_on);
        until_asked(&fake, "q", 1);
        fake.change(|it| {
            it.logs.end("q", "driver-apply");
            it.store.forget("pods", SKYHOOK.namespace(), "q");
            let done = ["driver|1.0.0 config complete"];
            it.store.load(SKYHOOK.node("node-2", "complete", &done));
        });
    });
    assert_eq!(
        ran.parts(),
        (
            "node-1 driver-apply │ one\nnode-2 driver-apply │ two\n",
            "No more output from driver on 2 nodes.\n",
            Some(0)
        )
    );
}

#[test]
fn temporary_server_errors_are_tolerated_and_reported_once() {
    let fake = applying(&["driver-apply running"]);
    fake.change(|it| it.logs.write("p", "driver-apply", "2026-11-20T11:51:00Z one\n"));
    fake.on(WATCH).times(5).reply(500);
    fake.on(WATCH).nth(1).after(finish);
    let ran = logs(&fake, FOLLOW);
    assert_eq!((ran.stdout.as_str(), ran.code), ("one\n", Some(0)));
    let warnings = ran.stderr.lines().filter(|l| l.starts_with("warning")).count();
    assert_eq!(warnings, 1, "{}", ran.stderr);
}

#[test]
fn nothing_to_follow_ends_at_once() {
    let fake =
        SKYHOOK.serve(driver()).with(SKYHOOK.node("node-1", "complete", &["driver|1.0.0 config complete"]));
    assert_eq!(logs(&fake, FOLLOW).stderr, logs(&fake, "driver").stderr);
}

#[test]
fn interrupt_ends_following() {
    let fake = applying(&["driver-apply running"]);
    fake.change(|it| {
        it.logs.write("p", "driver-apply", "2026-11-20T11:51:00Z one\n");
    });
    // The stream ends while the container runs, so the log is requested again; the line is printed before
    // that.
    fake.change(|it| it.logs.end("p", "driver-apply"));
    let child = Child::default();
    fake.on(READ).nth(2).after(child.interrupt());
    let served = fake.serve();
    let ran = run(&format!("package logs {FOLLOW} --skyhook gpu"))
        .kubeconfig(&served.kubeconfig())
        .child(&child)
        .output();
    assert_eq!(ran.parts(), ("one\n", "node-1 driver-apply:\n", Some(130)));
}
