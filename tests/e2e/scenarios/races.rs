//! Our writes while the operator writes the same keys.

use std::time::Duration;

use serde_json::{Value, json};

use super::writes::{annotated, run};
use crate::{
    cluster::Cluster,
    manifest::{package, skyhook},
    view::{complete, everywhere, that},
};

/// Each resets two nodes.
const ROUNDS: usize = 24;

/// Dozens of resets of nodes and packages while the operator writes the same keys.
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
        let reached = packages[round / 3 % 3];
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
