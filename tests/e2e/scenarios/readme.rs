//! Tasks of the README and `docs/tasks.md`, run as shown.

use serde_json::Value;

use crate::{
    cluster::Cluster,
    kubelet::StepResult,
    manifest::{package, skyhook},
    operator::NAMESPACE,
    rollout::pods,
    transcript::Transcript,
    view::{absent, complete, deleted, entry, status, that},
};

/// A failing install blocks a deletion; resetting the node continues it.
pub fn find_and_fix_a_stuck_deletion(cluster: &Cluster) {
    cluster.result(pods("driver", "apply").on("node-2"), StepResult::Exit(1));
    let gpu = cluster.apply(&driver());
    gpu.until(entry("node-1", "driver|2.0.1", "config", "complete"))
        .until(status("erroring"))
        .delete()
        .until(that("the other nodes are clean", |view| view.entries("driver|2.0.1").len() == 1))
        .until(entry("node-2", "driver|2.0.1", "apply", "erroring"));
    Transcript::of(cluster, "why").run("diagnose stuck", 2).is_shown();
    Transcript::of(cluster, "cure")
        .run("reset gpu-tune --node node-2 --confirm", 0)
        .run("wait gpu-tune --for=deleted --ignore-not-found --timeout=2m", 0)
        .is_shown();
    gpu.until(deleted());
}

/// Resets one node, where all packages are installed again.
pub fn reset_one_node(cluster: &Cluster) {
    let gpu = cluster.apply(&driver());
    gpu.until(complete());
    Transcript::of(cluster, "reset")
        .run("reset gpu-tune --node node-2 --dry-run", 0)
        .run("reset gpu-tune --node node-2 --confirm", 0)
        .run("wait gpu-tune --for=complete --timeout=2m", 0)
        .run("node status --skyhook gpu-tune", 0)
        .is_shown();
}

pub fn uninstall_a_package(cluster: &Cluster) {
    let gpu = cluster.apply(&driver());
    gpu.until(complete());
    let mut transcript = Transcript::of(cluster, "uninstall");
    transcript
        .run("uninstall gpu-tune driver --confirm", 0)
        .run("wait gpu-tune --for=uninstalled=driver --timeout=2m", 0);
    // The operator reports complete a moment later.
    gpu.until(complete());
    transcript.run("status gpu-tune", 0).is_shown();
    gpu.until(absent("driver|2.0.1"));
}

/// The operator was removed first, so nothing removes the finalizer.
pub fn force_a_deletion(cluster: &Cluster) {
    let gpu = cluster.apply(&driver());
    gpu.until(complete());
    cluster.remove_operator();
    gpu.delete();
    let mut transcript = Transcript::of(cluster, "force");
    transcript.run("status gpu-tune", 0).run("finalizer strip gpu-tune --confirm", 0);
    gpu.until(deleted());
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    cluster.await_that("its config maps are garbage collected", || {
        let maps = cluster.api.items(&path).expect("a list");
        let owner = |map: &Value| map["metadata"]["ownerReferences"][0]["name"] == "gpu-tune";
        !maps.iter().any(owner)
    });
    transcript.run("leftovers", 0).is_shown();
}

fn driver() -> crate::manifest::Skyhook {
    skyhook("gpu-tune").with(package("driver", "2.0.1").uninstallable())
}
