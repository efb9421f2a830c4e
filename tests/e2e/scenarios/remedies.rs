//! Printed remedies, run with the real operator.

use std::process::Command;

use serde_json::{Value, json};

use super::{
    fixtures::{careful_policy, stopped},
    writes::{DRIVER, LONG_ENOUGH, TUNING, driver, run, uninstallable},
};
use crate::{
    cluster::Cluster,
    kubelet::StepResult,
    manifest::{package, skyhook},
    rollout::{Rollout, pods},
    view::{absent, complete, condition, deleted, entry, everywhere, pod, status, that},
};

/// Runs the remedy of a finding that contains these words.
#[track_caller]
pub(super) fn cure(gpu: &Rollout<'_>, code: &str, subject: Value, words: &[&str]) {
    let report = gpu.cluster.report(&[]);
    execute(gpu, report.has(code, &subject), words);
}

/// The argv of the first remedy that writes.
pub(super) fn first_change(finding: &Value) -> Vec<&str> {
    let remedies = finding["remedies"].as_array().into_iter().flatten();
    let mut changes = remedies.filter(|remedy| remedy["grade"] != "B0");
    let change = changes.next().expect("a remedy writes");
    let argv = change["argv"].as_array().into_iter().flatten();
    argv.filter_map(Value::as_str).collect()
}

/// Runs the remedy of a finding that contains these words.
#[track_caller]
pub(super) fn execute(gpu: &Rollout<'_>, finding: &Value, words: &[&str]) {
    let argvs: Vec<Vec<&str>> = finding["remedies"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|remedy| {
            let argv = remedy["argv"].as_array().into_iter().flatten();
            argv.filter_map(Value::as_str).collect()
        })
        .collect();
    let argv = argvs
        .iter()
        .find(|argv| words.iter().all(|word| argv.contains(word)))
        .unwrap_or_else(|| panic!("no remedy with {words:?}: {finding:#}"));
    match argv.as_slice() {
        ["kubectl", "skyhook", args @ ..] => {
            run(gpu.cluster, &[args, &["--confirm"]].concat());
        }
        [program, args @ ..] => {
            let out = Command::new(program)
                .args(args)
                .env("KUBECONFIG", gpu.cluster.kubeconfig("admin"))
                // If the remedy opens an editor, the scenario does the edit.
                .env("KUBE_EDITOR", gpu.cluster.editor())
                .output()
                .unwrap_or_else(|error| panic!("{argv:?}: {error}"));
            assert!(out.status.success(), "{argv:?}: {out:?}");
        }
        [] => panic!("an empty remedy: {finding:#}"),
    }
}

/// Runs the first remedy that writes; an editor that it opens applies `sed` to the text.
#[track_caller]
pub(super) fn first_change_made(gpu: &Rollout<'_>, code: &str, subject: &Value, sed: &str) {
    gpu.cluster.edits(sed);
    let report = gpu.cluster.report(&[]);
    let finding = report.has(code, subject);
    execute(gpu, finding, &first_change(finding));
}

/// Asserts that the whole cluster has no finding at error level.
#[track_caller]
pub(super) fn all_well(cluster: &Cluster) {
    let report = cluster.report(&[]);
    assert!(report.errors().is_empty(), "{:#}", report.json);
}

/// Starts a deletion that is blocked by one erroring node; the package is uninstalled on the others.
fn hanging_deletion(cluster: &Cluster) -> Rollout<'_> {
    cluster.result(pods("driver", "apply").on("node-2"), StepResult::Exit(1));
    let gpu = cluster.apply(&uninstallable());
    gpu.until(entry("node-1", DRIVER, "config", "complete"))
        .until(entry("node-3", DRIVER, "config", "complete"))
        .until(entry("node-2", DRIVER, "apply", "erroring"))
        .until(status("erroring"));
    gpu.delete().until(that("the others are clean", |view| view.entries(DRIVER).len() == 1));
    gpu
}

/// SKY101, remedy that removes the record.
pub fn deletion_freed_by_reset(cluster: &Cluster) {
    let gpu = hanging_deletion(cluster);
    gpu.stays(&entry("node-2", DRIVER, "apply", "erroring"), LONG_ENOUGH);
    cure(&gpu, "SKY101", json!({"node": "node-2"}), &["reset"]);
    gpu.until(deleted());
    all_well(cluster);
}

/// SKY101, remedy that runs the uninstall script: the package is repaired, then retried on the node.
pub fn deletion_freed_by_package_retry(cluster: &Cluster) {
    let gpu = hanging_deletion(cluster);
    cluster.heal();
    let none = that("no pod for node-2", |view| view.pods.is_empty());
    gpu.until(that("the others' pods are gone", |view| view.pods.is_empty())).stays(&none, LONG_ENOUGH);
    cure(&gpu, "SKY101", json!({"node": "node-2"}), &["retry"]);
    gpu.until(pod("driver", "uninstall")).until(deleted());
    all_well(cluster);
}

/// SKY109, remedy `resume`.
pub fn deletion_freed_by_resume(cluster: &Cluster) {
    blocked_deletion(cluster, "pause", "PausedWithPendingUninstall", ("SKY109", "resume"));
}

/// SKY110, remedy `enable`.
pub fn deletion_freed_by_enable(cluster: &Cluster) {
    blocked_deletion(cluster, "disable", "DisabledWithPendingUninstall", ("SKY110", "enable"));
}

fn blocked_deletion(cluster: &Cluster, stop: &str, reason: &str, (code, go): (&str, &str)) {
    let gpu = cluster.apply(&uninstallable());
    gpu.until(complete());
    run(cluster, &[stop, "gpu", "--confirm"]);
    gpu.delete()
        .until(condition("DeletionBlocked", reason))
        .stays(&everywhere(DRIVER, "config", "complete"), LONG_ENOUGH);
    cure(&gpu, code, json!({"name": "gpu"}), &[go]);
    gpu.until(deleted());
    all_well(cluster);
}

fn break_state(cluster: &Cluster) {
    cluster.annotate_node("node-2", "nodeState_gpu", json!("{\"driver|2.0.1\": broken"));
}

/// SKY108, remedy that removes the malformed state.
pub fn deletion_freed_by_clearing_malformed_state(cluster: &Cluster) {
    let gpu = cluster.apply(&uninstallable());
    gpu.until(complete());
    break_state(cluster);
    gpu.until(condition("NodeStateMalformed", "ParseError"));
    gpu.delete().until(condition("DeletionBlocked", "MalformedNodeState"));
    cure(&gpu, "SKY108", json!({"node": "node-2"}), &["reset"]);
    gpu.until(deleted());
    all_well(cluster);
}

/// SKY108, remedy that restores the state from the operator's copy; the uninstall then runs.
pub fn deletion_freed_by_node_repair(cluster: &Cluster) {
    let gpu = cluster.apply(&uninstallable());
    gpu.until(complete());
    break_state(cluster);
    gpu.until(condition("NodeStateMalformed", "ParseError"));
    gpu.delete().until(condition("DeletionBlocked", "MalformedNodeState"));
    cluster.result(pods("driver", "uninstall").on("node-2"), StepResult::Hang);
    cure(&gpu, "SKY108", json!({"node": "node-2"}), &["--unreadable"]);
    gpu.until(entry("node-2", DRIVER, "uninstall", "in_progress"));
    cluster.heal();
    gpu.until(deleted());
    all_well(cluster);
}

/// SKY206, remedy that restores the state from the operator's copy: nothing runs again.
pub fn malformed_state_is_repaired(cluster: &Cluster) {
    let gpu = cluster.apply(&driver());
    gpu.until(complete());
    let begun = || cluster.kubelet.pods_started("driver", "apply", "node-2");
    let before = begun();
    break_state(cluster);
    gpu.until(condition("NodeStateMalformed", "ParseError"));
    cure(&gpu, "SKY206", json!({"node": "node-2"}), &["--unreadable"]);
    gpu.until(everywhere(DRIVER, "config", "complete"))
        .stays(&everywhere(DRIVER, "config", "complete"), LONG_ENOUGH)
        .well();
    assert_eq!(begun(), before, "nothing runs again");
}

/// A package that crash-loops during a pause is rerun after the resume, and not before.
pub fn paused_package_is_rerun_after_resume(cluster: &Cluster) {
    cluster.result(pods("driver", "apply").on("node-2"), StepResult::Exit(1));
    let gpu = cluster.apply(&driver());
    gpu.until(entry("node-2", DRIVER, "apply", "erroring"));
    run(cluster, &["pause", "gpu", "--confirm"]);
    gpu.until(status("paused"));
    let args = ["package", "rerun", "driver", "--skyhook", "gpu", "--node", "node-2", "--confirm"];
    run(cluster, &args);
    let forgotten =
        that("node-2 has no entry", |view| view.entries(DRIVER).iter().all(|e| e.node != "node-2"));
    gpu.stays(&forgotten, LONG_ENOUGH);
    cluster.heal();
    run(cluster, &["resume", "gpu", "--confirm"]);
    gpu.until(everywhere(DRIVER, "config", "complete")).until(complete()).well();
}

/// SKY206, remedy that removes the state: all packages run again on the node.
pub fn malformed_state_is_reset(cluster: &Cluster) {
    let gpu = cluster.apply(&driver());
    gpu.until(complete());
    break_state(cluster);
    gpu.until(condition("NodeStateMalformed", "ParseError"));
    cure(&gpu, "SKY206", json!({"node": "node-2"}), &["reset"]);
    gpu.until(everywhere(DRIVER, "config", "complete")).until(complete()).well();
}

/// SKY103, remedy `uninstall --cancel`.
pub fn uninstall_of_a_never_installed_package_is_cancelled(cluster: &Cluster) {
    let gpu = cluster.apply(
        &skyhook("gpu").with(package("tuning", "1.2.0")).with(package("driver", "2.0.1").uninstalling()),
    );
    gpu.until(complete()).stays(&absent(DRIVER), LONG_ENOUGH);
    let words = ["uninstall", "--cancel"];
    cure(&gpu, "SKY103", json!({"package": "driver"}), &words);
    gpu.until(everywhere(DRIVER, "config", "complete")).until(complete()).well();
}

/// SKY104: during a pause the version changed, and the uninstall of the old version completed.
pub fn uninstall_with_a_changed_version_is_cancelled(cluster: &Cluster) {
    // At the end, only events show that the package was once installed.
    cluster.allow_events();
    let gpu = cluster.apply(&uninstallable().with(package("tuning", "1.2.0")));
    gpu.until(complete());
    cluster.result(pods("driver", "uninstall"), StepResult::Hang);
    run(cluster, &["uninstall", "gpu", "driver", "--confirm"]);
    gpu.until(everywhere(DRIVER, "uninstall", "in_progress")).until(that("every node runs it", |view| {
        view.pods_of("driver", "uninstall").len() == view.nodes.len()
    }));
    run(cluster, &["pause", "gpu", "--confirm"]);
    gpu.until(status("paused")).edit(json!({"packages": {"driver": {"version": "2.1.0"}}}));
    cluster.heal();
    gpu.until(absent(DRIVER));
    run(cluster, &["resume", "gpu", "--confirm"]);
    gpu.until(complete()).stays(&absent("driver|2.1.0"), LONG_ENOUGH);
    let words = ["uninstall", "--cancel"];
    cure(&gpu, "SKY104", json!({"package": "driver"}), &words);
    gpu.until(everywhere("driver|2.1.0", "config", "complete")).until(complete()).well();
}

/// SKY111, remedy `uninstall --cancel`.
pub fn uninstall_of_a_dependency_is_cancelled(cluster: &Cluster) {
    let gpu = cluster.apply(
        &skyhook("gpu")
            .with(package("tuning", "1.2.0").uninstallable())
            .with(package("driver", "2.0.1").after("tuning", "1.2.0")),
    );
    gpu.until(complete());
    run(cluster, &["uninstall", "gpu", "tuning", "--confirm"]);
    gpu.until(absent(TUNING))
        .edit(json!({"packages": {"driver": {"version": "2.1.0"}}}))
        .until(condition("Blocked", "DependencyUninstalled"))
        .until(everywhere("driver|2.1.0", "upgrade", "in_progress"));
    let words = ["uninstall", "--cancel"];
    cure(&gpu, "SKY111", json!({"package": "driver"}), &words);
    gpu.until(everywhere("driver|2.1.0", "config", "complete")).until(complete()).well();
}

/// SKY107 after a forced deletion: one remedy per node.
pub fn orphaned_entry_is_removed(cluster: &Cluster) {
    let gpu = cluster.apply(&uninstallable());
    gpu.until(complete());
    cluster.result(pods("driver", "uninstall"), StepResult::Hang);
    run(cluster, &["uninstall", "gpu", "driver", "--confirm"]);
    gpu.until(that("the scripts run", |view| {
        let running = view.pods_of("driver", "uninstall");
        let started = |pod: &&&Value| pod["status"]["startTime"].is_string();
        running.iter().filter(started).count() == 3
    }));
    // Stop the garbage collector, so that the pods end before it deletes them.
    cluster.stop("kube-controller-manager");
    gpu.delete().strip_finalizer().until(deleted());
    cluster.heal();
    gpu.until(everywhere(DRIVER, "uninstall", "complete"));
    // One command for all nodes of the finding.
    cure(&gpu, "SKY107", json!({"node": "node-1"}), &["reset", "node-1", "node-2", "node-3"]);
    gpu.stays(&absent(DRIVER), LONG_ENOUGH);
    all_well(cluster);
}

/// SKY702: a pod keeps running after a forced deletion.
pub fn orphaned_pod_is_deleted(cluster: &Cluster) {
    cluster.result(pods("driver", "apply").on("node-2"), StepResult::Hang);
    let gpu = cluster.apply(&driver());
    gpu.until(everywhere(DRIVER, "config", "complete").but_for("node-2")).until(pod("driver", "apply"));
    // Stop the garbage collector, which would delete the pod.
    cluster.stop("kube-controller-manager");
    gpu.strip_finalizer().delete().until(deleted());
    cure(&gpu, "SKY702", json!({"node": "node-2", "package": "driver"}), &["delete", "pod"]);
    gpu.until(that("nothing runs", |view| view.pods.is_empty()));
    let report = cluster.report(&[]);
    assert!(report.with_code("SKY702").is_empty(), "{:#}", report.json);
    all_well(cluster);
}

/// SKY301: the rollout stays stopped after the package is repaired. The remedy continues it; while a node
/// still counts as erroring, the operator would stop it again.
pub fn stopped_rollout_continues(cluster: &Cluster) {
    careful_policy(cluster);
    cluster.result(pods("driver", "apply").on("node-1"), StepResult::Exit(1));
    let gpu = cluster.apply(&driver().set("deploymentPolicy", json!("careful")));
    gpu.until(entry("node-1", DRIVER, "apply", "erroring")).until(that("stopped", stopped));
    cluster.heal();
    let words = ["deployment-policy", "reset"];
    cure(&gpu, "SKY301", json!({"skyhook": "gpu"}), &words);
    gpu.until(everywhere(DRIVER, "config", "complete")).until(complete()).well();
    assert!(!stopped(&gpu.view()), "the stop is lifted");
}
