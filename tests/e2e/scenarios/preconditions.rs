//! What a saved plan or a running command relies on changes.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    races::{HOLD, held_up, noted},
    strip::driver,
    writes::run,
};
use crate::{
    cluster::Cluster,
    ours::{self, RunResult},
    view::{complete, deleted},
};

const NODES: [&str; 3] = ["node-1", "node-2", "node-3"];

/// The operator's keys and the cordon of each node.
fn nodes(cluster: &Cluster) -> [Value; 3] {
    NODES.map(|name| {
        let node = cluster.node(name);
        json!([node["metadata"]["annotations"], node["metadata"]["labels"], node["spec"]["unschedulable"]])
    })
}

fn refused(ran: &RunResult, why: &str) {
    assert_eq!(ran.exit, Some(3), "{ran:#?}");
    assert!(ran.stderr.contains(why), "{ran:#?}");
}

/// Cleanups of a deleted custom resource that were saved before it was created again.
pub fn saved_cleanups_of_a_recreated_resource_are_refused(cluster: &Cluster) {
    let plan = |name: &str| {
        let path = cluster.kubeconfig("admin").with_file_name(name);
        path.to_str().expect("a path of text").to_owned()
    };
    let admin = cluster.kubeconfig("admin");
    let gpu = cluster.apply(&driver());
    gpu.until(complete());
    cluster.stop_operator();
    for node in NODES {
        cluster.annotate_node(node, "cordon_gpu", json!("true"));
        cluster.patch_node(node, json!({"spec": {"unschedulable": true}}));
    }
    gpu.delete().strip_finalizer();
    gpu.until(deleted());
    let commands: [&[&str]; 4] = [
        &["leftovers", "gpu", "--clean", "--purge-state"],
        &["leftovers", "--clean", "--node", "node-*"],
        &["reset", "gpu"],
        &["finalizer", "strip", "gpu"],
    ];
    let plans: Vec<String> = (0..commands.len()).map(|at| plan(&format!("plan-{at}.json"))).collect();
    for (command, plan) in commands.iter().zip(&plans) {
        run(cluster, &[command, &["--plan-out", plan][..]].concat());
    }
    let gpu = cluster.apply(&driver());
    let before = nodes(cluster);
    for plan in &plans {
        refused(&ours::run(&admin, &["apply-plan", plan, "--confirm"]), "skyhook/gpu exists now");
        assert_eq!(nodes(cluster), before);
    }
    cluster.start_operator();
    gpu.until(complete());
}

/// The pause of a reset is ended while its nodes are written one after the other.
pub fn an_ended_pause_stops_a_reset(cluster: &Cluster) {
    let gpu = held_up(cluster);
    let keys = |node: &str| {
        let annotations = cluster.node(node)["metadata"]["annotations"].clone();
        annotations.as_object().is_some_and(|all| all.keys().any(|key| key.contains("nodeState_gpu")))
    };
    cluster.await_that("all nodes have a state", || NODES.iter().all(|node| keys(node)));
    let kubeconfig = cluster.kubeconfig("admin");
    let reset = std::thread::spawn(move || {
        ours::run(&kubeconfig, &["reset", "gpu", "--canary", "1", "--pause-between", "5s", "--confirm"])
    });
    cluster.await_that("the first node is reset", || !NODES.iter().all(|node| keys(node)));
    cluster.stop_operator();
    gpu.annotate("pause", Value::Null);
    let ran = reset.join().expect("the reset does not panic");
    assert_eq!(ran.exit, Some(4), "{ran:#?}");
    assert!(ran.stdout.contains("stopped: skyhook/gpu is no longer paused\n"), "{ran:#?}");
    assert_eq!(NODES.iter().filter(|node| keys(node)).count(), 2, "{ran:#?}");
    assert_eq!(noted(&gpu, HOLD), Value::Null);
    cluster.heal();
    cluster.start_operator();
    gpu.until(complete()).stays(&complete(), Duration::from_secs(1)).well();
}
