//! The state of a package on a node, in views, waits and previews.

use kubectl_skyhook::api::ApiFlavor;
use serde_json::{Value, json};

use crate::support::fake_api::FakeApi;
use crate::support::object_builder::{PackageRun, SKYHOOK};
use crate::support::run::{RunOutput, run};

fn driver(apply: bool) -> Value {
    json!({"driver": {
        "version": "1.0.0",
        "image": "example.com/driver",
        "uninstall": {"enabled": true, "apply": apply},
    }})
}

fn with(fake: FakeApi, nodes: &[(&str, &str)]) -> FakeApi {
    nodes.iter().fold(fake, |fake, (name, entry)| {
        let entries: &[&str] = if entry.is_empty() { &[] } else { &[entry] };
        fake.with(SKYHOOK.node(name, "complete", entries))
    })
}

fn run_on(fake: &FakeApi, words: &str) -> RunOutput {
    let served = fake.serve();
    run(words).kubeconfig(&served.kubeconfig()).output()
}

#[test]
fn uninstalled_package_is_absent_not_complete() {
    let nodes = [("node-1", ""), ("node-2", "driver|1.0.0 config complete")];
    let fake = with(SKYHOOK.serve(driver(true)), &nodes);
    let package = &run_on(&fake, "status -o json").json()["items"][0]["packages"][0];
    assert_eq!(
        [&package["complete"], &package["absent"], &package["nodes"]],
        [&json!(1), &json!(1), &json!(2)]
    );
    let page = run_on(&fake, "status gpu").stdout;
    assert!(page.contains("driver   1.0.0    1/2 absent  "), "{page}");
    let rows = run_on(&fake, "node status -o json").json()["items"].take();
    assert_eq!(rows[0]["packagesComplete"], 1);
    assert_eq!(rows[1]["packagesComplete"], 0, "its uninstall is to come");
}

#[test]
fn version_not_in_the_spec_is_not_in_progress() {
    let nodes = [("node-1", "driver|0.9.0 config complete")];
    let fake = with(SKYHOOK.serve(driver(true)), &nodes);
    let ran = run_on(&fake, "package status --skyhook gpu");
    assert_eq!(ran.stderr, "1 package on 1 node: 1 absent; 1 record of versions that are not in the spec\n");
}

#[test]
fn every_cancelled_but_running_uninstall_is_reported() {
    let nodes = ["node-1", "node-2"];
    let complete = nodes.map(|node| (node, "driver|1.0.0 config complete"));
    let mut fake = with(SKYHOOK.serve(driver(false)), &complete);
    for node in nodes {
        let place = PackageRun { node, stage: "uninstall", ..PackageRun::default() };
        let name = format!("pod-{node}");
        fake = fake.with(SKYHOOK.pod(&name, &place, "Pending", &["driver-uninstall running"]));
    }
    let rows = run_on(&fake, "status gpu -o json").json();
    for (row, node) in rows["items"][0]["uninstalls"].as_array().expect("rows").iter().zip(nodes) {
        let because = format!("canceled, but pod/skyhook/pod-{node} is still running");
        assert_eq!((&row["message"], &row["node"]), (&json!(because), &json!(node)));
    }
}

#[test]
fn uninstall_starts_after_the_running_stage() {
    let mut gpu = SKYHOOK.skyhook("paused", driver(true));
    gpu["metadata"]["annotations"] = json!({ApiFlavor::Skyhook.key("pause"): "true"});
    let nodes = [
        ("node-1", "driver|1.0.0 apply erroring"),
        ("node-2", "driver|1.0.0 apply complete"),
        ("node-3", "driver|1.0.0 uninstall in_progress"),
    ];
    let fake = with(SKYHOOK.serve(driver(true)).with(gpu), &nodes);
    let preview = run_on(&fake, "resume gpu --dry-run").stdout;
    let effects = "\n\ngpu     ONCE APPLIED\n\
                   driver  uninstall on 2 nodes (node-[2-3]), one at a time\n\
                   driver  install, then uninstall on 1 node (node-1)\n";
    assert!(preview.ends_with(effects), "{preview}");
}

#[test]
fn pending_uninstall_is_not_complete() {
    let nodes = [("node-1", "driver|1.0.0 config complete")];
    let fake = with(SKYHOOK.serve(driver(true)), &nodes);
    fake.load(SKYHOOK.skyhook("complete", driver(true)));
    let ran = run_on(&fake, "wait gpu --timeout 1s");
    ran.expect_code(5);
}

#[test]
fn unselected_nodes_do_not_block_an_uninstall() {
    let mut gpu = SKYHOOK.skyhook("complete", driver(true));
    gpu["spec"]["nodeSelectors"] = json!({"matchLabels": {"pool": "gpu"}});
    let nodes = [("node-1", "driver|1.0.0 config complete")];
    let fake = with(SKYHOOK.serve(driver(true)).with(gpu), &nodes);
    let mut selected = SKYHOOK.node("node-2", "complete", &[]);
    selected["metadata"]["labels"] = json!({"pool": "gpu"});
    fake.load(selected);
    let ran = run_on(&fake, "wait gpu --for=uninstalled=driver --timeout 2s");
    ran.expect_code(0);
    let status = run_on(&fake, "status gpu -o json").json();
    let left = &status["items"][0]["uninstalls"][0];
    assert_eq!(left["node"], "node-1", "{status}");
    assert_eq!(left["message"], "the node is no longer selected", "{status}");
}
