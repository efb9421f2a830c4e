//! `undo` of our commands with the real operator, and plans that are stopped or refused.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{
    fixtures::{careful_policy, stopped},
    writes::{DRIVER, LONG_ENOUGH, annotated, applies_on, driver, run, two},
};
use crate::{
    cluster::Cluster,
    kubelet::{StepResult, Target},
    manifest::{package, skyhook},
    ours,
    rollout::{Rollout, pods},
    view::{Condition, absent, complete, deleted, entry, everywhere, pod, status, that},
};

/// The operator updates `inProgress` of a compartment one reconcile after its last node completes.
fn counted() -> Condition {
    that("no node of a compartment counts as at work", |view| {
        let object = view.object.as_ref();
        let all = object.and_then(|o| o["status"]["compartmentStatuses"].as_object());
        let mut all = all.into_iter().flatten();
        all.all(|(_, c)| c["inProgress"].as_i64().unwrap_or(0) == 0)
    })
}

/// The fields that commands write: annotations, labels and cordons of nodes; annotations, spec and rollout
/// status of the custom resource.
fn writable_state(gpu: &Rollout<'_>) -> Value {
    let view = gpu.view();
    let pick = |object: &Value, pointers: &[&str]| -> Value {
        let parts = pointers.iter().map(|at| {
            let part = object.pointer(at).cloned().unwrap_or_default();
            ((*at).to_owned(), sorted(&part))
        });
        Value::Object(parts.collect::<Map<_, _>>())
    };
    let nodes = view.nodes.iter().map(|node| {
        pick(node, &["/metadata/name", "/metadata/annotations", "/metadata/labels", "/spec/unschedulable"])
    });
    let cr = view.object.as_ref().map(|cr| {
        pick(
            cr,
            &[
                "/metadata/annotations",
                "/spec",
                "/status/compartmentStatuses",
                "/status/nodeOrderOffset",
                "/status/nodePriority",
            ],
        )
    });
    json!({"nodes": nodes.collect::<Vec<_>>(), "cr": cr})
}

/// Sorts keys, and replaces `false`, 0 and empty maps by null.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut members: Vec<_> = map.iter().map(|(k, v)| (k.clone(), sorted(v))).collect();
            members.sort_by(|a, b| a.0.cmp(&b.0));
            if members.is_empty() { Value::Null } else { Value::Object(members.into_iter().collect()) }
        }
        Value::Bool(false) => Value::Null,
        Value::Number(number) if number.as_i64() == Some(0) => Value::Null,
        Value::Array(list) => list.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

/// Asserts that a command changes objects and that `undo` restores them. Nothing else may write.
#[track_caller]
fn there_and_back(gpu: &Rollout<'_>, words: &str) {
    let before = writable_state(gpu);
    let args: Vec<&str> = words.split(' ').chain(["--confirm"]).collect();
    run(gpu.cluster, &args);
    assert_ne!(writable_state(gpu), before, "{words} changes something");
    run(gpu.cluster, &["undo", "--confirm"]);
    assert_eq!(writable_state(gpu), before, "{words}, taken back");
}

/// The operator is stopped, so that nothing else writes; after its start it finds nothing to do.
pub fn restores_previous_values(cluster: &Cluster) {
    let gpu = cluster.apply(&two().with(package("clock", "1.0.0").uninstallable()));
    gpu.until(complete());
    // The operator counts the complete nodes of a batch in a later pass.
    gpu.until(that("all nodes are counted", |view| {
        let counts = "/status/compartmentStatuses/__default__/completed";
        view.object.as_ref().and_then(|gpu| gpu.pointer(counts)) == Some(&json!(3))
    }));
    cluster.stop_operator();
    for words in [
        "reset gpu",
        "reset gpu --node node-2",
        "reset gpu --package driver",
        "reset gpu --package driver:2.0.1 --node node-1 --node node-3",
        "node reset node-3 --skyhook gpu",
        "package rerun driver --skyhook gpu --node node-1",
        "package rerun tuning --skyhook gpu --all-nodes --stage config",
        "update-state gpu driver 2.0.1 apply in_progress --node node-2",
        "update-state gpu tuning 1.2.0 interrupt skipped --node node-2",
        "pause gpu --reason look",
        "disable gpu --reason look",
        "node ignore node-1 node-2",
        "uninstall gpu clock",
    ] {
        there_and_back(&gpu, words);
    }
    // The opposite commands can be undone as well.
    for (first, words) in [
        ("pause gpu --reason look", "resume gpu"),
        ("disable gpu", "enable gpu"),
        ("node ignore node-3", "node unignore node-3"),
        ("uninstall gpu clock", "uninstall gpu clock --cancel"),
    ] {
        let args: Vec<&str> = first.split(' ').chain(["--confirm"]).collect();
        run(cluster, &args);
        there_and_back(&gpu, words);
        // Undo the first command, too.
        run(cluster, &["undo", "--confirm"]);
    }
    cluster.start_operator();
    gpu.stays(&complete(), LONG_ENOUGH).well();
}

/// `undo` keeps what the operator has rerun since, and restores everything else.
pub fn keeps_later_operator_writes(cluster: &Cluster) {
    let gpu = cluster.apply(&two());
    gpu.until(complete());
    for words in [
        &["reset", "gpu", "--node", "node-2"][..],
        &["node", "reset", "node-2", "--skyhook", "gpu"],
        &["package", "rerun", "driver", "--skyhook", "gpu", "--node", "node-2"],
        &["update-state", "gpu", "driver", "2.0.1", "apply", "in_progress", "--node", "node-2"],
    ] {
        cluster.result(Target::default(), StepResult::Hang);
        run(cluster, &[words, &["--confirm"]].concat());
        gpu.until(applies_on("driver", &["node-2"]));
        let undone = ours::run(&cluster.kubeconfig("admin"), &["undo", "--confirm"]);
        // `update-state` wrote the stage and state that the operator writes, too: this undo succeeds. The
        // others find a changed entry.
        let same = words[0] == "update-state";
        assert_eq!(undone.exit, Some(if same { 0 } else { 3 }), "{words:?}: {undone:#?}");
        if !same {
            gpu.stays(&applies_on("driver", &["node-2"]), Duration::from_secs(1));
        }
        cluster.heal();
        gpu.until(complete());
        gpu.stays(&everywhere(DRIVER, "config", "complete"), Duration::ZERO).well();
    }
}

/// The operator obeys each command, and its undo.
pub fn reverts_pause_resume_disable_and_enable(cluster: &Cluster) {
    let gpu = cluster.apply(&driver());
    gpu.until(complete());
    let mut version = 2;
    for (stop, go) in [("pause", "resume"), ("disable", "enable")] {
        let mut next = || {
            version += 1;
            format!("{version}.0.0")
        };
        // Stop, then undo: the operator applies the edit.
        run(cluster, &[stop, "gpu", "--confirm"]);
        let raised = next();
        gpu.edit(json!({"packages": {"driver": {"version": raised}}}))
            .stays(&absent(&format!("driver|{raised}")), LONG_ENOUGH);
        run(cluster, &["undo", "--confirm"]);
        annotated(&gpu, stop, Value::Null);
        gpu.until(everywhere(&format!("driver|{raised}"), "config", "complete")).until(complete());
        // Stop, go on, then undo the latter: it is stopped again.
        run(cluster, &[stop, "gpu", "--confirm"]);
        run(cluster, &[go, "gpu", "--confirm"]);
        run(cluster, &["undo", "--confirm"]);
        annotated(&gpu, stop, json!("true"));
        let raised = next();
        gpu.edit(json!({"packages": {"driver": {"version": raised}}}))
            .stays(&absent(&format!("driver|{raised}")), LONG_ENOUGH);
        run(cluster, &[go, "gpu", "--confirm"]);
        gpu.until(everywhere(&format!("driver|{raised}"), "config", "complete")).until(complete()).well();
    }
}

pub fn reverts_uninstall_and_cancel(cluster: &Cluster) {
    let gpu = cluster.apply(&skyhook("gpu").with(package("driver", "2.0.1").uninstallable()));
    gpu.until(complete());
    let spec = || gpu.view().object.expect("the custom resource exists")["spec"].clone();
    let before = spec();
    cluster.result(pods("driver", "uninstall"), StepResult::Hang);
    run(cluster, &["uninstall", "gpu", "driver", "--confirm"]);
    gpu.until(pod("driver", "uninstall"));
    let asked = spec();
    run(cluster, &["undo", "--confirm"]);
    assert_eq!(spec(), before);
    cluster.heal();
    gpu.until(everywhere(DRIVER, "config", "complete")).until(complete()).well();

    // Uninstall, cancel, then undo the cancellation: the package is uninstalled again.
    run(cluster, &["uninstall", "gpu", "driver", "--confirm"]);
    gpu.until(absent(DRIVER)).until(complete());
    run(cluster, &["uninstall", "gpu", "driver", "--cancel", "--confirm"]);
    gpu.until(everywhere(DRIVER, "config", "complete")).until(complete());
    run(cluster, &["undo", "--confirm"]);
    assert_eq!(spec(), asked);
    gpu.until(absent(DRIVER)).until(complete()).well();
}

pub fn reverts_a_policy_reset(cluster: &Cluster) {
    careful_policy(cluster);
    cluster.result(pods("driver", "apply").on("node-1"), StepResult::Exit(1));
    let gpu = cluster.apply(&driver().set("deploymentPolicy", json!("careful")));
    gpu.until(entry("node-1", DRIVER, "apply", "erroring"))
        .until(that("stopped", stopped))
        .until(that("node-1 counts as erroring", |view| {
            view.annotation("node-1", "status_gpu") == Some("erroring")
        }));
    cluster.stop_operator();
    there_and_back(&gpu, "deployment-policy reset gpu");
    assert!(stopped(&gpu.view()), "the stop is back");
    cluster.start_operator();
    gpu.stays(&that("still stopped", stopped), LONG_ENOUGH);
    cluster.heal();
    run(cluster, &["deployment-policy", "reset", "gpu", "--confirm"]);
    gpu.until(everywhere(DRIVER, "config", "complete")).until(complete()).well();
}

/// Nodes stay cordoned for an interrupt after the finalizer of their custom resource was removed by hand.
pub fn reverts_a_released_cordon(cluster: &Cluster) {
    let gpu = cluster.apply(&skyhook("gpu").with(package("driver", "2.0.1").interrupts("service")));
    cluster.result(pods("driver", "interrupt"), StepResult::Hang);
    let cordoned = |node: &str| cluster.node(node)["spec"]["unschedulable"] == true;
    gpu.until(that("interrupting", |view| view.pods_of("driver", "interrupt").len() == 3));
    assert!(cordoned("node-1"));
    // While the custom resource exists and works, its cordons are not released.
    let kept = run(cluster, &["leftovers", "--clean", "--node", "node-*", "--confirm"]);
    assert!(kept.stderr.contains("stay cordoned by skyhook.nvidia.com/cordon_gpu"), "{kept:#?}");
    cluster.stop_operator();
    gpu.delete().strip_finalizer().until(deleted());
    cluster.heal();
    cluster.patch_node("node-3", json!({"spec": {"unschedulable": true}}));

    let before = writable_state(&gpu);
    run(cluster, &["leftovers", "--clean", "--node", "node-1", "--confirm"]);
    assert!(!cordoned("node-1") && cordoned("node-2") && cordoned("node-3"));
    run(cluster, &["undo", "--confirm"]);
    assert_eq!(writable_state(&gpu), before);
    run(cluster, &["leftovers", "--clean", "--confirm"]);
    for node in ["node-1", "node-2", "node-3"] {
        assert!(!cordoned(node), "{node}");
        assert_eq!(gpu.view().annotation(node, "cordon_gpu"), None, "{node}");
    }
    cluster.start_operator();
    let schedulable =
        that("schedulable", |view| view.nodes.iter().all(|n| n["spec"]["unschedulable"] != true));
    gpu.stays(&schedulable, LONG_ENOUGH);
}

/// The package fails on the first node, so the other nodes are not reset.
pub fn canary_stops_on_failure(cluster: &Cluster) {
    let gpu = cluster.apply(&driver());
    gpu.until(complete());
    cluster.result(pods("driver", "apply"), StepResult::Exit(1));
    let ran = ours::run(
        &cluster.kubeconfig("admin"),
        &["reset", "gpu", "--canary", "1", "--pause-between", "30s", "--confirm"],
    );
    assert_eq!(ran.exit, Some(4), "{ran:#?}");
    assert!(ran.stdout.contains("stopped: nodes entered status erroring: node-1"), "{ran:#?}");
    gpu.until(entry("node-1", DRIVER, "apply", "erroring"))
        .stays(&everywhere(DRIVER, "config", "complete").but_for("node-1"), LONG_ENOUGH);
    // After a repair, the same command completes.
    cluster.heal();
    gpu.until(everywhere(DRIVER, "config", "complete")).until(complete());
    run(cluster, &["reset", "gpu", "--canary", "2", "--pause-between", "5s", "--confirm"]);
    gpu.until(complete()).well();
}

/// A plan is refused if the operator or an edit has changed its preconditions.
pub fn outdated_plan_is_refused(cluster: &Cluster) {
    let gpu = cluster.apply(&driver());
    gpu.until(complete());
    let file = cluster.kubeconfig("admin").with_file_name("plan.json");
    let file = file.to_str().expect("a path in plain letters");
    let planned = |words: &str| {
        let words = words.split(' ');
        run(cluster, &words.chain(["--plan-out", file]).collect::<Vec<_>>());
    };
    let carried_out = |exit: i32, says: &str| {
        let args = ["apply-plan", file, "--confirm"];
        let ran = ours::run(&cluster.kubeconfig("admin"), &args);
        assert_eq!(ran.exit, Some(exit), "{ran:#?}");
        let ran = [ran.stdout, ran.stderr].concat();
        assert!(ran.contains(says), "{ran}");
    };
    // The package had failed when the plan was made, and is complete now.
    cluster.result(pods("driver", "apply").on("node-1"), StepResult::Exit(1));
    run(cluster, &["reset", "gpu", "--node", "node-1", "--confirm"]);
    gpu.until(entry("node-1", DRIVER, "apply", "erroring"));
    planned("package rerun driver --skyhook gpu --node node-1 --failed-only --no-pause");
    cluster.heal();
    gpu.until(complete()).until(counted());
    let moved = writable_state(&gpu);
    carried_out(3, "driver|2.0.1 changed from apply/erroring to config/complete");
    assert_eq!(writable_state(&gpu), moved, "nothing is written");

    // The version has changed since the plan was made.
    planned("reset gpu --node node-1");
    gpu.edit(json!({"packages": {"driver": {"version": "2.1.0"}}}))
        .until(everywhere("driver|2.1.0", "config", "complete"))
        .until(complete())
        .until(counted());
    let moved = writable_state(&gpu);
    carried_out(3, "the spec of skyhook/gpu has been changed since the plan");
    assert_eq!(writable_state(&gpu), moved, "nothing is written");

    // A plan without later changes is carried out.
    cluster.result(Target::default(), StepResult::Hang);
    planned("reset gpu --node node-1");
    carried_out(0, "1 changed");
    gpu.until(applies_on("driver", &["node-1"]));
    cluster.heal();
    gpu.until(complete()).until(status("complete")).well();
}
