//! `diagnose node`: what keeps one node from being done.

use kubectl_skyhook::api::ApiFlavor;
use serde_json::{Value, json};

use crate::support::clusters;
use crate::support::run::{Ran, run};
use crate::support::world::{Place, World};

const NEW: World = World(ApiFlavor::NodeWright);

fn node(capture: &str, node: &str) -> Ran {
    let captured = clusters::named(capture);
    run(&format!("diagnose node {node} --from {}", captured.path())).go()
}

#[test]
fn what_keeps_a_node() {
    for (capture, name) in [
        ("apply-erroring", "node-2"),
        ("complete", "node-1"),
        ("two-priorities", "node-2"),
        ("v0.17-paused", "node-1"),
        ("runtime-required-and-ignored", "node-3"),
        ("in-progress", "node-2"),
        ("deleted-while-erroring", "node-1"),
        ("rollout-stopped", "node-3"),
    ] {
        insta::assert_snapshot!(format!("node_{capture}"), node(capture, name).transcript());
    }
}

#[test]
fn a_name_that_is_not_there_names_the_near_ones() {
    insta::assert_snapshot!(node("complete", "node-11").transcript());
}

/// The Job of the package on a node.
fn at_work(node: &str) -> Place<'_> {
    Place {
        node,
        package: "driver",
        stage: "apply",
        job: Some(node),
        at: "2026-11-20T11:55:00Z",
        ..Place::default()
    }
}

/// A rollout of ten nodes, two at once, by a policy; the last but one asks for its place.
fn queue() -> Value {
    let mut skyhook = NEW.skyhook(
        "in_progress",
        json!({"driver": {"version": "1.0.0", "image": "example.com/driver"}}),
    );
    skyhook["spec"]["deploymentPolicy"] = "slow".into();
    skyhook["status"]["nodePriority"] =
        json!({"gpu-01": "2026-11-20T11:50:00Z", "gpu-02": "2026-11-20T11:50:00Z"});
    skyhook["status"]["compartmentStatuses"] =
        json!({"__default__": {"matched": 10, "ceiling": 2, "inProgress": 2}});
    let policy = json!({
        "apiVersion": NEW.0.api_version(), "kind": "DeploymentPolicy", "metadata": {"name": "slow"},
        "spec": {"default": {"budget": {"count": 2}}},
    });
    let mut items = vec![skyhook, policy, NEW.operator()];
    for n in 1..=10 {
        let (status, entries): (_, &[&str]) = match n {
            1 | 2 => ("in_progress", &["driver|1.0.0 apply in_progress"]),
            _ => ("waiting", &[]),
        };
        let node = format!("gpu-{n:02}");
        items.push(NEW.node(&node, status, entries));
        if n <= 2 {
            items.push(NEW.job(&at_work(&node), json!({"active": 1})));
        }
    }
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

#[test]
fn nothing_is_wrong_with_a_node_in_the_queue() {
    let ran = run("diagnose node gpu-09 --from -")
        .stdin(queue().to_string())
        .go();
    insta::assert_snapshot!(ran.transcript());
    let ran = run("diagnose node gpu-09 -o json --from -")
        .stdin(queue().to_string())
        .go();
    let json = ran.json();
    assert_eq!((&json["standing"], ran.code), (&json!("waiting"), Some(0)));
    let because = json["skyhooks"][0]["reason"].as_str().expect("a sentence");
    assert!(because.contains("number 7 of 8 in the queue"), "{because}");
}

/// A node of the batch fails, and so nobody else is taken: that is not called well.
#[test]
fn a_node_behind_a_held_batch_is_told_which_node_holds_it() {
    let mut cluster = queue();
    let items = cluster["items"].as_array_mut().expect("items");
    items.retain(|o| o["metadata"]["name"] != "gpu-01" && o["metadata"]["name"] != "gpu-02");
    for n in 1..=2 {
        let entries = ["driver|1.0.0 apply erroring"];
        items.push(NEW.node(&format!("gpu-{n:02}"), "erroring", &entries));
    }
    let ran = run("diagnose node gpu-09 --from -")
        .stdin(cluster.to_string())
        .go();
    assert!(
        !ran.stdout.contains("nothing is wrong"),
        "{}",
        ran.transcript()
    );
    insta::assert_snapshot!(ran.transcript());
}

/// On every node of every capture it agrees with the report, whose errors it cannot be calm about.
#[test]
fn an_error_about_the_node_is_never_called_fine() {
    for captured in clusters::all() {
        let from = captured.path();
        let report = run(&format!("diagnose stuck -o json --from {from}"))
            .go()
            .json();
        let findings = report["findings"].as_array().expect("findings");
        let errors = findings.iter().filter(|f| f["severity"] == "error");
        let mut nodes: Vec<&str> = errors
            .filter_map(|f| f["subject"]["node"].as_str())
            .collect();
        nodes.sort_unstable();
        nodes.dedup();
        for node in nodes {
            let ran = run(&format!("diagnose node {node} -o json --from {from}")).go();
            assert_eq!(
                ran.code,
                Some(2),
                "{}: {node}\n{}",
                captured.name,
                ran.transcript()
            );
        }
    }
}

/// Without the custom resources nobody knows what the node waits for.
#[test]
fn without_the_custom_resources_nothing_is_called_done() {
    let list =
        json!({"apiVersion": "v1", "kind": "List", "items": [NEW.node("gpu-01", "waiting", &[])]});
    let ran = run("diagnose node gpu-01 --from -")
        .stdin(list.to_string())
        .go();
    assert_eq!(ran.code, Some(1), "{}", ran.transcript());
    assert_eq!(
        ran.stdout,
        "gpu-01: cannot tell which custom resources select it\n\n\
         gpu: unknown\n  it could not be read, so it may still exist\n\n\
         could not be read: custom resources: the input has none\n"
    );
    let fake = clusters::named("complete").served();
    fake.on("LIST pods").reply(403);
    let served = fake.serve();
    let ran = run("diagnose node node-1")
        .kubeconfig(&served.kubeconfig())
        .go();
    assert_eq!(ran.code, Some(1), "{}", ran.transcript());
    assert!(!ran.stdout.contains("node-1: done"), "{}", ran.transcript());
}

/// What the earlier one waits for is the cure: to disable it gives up what it installs.
#[test]
fn a_node_behind_a_paused_custom_resource_is_told_to_resume_it() {
    let package = json!({"driver": {"version": "1.0.0", "image": "example.com/driver"}});
    let named = |name: &str, priority: u32| {
        let mut skyhook = NEW.skyhook("waiting", package.clone());
        skyhook["metadata"]["name"] = name.into();
        skyhook["spec"]["priority"] = priority.into();
        skyhook
    };
    let mut first = named("first", 10);
    first["metadata"]["annotations"] = json!({ApiFlavor::NodeWright.key("pause"): "true"});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-1"}});
    let list =
        json!({"apiVersion": "v1", "kind": "List", "items": [first, named("second", 20), node]});
    let ran = run("diagnose node gpu-1 --from -")
        .stdin(list.to_string())
        .go();
    let (findings, next) = ran
        .stdout
        .split_once("what to do next")
        .expect("what to do");
    assert!(findings.contains("- SKY308 paused"), "{}", ran.transcript());
    assert!(next.contains("\n1. Resume it"), "{}", ran.transcript());
}
