//! Our writes while the operator writes the same keys.

use std::{thread::JoinHandle, time::Duration};

use serde_json::{Value, json};

use super::writes::{annotated, applies_on, driver, run};
use crate::{
    cluster::Cluster,
    kubelet::{Fate, Target},
    manifest::{package, skyhook},
    ours,
    rollout::Rollout,
    view::{complete, everywhere, that},
};

/// Each resets two nodes, at another package.
const ROUNDS: usize = 3;

/// Resets of nodes at every package while the operator writes the same keys.
pub fn resets_race_the_operator(cluster: &Cluster) {
    // Slow enough to fall into the middle of something.
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
        // One node in the middle of what the last round began, and another one.
        let (busy, other) = (nodes[round % 3], nodes[(round + 1) % 3]);
        let reached = packages[round % 3];
        gpu.until(that(
            &format!("{busy} has reached {reached}"),
            move |view| view.entries(reached).iter().any(|e| e.node == busy),
        ));
        let begun = |node| cluster.kubelet.begun("first", "apply", node);
        let before = (begun(busy), begun(other));
        let args = ["reset", "gpu", "--node", busy, "--node", other, "--confirm"];
        run(cluster, &args);
        let told = format!("round {round}: {busy} and {other} begin anew");
        cluster.await_that(&told, || begun(busy) > before.0 && begun(other) > before.1);
        annotated(&gpu, "pause", Value::Null);
    }
    for each in packages {
        gpu.until(everywhere(each, "config", "complete"));
    }
    gpu.until(complete()).well();
    assert_eq!(
        gpu.view().annotation("node-1", "note-of-another"),
        Some("kept")
    );
}

const NODES: [&str; 3] = ["node-1", "node-2", "node-3"];

/// While a reset holds the operator, somebody pauses it for good; then another program takes the pause off and sets it
/// again, which only the server's book of who wrote what can tell from ours.
pub fn a_pause_during_a_reset_stays(cluster: &Cluster) {
    let gpu = held_up(cluster);
    let by_command = || {
        let words = ["pause", "gpu", "--confirm", "--reason", "mine"];
        run(cluster, &words);
    };
    let by_another = || {
        gpu.annotate("pause", Value::Null)
            .annotate("pause", json!("true"));
    };
    let ways: [&dyn Fn(); 2] = [&by_command, &by_another];
    for way in ways {
        // What it said of an earlier pause must not be taken for its answer to this one.
        cluster.await_that("the operator says that the pause is over", || {
            gpu.view().object.expect("it is there")["status"]["status"] != "paused"
        });
        let begun = || NODES.map(|node| cluster.kubelet.begun("driver", "apply", node));
        let before = begun();
        // It does not answer before it is back, so that the reset waits.
        cluster.stop_operator();
        let first = reset(cluster);
        cluster.await_that("the reset holds the operator", || {
            noted(&gpu, HOLD) != Value::Null
        });
        way();
        cluster.start_operator();
        let said = first.join().expect("it ends");
        // On a machine with much else to do, it may have waited in vain.
        assert!(matches!(said.exit, Some(0 | 5)), "{said:#?}");
        annotated(&gpu, "pause", json!("true"));
        assert_eq!(noted(&gpu, HOLD), Value::Null, "{said:#?}");
        run(cluster, &["resume", "gpu", "--confirm"]);
        if said.exit == Some(0) {
            // The pods of before are there until the operator has seen what is recorded now.
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

/// Neither takes the pause of the other for its own, and none of it is left.
pub fn resets_beside_each_other(cluster: &Cluster) {
    let gpu = held_up(cluster);
    for round in 0..6 {
        let both = [reset(cluster), reset(cluster)];
        let said = both.map(|one| one.join().expect("it ends"));
        let exits = [said[0].exit, said[1].exit];
        assert!(
            exits.contains(&Some(0)) && exits.iter().all(|e| matches!(e, Some(0 | 3))),
            "round {round}: {said:#?}"
        );
        annotated(&gpu, "pause", Value::Null);
        assert_eq!(noted(&gpu, HOLD), Value::Null, "round {round}: {said:#?}");
        gpu.until(applies_on("driver", &["node-1", "node-2", "node-3"]));
    }
    cluster.heal();
    gpu.until(complete()).well();
}

pub(super) const HOLD: &str = "kubectl-skyhook/hold";

/// Packages that do not end by themselves, so that the operator is at work whenever a reset begins.
pub(super) fn held_up(cluster: &Cluster) -> Rollout<'_> {
    cluster.fate(Target::default(), Fate::Hang);
    let gpu = cluster.apply(&driver());
    gpu.until(applies_on("driver", &["node-1", "node-2", "node-3"]));
    gpu
}

fn reset(cluster: &Cluster) -> JoinHandle<ours::Said> {
    let kubeconfig = cluster.kubeconfig("admin");
    std::thread::spawn(move || ours::run(&kubeconfig, &["reset", "gpu", "--confirm"]))
}

pub(super) fn noted(gpu: &Rollout<'_>, key: &str) -> Value {
    gpu.view().object.expect("it is there")["metadata"]["annotations"][key].clone()
}
