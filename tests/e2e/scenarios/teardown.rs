//! Deletes all custom resources and policies before the operator is removed: in order, and with each
//! documented deadlock, which the printed remedy fixes.

use std::path::Path;

use serde_json::{Value, json};

use super::{
    fixtures::{POLICIES, careful_policy},
    remedies::cure,
    strip::remove_operator_alone,
};
use crate::{
    cluster::{Cluster, SKYHOOKS},
    kubelet::{StepResult, Target},
    manifest::{Skyhook, package, skyhook},
    ours::{self, RunResult},
    rollout::Rollout,
    run::{Child, run},
    view::{complete, condition, deleted, entry, pod, that},
};

const DRIVER: &str = "driver|2.0.1";

pub fn teardown(cluster: &Cluster, more: &[&str]) -> RunResult {
    let args = [&["teardown", "--timeout", "4m"], more].concat();
    ours::run(&cluster.kubeconfig("admin"), &args)
}

/// The rows of the table on stdout, without the heading, and with single spaces.
pub fn rows(ran: &RunResult) -> Vec<String> {
    let table = ran.stdout.lines().skip(1).take_while(|l| !l.is_empty());
    table.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[track_caller]
fn safe(ran: &RunResult) {
    assert_eq!(ran.exit, Some(0), "{ran:#?}");
    let expected = "Everything is gone: it is safe to uninstall the operator";
    assert!(ran.stdout.lines().any(|l| l == expected), "{ran:#?}");
}

/// Asserts that no custom resource, policy or package pod is left.
#[track_caller]
fn nothing_left(cluster: &Cluster) {
    for path in [SKYHOOKS, POLICIES, "/api/v1/namespaces/skyhook/pods"] {
        let items = cluster.api.items(path).expect("the API server responds");
        assert!(items.is_empty(), "{path}: {items:#?}");
    }
}

pub fn uninstallable(name: &str) -> Skyhook {
    skyhook(name).with(package("driver", "2.0.1").uninstallable())
}

/// Gives the custom resource its own node, so that the others cannot affect it.
fn alone(cluster: &Cluster, of: Skyhook) -> Skyhook {
    let name = of.name.clone();
    cluster.add_node(&format!("of-{name}"), json!({"pool": name}));
    of.set("nodeSelectors", json!({"matchLabels": {"pool": name}}))
}

/// Selects the pods of this custom resource at this stage.
pub fn of(name: &str, stage: &str) -> Target {
    Target { skyhook: Some(name.to_owned()), stage: Some(stage.to_owned()), ..Target::default() }
}

/// Custom resources are deleted in reverse order of priority, each after the previous one is gone; the policy
/// last.
pub fn waves_in_order(cluster: &Cluster) {
    careful_policy(cluster);
    let base = cluster.apply(&skyhook("base").with(package("tuning", "1.2.0")).set("priority", json!(100)));
    let driver = cluster.apply(&uninstallable("driver").set("priority", json!(150)));
    let late = cluster.apply(
        &skyhook("late")
            .with(package("agent", "3.1.0").uninstallable().interrupts("service"))
            .set("priority", json!(300))
            .set("deploymentPolicy", json!("careful")),
    );
    for each in [&base, &driver, &late] {
        each.until(complete());
    }
    let before = teardown(cluster, &["--dry-run"]);
    assert_eq!(before.exit, Some(0), "{before:#?}");
    for expected in [
        "skyhook/late  (wave 1)",
        "skyhook/driver  (wave 2)",
        "skyhook/base  (wave 3)",
        "deploymentpolicy/careful  (wave 4)",
        "uninstall and restart services on 3 nodes",
        "uninstall on 3 nodes",
        "3 nodes cordoned",
    ] {
        assert!(before.stdout.contains(expected), "{expected}: {before:#?}");
    }
    assert!(!before.stdout.contains("would hang"), "{before:#?}");
    assert!(late.view().object.is_some(), "nothing was done");

    let ran = teardown(cluster, &["--confirm"]);
    safe(&ran);
    let lines: Vec<&str> =
        ran.stderr.lines().filter(|l| l.starts_with("requested") || l.starts_with("gone:")).collect();
    assert_eq!(
        lines,
        [
            "requested the deletion of skyhook/late",
            "gone: skyhook/late",
            "requested the deletion of skyhook/driver",
            "gone: skyhook/driver",
            "requested the deletion of skyhook/base",
            "gone: skyhook/base",
            "requested the deletion of deploymentpolicy/careful",
            "gone: deploymentpolicy/careful",
        ],
        "{ran:#?}"
    );
    nothing_left(cluster);
    assert!(
        ran.stdout.contains(
            "left: SKY701 on node-[1-3]: the node has package records of base, which no longer exists"
        ),
        "{ran:#?}"
    );
    for node in ["node-1", "node-2", "node-3"] {
        assert_eq!(cluster.node(node)["spec"]["unschedulable"], Value::Null);
    }
    let again = teardown(cluster, &["--confirm"]);
    assert_eq!(again.exit, Some(0), "{again:#?}");
    assert!(again.stdout.contains("Nothing to remove: it is safe to uninstall the operator"), "{again:#?}");
}

/// Two teardowns run at once, and the first is interrupted: the second finishes the work, and `undo` restores
/// what each has deleted.
pub fn two_teardowns_at_once(cluster: &Cluster) {
    let base = cluster.apply(&skyhook("base").with(package("tuning", "1.2.0")).set("priority", json!(100)));
    let late = cluster.apply(&uninstallable("late").set("priority", json!(300)));
    base.until(complete());
    late.until(complete());
    cluster.result(of("late", "uninstall"), StepResult::Hang);
    let child = Child::default();
    let begin = |words: &str, state: &Path| {
        let teardown = run(&format!("teardown --timeout 4m {words}"));
        teardown.kubeconfig(&cluster.kubeconfig("admin")).env("XDG_STATE_HOME", state)
    };
    let directories = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    let [one, other] = directories.each_ref().map(|f| f.path());
    let (first, second) = std::thread::scope(|scope| {
        let first = begin("--confirm", one).child(&child);
        let first = scope.spawn(|| first.output());
        late.until(pod("driver", "uninstall"));
        let second = begin("--confirm -o json", other);
        let second = scope.spawn(|| second.output());
        let journal = other.join("kubectl-skyhook/journal");
        cluster.await_that("the second has begun", || journal.exists());
        child.interrupt()(&mut ());
        let first = first.join().expect("the first command does not panic");
        let base = base.view().object.expect("the custom resource exists");
        let asked = &base["metadata"]["deletionTimestamp"];
        assert_eq!(asked, &Value::Null, "{}", first.transcript());
        cluster.heal();
        (first, second.join().expect("the second command does not panic"))
    });
    first.expect_code(130);
    let says = "interrupted; requests in flight were completed\n0 of 2 gone; deletions in progress continue and cannot be canceled";
    first.expect_stdout(says);
    second.expect_code(0);
    assert_eq!(second.json()["report"]["safe"], true, "{}", second.transcript());
    let counts = &second.json()["counts"];
    assert_eq!(counts["applied"], 1, "{}", second.transcript());
    nothing_left(cluster);

    for (state, back) in [(one, &late), (other, &base)] {
        let undone = run("undo --confirm")
            .kubeconfig(&cluster.kubeconfig("admin"))
            .env("XDG_STATE_HOME", state)
            .output();
        undone.expect_code(0);
        back.until(complete());
    }
}

/// The operator is gone, but its webhook configurations are left: the server rejects the deletion of a
/// policy, and the output gives the reason.
pub fn refused_by_a_webhook(cluster: &Cluster) {
    careful_policy(cluster);
    remove_operator_alone(cluster);
    let ran = teardown(cluster, &["--confirm"]);
    assert_eq!(ran.exit, Some(1), "{ran:#?}");
    assert!(ran.stdout.contains("failed calling webhook"), "{ran:#?}");
    assert!(ran.stdout.contains("1 failed"), "{ran:#?}");
    let there = cluster.api.find(&format!("{POLICIES}/careful"));
    assert!(there.expect("the API server responds").is_some());
}

/// Creates a custom resource whose uninstall waits for an interrupt that is no longer in its spec.
pub fn stranded<'a>(cluster: &'a Cluster, of_name: Skyhook) -> Rollout<'a> {
    let name = of_name.name.clone();
    let gpu = cluster.apply(&of_name);
    gpu.until(complete());
    cluster.result(of(&name, "uninstall-interrupt"), StepResult::Unseen);
    gpu.uninstall("driver", true).until(that("every node waits for its interrupt", |view| {
        let entries = view.entries(DRIVER);
        let there = entries.iter().all(|e| e.stage == "uninstall-interrupt");
        there && view.pods_of("driver", "uninstall-interrupt").len() == entries.len()
    }));
    cluster.stop_operator();
    gpu.edit(json!({"packages": {"driver": {"interrupt": null}}}));
    for pod in gpu.view().pods {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let path = format!("/api/v1/namespaces/skyhook/pods/{name}");
        cluster.api.delete(&path, &json!({"gracePeriodSeconds": 0})).expect("the pod can be removed");
    }
    cluster.heal();
    cluster.start_operator();
    gpu
}

/// Makes the node not ready since long ago, as if its kubelet were down.
pub fn silent(cluster: &Cluster, node: &str) {
    let condition = json!({
        "type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "no word from the kubelet",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    cluster
        .api
        .merge(&format!("/api/v1/nodes/{node}/status"), &json!({"status": {"conditions": [condition]}}))
        .expect("a condition can be written");
}

fn break_state(cluster: &Cluster, node: &str, name: &str) {
    let broken = json!("{\"driver|2.0.1\": broken");
    cluster.annotate_node(node, &format!("nodeState_{name}"), broken);
}

pub fn ignore(cluster: &Cluster, node: &str) {
    cluster.patch_node(node, json!({"metadata": {"labels": {"skyhook.nvidia.com/ignore": "true"}}}));
}

pub fn taint(cluster: &Cluster, node: &str) {
    cluster.patch_node(node, json!({"spec": {"taints": [{"key": "maintenance", "effect": "NoSchedule"}]}}));
}

/// Ten custom resources, each on its own node: nine are deadlocked, each in another documented way; the tenth
/// is blocked only because the malformed state stops the operator for all.
pub fn ten_deadlocks(cluster: &Cluster) {
    let interrupting = package("driver", "2.0.1").uninstallable().interrupts("service");
    let interrupting = alone(cluster, skyhook("stranded").with(interrupting));
    let stranded = stranded(cluster, interrupting);

    cluster.result(of("erring", "apply"), StepResult::Exit(1));
    cluster.result(of("failing", "uninstall"), StepResult::Exit(3));
    careful_policy(cluster);
    let unruled = uninstallable("unruled").set("deploymentPolicy", json!("careful"));
    let unruled = cluster.apply(&alone(cluster, unruled));
    let apply = |name: &str| cluster.apply(&alone(cluster, uninstallable(name)));
    let [paused, disabled, failing, ignored, tainted, malformed] =
        ["paused", "disabled", "failing", "ignored", "tainted", "malformed"].map(apply);
    let erring = apply("erring");
    let well = alone(cluster, skyhook("well").with(package("tuning", "1.2.0")));
    let well = cluster.apply(&well);
    for each in [&paused, &disabled, &failing, &unruled, &ignored, &tainted, &malformed, &well] {
        each.until(complete());
    }
    erring.until(entry("of-erring", DRIVER, "apply", "erroring"));
    failing.uninstall("driver", true).until(entry("of-failing", DRIVER, "uninstall", "erroring"));
    paused.annotate("pause", json!("true"));
    disabled.annotate("disable", json!("true"));
    ignore(cluster, "of-ignored");
    taint(cluster, "of-tainted");
    cluster
        .api
        .delete(&format!("{POLICIES}/careful"), &json!({}))
        .expect("without webhooks a policy can be deleted");
    let missing = "DeploymentPolicyNotFound";
    unruled.until(condition(missing, missing));
    break_state(cluster, "of-malformed", "malformed");

    let before = teardown(cluster, &["--dry-run"]);
    assert_eq!(before.exit, Some(2), "{before:#?}");

    let ran = teardown(cluster, &["--confirm"]);
    assert_eq!(ran.exit, Some(2), "{ran:#?}");
    let mut found = rows(&ran);
    found.sort();
    let expected = [
        "skyhook/disabled blocked SKY110 deletion-blocked-while-disabled",
        "skyhook/erring blocked SKY101 deletion-waits-for-erroring-install: driver on of-erring",
        "skyhook/failing blocked SKY112 uninstall-failing: driver on of-failing",
        "skyhook/ignored blocked SKY304 node-ignored: on of-ignored",
        "skyhook/malformed blocked SKY108 deletion-blocked-by-malformed-state: on of-malformed",
        "skyhook/paused blocked SKY109 deletion-blocked-while-paused",
        "skyhook/stranded blocked SKY102 uninstall-interrupt-without-interrupt: driver on of-stranded",
        "skyhook/tainted blocked SKY403 untolerated-taint: on of-tainted",
        "skyhook/unruled blocked SKY303 deployment-policy-missing",
        // Nothing is wrong with `well` itself: the malformed state stops the operator for all custom
        // resources.
        "skyhook/well blocked SKY108 deletion-blocked-by-malformed-state: on of-malformed",
    ];
    assert_eq!(found.len(), expected.len(), "{ran:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{expected}: {ran:#?}");
    }

    let tolerate = "s/^spec:$/spec:\\n  additionalTolerations: [{key: maintenance, operator: Exists}]/";
    for (gpu, code, subject, words, edit) in [
        (&malformed, "SKY108", json!({"node": "of-malformed"}), &["reset"][..], ""),
        (&erring, "SKY101", json!({"node": "of-erring"}), &["reset"], ""),
        (&stranded, "SKY102", json!({"node": "of-stranded"}), &["reset"], ""),
        (&paused, "SKY109", json!({"name": "paused"}), &["resume"], ""),
        (&disabled, "SKY110", json!({"name": "disabled"}), &["enable"], ""),
        (&failing, "SKY112", json!({"node": "of-failing"}), &["reset"], ""),
        (&unruled, "SKY303", json!({"name": "unruled"}), &["edit"], "/deploymentPolicy: careful/d"),
        (&ignored, "SKY304", json!({"node": "of-ignored"}), &["unignore"], ""),
        (&tainted, "SKY403", json!({"node": "of-tainted"}), &["edit"], tolerate),
    ] {
        cluster.edits(edit);
        cure(gpu, code, subject, words);
        gpu.until(deleted());
    }
    let again = teardown(cluster, &["--confirm"]);
    assert_eq!(again.exit, Some(0), "{again:#?}");
    nothing_left(cluster);
}
