//! States without events or errors: their finding comes first in the report, and its first remedy that writes
//! fixes them.

use serde_json::{Value, json};

use super::{
    fixtures::{changes_new_pods, chosen},
    races::{HOLD, held_up, noted},
    remedies::{all_well, execute, first_change},
    writes::{self, DRIVER, LONG_ENOUGH, TUNING},
};
use crate::{
    cluster::Cluster,
    kubelet::{StepResult, Target},
    manifest::{package, skyhook},
    operator,
    rollout::{Rollout, pods},
    run::{Child, run},
    view::{absent, complete, entry, everywhere, status, that},
};

/// Asserts that the first finding has this code, and runs its first remedy that writes.
#[track_caller]
fn cure(gpu: &Rollout<'_>, code: &str, subject: Value) {
    let report = gpu.cluster.report(&[]);
    let first = report.findings().first();
    assert!(first.is_some_and(|f| f["code"] == code), "first stands {code}: {:#}", report.json);
    let finding = report.has(code, &subject);
    execute(gpu, finding, &first_change(finding));
}

#[track_caller]
fn silent(cluster: &Cluster) {
    let report = cluster.report(&[]);
    assert!(report.findings().is_empty(), "{:#}", report.json);
}

/// SKY219: the script never ends.
pub fn stage_never_ends(cluster: &Cluster) {
    cluster.result(pods("driver", "apply").on("node-2"), StepResult::LongHang);
    let gpu = cluster.apply(&skyhook("gpu").with(package("driver", "2.0.1")));
    let runs = that("the script runs on node-2", |view| {
        let pods = view.pods_of("driver", "apply");
        pods.iter().any(|pod| {
            let containers = pod["status"]["initContainerStatuses"].as_array();
            pod["spec"]["nodeName"] == "node-2"
                && containers.is_some_and(|all| all[1]["state"]["running"].is_object())
        })
    });
    gpu.until(everywhere(DRIVER, "config", "complete").but_for("node-2"))
        .until(runs)
        .capture("old-stage-that-never-ends");
    let begun = || cluster.kubelet.pods_started("driver", "apply", "node-2");
    assert_eq!(begun(), 1);
    cure(&gpu, "SKY219", json!({"node": "node-2", "package": "driver"}));
    cluster.await_that("the stage starts again", || begun() == 2);
    cluster.heal();
    gpu.until(complete());
    silent(cluster);
}

/// SKY501, shown only by `replicas: 0` in the Deployment's spec.
pub fn operator_scaled_to_zero(cluster: &Cluster) {
    cluster.result(pods("driver", "apply").on("node-2"), StepResult::Hang);
    let gpu = cluster.apply(&skyhook("gpu").with(package("driver", "2.0.1")));
    gpu.until(entry("node-2", DRIVER, "apply", "in_progress"));
    cluster.stop_operator();
    let path = operator::deployment(operator::NAMESPACE);
    let change =
        |path: &str, patch: Value| cluster.api.merge(path, &patch).expect("a Deployment can be changed");
    change(&path, json!({"spec": {"replicas": 0}}));
    let status = format!("{path}/status");
    let none = json!({"replicas": null, "updatedReplicas": null, "readyReplicas": null, "availableReplicas": null,
        "conditions": null});
    change(&status, json!({"status": none}));
    cluster.heal();
    cluster.capture("old-operator-scaled-to-zero");
    cure(&gpu, "SKY501", json!({}));
    let deployment = cluster.api.get(&path).expect("the Deployment exists");
    assert_eq!(deployment["spec"]["replicas"], 1);
    // No Deployment controller runs here: start the operator, and set the status that it would write.
    cluster.start_operator();
    let one = json!({"replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
        "observedGeneration": deployment["metadata"]["generation"]});
    change(&status, json!({"status": one}));
    gpu.until(complete());
    silent(cluster);
}

/// SKY221: the remedy adds the package to the spec again; it can be uninstalled from there.
pub fn package_removed_from_the_spec(cluster: &Cluster) {
    let gpu =
        cluster.apply(&skyhook("gpu").with(package("driver", "2.0.1")).with(package("tuning", "1.2.0")));
    gpu.until(complete());
    gpu.edit(json!({"packages": {"tuning": null}})).until(complete()).capture("old-package-left-the-spec");
    cluster.edits(
        "s#^  packages:$#&\\n    tuning:\\n      version: 1.2.0\\n      image: ghcr.io/nvidia/skyhook-packages/tuning#",
    );
    cure(&gpu, "SKY221", json!({"package": "tuning"}));
    gpu.until(everywhere(TUNING, "config", "complete")).until(complete());
    silent(cluster);
}

/// SKY115: the remedy removes the uninstalled package from the spec.
pub fn finished_uninstall_still_requested(cluster: &Cluster) {
    // The events prove that the package was installed; its last pod may already be deleted.
    cluster.allow_events();
    let gpu = cluster.apply(
        &skyhook("gpu").with(package("driver", "2.0.1").uninstallable()).with(package("tuning", "1.2.0")),
    );
    gpu.until(complete());
    gpu.uninstall("driver", true).until(absent(DRIVER)).until(complete()).capture("old-uninstall-finished");
    cluster.edits("/^    driver:$/,/^    tuning:$/{/^    tuning:$/!d}");
    cure(&gpu, "SKY115", json!({"package": "driver"}));
    gpu.until(complete()).until(absent(DRIVER));
    silent(cluster);
}

/// SKY111 at level info: the dependent package is complete, but its next change would wait for the
/// dependency.
pub fn dependency_of_a_complete_package_uninstalled(cluster: &Cluster) {
    // The events prove that the package was installed; its last pod may already be deleted.
    cluster.allow_events();
    let gpu = cluster.apply(
        &skyhook("gpu")
            .with(package("tuning", "1.2.0").uninstallable())
            .with(package("driver", "2.0.1").after("tuning", "1.2.0")),
    );
    gpu.until(complete());
    gpu.uninstall("tuning", true)
        .until(absent(TUNING))
        .until(complete())
        .capture("old-dependency-uninstalled-under-a-complete-one");
    cure(&gpu, "SKY111", json!({"package": "driver"}));
    gpu.until(everywhere(TUNING, "config", "complete")).until(complete());
    silent(cluster);
}

/// SKY407: the remedy sets `runtimeRequired`, so that the earlier custom resource tolerates the taint.
pub fn runtime_required_taint_deadlock(cluster: &Cluster) {
    let taint = json!([{"key": "skyhook.nvidia.com", "value": "runtime-required", "effect": "NoSchedule"}]);
    cluster.patch_node("node-1", json!({"spec": {"taints": taint}}));
    let kernel = skyhook("base").with(package("kernel", "1.0.0")).set("priority", json!(10));
    let base = cluster.apply(&kernel);
    let gate = skyhook("gpu").with(package("driver", "2.0.1")).set("runtimeRequired", json!(true));
    let gate = cluster.apply(&gate);
    gate.until(everywhere(DRIVER, "config", "complete").but_for("node-1"));
    base.until(everywhere("kernel|1.0.0", "config", "complete").but_for("node-1"));
    cluster.edits("s/^  runtimeRequired: false$/  runtimeRequired: true/");
    cure(&base, "SKY407", json!({"node": "node-1", "skyhook": "base"}));
    gate.until(complete()).until(that("free", |view| view.nodes[0]["spec"]["taints"].is_null()));
    base.until(complete());
    all_well(cluster);
}

/// SKY212: no webhook rejected the custom resource, and the operator stops working on all others, too.
pub fn spec_rejected_by_the_operator(cluster: &Cluster) {
    let broken = skyhook("broken").with(package("tuning", "1.2.0").after("driver", "2.0.1"));
    let broken = cluster.apply(&broken);
    let gpu = cluster.apply(&skyhook("gpu").with(package("driver", "2.0.1")));
    let nothing = that("nothing is begun", |view| view.pods.is_empty());
    gpu.stays(&nothing, LONG_ENOUGH).capture("old-spec-that-the-operator-rejects");
    cluster.edits("/dependsOn:/d; /driver: 2.0.1/d");
    cure(&broken, "SKY212", json!({"name": "broken"}));
    broken.until(complete());
    gpu.until(complete());
    silent(cluster);
}

/// SKY311: a reset was killed while it waited for the operator to confirm the pause.
pub fn stale_pause(cluster: &Cluster) {
    let gpu = held_up(cluster);
    cluster.stop_operator();
    let child = Child::default();
    let state = tempfile::tempdir().expect("a directory");
    let reset = run("reset gpu --confirm")
        .kubeconfig(&cluster.kubeconfig("admin"))
        .env("XDG_STATE_HOME", state.path())
        .child(&child);
    let ran = std::thread::scope(|scope| {
        let reset = scope.spawn(|| reset.output());
        cluster.await_that("it asks for a pause", || noted(&gpu, HOLD) != Value::Null);
        child.kill()(&mut ());
        reset.join().expect("the reset does not panic")
    });
    assert_eq!(ran.code, None, "{}", ran.transcript());
    cluster.start_operator();
    gpu.until(status("paused")).capture("old-pause-left-behind");
    cure(&gpu, "SKY311", json!({"name": "gpu"}));
    assert_eq!(noted(&gpu, HOLD), Value::Null);
    cluster.heal();
    gpu.until(complete());
    silent(cluster);
}

/// SKY313: two custom resources with a budget of one node each would reboot two nodes at once.
pub fn reboots_not_counted_together(cluster: &Cluster) {
    cluster.result(Target::default(), StepResult::Hang);
    let rebooting = |name: &str, priority: u32, of: &str| {
        let package = package(of, "1.0.0").interrupts("reboot");
        let one = skyhook(name).with(package);
        one.set("priority", json!(priority)).set("interruptionBudget", json!({"count": 1}))
    };
    let first = cluster.apply(&rebooting("first", 100, "driver"));
    let second = cluster.apply(&rebooting("second", 200, "tuning"));
    first.until(that("it is at work", |view| !view.entries("driver|1.0.0").is_empty()));
    cluster.capture("old-reboots-not-counted-together");
    cluster.edits("s#sequencing: node#sequencing: all#");
    let found = cluster.report(&[]);
    let finding = found.has("SKY313", &json!({"name": "second"}));
    execute(&first, finding, &first_change(finding));
    let sequencing = first.view().object.expect("the custom resource exists")["spec"]["sequencing"].clone();
    assert_eq!(sequencing, "all");
    let report = cluster.report(&[]);
    assert!(report.with_code("SKY313").is_empty(), "{:#}", report.json);
    cluster.heal();
    first.until(complete());
    second.until(complete());
    silent(cluster);
}

/// SKY312: the only node of the batch waits for an earlier custom resource. The remedy excludes the node; it
/// is included again once the earlier custom resource is complete.
pub fn batch_slots_held(cluster: &Cluster) {
    let nodes = ["node-1", "node-2", "node-3"];
    for node in nodes {
        cluster.run_pod(&format!("training-{node}"), node, json!({"app": "training"}));
    }
    let gpu = cluster.apply(
        &skyhook("gpu")
            .with(package("driver", "2.0.1").interrupts("service"))
            .set("interruptionBudget", json!({"count": 1}))
            .set("podNonInterruptLabels", json!({"matchLabels": {"app": "training"}})),
    );
    let (held, _) = chosen(&gpu);
    // From now on `base` has priority on the node, and it fails there.
    cluster.result(pods("kernel", "apply").on(held), StepResult::PullFails);
    let base = skyhook("base").with(package("kernel", "1.0.0")).set("priority", json!(10));
    let base = cluster.apply(&base);
    base.until(everywhere("kernel|1.0.0", "config", "complete").but_for(held));
    for node in nodes {
        let training = format!("/api/v1/namespaces/default/pods/training-{node}");
        let ended = cluster.api.delete(&training, &json!({}));
        ended.expect("the workload ends");
    }
    let nothing = that("nothing is begun", |view| view.entries(DRIVER).is_empty());
    gpu.stays(&nothing, LONG_ENOUGH).capture("old-batch-slots-held");
    // A larger budget alone does not help: the operator forms no new batch.
    gpu.edit(json!({"interruptionBudget": {"count": 3}}))
        .stays(&nothing, LONG_ENOUGH)
        .edit(json!({"interruptionBudget": {"count": 1}}));
    let report = cluster.report(&[]);
    let finding = report.has("SKY312", &json!({"name": "gpu"}));
    execute(&gpu, finding, &first_change(finding));
    gpu.until(everywhere(DRIVER, "post-interrupt", "complete").but_for(held));
    cluster.heal();
    writes::run(cluster, &["node", "unignore", held, "--confirm"]);
    base.until(complete());
    gpu.until(complete());
    silent(cluster);
}

/// SKY310: upgrade without a deployment policy; the operator still counts nodes of the previous rollout.
pub fn batch_counters_frozen(cluster: &Cluster) {
    let newer = "driver|2.0.2";
    let gpu = cluster.apply(
        &skyhook("gpu").with(package("driver", "2.0.1")).set("interruptionBudget", json!({"count": 1})),
    );
    gpu.until(complete());
    // Two nodes wait for another custom resource; nothing else is running.
    for node in ["node-2", "node-3"] {
        cluster.result(pods("kernel", "apply").on(node), StepResult::PullFails);
    }
    let base = skyhook("base").with(package("kernel", "1.0.0")).set("priority", json!(10));
    let base = cluster.apply(&base);
    base.until(entry("node-1", "kernel|1.0.0", "config", "complete"));
    gpu.edit(json!({
        "packages": {"driver": {"version": "2.0.2"}},
        "interruptionBudget": {"count": 3},
    }))
    .until(that("node-1 is done, and nothing runs", |view| {
        let node = &view.nodes[0]["metadata"]["annotations"];
        node["skyhook.nvidia.com/status_gpu"] == "complete"
            && view.entries(newer).iter().any(|e| e.node == "node-1")
            && view.pods.is_empty()
    }));
    // A higher `priority` value puts `base` last, which frees the two nodes. The operator is stopped: nothing
    // may start before the diagnosis.
    cluster.stop_operator();
    base.edit(json!({"priority": 300}));
    gpu.capture("old-batch-counters-frozen");
    let report = cluster.report(&[]);
    let finding = report.has("SKY310", &json!({"name": "gpu"}));
    execute(&gpu, finding, &first_change(finding));
    let report = cluster.report(&[]);
    assert!(report.with_code("SKY310").is_empty(), "{:#}", report.json);
    cluster.start_operator();
    cluster.heal();
    base.until(complete());
    gpu.until(everywhere(newer, "config", "complete")).until(complete());
    silent(cluster);
}

/// SKY412: an admission policy removes all tolerations with a key, as on AKS.
pub fn drain_evicts_package_pods(cluster: &Cluster) {
    let keyless = "has(object.spec.tolerations) && object.spec.tolerations.exists(t, !has(t.key))";
    changes_new_pods(
        cluster,
        keyless,
        r#"[JSONPatch{op: "replace", path: "/spec/tolerations", value: object.spec.tolerations.filter(t, !has(t.key))}]"#,
    );
    let gpu = cluster.apply(
        &skyhook("gpu")
            .with(package("driver", "2.0.1").interrupts("service"))
            .set("additionalTolerations", json!([{"operator": "Exists"}])),
    );
    let mut seen = std::collections::BTreeSet::new();
    cluster.await_that("pods come and go", || {
        let view = gpu.view();
        let pods = view.pods_of("driver", "apply").into_iter();
        seen.extend(pods.map(|pod| pod["metadata"]["uid"].to_string()));
        seen.len() > 9
    });
    cluster.edits("s/^  - operator: Exists$/  - key: gpu\\n    operator: Exists/");
    let mut report = cluster.report(&[]);
    // A pod exists only from time to time: the operator deletes and recreates it.
    cluster.await_that("it is an error", || {
        report = cluster.report(&[]);
        let found = report.with_code("SKY412");
        found.iter().any(|finding| finding["severity"] == "Error")
    });
    let finding = report.has("SKY412", &json!({"name": "gpu"}));
    execute(&gpu, finding, &first_change(finding));
    gpu.until(complete());
    silent(cluster);
}

/// SKY607: the operator was rolled back to a version without uninstall. Simulated: the Deployment names that
/// version, and no operator runs.
pub fn uninstall_unknown_to_operator(cluster: &Cluster) {
    let gpu = cluster.apply(&skyhook("gpu").with(package("driver", "2.0.1").uninstallable()));
    gpu.until(complete());
    cluster.stop_operator();
    cluster.announces("v0.15.1");
    gpu.uninstall("driver", true).capture("old-uninstall-unknown-to-operator");
    cluster.edits("s/^        apply: true$/        apply: false/");
    cure(&gpu, "SKY607", json!({"name": "gpu", "package": "driver"}));
    silent(cluster);
    cluster.announces(operator::VERSION);
    cluster.start_operator();
    gpu.until(complete()).until(everywhere(DRIVER, "config", "complete"));
    silent(cluster);
}
