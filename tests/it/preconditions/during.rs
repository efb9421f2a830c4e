//! What a plan relies on changes while its nodes are written.

use kubectl_skyhook::api::ApiFlavor;
use serde_json::json;

use crate::support::fake_api::State;
use crate::support::run::RunOutput;
use crate::support::test_cluster::{CR, TestCluster, operator};

const NODES: [&str; 3] = ["node-1", "node-2", "node-3"];

fn pause() -> String {
    ApiFlavor::Skyhook.key("pause")
}

fn edit(state: &mut State, edit: impl Fn(&mut serde_json::Value)) {
    let mut cr = state.store.find("skyhooks", "", CR).cloned().expect("the custom resource exists");
    edit(&mut cr);
    state.store.load(cr);
}

/// A reset of three nodes, one after the other, during which this happens before the second node is written.
fn reset(flags: &str, change: impl Fn(&mut State) + Send + Sync + 'static) -> (TestCluster, RunOutput) {
    let cluster = TestCluster::captured_with_operator("apply-erroring");
    cluster.fake.on("PATCH nodes").nth(1).after(change);
    let words = format!("reset gpu-tune --max-parallel 1 --confirm{flags}");
    let ran = cluster.with_operator(|| cluster.run(&words));
    (cluster, ran)
}

/// Only the first node is written, and the output gives the reason.
fn stopped(cluster: &TestCluster, ran: &RunOutput, why: &str) {
    ran.expect_code(4);
    ran.expect_stdout(format!("stopped: {why}\n"));
    let left: Vec<usize> = NODES.iter().map(|node| cluster.keys(node).len()).collect();
    assert_eq!((left[0], left[1] > 0, left[2] > 0), (0, true, true), "{}", ran.transcript());
}

#[test]
fn a_pause_that_ends_stops_the_reset() {
    for by_hand in [true, false] {
        let (cluster, ran) = reset("", move |state| {
            edit(state, |cr| {
                let annotations = cr["metadata"]["annotations"].as_object_mut().expect("annotations");
                if by_hand {
                    annotations.insert(pause(), json!("false"));
                } else {
                    annotations.clear();
                }
            });
        });
        stopped(&cluster, &ran, "skyhook/gpu-tune is no longer paused");
    }
}

#[test]
fn a_deletion_stops_the_reset() {
    for flags in ["", " --no-pause"] {
        let (cluster, ran) = reset(flags, |state| {
            edit(state, |cr| cr["metadata"]["deletionTimestamp"] = json!("2026-11-20T08:00:00Z"));
        });
        stopped(&cluster, &ran, "skyhook/gpu-tune is being deleted");
        let (cluster, ran) = reset(flags, |state| state.store.forget("skyhooks", "", CR));
        stopped(&cluster, &ran, "skyhook/gpu-tune has been deleted");
        let (cluster, ran) = reset(flags, |state| edit(state, |cr| cr["metadata"]["uid"] = json!("another")));
        stopped(&cluster, &ran, "skyhook/gpu-tune has been deleted and recreated");
    }
}

/// The new spec may have interrupts that the preview does not show.
#[test]
fn an_edit_of_the_spec_stops_the_reset() {
    let (cluster, ran) = reset(" --canary 1 --pause-between 1ms", |state| {
        edit(state, |cr| {
            let generation = cr["metadata"]["generation"].as_i64().expect("a number");
            cr["metadata"]["generation"] = json!(generation + 1);
        });
    });
    stopped(&cluster, &ran, "the spec of skyhook/gpu-tune has been changed");
    ran.expect_stderr("Nodes are changed in waves of 1 and 2, 1ms apart.\n");
}

#[test]
fn an_unreadable_custom_resource_stops_the_reset() {
    let cluster = TestCluster::captured_with_operator("apply-erroring");
    // The load, the check after the confirmation, and that before the first node.
    cluster.fake.on("LIST skyhooks").since(4).reply(500);
    let ran = cluster.run("reset gpu-tune --max-parallel 1 --confirm --no-pause");
    stopped(&cluster, &ran, "cannot read skyhook/gpu-tune: Internal error occurred");
}

/// The custom resource is created again while the nodes are cleaned.
#[test]
fn leftovers_of_a_living_resource_are_not_removed() {
    for (command, written, writes) in [
        ("leftovers --clean", "PATCH nodes", 1),
        ("leftovers --clean", "PATCH nodes/status", 2),
        ("leftovers --clean --node node-[1-2]", "PATCH nodes", 1),
        ("finalizer strip gpu-tune", "PATCH nodes", 1),
    ] {
        let cluster = TestCluster::from_capture("finalizer-stripped");
        cluster.fake.on(written).nth(1).after(|state: &mut State| {
            let flavor = ApiFlavor::Skyhook;
            state.store.load(json!({
                "apiVersion": flavor.api_version(), "kind": flavor.kind(),
                "metadata": {"name": CR, "uid": "another"}, "spec": {"packages": {}},
            }));
        });
        let ran = cluster.run(&format!("{command} --max-parallel 1 --confirm"));
        ran.expect_code(4);
        ran.expect_stdout("stopped: skyhook/gpu-tune exists now\n");
        assert_eq!(cluster.writes().len(), writes, "{command}: {}", ran.transcript());
    }
}

/// Between two waves.
#[test]
fn an_operator_that_returns_stops_a_cleanup() {
    let cluster = TestCluster::from_capture("finalizer-stripped");
    cluster.fake.on("PATCH nodes").nth(1).after(|state: &mut State| state.store.load(operator(1)));
    let ran = cluster.run("finalizer strip gpu-tune --canary 1 --pause-between 1ms --confirm");
    ran.expect_code(4);
    ran.expect_stdout("stopped: a replica of the operator has become available\n");
    assert_eq!(cluster.writes().len(), 1, "{}", ran.transcript());
}

/// The custom resource exists, and selects the node again: by its spec, or by the node's label.
#[test]
fn a_cordon_of_a_resource_that_selects_its_node_again_stays() {
    let flavor = ApiFlavor::Skyhook;
    type Edit = fn(&mut State);
    let selected_again: [(Edit, &str); 2] = [
        (
            |state| {
                edit(state, |cr| {
                    cr["spec"]["nodeSelectors"] = json!({});
                    cr["metadata"]["generation"] = json!(99);
                });
            },
            "the spec of skyhook/gpu-tune has been changed since",
        ),
        (
            |state| {
                let mut node = state.store.find("nodes", "", "node-1").cloned().expect("the node exists");
                node["metadata"]["labels"]["pool"] = json!("gpu");
                state.store.load(node);
            },
            "labels/pool exists now",
        ),
    ];
    for (select, why) in selected_again {
        let cluster = TestCluster::captured_with_operator("complete");
        cluster.fake.change(|state| {
            edit(state, |cr| cr["spec"]["nodeSelectors"] = json!({"matchLabels": {"pool": "gpu"}}));
        });
        for name in NODES {
            let mut node = cluster.node(name);
            let metadata = node["metadata"].as_object_mut().expect("metadata");
            metadata["labels"]["pool"] = json!(if name == "node-1" { "other" } else { "gpu" });
            if name == "node-1" {
                metadata["labels"].as_object_mut().expect("labels").remove("pool");
                metadata["annotations"][flavor.key("cordon_gpu-tune")] = json!("true");
                node["spec"]["unschedulable"] = json!(true);
            }
            cluster.fake.load(node);
        }
        let plan = cluster.state.path().join("plan.json").display().to_string();
        cluster.run(&format!("leftovers --clean --plan-out {plan}")).expect_code(0);
        cluster.fake.change(select);
        let ran = cluster.run(&format!("apply-plan {plan} --confirm"));
        ran.expect_code(3);
        assert!(format!("{}{}", ran.stdout, ran.stderr).contains(why), "{}", ran.transcript());
        assert_eq!(cluster.node("node-1")["spec"]["unschedulable"], json!(true));
    }
}
