//! Leftovers of the older operator after an upgrade.

use serde_json::{Value, json};

use super::nodewright::{mirrored, upgraded};
use super::remedies::{all_well, execute, first_change};
use crate::{
    cluster::Cluster,
    kubelet::StepResult,
    manifest::{package, skyhook},
    model::{self, PREFIX, Played},
    rollout::pods,
    view::{complete, entry},
};

const DRIVER: &str = "driver|2.0.1";
const SKYHOOK: &str = "/apis/skyhook.nvidia.com/v1alpha1/skyhooks/gpu";

/// SKY604 while the custom resource is paused; SKY703 once a Job runs beside a pod of the older operator.
pub fn pods_of_the_older_operator(cluster: &Cluster) {
    cluster.result(pods("driver", "apply").on("node-3"), StepResult::Hang);
    let gpu = skyhook("gpu").with(package("driver", "2.0.1"));
    let rollout = cluster.apply(&gpu);
    rollout
        .until(entry("node-1", DRIVER, "config", "complete"))
        .until(entry("node-2", DRIVER, "config", "complete"))
        .until(entry("node-3", DRIVER, "apply", "in_progress"));
    upgraded(cluster);
    model::make_namespace(&cluster.api).expect("a namespace can be created");
    // A complete Skyhook: the newer operator does not wait for it.
    let finished = json!({"status": {"status": "complete"}});
    let merged = cluster.api.merge(&format!("{SKYHOOK}/status"), &finished);
    merged.expect("a Skyhook has a status");
    let mut new = mirrored(cluster, &gpu, 1);
    for node in ["node-1", "node-2"] {
        new.on(node, DRIVER, Some(("config", "complete")), "complete");
    }
    let pause = |value| json!({"metadata": {"annotations": {format!("{PREFIX}/pause"): value}}});
    new.edit(&pause(json!("true")));
    new.on("node-3", DRIVER, Some(("apply", "in_progress")), "paused");
    new.status("paused", &[]);
    let report = cluster.report(&[]);
    report.has("SKY604", &json!({"name": "gpu"}));
    assert!(report.with_code("SKY703").is_empty(), "{:#}", report.json);
    cluster.capture("new-old-pods-under-a-pause");

    new.edit(&pause(json!(null)));
    let job = new.begins("node-3", DRIVER, "apply");
    new.await_job(&job, "is active", |status| status["active"] == 1);
    new.status("in_progress", &[]);
    let report = cluster.report(&[]);
    assert!(report.with_code("SKY604").is_empty(), "{:#}", report.json);
    let finding = report.has("SKY703", &json!({"node": "node-3", "package": "driver"}));
    assert_eq!(finding["severity"], "Error");
    cluster.capture("new-old-pods-beside-a-job");
    let argv = first_change(finding);
    assert_eq!(argv[..3], ["kubectl", "delete", "pod"]);
    execute(&cluster.rollout("gpu"), finding, &argv);
    cluster.heal();
    new.await_job(&job, "succeeds", |status| status["succeeded"] == 1);
    new.record(&job, 3600);
    new.on("node-3", DRIVER, Some(("apply", "complete")), "in_progress");
    new.runs("node-3", DRIVER, "config", "complete");
    new.status("complete", &[]);
    all_well(cluster);
}

/// Writes what the newer operator writes after it has taken over the nodes.
fn finished(new: &mut Played<'_>) {
    for node in ["node-1", "node-2", "node-3"] {
        new.on(node, DRIVER, Some(("config", "complete")), "complete");
    }
    new.status("complete", &[]);
}

/// SKY603: the NodeWright existed before the migration, which did not change it.
pub fn two_owning_resources(cluster: &Cluster) {
    let gpu = skyhook("gpu").with(package("driver", "2.0.1"));
    cluster.apply(&gpu).until(complete());
    upgraded(cluster);
    let mut new = Played::new(cluster, "gpu", &gpu.spec, &json!({}));
    finished(&mut new);
    let report = cluster.report(&[]);
    let finding = report.has("SKY603", &json!({"name": "gpu"}));
    cluster.capture("new-two-owners");
    let argv = first_change(finding);
    assert_eq!(argv[..2], ["kubectl", "delete"]);
    // Remove the finalizer, as the newer operator would: the older one is gone.
    let free = json!({"metadata": {"finalizers": null}});
    let freed = cluster.api.merge(SKYHOOK, &free);
    freed.expect("a finalizer can be taken off");
    execute(&cluster.rollout("gpu"), finding, &argv);
    cluster.await_that("the older one is gone", || cluster.api.get(SKYHOOK).is_err());
    let report = cluster.report(&[]);
    assert!(report.with_code("SKY603").is_empty(), "{:#}", report.json);
    all_well(cluster);
}

/// SKY606: the node left the selection before its old keys were removed.
pub fn legacy_keys_left(cluster: &Cluster) {
    let selected = json!({"metadata": {"labels": {"pool": "gpu"}}});
    for node in ["node-1", "node-2", "node-3"] {
        cluster.patch_node(node, selected.clone());
    }
    let gpu = skyhook("gpu")
        .with(package("driver", "2.0.1"))
        .set("nodeSelectors", json!({"matchLabels": {"pool": "gpu"}}));
    cluster.apply(&gpu).until(complete());
    upgraded(cluster);
    let mut new = mirrored(cluster, &gpu, 1);
    finished(&mut new);
    let at = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(25);
    let at = at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    new.edit(&json!({"metadata": {"annotations": {format!("{PREFIX}/legacy-migrated-at"): at}}}));
    cluster.patch_node("node-3", json!({"metadata": {"labels": {"pool": null}}}));
    for node in ["node-1", "node-2"] {
        without_old_keys(cluster, node);
    }
    let report = cluster.report(&[]);
    let finding = report.has("SKY606", &json!({"node": "node-3"}));
    cluster.capture("new-legacy-keys-left");
    let argv = first_change(finding);
    assert_eq!(argv[2..4], ["leftovers", "--clean"]);
    execute(&cluster.rollout("gpu"), finding, &argv);
    let report = cluster.report(&[]);
    assert!(report.with_code("SKY606").is_empty(), "{:#}", report.json);
    assert!(old_keys(&cluster.node("node-3")).is_empty());
}

/// Removes the old keys, as the newer operator does a day after it has taken over the node.
fn without_old_keys(cluster: &Cluster, node: &str) {
    let keys = old_keys(&cluster.node(node));
    let none: serde_json::Map<_, _> = keys.into_iter().map(|key| (key, json!(null))).collect();
    cluster.patch_node(node, json!({"metadata": {"annotations": none, "labels": none}}));
}

/// The annotations and labels with the older operator's prefix.
fn old_keys(node: &Value) -> Vec<String> {
    let kept = ["annotations", "labels"].map(|kind| node["metadata"][kind].as_object().cloned());
    let all = kept.into_iter().flatten().flat_map(|all| all.into_iter());
    all.map(|(key, _)| key).filter(|key| key.starts_with("skyhook.nvidia.com/")).collect()
}
