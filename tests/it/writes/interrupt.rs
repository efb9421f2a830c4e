//! Ctrl-C while the binary writes: nothing is half done, the rest is reported, and both retry and undo work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kubectl_skyhook::api::ApiFlavor;
use serde_json::{Value, json};

use super::{TestCluster, acknowledged};
use crate::support::fake_api::{Reply, State};
use crate::support::object_builder::{NAME, SKYHOOK};
use crate::support::run::{Child, RunOutput};

const NODES: usize = 60;

/// A custom resource on many nodes, and an operator that acknowledges pauses and resumes at once.
struct LargeReset(TestCluster);

impl LargeReset {
    fn new() -> LargeReset {
        let driver = json!({"driver": {"version": "1.0.0", "image": "example.com/driver"}});
        let fake = SKYHOOK.serve(driver);
        for number in 0..NODES {
            let name = format!("node-{number:02}");
            fake.load(SKYHOOK.node(&name, "in_progress", &["driver|1.0.0 apply in_progress"]));
        }
        fake.on("GET skyhooks").after(|state: &mut State| {
            let cr = state.store.find("skyhooks", "", NAME).cloned();
            if let Some(cr) = cr.and_then(acknowledged) {
                state.store.load(cr);
            }
        });
        LargeReset(TestCluster::serving(fake))
    }

    fn run(&self, words: &str, child: &Child) -> RunOutput {
        self.0.command(words).child(child).output()
    }

    /// Runs a command, and interrupts it at the n-th request that matches.
    fn interrupted(&self, words: &str, pattern: &str, nth: usize) -> RunOutput {
        let child = Child::default();
        self.0.fake.on(pattern).nth(nth).after(child.interrupt());
        self.run(words, &child)
    }

    fn nodes(&self) -> Vec<Value> {
        let node = |n: usize| self.0.fake.get("nodes", "", &format!("node-{n:02}"));
        (0..NODES).map(|n| without_server_metadata(node(n).expect("the node exists"))).collect()
    }

    /// How many nodes are reset; asserts that none is partly reset.
    fn reset(&self, before: &[Value]) -> usize {
        let mut reset = 0;
        for (node, before) in self.nodes().iter().zip(before) {
            let left = node["metadata"]["annotations"].as_object().map_or(0, |map| map.len());
            match left {
                0 => reset += 1,
                _ => assert_eq!(node, before, "half done"),
            }
        }
        reset
    }

    fn paused(&self) -> bool {
        let cr = self.0.fake.get("skyhooks", "", NAME).expect("the custom resource exists");
        cr["metadata"]["annotations"][ApiFlavor::Skyhook.key("pause")] == "true"
    }
}

/// The object without server metadata.
fn without_server_metadata(mut object: Value) -> Value {
    let metadata = object["metadata"].as_object_mut().expect("metadata");
    metadata.retain(|key, value| {
        !matches!(key.as_str(), "resourceVersion" | "managedFields") && *value != json!({})
    });
    object
}

/// The requests at which the reset is interrupted: during the pause, at the first node, in the middle, at the
/// last node, and at the batches.
const MOMENTS: [(&str, usize); 6] = [
    ("PATCH skyhooks", 1),
    ("PATCH nodes", 1),
    ("PATCH nodes", 17),
    ("PATCH nodes", 40),
    ("PATCH nodes", NODES),
    ("PATCH skyhooks/status", 1),
];

/// Whether the interrupt came before the end of the command. During the last response it may come too late;
/// then the reset must be complete.
fn interrupted_in_time(ran: &RunOutput, reset: usize) -> bool {
    let in_time = !(ran.code == Some(0) && reset == NODES);
    assert_eq!(ran.code == Some(130), in_time, "{}", ran.transcript());
    in_time
}

const RESET: &str = "reset gpu --confirm --max-parallel 4";
const REVIEWS: &str = "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

#[test]
fn interrupt_during_the_permission_check_prevents_writes() {
    let wide = LargeReset::new();
    let ran = wide.interrupted(RESET, REVIEWS, 1);
    ran.expect_code(130);
    assert_eq!(wide.0.writes(), [""; 0]);
    let says = "reset gpu on 60 nodes: 61 not reached\ninterrupted before any change was made\n";
    assert_eq!(ran.stdout, says, "{}", ran.transcript());
    let undo = wide.run("undo --confirm", &Child::default());
    undo.expect_code(1);
    assert!(undo.stderr.contains("nothing to undo"), "{}", undo.transcript());
}

#[test]
fn undo_works_after_an_interrupt_at_any_moment() {
    for (pattern, nth) in MOMENTS {
        let wide = LargeReset::new();
        let before = wide.nodes();
        let ran = wide.interrupted(RESET, pattern, nth);
        let moment = format!("{pattern} {nth}: {}", ran.transcript());
        let reset = wide.reset(&before);
        let in_time = interrupted_in_time(&ran, reset);
        // The pause was removed before any node was written.
        let put_back = in_time && reset == 0;
        let says = if put_back {
            ": nothing changed, 61 not reached\ninterrupted; the pause was removed\n"
        } else {
            "\ninterrupted; requests in flight were completed\n"
        };
        assert_eq!(ran.stdout.contains(says), in_time, "{moment}");
        assert!(reset < NODES || nth == NODES || pattern.contains("status"), "{moment}");
        assert!(!wide.paused(), "{moment}");
        let next = "rerun the command to finish the remaining steps; its preview may also list completed steps; to undo: kubectl skyhook undo ";
        assert_eq!(ran.stdout.contains(next), in_time && !put_back, "{moment}");
        let undone = wide.run("undo --confirm --max-parallel 4", &Child::default());
        // `undo` skips a command that changed nothing, and there is no older one.
        let nothing = undone.stderr.starts_with("error: nothing to undo: ");
        assert_eq!(nothing, put_back, "{moment}{}", undone.transcript());
        let code = Some(i32::from(put_back));
        assert_eq!(undone.code, code, "{moment}{}", undone.transcript());
        assert_eq!(wide.nodes(), before, "{moment}{}", undone.transcript());
    }
}

#[test]
fn same_command_finishes_after_an_interrupt_at_any_moment() {
    for (pattern, nth) in MOMENTS {
        let wide = LargeReset::new();
        let before = wide.nodes();
        let ran = wide.interrupted(&format!("{RESET} -o json"), pattern, nth);
        let json = ran.json();
        let ended = if interrupted_in_time(&ran, wide.reset(&before)) { "interrupted" } else { "finished" };
        assert_eq!(json["ended"], json!(ended));
        let results = json["steps"].as_array().expect("steps").iter();
        let applied = results.filter(|s| {
            s["result"] == "applied" && s["target"].as_str().is_some_and(|t| t.starts_with("node/"))
        });
        assert_eq!(applied.count(), wide.reset(&before), "{pattern} {nth}");
        let again = wide.run(RESET, &Child::default());
        again.expect_code(0);
        assert_eq!(wide.reset(&before), NODES, "{}", again.transcript());
        // No node was written twice.
        let writes = wide.0.fake.writes();
        let to_nodes = writes.iter().filter(|w| w.path.starts_with("/api/v1/nodes/"));
        assert_eq!(to_nodes.count(), NODES, "{pattern} {nth}");
    }
}

#[test]
fn interrupted_undo_is_finished_by_the_next_undo() {
    let wide = LargeReset::new();
    let before = wide.nodes();
    wide.run(RESET, &Child::default()).expect_code(0);
    let undo = "undo --confirm --max-parallel 4";
    wide.interrupted(undo, "PATCH nodes", NODES / 2).expect_code(130);
    let left = wide.reset(&before);
    assert!(left > 0 && left < NODES, "{left}");
    wide.run(undo, &Child::default()).expect_code(0);
    assert_eq!(wide.nodes(), before);
}

/// One request hangs, so that the first interrupt waits for it.
#[test]
fn second_interrupt_exits_at_once_and_keeps_the_journal() {
    let wide = LargeReset::new();
    let before = wide.nodes();
    wide.0.fake.on("PATCH nodes").nth(20).reply(Reply::Hang);
    let child = Child::default();
    let (fake, impatient) = (wide.0.fake.clone(), child.clone());
    let ended = Arc::new(AtomicBool::new(false));
    let over = ended.clone();
    let fingers = std::thread::spawn(move || {
        let hangs = || fake.writes().iter().filter(|w| w.path.contains("nodes/")).count() >= 20;
        fake.wait_until(hangs);
        // Two signals in quick succession may count as one, so repeat the signal until the process has ended.
        while !over.load(Ordering::Relaxed) {
            impatient.interrupt::<()>()(&mut ());
        }
    });
    let ran = wide.run(RESET, &child);
    ended.store(true, Ordering::Relaxed);
    let _ = fingers.join();
    ran.expect_code(130);
    let says = "error: interrupted twice; requests in flight may or may not have completed\n";
    ran.expect_stderr(says);
    assert!(wide.reset(&before) < NODES);
    // The interrupted command had no time to resume the operator; `undo` resumes it and reverts the nodes.
    wide.run("undo --confirm", &Child::default()).expect_code(0);
    assert_eq!(wide.nodes(), before);
    assert!(!wide.paused());
}
