//! Our writes while the operator, or another of our commands, writes the same keys.
//!
//! The suite runs a few rounds; `RACES=100 cargo test --locked --test e2e -- race_ --nocapture` runs a
//! hundred of each race.

use std::{thread::JoinHandle, time::Duration};

use serde_json::{Value, json};

use super::writes::{annotated, applies_on, driver, run, uninstallable};
use crate::{
    cluster::Cluster,
    kubelet::{StepResult, Target},
    manifest::{package, skyhook},
    ours,
    rollout::{Rollout, pods},
    view::{complete, deleted, everywhere, that},
};

/// One round per package, which is in progress during the reset.
const ROUNDS: usize = 3;

/// Resets nodes during each package's rollout, while the operator writes the same keys.
pub fn resets_race_the_operator(cluster: &Cluster) {
    // Slow steps, so that resets happen midway.
    cluster.kubelet.pace(Duration::from_millis(200));
    cluster.annotate_node("node-1", "note-of-another", json!("kept"));
    let gpu = cluster.apply(
        &skyhook("gpu")
            .with(package("first", "1.0.0"))
            .with(package("second", "1.0.0").after("first", "1.0.0"))
            .with(package("third", "1.0.0").after("second", "1.0.0")),
    );
    let nodes = ["node-1", "node-2", "node-3"];
    let packages = ["first|1.0.0", "second|1.0.0", "third|1.0.0"];
    for round in 0..ROUNDS {
        // One node where the previous round's work is in progress, and another one.
        let (busy, other) = (nodes[round % 3], nodes[(round + 1) % 3]);
        let reached = packages[round % 3];
        gpu.until(that(&format!("{busy} has reached {reached}"), move |view| {
            view.entries(reached).iter().any(|e| e.node == busy)
        }));
        let begun = |node| cluster.kubelet.pods_started("first", "apply", node);
        let before = (begun(busy), begun(other));
        let args = ["reset", "gpu", "--node", busy, "--node", other, "--confirm"];
        run(cluster, &args);
        let context = format!("round {round}: {busy} and {other} begin anew");
        // The operator takes over a pod of the first stage that was running during the reset.
        let recorded = |node| gpu.view().entries(packages[0]).iter().any(|entry| entry.node == node);
        cluster.await_that(&context, || {
            (begun(busy) > before.0 || recorded(busy)) && (begun(other) > before.1 || recorded(other))
        });
        annotated(&gpu, "pause", Value::Null);
    }
    for each in packages {
        gpu.until(everywhere(each, "config", "complete"));
    }
    gpu.until(complete()).well();
    assert_eq!(gpu.view().annotation("node-1", "note-of-another"), Some("kept"));
}

const NODES: [&str; 3] = ["node-1", "node-2", "node-3"];

/// A user's pause during a reset stays, also if another program removes our pause and sets its own: only the
/// server's record of field managers distinguishes the two.
pub fn pause_during_a_reset_is_kept(cluster: &Cluster) {
    let gpu = held_up(cluster);
    let by_command = || {
        let words = ["pause", "gpu", "--confirm", "--reason", "mine"];
        run(cluster, &words);
    };
    let by_another = || {
        gpu.annotate("pause", Value::Null).annotate("pause", json!("true"));
    };
    let ways: [&dyn Fn(); 2] = [&by_command, &by_another];
    for way in ways {
        // A status `paused` from the previous round must not confirm the pause of this round.
        cluster.await_that("the operator says that the pause is over", || {
            gpu.view().object.expect("the custom resource exists")["status"]["status"] != "paused"
        });
        let begun = || NODES.map(|node| cluster.kubelet.pods_started("driver", "apply", node));
        let before = begun();
        // Stop the operator, so that the reset waits for it to confirm the pause.
        cluster.stop_operator();
        let first = reset(cluster);
        cluster.await_that("the reset holds the operator", || noted(&gpu, HOLD) != Value::Null);
        way();
        cluster.start_operator();
        let ran = first.join().expect("the reset does not panic");
        // Exit code 5: on a busy machine the wait may time out.
        assert!(matches!(ran.exit, Some(0 | 5)), "{ran:#?}");
        annotated(&gpu, "pause", json!("true"));
        assert_eq!(noted(&gpu, HOLD), Value::Null, "{ran:#?}");
        run(cluster, &["resume", "gpu", "--confirm"]);
        if ran.exit == Some(0) {
            // The previous pods run until the operator has seen the reset.
            cluster.await_that("all nodes begin anew", || {
                let now = begun();
                (0..NODES.len()).all(|at| now[at] > before[at])
            });
        }
        gpu.until(applies_on("driver", &NODES));
    }
    cluster.heal();
    gpu.until(complete()).well();
}

/// Neither reset takes over the other's pause, and no pause is left.
pub fn race_of_two_resets(cluster: &Cluster) {
    let gpu = held_up(cluster);
    for round in rounds("reset beside reset", 6) {
        let both = [reset(cluster), reset(cluster)];
        let ran = both.map(|one| one.join().expect("a reset does not panic"));
        let exits = [ran[0].exit, ran[1].exit];
        assert!(
            exits.contains(&Some(0)) && exits.iter().all(|e| matches!(e, Some(0 | 3))),
            "round {round}: {ran:#?}"
        );
        annotated(&gpu, "pause", Value::Null);
        assert_eq!(noted(&gpu, HOLD), Value::Null, "round {round}: {ran:#?}");
        gpu.until(applies_on("driver", &["node-1", "node-2", "node-3"]));
    }
    cluster.heal();
    gpu.until(complete()).well();
}

/// Number of rounds: `RACES`, or `few` by default.
fn rounds(what: &str, few: usize) -> std::ops::Range<usize> {
    let asked = std::env::var("RACES").ok();
    let asked = asked.map(|asked| asked.parse().expect("RACES is a number"));
    if let Some(asked) = asked {
        eprintln!("{what}: {asked} rounds");
    }
    0..asked.unwrap_or(few)
}

/// Sleeps longer in each round, so that the race hits another moment.
fn a_little_later(round: usize) {
    let step = u64::try_from(round % 20).expect("the step is small");
    std::thread::sleep(Duration::from_millis(25 * step));
}

/// A user's pause stays, whether it comes before or after the reset's.
pub fn race_of_pause_and_reset(cluster: &Cluster) {
    let gpu = held_up(cluster);
    for round in rounds("pause beside reset", 3) {
        cluster.await_that("the operator says that the pause is over", || {
            gpu.view().object.expect("the custom resource exists")["status"]["status"] != "paused"
        });
        let begun = || NODES.map(|node| cluster.kubelet.pods_started("driver", "apply", node));
        let before = begun();
        let first = reset(cluster);
        a_little_later(round);
        // The reset may pause between this command's read and its write; the command is then refused, and
        // repeated.
        cluster.await_that("it is paused", || {
            let pause = ["pause", "gpu", "--confirm", "--reason", "mine"];
            let ran = ours::run(&cluster.kubeconfig("admin"), &pause);
            assert!(matches!(ran.exit, Some(0 | 3)), "round {round}: {ran:#?}");
            ran.exit == Some(0)
        });
        let ran = first.join().expect("the reset does not panic");
        // If the user pauses between two reads of the reset, the reset needs no pause or is refused.
        let context = format!("round {round}: {ran:#?}");
        assert!(matches!(ran.exit, Some(0 | 3 | 4 | 5)), "{context}");
        annotated(&gpu, "pause", json!("true"));
        assert_eq!(noted(&gpu, HOLD), Value::Null, "{context}");
        run(cluster, &["resume", "gpu", "--confirm"]);
        if ran.exit == Some(0) {
            cluster.await_that("all nodes begin anew", || {
                let now = begun();
                (0..NODES.len()).all(|at| now[at] > before[at])
            });
        }
        gpu.until(applies_on("driver", &NODES));
    }
    cluster.heal();
    gpu.until(complete()).well();
}

/// On each node, a reset removes all keys or none, and `undo` restores all or none.
pub fn race_of_undo_and_reset(cluster: &Cluster) {
    let gpu = cluster.apply(&driver());
    gpu.until(complete());
    // A running operator would restore missing keys itself.
    cluster.stop_operator();
    let was = NODES.map(|node| keys(cluster, node));
    assert!(was.iter().all(|keys| !keys.is_empty()), "{was:?}");
    for round in rounds("undo beside reset", 5) {
        let args = ["reset", "gpu", "--no-pause", "--confirm"];
        run(cluster, &args);
        assert!(NODES.iter().all(|node| keys(cluster, node).is_empty()));
        let kubeconfig = cluster.kubeconfig("admin");
        let undo = std::thread::spawn(move || ours::run(&kubeconfig, &["undo", "--confirm"]));
        a_little_later(round % 6);
        let reset = ours::run(&cluster.kubeconfig("admin"), &args);
        let undone = undo.join().expect("undo does not panic");
        let context = format!("round {round}: {undone:#?} {reset:#?}");
        assert!(matches!(undone.exit, Some(0 | 3 | 4)), "{context}");
        assert!(matches!(reset.exit, Some(0 | 3 | 4)), "{context}");
        for (node, was) in NODES.iter().zip(&was) {
            let now = keys(cluster, node);
            assert!(now.is_empty() || now == *was, "{node} has {now:#?}: {context}");
        }
        annotated(&gpu, "pause", Value::Null);
        // Restore all keys for the next round.
        for (node, was) in NODES.iter().zip(&was) {
            for (map, key, value) in was {
                cluster.patch_node(node, json!({"metadata": {map: {key: value}}}));
            }
        }
    }
    cluster.start_operator();
    gpu.until(complete()).well();
}

/// Annotations and labels of the custom resource `gpu` on a node.
fn keys(cluster: &Cluster, node: &str) -> Vec<(String, String, Value)> {
    let node = cluster.node(node);
    let of = |map: &str| {
        let all = node["metadata"][map].as_object().cloned().unwrap_or_default();
        let map = map.to_owned();
        let ours = all.into_iter().filter(|(key, _)| key.ends_with("_gpu"));
        ours.map(move |(key, value)| (map.clone(), key, value)).collect::<Vec<_>>()
    };
    let mut keys = [of("annotations"), of("labels")].concat();
    keys.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
    keys
}

/// `finalizer strip` while the operator uninstalls: leftovers of late writes by the operator are found and
/// removed.
pub fn race_of_strip_and_operator(cluster: &Cluster) {
    let mut written_again = 0;
    for round in rounds("strip beside the operator", 3) {
        let gpu = cluster.apply(&uninstallable());
        gpu.until(complete());
        // In every other round the uninstall is in progress; in the others it is about to end.
        if round % 2 == 0 {
            cluster.result(pods("driver", "uninstall"), StepResult::Hang);
        }
        gpu.delete();
        a_little_later(round);
        let strip = ["finalizer", "strip", "gpu", "--force", "--purge-state", "--confirm"];
        let ran = ours::run(&cluster.kubeconfig("admin"), &strip);
        let context = format!("round {round}: {ran:#?}");
        // The deletion may have completed before.
        let ended = ran.stderr.contains("not found");
        assert!(matches!(ran.exit, Some(0 | 4)) || ended, "{context}");
        gpu.until(deleted());
        cluster.heal();
        cluster.await_that("its pods are gone", || gpu.view().pods.is_empty());
        gpu.stays(&deleted(), Duration::from_secs(2));
        // The operator records the progress of its last pods even if the custom resource is gone. `leftovers`
        // must find these records, and after `--clean` they must stay away.
        let left = NODES.iter().any(|node| !keys(cluster, node).is_empty());
        written_again += usize::from(left && ran.exit == Some(0));
        let found = ours::run(&cluster.kubeconfig("admin"), &["leftovers", "-o", "json"]);
        let says = found.stdout.contains(r#""skyhook": "gpu""#);
        assert!(says || !left, "{context}{found:#?}");
        run(cluster, &["leftovers", "--clean", "--purge-state", "--confirm"]);
        gpu.stays(
            &that("no key of it is on a node", |view| {
                let keys = |node: &Value| node["metadata"].to_string().contains("_gpu\"");
                !view.nodes.iter().any(keys)
            }),
            Duration::from_secs(1),
        );
    }
    eprintln!("strip beside the operator: in {written_again} rounds it wrote on a node again");
}

pub(super) const HOLD: &str = "kubectl-skyhook/hold";

/// A rollout whose packages never finish, so that the operator is busy during each reset.
pub(super) fn held_up(cluster: &Cluster) -> Rollout<'_> {
    cluster.result(Target::default(), StepResult::Hang);
    let gpu = cluster.apply(&driver());
    gpu.until(applies_on("driver", &["node-1", "node-2", "node-3"]));
    gpu
}

fn reset(cluster: &Cluster) -> JoinHandle<ours::RunResult> {
    let kubeconfig = cluster.kubeconfig("admin");
    std::thread::spawn(move || ours::run(&kubeconfig, &["reset", "gpu", "--confirm"]))
}

pub(super) fn noted(gpu: &Rollout<'_>, key: &str) -> Value {
    gpu.view().object.expect("the custom resource exists")["metadata"]["annotations"][key].clone()
}
