//! Our own pause around a reset: its owner, pauses by others in the meantime, and what an interrupted
//! reset leaves behind.

mod concurrent_pause;
mod counts;
mod ended_pause;
#[cfg(target_os = "linux")]
mod hangup;
mod killed_reset;
mod operator_lag;

use jiff::{SignedDuration, Timestamp};
use kubectl_skyhook::api::ApiFlavor;
use serde_json::{Value, json};

use crate::support::fake_api::{Reply, State};
use crate::support::run::{Child, RunOutput};
use crate::support::test_cluster::{CR, TestCluster};

const RESET: &str = "reset gpu-tune --confirm";
const HOLD: &str = "kubectl-skyhook/hold";
const REASON: &str = "kubectl-skyhook/pause-reason";

fn erroring() -> TestCluster {
    TestCluster::captured_with_operator("apply-erroring")
}

impl TestCluster {
    fn annotation(&self, key: &str) -> Value {
        self.cr().expect("the custom resource exists")["metadata"]["annotations"][key].clone()
    }

    /// Whether the reset is complete, and the pause annotations afterwards.
    fn reset_and_paused(&self) -> (bool, Value, Value) {
        let nodes = ["node-1", "node-2", "node-3"];
        let reset = nodes.iter().all(|n| self.keys(n).is_empty());
        (reset, self.cr_annotation("pause"), self.annotation(HOLD))
    }

    /// Runs `act` during a reset.
    fn during_a_reset(&self, act: impl FnOnce()) -> RunOutput {
        self.fake.on("PATCH nodes node-2").reply(429);
        let at_work = || self.writes().iter().any(|w| w.ends_with("nodes/node-2"));
        self.with_operator(|| {
            std::thread::scope(|scope| {
                let reset = scope.spawn(|| self.command(RESET).apart().output());
                self.fake.wait_until(|| {
                    assert!(!reset.is_finished(), "it ends without a word to node-2");
                    at_work()
                });
                act();
                self.fake.heal();
                reset.join().expect("the reset ends without a panic")
            })
        })
    }

    /// Runs a reset that is killed in the middle.
    fn kill_a_reset(&self) {
        let child = Child::default();
        let at = self.fake.on("PATCH nodes node-2").nth(1);
        at.after(child.kill());
        let ran = self.with_operator(|| self.command(RESET).child(&child).output());
        assert_eq!(ran.code, None, "{}", ran.transcript());
        assert_eq!(self.cr_annotation("pause"), json!("true"));
        self.fake.heal();
    }
}

const DONE: (bool, Value, Value) = (true, Value::Null, Value::Null);

#[test]
fn pause_set_by_others_survives_the_reset() {
    let cluster = erroring();
    let ran = cluster.during_a_reset(|| {
        let pause = cluster.run("pause gpu-tune --confirm --reason mine");
        pause.expect_code(0);
        let message = "it stays paused after that command has ended";
        pause.expect_stderr(message);
    });
    ran.expect_code(0);
    let message = "skyhook/gpu-tune stays paused: paused by someone else";
    ran.expect_stderr(message);
    assert_eq!(cluster.reset_and_paused(), (true, json!("true"), Value::Null));
    assert_eq!(cluster.annotation(REASON), json!("mine"));
}

#[test]
fn pause_without_a_reason_replaces_ours() {
    let cluster = erroring();
    let ran = cluster.during_a_reset(|| cluster.run("pause gpu-tune --confirm").expect_code(0));
    ran.expect_code(0);
    assert_eq!(cluster.reset_and_paused(), (true, json!("true"), Value::Null));
    assert_eq!(cluster.annotation(REASON), Value::Null);
}

fn held_by_another(since: &Timestamp) -> Value {
    let since = since.to_string();
    let hold = json!({"by": "ann@laptop", "machine": "laptop", "process": 1, "since": since});
    json!({
        ApiFlavor::Skyhook.key("pause"): "true",
        REASON: "held for: reset gpu-tune on 3 nodes",
        HOLD: hold.to_string(),
    })
}

/// Removed and set again by another program, the pause has the same value but another field manager.
#[test]
fn pause_written_by_another_field_manager_is_kept() {
    let cluster = erroring();
    let ran = cluster.during_a_reset(|| {
        cluster.fake.change(|state: &mut State| {
            let mut cr = state.store.find("skyhooks", "", CR).cloned().expect("the custom resource exists");
            let key = format!("f:{}", ApiFlavor::Skyhook.key("pause"));
            cr["metadata"]["managedFields"] = json!([{
                "manager": "kubectl-annotate",
                "operation": "Update",
                "fieldsV1": {"f:metadata": {"f:annotations": {key: {}}}},
            }]);
            state.store.load(cr);
        });
    });
    ran.expect_code(0);
    let message = "skyhook/gpu-tune stays paused: kubectl-annotate also paused the custom resource";
    ran.expect_stderr(message);
    assert_eq!(cluster.reset_and_paused(), (true, json!("true"), Value::Null));
    assert_eq!(cluster.annotation(REASON), Value::Null);
}

#[test]
fn second_reset_does_not_claim_the_first_resets_pause() {
    let cluster = erroring();
    let ran = cluster.during_a_reset(|| {
        for words in [RESET, "resume gpu-tune --confirm"] {
            let ran = cluster.run(words);
            ran.expect_code(3);
            for message in [
                "skyhook/gpu-tune is paused by ",
                " (reset gpu-tune on 3 nodes)",
                "nothing was changed",
                "kubectl skyhook resume gpu-tune",
            ] {
                assert!(ran.stderr.contains(message), "{message}: {}", ran.transcript());
            }
        }
        assert_eq!(cluster.cr_annotation("pause"), json!("true"));
    });
    ran.expect_code(0);
    assert_eq!(cluster.reset_and_paused(), DONE);
}

#[test]
fn forced_resume_stops_the_reset() {
    let cluster = erroring();
    let ran = cluster.during_a_reset(|| {
        let ran = cluster.run("resume gpu-tune --confirm --force");
        ran.expect_code(0);
        ran.expect_stderr("which is still running");
    });
    ran.expect_code(4);
    ran.expect_stdout("stopped: skyhook/gpu-tune is no longer paused\n");
    assert_eq!(cluster.reset_and_paused(), (false, Value::Null, Value::Null));
    assert_eq!(cluster.keys("node-1"), [""; 0]);
    assert_ne!(cluster.keys("node-2"), [""; 0]);
}

/// The pause annotation is set and removed again, so a late duplicate request would find the value that it
/// expects.
#[test]
fn pause_and_resume_test_the_resource_version() {
    let cluster = erroring();
    cluster.with_operator(|| cluster.run(RESET)).expect_code(0);
    let of_cr = |w: &&crate::support::fake_api::Logged| w.path.ends_with("skyhooks/gpu-tune");
    let writes = cluster.fake.writes();
    let late: Vec<&Value> = writes.iter().filter(of_cr).map(|w| &w.body).collect();
    assert_eq!(late.len(), 2);
    let now = cluster.cr().expect("the custom resource exists")["metadata"]["resourceVersion"].clone();
    for body in late {
        let mut operations = body.as_array().expect("a JSON Patch").iter();
        let test = operations.find(|o| o["path"] == "/metadata/resourceVersion");
        let test = test.unwrap_or_else(|| panic!("{body}"));
        assert_eq!(test["op"], "test");
        assert_ne!(test["value"], now);
    }
}

/// The operator writes the status in between, which changes the resource version.
#[test]
fn pause_retries_after_a_version_conflict() {
    let cluster = erroring();
    for nth in [1, 2, 3] {
        cluster.fake.on("PATCH skyhooks").nth(nth).after(|state: &mut State| {
            let mut cr = state.store.find("skyhooks", "", CR).cloned().expect("the custom resource exists");
            cr["status"]["observedGeneration"] = json!(7);
            state.store.load(cr);
        });
    }
    cluster.with_operator(|| cluster.run(RESET)).expect_code(0);
    assert_eq!(cluster.reset_and_paused(), DONE);
}

#[test]
fn failed_resume_is_reported_last_and_the_same_command_retries_it() {
    for reply in [Reply::from(401), Reply::from(403), Reply::from(422), Reply::Cut] {
        let cluster = erroring();
        // The first write is the pause, and all others are attempts to end it.
        let tries = cluster.fake.on("PATCH skyhooks").nth(2).times(100);
        tries.reply(reply);
        let ran = cluster.with_operator(|| cluster.run(RESET));
        ran.expect_code(4);
        let says = "warning: this command left skyhook/gpu-tune paused; to resume it: \
                    kubectl skyhook resume gpu-tune\n";
        assert!(ran.stderr.ends_with(says), "{}", ran.transcript());
        assert_eq!(cluster.cr_annotation("pause"), json!("true"));
        cluster.fake.heal();
        let again = cluster.with_operator(|| cluster.run(RESET));
        again.expect_code(0);
        assert_eq!(cluster.reset_and_paused(), DONE, "{}", again.transcript());
    }
}

/// The first undo restored everything but the pause.
#[test]
fn undo_that_failed_to_resume_is_finished_by_the_same_command() {
    for with_id in [false, true] {
        let cluster = erroring();
        let before = cluster.objects();
        cluster.with_operator(|| cluster.run(RESET)).expect_code(0);
        let list = cluster.run("journal list -o json").json();
        let id = list["items"][0]["id"].as_str().expect("an id");
        let undo = format!("undo {} --confirm", if with_id { id } else { "" });
        let tries = cluster.fake.on("PATCH skyhooks").nth(2).times(100);
        tries.reply(Reply::from(403));
        let ran = cluster.with_operator(|| cluster.run(&undo));
        ran.expect_code(4);
        assert_eq!(cluster.cr_annotation("pause"), json!("true"), "{}", ran.transcript());
        cluster.fake.heal();
        let again = cluster.with_operator(|| cluster.run(&undo));
        again.expect_code(0);
        let mut now = cluster.objects();
        now[3]["status"] = before[3]["status"].clone();
        assert!(now == before, "{}", again.transcript());
    }
}

/// The age of a hold follows the server's timestamp, not the clock of the machine that wrote the hold.
#[test]
fn hold_is_as_old_as_the_server_says() {
    let cluster = erroring();
    let ahead = kubectl_skyhook::ctx::now() + SignedDuration::from_mins(4);
    let mut cr = cluster.cr().expect("the custom resource exists");
    cr["metadata"]["annotations"] = held_by_another(&ahead);
    cr["metadata"]["managedFields"] = json!([{
        "manager": "kubectl-skyhook",
        "operation": "Update",
        "time": "2026-11-20T08:00:00Z",
        "fieldsV1": {"f:metadata": {"f:annotations": {format!("f:{HOLD}"): {}}}},
    }]);
    cluster.fake.load(cr);
    let ran = cluster.with_operator(|| cluster.run(RESET));
    ran.expect_code(0);
    assert_eq!(cluster.reset_and_paused(), DONE);
}

/// A process on another machine cannot be checked, and may still be running.
#[test]
fn hold_of_another_machine_is_respected_until_stale() {
    let now = kubectl_skyhook::ctx::now();
    for (since, theirs) in [
        (now, true),
        // That machine's clock is ahead of ours, or wrong.
        (now + SignedDuration::from_mins(4), true),
        (now + SignedDuration::from_hours(24 * 365), false),
        (Timestamp::UNIX_EPOCH, false),
    ] {
        let cluster = erroring();
        let mut cr = cluster.cr().expect("the custom resource exists");
        cr["metadata"]["annotations"] = held_by_another(&since);
        cluster.fake.load(cr);
        let ran = cluster.with_operator(|| cluster.run(RESET));
        ran.expect_code(if theirs { 3 } else { 0 });
        ran.expect_no_stderr("<invalid>");
        assert_eq!(ran.stderr.contains("is paused by ann@laptop (reset"), theirs, "{}", ran.transcript());
        // `resume` ends the hold of another machine, and names its owner.
        if theirs {
            let ran = cluster.run("resume gpu-tune --confirm");
            ran.expect_code(0);
            ran.expect_stderr("ann@laptop");
        }
        assert_eq!(cluster.cr_annotation("pause"), Value::Null);
    }
}

/// Two machines may have one name and the same PID namespace, and the process of the other one cannot be seen. Older
/// versions identified the machine by these only.
#[test]
fn live_hold_of_another_machine_with_the_same_name_is_respected() {
    let now = kubectl_skyhook::ctx::now();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a host name");
    let table = std::fs::read_link("/proc/self/ns/pid").expect("a PID namespace");
    let table = table.display();
    // No process has this number.
    let ended = u32::try_from(i32::MAX).expect("a number");
    for machine in [
        format!("{} {table}", host.trim()),
        format!("boot 00000000-0000-4000-8000-000000000000 {table}"),
        String::new(),
    ] {
        let cluster = erroring();
        let hold =
            json!({"by": "ann@laptop", "machine": machine, "process": ended, "since": now.to_string()});
        let mut cr = cluster.cr().expect("the custom resource exists");
        cr["metadata"]["annotations"] = held_by_another(&now);
        cr["metadata"]["annotations"][HOLD] = hold.to_string().into();
        cluster.fake.load(cr);
        let ran = cluster.run(RESET);
        ran.expect_code(3);
        ran.expect_stderr("skyhook/gpu-tune is paused by ann@laptop (reset gpu-tune on 3 nodes)");
        assert_eq!(cluster.cr_annotation("pause"), json!("true"), "{machine}");
        let report = cluster.run("diagnose stuck -o json").json();
        let mut found = report["findings"].as_array().into_iter().flatten();
        assert!(found.all(|finding| finding["code"] != "SKY311"), "{machine}: {report:#}");
    }
}

/// Nothing would run again before the other command ends.
#[test]
fn package_retry_is_refused_while_another_command_holds_the_pause() {
    let cluster = erroring();
    let mut cr = cluster.cr().expect("the custom resource exists");
    cr["metadata"]["annotations"] = held_by_another(&kubectl_skyhook::ctx::now());
    cluster.fake.load(cr);
    let ran = cluster.run("package retry driver --skyhook gpu-tune --all-nodes --confirm");
    let refusal = ran.stderr.replace(" (started 0s ago)", "").replace(" (started 1s ago)", "");
    let expected = "\
        error: skyhook/gpu-tune is paused by ann@laptop (reset gpu-tune on 3 nodes); nothing was changed\n\
        hint: wait until that command ends; if it has ended without resuming the custom resource: kubectl skyhook resume \
        gpu-tune\n";
    assert_eq!((ran.stdout.as_str(), refusal.as_str(), ran.code), ("", expected, Some(3)));
}
