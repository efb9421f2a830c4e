//! Blocked deletions, and the remedies that `diagnose stuck` and `teardown` print for them, run as printed.

use std::{cell::RefCell, time::Duration};

use serde_json::{Value, json};

use super::{
    fixtures::{POLICIES, careful_policy, guarded_workload, stopped},
    remedies::{cure, execute},
    teardown::{ignore, of, rows, silent, stranded, taint, teardown, uninstallable},
};
use crate::{
    cluster::Cluster,
    kubelet::{StepResult, Target},
    manifest::{package, skyhook},
    ours,
    rollout::{Rollout, pods},
    view::{Condition, View, complete, condition, deleted, entry, pod, status, that},
};

/// Several reconciles: the operator requeues every two seconds while there is work.
const LONG_ENOUGH: Duration = Duration::from_secs(7);
const DRIVER: &str = "driver|2.0.1";

/// Deletes the custom resource, waits for the finding, and runs its printed remedy.
#[track_caller]
fn deleted_and_cured(gpu: &Rollout<'_>, code: &str, subject: Value, words: &[&str]) {
    gpu.delete();
    let found = || {
        let report = ours::diagnose(&gpu.cluster.kubeconfig("admin"), &[]);
        !report.with_code(code).is_empty()
    };
    gpu.cluster.await_that(&format!("{code} is found"), found);
    let still = that("still there", |view: &View| view.object.is_some());
    gpu.stays(&still, LONG_ENOUGH);
    cure(gpu, code, subject, words);
    gpu.until(deleted());
}

/// Deletes the custom resource, and waits until only node-2 is not uninstalled yet.
fn deleted_but_for_one(gpu: &Rollout<'_>) {
    gpu.delete().until(that("the others are clean", |view| view.entries(DRIVER).len() == 1));
    gpu.stays(&still_there(), LONG_ENOUGH);
}

fn still_there() -> Condition {
    that("still there", |view: &View| view.object.is_some())
}

/// Expects SKY114 (the operator skips node-2), and that its remedy makes the operator uninstall there.
fn passed_over_and_cured(gpu: &Rollout<'_>) {
    gpu.stays(&still_there(), LONG_ENOUGH)
        .diagnosed("SKY114", json!({"node": "node-2", "package": "driver"}));
    cure(gpu, "SKY114", json!({"node": "node-2"}), &["retry"]);
    gpu.until(pod("driver", "uninstall")).until(deleted());
}

/// Deletes the custom resource and runs the remedy for node-2; then the operator skips node-2, because the
/// other nodes stay in progress.
#[track_caller]
fn deleted_and_passed_over(gpu: &Rollout<'_>, code: &str, words: &[&str]) {
    deleted_but_for_one(gpu);
    gpu.diagnosed(code, json!({"node": "node-2"}));
    cure(gpu, code, json!({"node": "node-2"}), words);
    passed_over_and_cured(gpu);
}

/// SKY102, remedy that runs the interrupt.
pub fn stranded_uninstall_gets_its_interrupt_back(cluster: &Cluster) {
    let gpu = stranded(
        cluster,
        skyhook("gpu").with(package("driver", "2.0.1").uninstallable().interrupts("service")),
    );
    cluster.edits("s/^    driver:$/    driver:\\n      interrupt: {type: service, services: [containerd]}/");
    deleted_and_cured(&gpu, "SKY102", json!({"node": "node-2"}), &["edit"]);
}

/// SKY102, remedy that removes the record, node by node.
pub fn stranded_entry_is_removed(cluster: &Cluster) {
    let gpu = stranded(
        cluster,
        skyhook("gpu").with(package("driver", "2.0.1").uninstallable().interrupts("service")),
    );
    // One command for all nodes of the finding.
    deleted_and_cured(&gpu, "SKY102", json!({"node": "node-1"}), &["reset", "node-1", "node-2", "node-3"]);
}

/// SKY112, remedy that removes the record.
pub fn failing_entry_is_removed(cluster: &Cluster) {
    let gpu = cluster.apply(&uninstallable("gpu"));
    gpu.until(complete());
    cluster.result(pods("driver", "uninstall").on("node-2"), StepResult::Exit(3));
    deleted_and_cured(&gpu, "SKY112", json!({"node": "node-2"}), &["reset"]);
}

/// SKY205, remedy that removes the record.
pub fn entry_of_an_unreachable_node_is_removed(cluster: &Cluster) {
    let gpu = cluster.apply(&uninstallable("gpu"));
    gpu.until(complete());
    cluster.result(Target::default().on("node-2"), StepResult::Unseen);
    silent(cluster, "node-2");
    deleted_and_cured(&gpu, "SKY205", json!({"node": "node-2"}), &["reset"]);
}

/// SKY304: the remedy also puts the node into the batch, although the other nodes are already uninstalled.
pub fn ignored_node_is_unignored(cluster: &Cluster) {
    let gpu = cluster.apply(&uninstallable("gpu"));
    gpu.until(complete());
    ignore(cluster, "node-2");
    deleted_but_for_one(&gpu);
    gpu.diagnosed("SKY304", json!({"node": "node-2"}));
    cure(&gpu, "SKY304", json!({"node": "node-2"}), &["unignore"]);
    gpu.until(pod("driver", "uninstall")).until(deleted());
}

/// SKY114 while all nodes are waiting: after a pause and a resume, the operator keeps the previous batch.
pub fn paused_deletion_passes_over_a_node(cluster: &Cluster) {
    let gpu = cluster.apply(&uninstallable("gpu"));
    gpu.until(complete());
    ignore(cluster, "node-2");
    deleted_but_for_one(&gpu);
    gpu.annotate("pause", json!("true")).until(status("paused"));
    gpu.annotate("pause", Value::Null).until(status("waiting"));
    cluster.patch_node("node-2", json!({"metadata": {"labels": {"skyhook.nvidia.com/ignore": null}}}));
    passed_over_and_cured(&gpu);
}

/// The documented remedy of SKY101, while another package is being uninstalled on the same node: if `reset`
/// exits with 0, the deletion completes.
pub fn node_is_reset_while_another_package_is_uninstalled(cluster: &Cluster) {
    cluster.result(pods("driver", "apply").on("node-2"), StepResult::Exit(3));
    for _ in 0..5 {
        let both = skyhook("gpu")
            .with(package("driver", "2.0.1").uninstallable())
            .with(package("tuning", "1.2.0").uninstallable());
        let gpu = cluster.apply(&both);
        gpu.until(entry("node-2", DRIVER, "apply", "erroring")).until(entry(
            "node-2",
            "tuning|1.2.0",
            "config",
            "complete",
        ));
        gpu.delete().until(pod("tuning", "uninstall"));
        let admin = cluster.kubeconfig("admin");
        let words = ["reset", "gpu", "--node", "node-2", "--confirm"];
        let ran = ours::run(&admin, &words);
        assert_eq!(ran.exit, Some(0), "{}{}", ran.stdout, ran.stderr);
        gpu.until(deleted());
    }
}

/// SKY403, remedy that adds a toleration.
pub fn taint_is_tolerated(cluster: &Cluster) {
    let gpu = cluster.apply(&uninstallable("gpu"));
    gpu.until(complete());
    taint(cluster, "node-2");
    cluster.edits("s/^spec:$/spec:\\n  additionalTolerations: [{key: maintenance, operator: Exists}]/");
    deleted_and_passed_over(&gpu, "SKY403", &["edit"]);
}

/// SKY303, remedy that removes the missing policy from the spec.
pub fn missing_policy_is_restored(cluster: &Cluster) {
    careful_policy(cluster);
    let gpu = cluster.apply(&uninstallable("gpu").set("deploymentPolicy", json!("careful")));
    gpu.until(complete());
    cluster
        .api
        .delete(&format!("{POLICIES}/careful"), &json!({}))
        .expect("without webhooks a policy can be deleted");
    gpu.until(condition("DeploymentPolicyNotFound", "DeploymentPolicyNotFound"));
    cluster.edits("s/^  deploymentPolicy: careful$//");
    deleted_and_cured(&gpu, "SKY303", json!({"name": "gpu"}), &["edit"]);
}

/// SKY401: a budget blocks the drain for the interrupt of the uninstall.
pub fn drain_blocked_by_a_budget_is_freed(cluster: &Cluster) {
    let gpu =
        cluster.apply(&skyhook("gpu").with(package("driver", "2.0.1").uninstallable().interrupts("service")));
    gpu.until(complete());
    let _path = guarded_workload(cluster);
    cluster.edits("s/minAvailable: 1/minAvailable: 0/");
    gpu.delete();
    let still = that("still there", |view: &View| view.object.is_some());
    gpu.stays(&still, LONG_ENOUGH);
    let words = ["edit", "poddisruptionbudget"];
    cure(&gpu, "SKY401", json!({"node": "node-2"}), &words);
    // Meanwhile the other nodes may have been drained and then skipped (SKY114).
    for _ in ["node-1", "node-3"] {
        let passed_over = RefCell::new(None);
        cluster.await_that("it goes, or a node is passed over", || {
            let report = ours::diagnose(&cluster.kubeconfig("admin"), &[]);
            *passed_over.borrow_mut() = report.with_code("SKY114").first().copied().cloned();
            gpu.view().object.is_none() || passed_over.borrow().is_some()
        });
        if let Some(finding) = passed_over.take() {
            execute(&gpu, &finding, &["retry"]);
        }
    }
    gpu.until(deleted());
}

/// SKY501: no operator runs to remove the finalizer; the command that `teardown` prints removes it.
pub fn missing_operator_requires_strip(cluster: &Cluster) {
    let gpu = cluster.apply(&uninstallable("gpu"));
    gpu.until(complete());
    cluster.remove_operator();
    let ran = teardown(cluster, &["--confirm"]);
    assert_eq!(ran.exit, Some(2), "{ran:#?}");
    assert_eq!(
        rows(&ran),
        ["skyhook/gpu blocked SKY501 operator-not-running kubectl skyhook finalizer strip gpu"]
    );
    let strip = ["finalizer", "strip", "gpu", "--confirm"];
    let stripped = ours::run(&cluster.kubeconfig("admin"), &strip);
    assert_eq!(stripped.exit, Some(0), "{stripped:#?}");
    gpu.until(deleted());
    let again = teardown(cluster, &["--confirm"]);
    assert_eq!(again.exit, Some(0), "{again:#?}");
}

/// SKY302: an earlier custom resource is incomplete on the node, so the uninstall does not start there.
pub fn earlier_custom_resource_is_disabled(cluster: &Cluster) {
    cluster.result(of("base", "apply").on("node-2"), StepResult::Exit(1));
    let base = cluster.apply(&skyhook("base").with(package("tuning", "1.2.0")));
    base.until(entry("node-2", "tuning|1.2.0", "apply", "erroring"));
    base.annotate("disable", json!("true"));
    let gpu = cluster.apply(&uninstallable("gpu"));
    gpu.until(complete());
    base.annotate("disable", Value::Null)
        .until(that("back in service", |view| view.annotation("node-2", "status_base") != Some("disabled")));
    deleted_and_passed_over(&gpu, "SKY302", &["disable"]);
}

/// SKY301: the rollout has stopped, and so have the uninstalls of the deletion.
pub fn stopped_rollout_is_reset(cluster: &Cluster) {
    careful_policy(cluster);
    cluster.result(pods("driver", "apply").on("node-2"), StepResult::Exit(1));
    let gpu = cluster.apply(&uninstallable("gpu").set("deploymentPolicy", json!("careful")));
    gpu.until(entry("node-1", DRIVER, "config", "complete"))
        .until(entry("node-2", DRIVER, "apply", "erroring"))
        .until(that("stopped", stopped));
    gpu.delete();
    let still = that("still there", |view: &View| view.object.is_some());
    gpu.stays(&still, LONG_ENOUGH);
    cure(&gpu, "SKY101", json!({"node": "node-2"}), &["reset"]);
    gpu.stays(&still, LONG_ENOUGH);
    let words = ["deployment-policy", "reset"];
    cure(&gpu, "SKY301", json!({"skyhook": "gpu"}), &words);
    gpu.until(deleted());
}
