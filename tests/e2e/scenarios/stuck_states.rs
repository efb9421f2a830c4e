//! Each documented stuck state: how it arises, a wait that shows that it stays, our report, and the
//! documented remedy.

use std::{collections::BTreeSet, time::Duration};

use serde_json::{Value, json};

use super::fixtures::{changes_new_pods, guarded_workload};
use super::remedies::{all_well, execute};
use super::writes;

use crate::{
    cluster::Cluster,
    kubelet::{StepResult, Target},
    manifest::{package, skyhook},
    operator,
    rollout::pods,
    view::{absent, complete, condition, entry, everywhere, pod, status, that},
};

/// Several reconciles: the operator requeues every two seconds while there is work.
const LONG_ENOUGH: Duration = Duration::from_secs(7);

pub fn uninstall_stuck_without_its_interrupt(cluster: &Cluster) {
    let gpu =
        cluster.apply(&skyhook("gpu").with(package("driver", "2.0.1").uninstallable().interrupts("service")));
    gpu.until(complete());
    cluster.result(pods("driver", "uninstall-interrupt"), StepResult::Unseen);
    gpu.uninstall("driver", true)
        .until(everywhere("driver|2.0.1", "uninstall-interrupt", "in_progress"))
        .until(pod("driver", "uninstall-interrupt"))
        .well()
        .capture("old-uninstall-interrupt-in-progress");

    // The interrupt is removed from the spec before its pods have run, and the pods are lost, as in an
    // eviction.
    cluster.stop_operator();
    gpu.edit(json!({"packages": {"driver": {"interrupt": null}}}));
    for pod in gpu.view().pods {
        let path = format!(
            "/api/v1/namespaces/skyhook/pods/{}",
            pod["metadata"]["name"].as_str().unwrap_or_default()
        );
        cluster.api.delete(&path, &json!({"gracePeriodSeconds": 0})).expect("the pod can be removed");
    }
    cluster.heal();
    cluster.start_operator();
    gpu.stays(&everywhere("driver|2.0.1", "uninstall-interrupt", "in_progress"), LONG_ENOUGH)
        .diagnosed("SKY102", json!({"node": "node-2", "package": "driver"}))
        .capture("old-uninstall-interrupt-stranded");

    gpu.edit(json!({"packages": {"driver": {"interrupt": {"type": "service", "services": ["containerd"]}}}}));
    gpu.until(absent("driver|2.0.1")).until(complete());
}

pub fn uninstall_requested_but_never_installed(cluster: &Cluster) {
    let gpu = cluster.apply(
        &skyhook("gpu").with(package("tuning", "1.2.0")).with(package("driver", "2.0.1").uninstalling()),
    );
    gpu.until(complete())
        .stays(&absent("driver|2.0.1"), LONG_ENOUGH)
        .diagnosed("SKY103", json!({"package": "driver"}))
        .capture("old-apply-true-never-installed");
    gpu.uninstall("driver", false)
        .until(everywhere("driver|2.0.1", "config", "complete"))
        .until(complete())
        .well();
}

/// SKY104 arises only if the uninstall of the old version ends before the operator sees the new version, here
/// during a pause.
pub fn version_changed_while_uninstalling(cluster: &Cluster) {
    // Without events, the state may look like a finished uninstall.
    cluster.allow_events();
    let gpu = cluster.apply(
        &skyhook("gpu").with(package("tuning", "1.2.0")).with(package("driver", "2.0.1").uninstallable()),
    );
    gpu.until(complete());
    cluster.result(pods("driver", "uninstall"), StepResult::Hang);
    gpu.uninstall("driver", true)
        .until(everywhere("driver|2.0.1", "uninstall", "in_progress"))
        .until(that("every node runs it", |view| {
            view.pods_of("driver", "uninstall").len() == view.nodes.len()
        }));
    gpu.annotate("pause", json!("true")).until(status("paused"));
    gpu.edit(json!({"packages": {"driver": {"version": "2.1.0"}}}));
    cluster.heal();
    gpu.until(absent("driver|2.0.1"));
    gpu.annotate("pause", Value::Null)
        .until(complete())
        .stays(&absent("driver|2.1.0"), LONG_ENOUGH)
        .diagnosed("SKY104", json!({"package": "driver"}))
        .capture("old-version-changed-while-uninstalling");
    gpu.uninstall("driver", false)
        .until(everywhere("driver|2.1.0", "config", "complete"))
        .until(complete())
        .well();
}

/// Without a pause, the operator upgrades the package, then uninstalls the new version, too.
pub fn version_changed_while_the_operator_runs(cluster: &Cluster) {
    let gpu = cluster.apply(
        &skyhook("gpu").with(package("tuning", "1.2.0")).with(package("driver", "2.0.1").uninstallable()),
    );
    gpu.until(complete());
    cluster.result(pods("driver", "uninstall"), StepResult::Hang);
    gpu.uninstall("driver", true).until(everywhere("driver|2.0.1", "uninstall", "in_progress"));
    gpu.edit(json!({"packages": {"driver": {"version": "2.1.0"}}}));
    gpu.until(pod("driver", "upgrade"));
    cluster.heal();
    gpu.until(absent("driver|2.0.1")).until(absent("driver|2.1.0")).until(complete());
}

/// While the uninstall pod does not end on one node, the operator cancels the uninstall on no node.
pub fn cancelled_uninstall_still_running(cluster: &Cluster) {
    let gpu = cluster.apply(&skyhook("gpu").with(package("driver", "2.0.1").uninstallable()));
    gpu.until(complete());
    cluster.result(pods("driver", "uninstall"), StepResult::Hang);
    cluster.result(pods("driver", "uninstall").on("node-2"), StepResult::Undying);
    gpu.uninstall("driver", true).until(that("the scripts run", |view| {
        let running = view.pods_of("driver", "uninstall");
        running.iter().filter(|pod| pod["status"]["startTime"].is_string()).count() == 3
    }));
    gpu.uninstall("driver", false)
        .until(that("one pod is left", |view| view.pods.len() == 1))
        .stays(&pod("driver", "uninstall"), LONG_ENOUGH)
        .until(everywhere("driver|2.0.1", "uninstall", "in_progress"))
        .diagnosed("SKY105", json!({"node": "node-2", "package": "driver"}))
        .capture("old-cancelled-uninstall-still-running");
    cluster.heal();
    gpu.until(everywhere("driver|2.0.1", "config", "complete")).until(complete()).well();
}

pub fn dependency_uninstalled(cluster: &Cluster) {
    let gpu = cluster.apply(
        &skyhook("gpu")
            .with(package("tuning", "1.2.0").uninstallable())
            .with(package("driver", "2.0.1").after("tuning", "1.2.0")),
    );
    gpu.until(complete());
    gpu.uninstall("tuning", true).until(absent("tuning|1.2.0"));
    gpu.edit(json!({"packages": {"driver": {"version": "2.1.0"}}}));
    gpu.until(condition("Blocked", "DependencyUninstalled"))
        .until(everywhere("driver|2.1.0", "upgrade", "in_progress"))
        .stays(&everywhere("driver|2.1.0", "upgrade", "in_progress"), LONG_ENOUGH)
        .diagnosed("SKY111", json!({"package": "driver"}))
        .capture("old-dependency-uninstalled");
    gpu.uninstall("tuning", false)
        .until(everywhere("driver|2.1.0", "config", "complete"))
        .until(complete())
        .well();
}

pub fn uninstall_failing(cluster: &Cluster) {
    let gpu = cluster.apply(&skyhook("gpu").with(package("driver", "2.0.1").uninstallable()));
    gpu.until(complete());
    cluster.result(pods("driver", "uninstall").on("node-2"), StepResult::Exit(3));
    gpu.uninstall("driver", true)
        .until(entry("node-2", "driver|2.0.1", "uninstall", "erroring"))
        .until(condition("UninstallFailed", "UninstallPodFailing"))
        .diagnosed("SKY112", json!({"node": "node-2", "package": "driver"}))
        .capture("old-uninstall-failing");
    cluster.heal();
    gpu.until(absent("driver|2.0.1")).until(complete());
}

pub fn package_out_of_memory(cluster: &Cluster) {
    cluster.result(pods("driver", "apply").on("node-1"), StepResult::OutOfMemory);
    let gpu = cluster.apply(&skyhook("gpu").with(package("driver", "2.0.1")));
    gpu.until(entry("node-1", "driver|2.0.1", "apply", "erroring"))
        .diagnosed("SKY201", json!({"node": "node-1", "package": "driver"}))
        .capture("old-package-out-of-memory");
    cluster.heal();
    gpu.until(complete()).well();
}

/// The operator does not report a failing image pull: the package stays in progress.
pub fn image_pull_failing(cluster: &Cluster) {
    cluster.result(pods("driver", "apply").on("node-2"), StepResult::PullFails);
    let gpu = cluster.apply(&skyhook("gpu").with(package("driver", "2.0.1")));
    gpu.until(entry("node-1", "driver|2.0.1", "config", "complete"))
        .until(that("the pull backs off", |view| {
            view.pods.iter().any(|pod| {
                pod["status"]["initContainerStatuses"][0]["state"]["waiting"]["reason"] == "ImagePullBackOff"
            })
        }))
        .stays(&entry("node-2", "driver|2.0.1", "apply", "in_progress"), LONG_ENOUGH)
        .until(status("in_progress"))
        .diagnosed("SKY202", json!({"node": "node-2", "package": "driver"}))
        .capture("old-image-pull-failing");
    cluster.heal();
    gpu.until(complete());
}

/// The kubelet of a node does not start the pod.
pub fn pod_never_started(cluster: &Cluster) {
    cluster.result(Target::default().on("node-3"), StepResult::Unseen);
    let gpu = cluster.apply(&skyhook("gpu").with(package("driver", "2.0.1")));
    gpu.until(entry("node-1", "driver|2.0.1", "config", "complete"))
        .until(entry("node-3", "driver|2.0.1", "apply", "in_progress"))
        .stays(&status("in_progress"), LONG_ENOUGH)
        .capture("old-pod-never-acknowledged");
    cluster.heal();
    gpu.until(complete());
}

/// SKY401: a PodDisruptionBudget that allows no eviction blocks the drain.
pub fn drain_blocked_by_a_budget(cluster: &Cluster) {
    let path = guarded_workload(cluster);
    let gpu = cluster.apply(&skyhook("gpu").with(package("driver", "2.0.1").interrupts("service")));
    gpu.until(that("the operator is refused", {
        let log = cluster.log_reader("operator");
        move |_| log().contains("Cannot evict pod as it would violate the pod's disruption budget")
    }));
    gpu.stays(
        &that("nothing on node-2", |view| !view.entries("driver|2.0.1").iter().any(|e| e.node == "node-2")),
        LONG_ENOUGH,
    )
    .capture("old-drain-blocked");
    // The last remedy excludes the node, and the other nodes complete.
    let report = cluster.report(&[]);
    let finding = report.has("SKY401", &json!({"node": "node-2"}));
    execute(&gpu, finding, &["node", "ignore"]);
    let driver = "driver|2.0.1";
    gpu.until(everywhere(driver, "post-interrupt", "complete").but_for("node-2"));
    cluster.api.delete(&path, &json!({})).expect("the budget can be removed");
    writes::run(cluster, &["node", "unignore", "node-2", "--confirm"]);
    gpu.until(complete());
}

/// SKY215: an admission policy changes each pod, and the operator deletes and recreates pods that differ from
/// the spec.
pub fn mutated_pods_are_replaced_endlessly(cluster: &Cluster) {
    changes_new_pods(
        cluster,
        "true",
        r#"[JSONPatch{op: "replace", path: "/spec/initContainers/0/image", value: object.spec.initContainers[0].image.replace("ghcr.io", "mirror.example")}]"#,
    );
    cluster.result(pods("driver", "apply"), StepResult::Hang);
    let gpu = cluster.apply(&skyhook("gpu").with(package("driver", "2.0.1")));
    let mut seen = BTreeSet::new();
    cluster.await_that("pods come and go", || {
        seen.extend(gpu.view().pods.iter().map(|pod| pod["metadata"]["uid"].to_string()));
        seen.len() > 9
    });
    // A pod exists only from time to time.
    cluster.await_that("it is named", || !gpu.report().with_code("SKY215").is_empty());
    cluster.edits("s/ghcr[.]io/mirror.example/");
    let remedy = ["kubectl", "edit"];
    cluster.await_that("the spec asks for the same", || {
        let report = gpu.report();
        let found = report.with_code("SKY215");
        let Some(finding) = found.first() else {
            return false;
        };
        execute(&gpu, finding, &remedy);
        true
    });
    cluster.heal();
    gpu.until(complete()).well();
}

/// SKY508: the chart is installed a second time, in another namespace.
pub fn two_operators_running(cluster: &Cluster) {
    let gpu = cluster.apply(&skyhook("gpu").with(package("driver", "2.0.1")));
    gpu.until(complete());
    let namespace = json!({"metadata": {"name": "nodewright"}});
    let made = cluster.api.post("/api/v1/namespaces", &namespace);
    made.expect("a namespace can be created");
    let second = operator::announce(&cluster.api, "nodewright", operator::VERSION, operator::IMAGE);
    second.expect("a Deployment can be created");
    assert!(!cluster.report(&[]).with_code("SKY508").is_empty());
    let path = operator::deployment("nodewright");
    let patch = |path: &str, patch: Value| {
        let changed = cluster.api.merge(path, &patch);
        changed.expect("a Deployment can be changed");
    };
    patch(&path, json!({"spec": {"replicas": 0}}));
    let none = json!({"replicas": null, "updatedReplicas": null, "readyReplicas": null, "availableReplicas": null,
        "conditions": null});
    patch(&format!("{path}/status"), json!({"status": none}));
    all_well(cluster);
}
