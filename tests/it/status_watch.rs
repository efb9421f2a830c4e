//! `status --watch`: how it ends, and what it prints meanwhile.

use regex::Regex;
use serde_json::{Value, json};

use crate::support::fake_api::{FakeApi, Reply};
use crate::support::object_builder::NODEWRIGHT;
use crate::support::run::{Child, RunOutput, run};
use crate::support::terminal::Terminal;
use crate::support::test_cluster::TestCluster;

fn packages() -> Value {
    json!({"driver": {"version": "1.0.0", "image": "example.com/driver"}})
}

#[expect(clippy::disallowed_methods, reason = "the command reads the clock as well")]
fn node(status: &str, entry: &str) -> Value {
    let mut node = NODEWRIGHT.node("node-1", status, &[entry]);
    // Just created, so that nothing counts as stalled.
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ");
    node["metadata"]["creationTimestamp"] = json!(now.to_string());
    node
}

/// A package is applied on the only node.
fn in_progress() -> FakeApi {
    let node = node("in_progress", "driver|1.0.0 apply in_progress");
    NODEWRIGHT.serve(packages()).with(node)
}

/// The node becomes complete once nodes are watched.
fn completing(fake: &FakeApi) {
    fake.on("WATCH nodes").nth(1).after(|it| {
        it.store.load(node("complete", "driver|1.0.0 config complete"));
        it.store.load(NODEWRIGHT.skyhook("complete", packages()));
    });
}

fn watch(fake: &FakeApi, words: &str) -> RunOutput {
    let served = fake.serve();
    run(&format!("status -w {words}")).kubeconfig(&served.kubeconfig()).output()
}

/// The lines without the time at their beginning.
fn lines(ran: &RunOutput) -> Vec<&str> {
    let lines = ran.stdout.lines();
    lines.map(|line| line.split_once(' ').map_or("", |(_, rest)| rest)).collect()
}

#[test]
fn a_pipe_gets_a_line_per_change_until_all_is_complete() {
    let fake = in_progress();
    completing(&fake);
    let ran = watch(&fake, "gpu --timeout 20s");
    assert_eq!((ran.stderr.as_str(), ran.code), ("", Some(0)));
    assert_eq!(
        lines(&ran),
        [
            "gpu  Progressing 0% (0/1): driver apply next on 1 node",
            "gpu  Complete 100% (1/1)",
            "gpu  node-1 complete",
        ]
    );
}

#[test]
fn what_is_complete_already_ends_at_once() {
    let fake = NODEWRIGHT.serve(packages()).with(node("complete", "driver|1.0.0 config complete"));
    let ran = watch(&fake, "--timeout 20s");
    assert_eq!((ran.stderr.as_str(), ran.code), ("", Some(0)));
    assert_eq!(lines(&ran), ["gpu  Complete 100% (1/1)"]);
}

#[test]
fn a_standstill_ends_with_its_cause() {
    let cluster = TestCluster::captured_with_operator("apply-erroring");
    let ran = cluster.run("status -w gpu-tune --timeout 30s");
    ran.expect_code(2);
    ran.expect_stdout("gpu-tune  Stuck 66% (2/3), 1 failed: SKY201 ");
    ran.expect_stdout("\nerror SKY201 package-erroring  gpu-tune driver on ");
}

#[test]
fn a_timeout_ends_with_5() {
    let ran = watch(&in_progress(), "--timeout 1s");
    assert_eq!((ran.stderr.as_str(), ran.code), ("error: timed out after 1s\n", Some(5)));
    assert_eq!(lines(&ran), ["gpu  Progressing 0% (0/1): driver apply next on 1 node"]);
}

/// Watches expire, and the server goes away for a moment.
#[test]
fn server_errors_do_not_end_it() {
    let fake = in_progress();
    // Each rule counts the requests that no earlier rule has answered.
    fake.on("WATCH nodewrights").nth(1).reply(410);
    let list = || fake.on("LIST nodewrights").nth(2);
    list().reply(Reply::Cut);
    list().reply(500);
    list().reply(401);
    list().reply(404);
    list().after(|it| {
        it.store.load(node("complete", "driver|1.0.0 config complete"));
        it.store.load(NODEWRIGHT.skyhook("complete", packages()));
    });
    let ran = watch(&fake, "gpu --timeout 60s");
    assert_eq!(ran.code, Some(0), "{}", ran.transcript());
    assert_eq!(
        without_times(&ran.stderr_text()),
        "warning: the API server at http://127.0.0.1:[port] does not accept the credentials (401 Unauthorized); log in again, \
         or check the kubeconfig's user and --token; trying again since [time]\n\
         the API server responds again, after [age]\n"
    );
}

/// Replaces times and ages of seconds.
fn without_times(text: &str) -> String {
    let time = Regex::new(r"\d\d:\d\d:\d\d").expect("a pattern");
    let age = Regex::new(r"\d+s\b").expect("a pattern");
    age.replace_all(&time.replace_all(text, "[time]"), "[age]").into_owned()
}

const OUTAGE: &str = "warning: the API server at http://127.0.0.1:[port] has been unreachable since [time] (connection \
                      refused); trying again\nthe API server responds again, after [age]\n";

/// A server that shuts down refuses connections, and its watches may go on for a minute.
#[test]
fn a_server_that_is_away_is_reported_at_once_and_when_it_is_back() {
    for watches_end in [true, false] {
        for words in ["status -w gpu", "wait gpu"] {
            let fake = in_progress();
            let served = fake.serve();
            // All watches are open before the second read of Deployments.
            fake.on("LIST deployments").nth(2).after(move |it| {
                it.refuse_connections(true);
                if watches_end {
                    it.store.history.disconnect();
                }
            });
            let mut running = run(&format!("{words} --timeout 60s")).kubeconfig(&served.kubeconfig()).start();
            running.expect_stderr("unreachable");
            fake.change(|it| it.refuse_connections(false));
            running.expect_stderr("responds again");
            fake.change(|it| {
                it.store.load(node("complete", "driver|1.0.0 config complete"));
                it.store.load(NODEWRIGHT.skyhook("complete", packages()));
            });
            let ran = running.output();
            let end = (without_times(&ran.stderr_text()), ran.code);
            assert_eq!(end, (OUTAGE.to_owned(), Some(0)), "{words}, watches end: {watches_end}");
        }
    }
}

#[test]
fn ctrl_c_ends_it() {
    let fake = in_progress();
    let child = Child::default();
    fake.on("WATCH nodes").nth(1).after(child.interrupt());
    let served = fake.serve();
    let ran = run("status -w").kubeconfig(&served.kubeconfig()).child(&child).output();
    assert_eq!((ran.stderr.as_str(), ran.code), ("", Some(130)));
}

#[test]
fn files_and_documents_are_refused() {
    for words in ["status -w --from tests/clusters/complete", "status -w -o json"] {
        let ran = run(words).output();
        assert_eq!((ran.stdout.as_str(), ran.code), ("", Some(64)), "{words}");
    }
}

/// The screen is drawn in place, and the last one stays.
#[test]
fn a_terminal_gets_a_screen() {
    let fake = in_progress();
    completing(&fake);
    let cluster = TestCluster::serving(fake);
    let terminal = Terminal::of(&cluster, "status -w gpu --timeout 60s", "Progressing, 0% (0/1)");
    let (rest, code) = terminal.answer(b"");
    assert_eq!(code, 0, "{rest}");
    let last = rest.rfind("gpu  Complete, 100% (1/1)").expect("the last screen");
    assert!(!rest[last..].contains("Ctrl-C"), "{rest}");
}

#[test]
fn ctrl_c_on_a_terminal_ends_the_watch() {
    let cluster = TestCluster::serving(in_progress());
    let terminal = Terminal::of(&cluster, "status -w gpu", "so far; Ctrl-C stops watching");
    let (rest, code) = terminal.answer(b"\x03");
    assert_eq!(code, 130, "{rest}");
}

#[test]
fn what_is_disabled_is_not_complete() {
    let cluster = TestCluster::from_capture("disabled-midway");
    let ran = cluster.run("status -w gpu-tune --timeout 30s");
    ran.expect_code(2);
    let why = "SKY205 the node does not start the pod for stage apply of package tuning";
    assert_eq!(lines(&ran)[0], format!("gpu-tune  Disabled 33% (1/3): disabled; {why}"));
    ran.expect_stdout("  SKY309  gpu-tune ");
    ran.expect_stdout(
        " 4  Enable the custom resource (packages run; B2)\n     kubectl skyhook enable gpu-tune\n",
    );
    assert_eq!(ran.stderr, "");
}

/// The custom resource disappears, and no read before showed a deletion request.
#[test]
fn deletion_before_completion_is_no_success() {
    let fake = in_progress();
    fake.on("WATCH nodes").nth(1).after(|it| {
        it.store.forget("nodewrights", "", "gpu");
    });
    let ran = watch(&fake, "gpu");
    ran.expect_code(1);
    assert_eq!(
        lines(&ran),
        [
            "gpu  Progressing 0% (0/1): driver apply next on 1 node",
            "gpu  Gone -: gone, but its annotations or labels are still on 1 node",
        ]
    );
    assert_eq!(ran.stderr, "error: gpu was deleted before it was complete\n");
}
