//! The effects that `lint` announces: how many nodes are in progress at once, and whether the budget limits
//! them.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::support::fake_api::FakeApi;
use crate::support::object_builder::NODEWRIGHT;
use crate::support::run::run;
use crate::support::test_cluster::TestCluster;

/// Lints a manifest for eight nodes on which `driver` is complete; `batch` is the recorded batch state.
fn report(live: Value, policy: &Value, batch: Value, manifest: Value) -> String {
    report_while(8, live, policy, batch, manifest)
}

/// Like [`report`], but `driver` is complete only on the first `begun` nodes, and the others wait.
fn report_while(begun: usize, live: Value, policy: &Value, batch: Value, manifest: Value) -> String {
    let resource = |spec: Value| {
        let mut object = NODEWRIGHT.skyhook("complete", json!({}));
        object["spec"] = spec;
        object
    };
    let mut skyhook = resource(live);
    skyhook["status"]["compartmentStatuses"] = json!({"__default__": {"batchState": batch}});
    let mut items = vec![NODEWRIGHT.operator(), skyhook, policy.clone()];
    for number in 1..=8 {
        let (status, entries): (_, &[&str]) =
            if number > begun { ("waiting", &[]) } else { ("complete", &["driver|1.0.0 config complete"]) };
        let mut node = NODEWRIGHT.node(&format!("node-{number}"), status, entries);
        node["metadata"]["labels"]["half"] = if number > 4 { "second" } else { "first" }.into();
        items.push(node);
    }
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, value: &Value| {
        let path = directory.path().join(name);
        std::fs::write(&path, value.to_string()).expect("written");
        path.display().to_string()
    };
    let capture = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let words = format!(
        "lint -f {} --from {}",
        write("manifest.json", &resource(manifest)),
        write("capture.json", &capture),
    );
    let output = run(&words).output();
    output.expect_code(0);
    let (_, effects) = output.stdout.split_once("ONCE APPLIED\n").expect("effects");
    effects.to_owned()
}

fn package(version: &str) -> Value {
    json!({"version": version, "image": "example.com/driver"})
}

fn policy(strategy: &Value) -> Value {
    json!({
        "apiVersion": NODEWRIGHT.0.api_version(), "kind": "DeploymentPolicy", "metadata": {"name": "growing"},
        "spec": {"default": {"budget": {"percent": 100}, "strategy": strategy}},
    })
}

/// A batch state in which all eight nodes count as completed.
fn counted() -> Value {
    json!({"currentBatch": 5, "completedNodes": 8, "lastBatchSize": 2})
}

#[test]
fn a_batch_that_grows_stays_within_the_policy() {
    let policy = policy(&json!({"linear": {"initialBatch": 1, "delta": 1}}));
    let spec = |packages: Value| json!({"packages": packages, "deploymentPolicy": "growing"});
    let both = json!({"driver": package("1.0.0"), "extra": package("1.0.0")});
    let live = spec(json!({"driver": package("1.0.0")}));
    let batch = json!({"currentBatch": 1});
    assert_eq!(
        report(live, &policy, batch, spec(both)),
        "driver  unchanged\nextra   install on 8 nodes (node-[1-8]), at most 3 at once\n"
    );
}

#[test]
fn counters_of_an_earlier_rollout_do_not_shrink_the_budget() {
    let policy = policy(&json!({"fixed": {"initialBatch": 1}}));
    let spec = |packages: Value, selector: Value| {
        json!({
            "packages": packages, "interruptionBudget": {"count": 2}, "nodeSelectors": selector,
        })
    };
    let both = json!({"driver": package("1.0.0"), "extra": package("1.0.0")});
    let live = spec(json!({"driver": package("1.0.0")}), json!({}));
    let half = json!({"matchLabels": {"half": "first"}});
    assert_eq!(
        report(live, &policy, counted(), spec(both, half)),
        "driver    unchanged\nextra     install on 4 nodes (node-[1-4]), 2 at once\n\
         selector  4 nodes no longer selected: packages, cordons and taints stay on them\n"
    );
}

/// Some complete nodes do not make a first installation a reinstallation.
#[test]
fn a_first_installation_under_way_is_not_called_a_reinstallation() {
    let policy = policy(&json!({"fixed": {"initialBatch": 1}}));
    let spec = |priority: u64| json!({"packages": {"driver": package("1.0.0")}, "interruptionBudget": {"count": 2}, "priority": priority});
    let batch = json!({"currentBatch": 2, "completedNodes": 2, "lastBatchSize": 2});
    assert_eq!(
        report_while(2, spec(200), &policy, batch, spec(100)),
        "driver  install on 6 nodes (node-[3-8]), 2 at once\n"
    );
}

#[test]
fn a_newer_version_ignores_the_budget() {
    let policy = policy(&json!({"fixed": {"initialBatch": 1}}));
    let spec =
        |version: &str| json!({"packages": {"driver": package(version)}, "interruptionBudget": {"count": 2}});
    assert_eq!(
        report(spec("1.0.0"), &policy, counted(), spec("1.1.0")),
        "driver 1.0.0 → 1.1.0  upgrade on 8 nodes (node-[1-8]), ALL AT ONCE: the budget (2) does not apply to upgrades\n"
    );
}

#[test]
fn a_newer_version_starts_a_stopped_rollout_again() {
    let fixed = json!({"fixed": {"initialBatch": 1, "failureThreshold": 1}});
    let mut policy = policy(&fixed);
    let stopped =
        json!({"currentBatch": 2, "completedNodes": 2, "consecutiveFailures": 1, "shouldStop": true});
    let spec =
        |version: &str| json!({"packages": {"driver": package(version)}, "deploymentPolicy": "growing"});
    let raised = |policy: &Value| report_while(2, spec("1.0.0"), policy, stopped.clone(), spec("1.1.0"));
    assert_snapshot!(raised(&policy), @r"
    driver 1.0.0 → 1.1.0  upgrade on 2 nodes (node-[1-2]), ALL AT ONCE: the budget (1) does not apply to upgrades
    driver                install on 6 nodes (node-[3-8]), one at a time
    ");
    policy["spec"]["resetBatchStateOnCompletion"] = false.into();
    assert_snapshot!(raised(&policy), @r"
    driver   nothing runs in the current state
    rollout  does not complete on 8 nodes; the first obstacle: failures have stopped the rollout of compartment (default)
    ");
}

#[test]
fn an_edit_of_a_package_tries_its_failed_stage_again() {
    let path = "tests/clusters/nodewright-apply-erroring/cluster.json";
    let text = std::fs::read_to_string(path).expect("a capture");
    let capture: Value = serde_json::from_str(&text).expect("JSON");
    let mut items = capture["items"].as_array().into_iter().flatten();
    let mut live = items.find(|item| item["kind"] == "NodeWright").expect("a custom resource").clone();
    let directory = tempfile::tempdir().expect("a directory");
    let manifest = directory.path().join("manifest.json");
    let effects = |live: &Value| {
        std::fs::write(&manifest, live.to_string()).expect("written");
        let output = run(&format!("lint -f {} --from {path}", manifest.display())).output();
        output.stdout.split_once("ONCE APPLIED\n").expect("effects").1.to_owned()
    };
    live["spec"]["priority"] = 7.into();
    assert_snapshot!(effects(&live), @r"
    alpha    unchanged
    beta     unchanged
    rollout  does not complete on 2 nodes; the first obstacle: stage apply of alpha has failed permanently: job/nodewright/aerr-alpha-1-0-0-apply-aerr-1-db5b5716 on node/aerr-1
    ");
    live["spec"]["packages"]["alpha"]["env"] = json!([{"name": "MODE", "value": "safe"}]);
    assert_snapshot!(effects(&live), @r"
    alpha  install on 2 nodes (aerr-[1-2]), all at once
    beta   install on 2 nodes (aerr-[1-2]), all at once
    ");
}

/// A cluster of two nodes with a workload pod on one, and a manifest that reboots both. No drain has begun.
fn before_the_first_drain() -> (FakeApi, Value) {
    let mut manifest = NODEWRIGHT.skyhook("complete", json!({}));
    manifest["metadata"] = json!({"name": "rebooting"});
    manifest["spec"] = json!({
        "nodeSelectors": {"matchLabels": {"pool": "gpu"}}, "interruptionBudget": {"count": 1},
        "packages": {"driver": {"version": "1.0.0", "image": "example.com/driver", "interrupt": {"type": "reboot"}}},
    });
    manifest.as_object_mut().expect("an object").remove("status");
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web-1", "namespace": "shop", "uid": "web-1", "labels": {"app": "web"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "w", "controller": true}]},
        "spec": {"nodeName": "gpu-1", "containers": [{"name": "main", "image": "example.com/web"}]},
        "status": {"phase": "Running"},
    });
    let mut fake = FakeApi::new().serving(NODEWRIGHT.0).with(NODEWRIGHT.operator()).with(pod);
    for name in ["gpu-1", "gpu-2"] {
        let mut node = NODEWRIGHT.node(name, "complete", &[]);
        node["metadata"]["labels"]["pool"] = "gpu".into();
        fake = fake.with(node);
    }
    (fake, manifest)
}

#[test]
fn pods_are_counted_on_nodes_that_no_drain_waits_for_yet() {
    let (fake, manifest) = before_the_first_drain();
    let cluster = TestCluster::serving(fake);
    let lint = cluster.command("lint -f -").stdin(manifest.to_string());
    let output = lint.output();
    output.expect_stdout("drains     2 nodes cordoned, 1 pod to evict\n");
    let directory = tempfile::tempdir().expect("a directory");
    let capture = directory.path().join("capture.tar.gz");
    let capture = capture.display();
    cluster.run(&format!("collect -o {capture}")).expect_code(0);
    let lint = run(&format!("lint -f - --from {capture}")).stdin(manifest.to_string());
    lint.output().expect_stdout("drains     2 nodes cordoned; the pods there were not read\n");
    let lint = run(&format!("lint -f - --from {capture} -o json")).stdin(manifest.to_string());
    assert_eq!(lint.output().json()["rollouts"][0]["evictedPods"], Value::Null);
}

/// Without ConfigMaps in the capture, the live spec's configMaps count as the operator's copies.
#[test]
fn a_config_change_is_seen_without_the_config_maps() {
    let policy = policy(&json!({"fixed": {"initialBatch": 1}}));
    let spec = |value: &str| {
        let mut driver = package("1.0.0");
        driver["configMap"] = json!({"a": value});
        json!({"packages": {"driver": driver}, "interruptionBudget": {"count": 2}})
    };
    assert_eq!(
        report(spec("1"), &policy, counted(), spec("2")),
        "driver  configure on 8 nodes (node-[1-8]), ALL AT ONCE: the budget (2) does not apply to changes of a configMap\n"
    );
}

/// The operator fires an interrupt that was added to a complete package first, and drains the node while it
/// runs.
#[test]
fn an_interrupt_added_to_a_complete_package_drains_its_nodes() {
    let rebooting = |budget: Value| {
        let mut driver = package("1.0.0");
        driver["interrupt"] = json!({"type": "reboot"});
        json!({"packages": {"driver": driver}, "interruptionBudget": budget})
    };
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, value: &Value| {
        let path = directory.path().join(name);
        std::fs::write(&path, value.to_string()).expect("written");
        path.display().to_string()
    };
    let object = |spec: Value| {
        let mut object = NODEWRIGHT.skyhook("complete", json!({}));
        object["spec"] = spec;
        object
    };
    let workload = |node: u64, labels: Value| {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("web-{node}"), "namespace": "shop", "labels": labels},
            "spec": {"nodeName": format!("node-{node}")},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        })
    };
    let mut items = vec![
        NODEWRIGHT.operator(),
        object(json!({"packages": {"driver": package("1.0.0")}, "interruptionBudget": {"count": 2}})),
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
            "status": {"observedGeneration": 1, "expectedPods": 1, "currentHealthy": 1, "desiredHealthy": 1, "disruptionsAllowed": 0},
        }),
        workload(1, json!({"app": "web"})),
        workload(2, json!({})),
    ];
    let entries = ["driver|1.0.0 config complete"];
    items.extend((1..=4).map(|number| NODEWRIGHT.node(&format!("node-{number}"), "complete", &entries)));
    let capture = write("capture.json", &json!({"apiVersion": "v1", "kind": "List", "items": items}));
    let lint = |spec: Value| {
        run(&format!("lint -f {} --from {capture}", write("manifest.json", &object(spec)))).output()
    };
    let output = lint(rebooting(json!({"count": 2})));
    output.expect_code(0);
    output.expect_stdout("PodDisruptionBudget shop/web allows no eviction, so drains wait on node-1\n");
    output.expect_stdout(
        "driver  reboot on 4 nodes (node-[1-4]), 2 at once\n\
         drains  4 nodes cordoned, 2 pods to evict; PodDisruptionBudget shop/web blocks evictions on 1 node; the interrupt starts before the cordon\n\
         budget  2, sometimes 4: without a deploymentPolicy, a second batch may start beside the first\n",
    );
    // The operator deletes the pods: no budget is asked.
    let mut deleting = rebooting(json!({"count": 2}));
    deleting["drainConfig"] = json!({"disableEviction": true});
    let output = lint(deleting);
    output
        .expect_stdout("drains  4 nodes cordoned, 2 pods to evict; the interrupt starts before the cordon\n");
    assert!(!output.stdout.contains("SKY866"), "{}", output.transcript());
}

/// The operator deletes the Jobs of an older spec at any stage, so an upgrade runs on their nodes, too. It compares versions as
/// Go does: `1.3` is higher than `1.0.0`.
#[test]
fn an_edit_ends_the_stages_that_run() {
    let mut outputs = String::new();
    for (capture, name, version) in [
        ("nodewright-in-progress", "prog", "1.3.0"),
        ("nodewright-in-progress", "prog", ""),
        ("nodewright-two-priorities", "prio-a", "2.0.0"),
        ("nodewright-first-failure-retrying", "retry", "1.3.0"),
        ("modelled-complete", "gpu", "3.1"),
    ] {
        let directory = format!("tests/clusters/{capture}");
        let text = std::fs::read_to_string(format!("{directory}/cluster.json")).expect("a capture");
        let capture: Value = serde_json::from_str(&text).expect("JSON");
        let mut items = capture["items"].as_array().expect("items").iter();
        let found =
            items.find(|item| item["metadata"]["name"] == name && !item["spec"]["packages"].is_null());
        let live = found.expect("a custom resource");
        let mut manifest = json!({
            "apiVersion": live["apiVersion"], "kind": live["kind"], "metadata": {"name": name}, "spec": live["spec"],
        });
        manifest["spec"]["priority"] = 150.into();
        for package in manifest["spec"]["packages"].as_object_mut().expect("packages").values_mut() {
            if !version.is_empty() {
                package["version"] = version.into();
                let others = package["dependsOn"].as_object_mut();
                others.into_iter().flatten().for_each(|(_, other)| *other = version.into());
            }
        }
        let lint = run(&format!("lint -f - --from {directory}")).stdin(manifest.to_string()).output();
        let (_, effects) = lint.stdout.split_once("ONCE APPLIED\n").expect("effects");
        outputs += &format!("== {name} {version}\n{effects}");
    }
    insta::assert_snapshot!(outputs);
}
