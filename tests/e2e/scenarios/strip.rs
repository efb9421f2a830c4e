//! Forced deletions and their leftovers, compared with the operator's own finalizer.

use std::{process::Command, time::Duration};

use serde_json::{Value, json};

use super::writes::run;
use crate::{
    api::Api,
    cluster::{Cluster, SKYHOOKS},
    kubelet::{StepResult, Target},
    manifest::{Skyhook, package, skyhook},
    operator::{self, NAMESPACE},
    ours,
    rollout::pods,
    view::{PREFIX, complete, deleted, entry, that},
};

const LONG_ENOUGH: Duration = Duration::from_secs(7);
const DRIVER: &str = "driver|2.0.1";
pub const STRIP: [&str; 5] = ["finalizer", "strip", "gpu", "--force", "--confirm"];

pub fn driver() -> Skyhook {
    skyhook("gpu").with(package("driver", "2.0.1"))
}

pub fn uninstallable() -> Skyhook {
    skyhook("gpu").with(package("driver", "2.0.1").uninstallable())
}

/// All nodes without server-generated fields and the operator's conditions; also the types of these
/// conditions.
fn nodes(api: &Api) -> (Value, Vec<String>) {
    let mut conditions = Vec::new();
    let mut nodes = api.items("/api/v1/nodes").expect("nodes");
    for node in &mut nodes {
        let metadata = node["metadata"].as_object_mut().expect("metadata");
        for counted in ["uid", "resourceVersion", "managedFields", "creationTimestamp"] {
            metadata.remove(counted);
        }
        // An empty map equals a missing one.
        metadata.retain(|_, value| *value != json!({}));
        let all = node["status"]["conditions"].as_array_mut().expect("a list");
        all.retain_mut(|c| {
            let kind = c["type"].as_str().unwrap_or_default().to_owned();
            let ours = kind.starts_with(PREFIX);
            if ours {
                conditions.push(kind);
            }
            let c = c.as_object_mut().expect("a condition");
            c.retain(|key, _| !key.ends_with("Time"));
            !ours
        });
    }
    (json!(nodes), conditions)
}

/// Removes all traces of the operator from the nodes.
fn scrub(cluster: &Cluster) {
    for node in cluster.api.items("/api/v1/nodes").expect("nodes") {
        let name = node["metadata"]["name"].as_str().expect("a name");
        let nulls = |map: &str| -> Value {
            let all = node["metadata"][map].as_object().into_iter().flatten();
            all.filter(|(key, _)| key.starts_with(PREFIX))
                .map(|(key, _)| (key.clone(), Value::Null))
                .collect::<serde_json::Map<_, _>>()
                .into()
        };
        let (annotations, labels) = (nulls("annotations"), nulls("labels"));
        cluster.patch_node(
            name,
            json!({
                "metadata": {"annotations": annotations, "labels": labels},
                "spec": {"unschedulable": null, "taints": null},
            }),
        );
        let mut kept = node["status"]["conditions"].clone();
        let all = kept.as_array_mut().expect("a list");
        all.retain(|c| !c["type"].as_str().unwrap_or_default().starts_with(PREFIX));
        let path = format!("/api/v1/nodes/{name}/status");
        let patch = json!({"status": {"conditions": kept}});
        cluster.api.merge(&path, &patch).expect("a status");
    }
}

/// Number of pods and ConfigMaps of `gpu`'s packages; the garbage collector deletes them with the custom
/// resource.
pub fn owned(cluster: &Cluster) -> usize {
    let count = |plural: &str| {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/{plural}?labelSelector={PREFIX}/name%3Dgpu");
        cluster.api.items(&path).expect("a list").len()
    };
    count("pods") + count("configmaps")
}

/// Builds the same state twice: first the operator handles the deletion, then our `finalizer strip` while the
/// operator is stopped.
///
/// Returns the nodes after the operator's deletion and after ours.
fn both_ways(cluster: &Cluster, made: impl Fn(&Cluster), more: &[&str]) -> (Value, Value) {
    made(cluster);
    let gpu = cluster.rollout("gpu");
    gpu.delete().until(deleted());
    cluster.await_that("nothing of it is left", || owned(cluster) == 0);
    // Not earlier: if a pod ends before the finalizer runs, its stage is recorded as complete.
    cluster.heal();
    // Wait until the operator has finished its work on other custom resources.
    std::thread::sleep(LONG_ENOUGH);
    let (theirs, conditions) = nodes(&cluster.api);
    assert!(!conditions.is_empty(), "this operator leaves its conditions");

    for other in cluster.api.items(SKYHOOKS).expect("a list") {
        let name = other["metadata"]["name"].as_str().expect("a name").to_owned();
        cluster.rollout(&name).delete().until(deleted());
    }
    cluster.stop_operator();
    scrub(cluster);
    cluster.start_operator();
    made(cluster);
    cluster.stop_operator();
    gpu.delete();
    run(cluster, &[&STRIP, more].concat());
    gpu.until(deleted());
    cluster.await_that("nothing of it is left", || owned(cluster) == 0);
    let (_, conditions) = nodes(&cluster.api);
    let left: Vec<&String> = conditions.iter().filter(|c| c.contains("/gpu/")).collect();
    assert!(left.is_empty(), "{left:?}");
    // The operator must find nothing to do.
    cluster.heal();
    cluster.start_operator();
    std::thread::sleep(LONG_ENOUGH);
    (theirs, nodes(&cluster.api).0)
}

#[track_caller]
fn as_clean(cluster: &Cluster, made: impl Fn(&Cluster), more: &[&str]) {
    let (theirs, ours) = both_ways(cluster, made, more);
    assert_eq!(ours, theirs, "{ours:#}\nand not\n{theirs:#}");
}

pub fn cleans_like_the_operator_when_complete(cluster: &Cluster) {
    as_clean(
        cluster,
        |cluster| {
            cluster.apply(&driver()).until(complete());
        },
        &[],
    );
}

/// During an interrupt: the node is cordoned, and the pod hangs.
pub fn cleans_like_the_operator_during_an_interrupt(cluster: &Cluster) {
    as_clean(
        cluster,
        |cluster| {
            cluster.result(pods("driver", "interrupt").on("node-2"), StepResult::Hang);
            let interrupts = package("driver", "2.0.1").interrupts("service");
            cluster
                .apply(&skyhook("gpu").with(interrupts))
                .until(entry("node-1", DRIVER, "post-interrupt", "complete"))
                .until(entry("node-3", DRIVER, "post-interrupt", "complete"))
                .until(entry("node-2", DRIVER, "interrupt", "in_progress"))
                .until(that("cordoned", |view| {
                    view.nodes[1]["spec"]["unschedulable"] == true
                        && view.annotation("node-2", "cordon_gpu").is_some()
                }));
        },
        &[],
    );
}

/// The operator uninstalls the package, so no record is left; our strip runs no uninstall, and needs
/// `--purge-state` for the same result.
pub fn cleans_like_the_operator_with_purge_state(cluster: &Cluster) {
    as_clean(
        cluster,
        |cluster| {
            cluster.apply(&uninstallable()).until(complete());
        },
        &["--purge-state"],
    );
}

/// Another custom resource on the same nodes is not affected.
pub fn cleans_like_the_operator_beside_another_resource(cluster: &Cluster) {
    let other = || skyhook("net").with(package("tuning", "1.2.0"));
    as_clean(
        cluster,
        |cluster| {
            cluster.apply(&driver()).until(complete());
            cluster.apply(&other()).until(complete());
        },
        &[],
    );
    cluster.rollout("net").until(complete()).well();
}

fn tainted() -> Value {
    let key = PREFIX;
    json!([{"key": key, "value": "runtime-required", "effect": "NoSchedule"}])
}

/// The taint is no longer needed: the operator never removes it after the deletion of the only custom
/// resource that requires it; our strip does.
pub fn unneeded_runtime_required_taint_is_removed(cluster: &Cluster) {
    let required =
        |name: &str| skyhook(name).with(package("driver", "2.0.1")).set("runtimeRequired", json!(true));
    let made = |cluster: &Cluster| {
        cluster.patch_node("node-1", json!({"spec": {"taints": tainted()}}));
        let hangs = Target { skyhook: Some("gpu".to_owned()), ..pods("driver", "apply").on("node-1") };
        cluster.result(hangs, StepResult::Hang);
        cluster
            .apply(&required("gpu"))
            .until(entry("node-2", DRIVER, "config", "complete"))
            .until(entry("node-3", DRIVER, "config", "complete"))
            .until(entry("node-1", DRIVER, "apply", "in_progress"));
    };
    let (mut theirs, ours) = both_ways(cluster, made, &[]);
    assert_eq!(theirs[0]["spec"]["taints"], tainted(), "nobody lifts it");
    theirs[0]["spec"].as_object_mut().expect("a spec").remove("taints");
    assert_eq!(ours, theirs, "{ours:#}\nand not\n{theirs:#}");
}

pub fn request(api: &Api, name: &str) -> Value {
    api.get(&format!("{SKYHOOKS}/{name}")).expect("the custom resource exists")
}

/// Removes the operator, its Deployment and Service, but leaves its webhook configurations, which then fail.
pub fn remove_operator_alone(cluster: &Cluster) {
    cluster.stop_operator();
    for path in [
        operator::deployment(NAMESPACE),
        format!("/api/v1/namespaces/{NAMESPACE}/services/skyhook-operator-webhook-service"),
    ] {
        cluster.api.delete(&path, &json!({})).expect("the object can be deleted");
    }
}

/// The operator was uninstalled without its webhook configurations, so the server rejects every change:
/// `finalizer strip` refuses before it writes, and succeeds after the printed commands.
pub fn webhooks_without_an_operator(cluster: &Cluster) {
    let gpu = cluster.apply(&uninstallable());
    gpu.until(complete());
    remove_operator_alone(cluster);
    gpu.delete();
    let before = request(&cluster.api, "gpu");
    let kubeconfig = cluster.kubeconfig("admin");
    let refused = ours::run(&kubeconfig, &STRIP);
    assert_eq!(refused.exit, Some(3), "{refused:#?}");
    assert_eq!(request(&cluster.api, "gpu"), before);
    let printed: Vec<&str> =
        refused.stderr.lines().filter_map(|line| line.find("kubectl ").map(|at| &line[at..])).collect();
    let unblock = [
        "kubectl delete validatingwebhookconfigurations skyhook-operator-validating-webhook",
        "kubectl delete mutatingwebhookconfigurations skyhook-operator-mutating-webhook",
    ];
    for command in unblock {
        assert!(printed.contains(&command), "{command}: {refused:#?}");
    }
    cluster.report(&[]).has("SKY505", &json!({"name": "skyhook-operator-validating-webhook"}));
    // The refusal is right: the server rejects the patch.
    let patch = json!({"metadata": {"finalizers": null}});
    let turned_down = cluster.api.merge(&format!("{SKYHOOKS}/gpu"), &patch);
    let turned_down = turned_down.expect_err("the webhook is asked");
    assert!(turned_down.message.contains("failed calling webhook"), "{turned_down}");

    for command in unblock {
        let out = Command::new("sh")
            .args(["-c", command])
            .env("KUBECONFIG", &kubeconfig)
            .output()
            .expect("a shell");
        assert!(out.status.success(), "{command}: {out:?}");
    }
    run(cluster, &STRIP);
    gpu.until(deleted());
}
