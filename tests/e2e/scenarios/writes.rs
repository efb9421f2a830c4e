//! Our commands that write, and the operator's reaction.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    cluster::Cluster,
    kubelet::{StepResult, Target},
    manifest::{Skyhook, package, skyhook},
    ours,
    rollout::{Rollout, pods},
    view::{Condition, PREFIX, View, absent, complete, everywhere, pod, status, that},
};

/// Several reconciles: the operator requeues every two seconds while there is work.
pub(super) const LONG_ENOUGH: Duration = Duration::from_secs(7);
pub(super) const DRIVER: &str = "driver|2.0.1";
pub(super) const TUNING: &str = "tuning|1.2.0";

pub(super) fn driver() -> Skyhook {
    skyhook("gpu").with(package("driver", "2.0.1"))
}

pub(super) fn uninstallable() -> Skyhook {
    skyhook("gpu").with(package("driver", "2.0.1").uninstallable())
}

pub(super) fn two() -> Skyhook {
    driver().with(package("tuning", "1.2.0"))
}

/// Runs one of our commands, and asserts exit code 0.
#[track_caller]
pub(super) fn run(cluster: &Cluster, args: &[&str]) -> ours::RunResult {
    let ran = ours::run(&cluster.kubeconfig("admin"), args);
    assert_eq!(ran.exit, Some(0), "{args:?}: {ran:#?}");
    ran
}

/// Nodes with an apply pod of the package.
pub(super) fn applying(view: &View, package: &str) -> Vec<String> {
    let mut nodes: Vec<_> = view
        .pods_of(package, "apply")
        .iter()
        .filter_map(|pod| pod["spec"]["nodeName"].as_str().map(str::to_owned))
        .collect();
    nodes.sort();
    nodes
}

/// The apply pods of the package are on exactly these nodes.
pub(super) fn applies_on(package: &'static str, nodes: &'static [&'static str]) -> Condition {
    that(&format!("{package} applies on {nodes:?}"), move |view| applying(view, package) == nodes)
}

/// All annotations of the custom resource.
fn annotations(gpu: &Rollout<'_>) -> Value {
    gpu.view().object.expect("the custom resource exists")["metadata"]["annotations"].clone()
}

#[track_caller]
pub(super) fn annotated(gpu: &Rollout<'_>, key: &str, value: Value) {
    let all = annotations(gpu);
    assert_eq!(all[format!("{PREFIX}/{key}")], value, "{key}: {all:#}");
}

/// The scripts hang, so a package that was reset stays at stage apply.
pub fn reset(cluster: &Cluster) {
    let gpu = cluster.apply(&two());
    gpu.until(complete());

    cluster.result(Target::default(), StepResult::Hang);
    run(cluster, &["reset", "gpu", "--confirm"]);
    gpu.until(applies_on("driver", &["node-1", "node-2", "node-3"]))
        .until(applies_on("tuning", &["node-1", "node-2", "node-3"]));
    cluster.heal();
    gpu.until(complete()).well();

    cluster.result(Target::default(), StepResult::Hang);
    run(cluster, &["reset", "gpu", "--node", "node-2", "--confirm"]);
    gpu.until(applies_on("driver", &["node-2"]))
        .until(applies_on("tuning", &["node-2"]))
        .stays(&everywhere(DRIVER, "config", "complete").but_for("node-2"), LONG_ENOUGH)
        .stays(&applies_on("driver", &["node-2"]), Duration::ZERO);
    cluster.heal();
    gpu.until(complete()).well();

    cluster.result(Target::default(), StepResult::Hang);
    run(cluster, &["reset", "gpu", "--node", "node-3", "--package", "driver", "--confirm"]);
    gpu.until(applies_on("driver", &["node-3"]))
        .stays(&everywhere(TUNING, "config", "complete"), LONG_ENOUGH)
        .stays(&everywhere(DRIVER, "config", "complete").but_for("node-3"), Duration::from_secs(1));
    cluster.heal();
    gpu.until(everywhere(DRIVER, "config", "complete")).until(complete()).well();
    annotated(&gpu, "pause", Value::Null);
}

pub fn package_rerun(cluster: &Cluster) {
    let gpu = cluster.apply(&two());
    gpu.until(complete());
    cluster.result(Target::default(), StepResult::Hang);
    run(cluster, &["package", "rerun", "driver", "--skyhook", "gpu", "--node", "node-1", "--confirm"]);
    gpu.until(applies_on("driver", &["node-1"]))
        .stays(&everywhere(DRIVER, "config", "complete").but_for("node-1"), LONG_ENOUGH);
    gpu.stays(&everywhere(TUNING, "config", "complete"), Duration::ZERO);
    cluster.heal();
    gpu.until(everywhere(DRIVER, "config", "complete")).until(complete()).well();
}

/// While paused, the operator applies no edit; after the resume it does.
pub fn pause_and_resume(cluster: &Cluster) {
    obeys(cluster, "pause", "resume");
}

pub fn disable_and_enable(cluster: &Cluster) {
    obeys(cluster, "disable", "enable");
}

fn obeys(cluster: &Cluster, stop: &str, go: &str) {
    let gpu = cluster.apply(&driver());
    gpu.until(complete());
    let before = annotations(&gpu);

    run(cluster, &[stop, "gpu", "--reason", "a look", "--confirm"]);
    annotated(&gpu, stop, json!("true"));
    let noted = annotations(&gpu)[format!("kubectl-skyhook/{stop}-reason")].clone();
    assert_eq!(noted, "a look", "the reason is kept");
    run(cluster, &["undo", "--confirm"]);
    assert_eq!(annotations(&gpu), before, "undone");

    run(cluster, &[stop, "gpu", "--confirm"]);
    gpu.edit(json!({"packages": {"driver": {"version": "2.1.0"}}}))
        .until(status(&format!("{stop}d")))
        .stays(&absent("driver|2.1.0"), LONG_ENOUGH);
    run(cluster, &[go, "gpu", "--confirm"]);
    annotated(&gpu, stop, Value::Null);
    gpu.until(everywhere("driver|2.1.0", "config", "complete")).until(complete()).well();

    // Undoing the resume pauses again; a second resume restores the initial annotations.
    run(cluster, &["undo", "--confirm"]);
    annotated(&gpu, stop, json!("true"));
    run(cluster, &[go, "gpu", "--confirm"]);
    assert_eq!(annotations(&gpu), before, "as at the start");
}

pub fn node_ignore_and_undo(cluster: &Cluster) {
    let gpu = cluster.apply(&driver());
    gpu.until(complete());
    let before = cluster.node("node-2")["metadata"]["labels"].clone();
    run(cluster, &["node", "ignore", "node-2", "--confirm"]);
    let ignored = cluster.node("node-2")["metadata"]["labels"][format!("{PREFIX}/ignore")].clone();
    assert_eq!(ignored, "true");
    gpu.edit(json!({"packages": {"driver": {"version": "2.1.0"}}}))
        .until(everywhere("driver|2.1.0", "config", "complete").but_for("node-2"))
        .stays(&that("node-2 is as it was", |view| view.entries(DRIVER).len() == 1), LONG_ENOUGH);
    run(cluster, &["undo", "--confirm"]);
    gpu.until(everywhere("driver|2.1.0", "config", "complete")).until(complete()).well();
    assert_eq!(cluster.node("node-2")["metadata"]["labels"], before);
}

pub fn uninstall_and_cancel(cluster: &Cluster) {
    let gpu = cluster.apply(&uninstallable().with(package("tuning", "1.2.0")));
    gpu.until(complete());
    let refused = ours::run(&cluster.kubeconfig("admin"), &["uninstall", "gpu", "tuning", "--confirm"]);
    assert_ne!(refused.exit, Some(0), "it says nothing of uninstalling: {refused:?}");
    cluster.result(pods("driver", "uninstall"), StepResult::Hang);
    run(cluster, &["uninstall", "gpu", "driver", "--confirm"]);
    gpu.until(pod("driver", "uninstall"));
    cluster.heal();
    gpu.until(absent(DRIVER)).until(complete()).well();
    gpu.stays(&everywhere(TUNING, "config", "complete"), Duration::ZERO);

    run(cluster, &["uninstall", "gpu", "driver", "--cancel", "--confirm"]);
    gpu.until(everywhere(DRIVER, "config", "complete")).until(complete()).well();
}

/// After a rerun of `first`, this operator would never start it again: see
/// `package_added_to_a_finished_chain_never_starts`.
pub fn rerun_that_would_strand_is_refused(cluster: &Cluster) {
    let gpu = cluster.apply(
        &skyhook("gpu")
            .with(package("first", "1.0.0"))
            .with(package("second", "1.0.0").after("first", "1.0.0"))
            .with(package("third", "1.0.0").after("second", "1.0.0")),
    );
    gpu.until(complete());
    let on = ["--node", "node-1", "--confirm"];
    for words in
        [&["package", "rerun", "first", "--skyhook", "gpu"][..], &["reset", "gpu", "--package", "first"]]
    {
        let ran = ours::run(&cluster.kubeconfig("admin"), &[words, &on].concat());
        assert_eq!(ran.exit, Some(3), "{words:?}: {ran:#?}");
    }
    gpu.stays(&complete(), Duration::from_secs(1));
    run(cluster, &["reset", "gpu", "--package", "third", "--node", "node-1", "--confirm"]);
    gpu.until(pod("third", "apply"))
        .until(everywhere("third|1.0.0", "config", "complete"))
        .until(complete())
        .well();
}
