//! The calls that upstream's own end-to-end suites make, without a terminal, and what must come of them.

use serde_json::{Value, json};

use super::{Site, driver, idle, marked};
use crate::dropin::SKYHOOK;
use crate::support::fake_api::FakeApi;
use crate::support::object_builder::PackageRun;

/// While the operator is at work: a package is in progress.
fn at_work(status: &str) -> Site {
    let node = marked("node-1", status, &["driver|1.0.0 apply in_progress"]);
    let fake = SKYHOOK.serve(driver()).with(node);
    Site::of(fake).with_operator()
}

#[test]
fn upstream_cli_lifecycle_suite() {
    let site = at_work("in_progress");
    site.done("pause gpu --confirm");
    assert_eq!(site.noted("pause"), json!("true"));
    // Upstream's suite confirms neither of these, and asserts no more than that they do not fail.
    site.done("resume gpu");
    assert_eq!(site.noted("pause"), json!("true"));
    site.done("disable gpu --confirm");
    assert_eq!(site.noted("disable"), json!("true"));
    site.done("enable gpu");
    assert_eq!(site.noted("disable"), json!("true"));
    site.done("pause gpu --confirm");
    site.done("disable gpu --confirm");
    assert_eq!(site.noted("pause"), json!("true"));
    assert_eq!(site.noted("disable"), json!("true"));
    site.done("resume gpu");
    assert_eq!(site.noted("disable"), json!("true"));
    site.done("enable gpu");
}

#[test]
fn upstream_cli_node_suite() {
    let site = at_work("in_progress");
    for words in [
        "node list --skyhook gpu",
        "node list --skyhook gpu -o json",
        "node status node-1",
        "node status node-1 --skyhook gpu",
        "node status node-1 -o json",
    ] {
        site.done(words);
    }
    // The suite does not confirm this one, and there it goes ahead.
    assert_eq!(site.run("node ignore node-1").code, Some(3));
    site.done("node ignore node-1 -y");
    assert_eq!(site.label("node-1", "ignore"), json!("true"));
    site.done("node unignore node-1 -y");
    assert_eq!(site.label("node-1", "ignore"), Value::Null);
    site.done("node reset node-1 --skyhook gpu --confirm");
    assert_eq!(site.entries("node-1"), Value::Null);
    assert_eq!(site.noted("pause"), Value::Null);
}

#[test]
fn upstream_cli_node_suite_before_the_operator_starts() {
    let site = Site::of(
        FakeApi::new()
            .serving(SKYHOOK.0)
            .with({
                let mut cr = SKYHOOK.skyhook("", driver());
                cr.as_object_mut().expect("an object").remove("status");
                cr
            })
            .with(SKYHOOK.operator())
            .with(SKYHOOK.node("node-1", "", &[])),
    );
    for words in [
        "node list --skyhook gpu",
        "node list --skyhook gpu -o json",
        "node status node-1 -o json",
        "node reset node-1 --skyhook gpu --confirm",
        "reset gpu --confirm",
        "package status driver --skyhook gpu",
        "package status driver --skyhook gpu -o json",
        "package logs driver --skyhook gpu --node node-1",
    ] {
        site.done(words);
    }
    assert_eq!(site.patched(), [""; 0]);
}

#[test]
fn upstream_cli_package_suite() {
    let pod = SKYHOOK.pod(
        "gpu-driver",
        &PackageRun::default(),
        "Pending",
        &["driver-init waiting:PodInitializing"],
    );
    let node = marked("node-1", "complete", &["driver|1.0.0 config complete"]);
    let site = Site::of(idle(driver()).with(node).with(pod)).with_operator();
    site.done("package logs driver --skyhook gpu --node node-1");
    site.done("package rerun driver --skyhook gpu --node node-1 --dry-run");
    assert_eq!(site.patched(), [""; 0]);
    site.done("package rerun driver --skyhook gpu --node node-1 --stage apply --confirm");
    let entry = &site.entries("node-1")["driver|1.0.0"];
    assert_eq!(
        (&entry["stage"], &entry["state"]),
        (&json!("apply"), &json!("in_progress"))
    );
    assert_eq!(site.noted("pause"), Value::Null);
}

#[test]
fn upstream_cli_reset_suite() {
    let mut node = marked("node-1", "complete", &["driver|1.0.0 config complete"]);
    node["metadata"]["annotations"][SKYHOOK.0.key("cordon_other")] = json!("true");
    let site = Site::of(idle(driver()).with(node));
    assert_eq!(site.cr()["status"]["nodeOrderOffset"], Value::Null);
    site.done("disable gpu --confirm");
    assert_eq!(site.noted("disable"), json!("true"));
    site.done("reset gpu --confirm");
    for key in ["nodeState_gpu", "cordon_gpu", "status_gpu", "version_gpu"] {
        assert_eq!(site.on("node-1", key), Value::Null, "{key}");
    }
    assert_eq!(site.label("node-1", "status_gpu"), Value::Null);
    assert_eq!(site.on("node-1", "cordon_other"), json!("true"));
    assert_eq!(site.cr()["status"]["nodeOrderOffset"], json!(0));
}

#[test]
fn upstream_cli_deployment_policy_reset_suite() {
    let mut cr = SKYHOOK.skyhook("complete", driver());
    cr["status"]["compartmentStatuses"] =
        json!({"__default__": {"progressPercent": 100, "batchState": {"currentBatch": 3}}});
    let fake = FakeApi::new()
        .serving(SKYHOOK.0)
        .with(cr)
        .with(SKYHOOK.operator())
        .with(marked(
            "node-1",
            "complete",
            &["driver|1.0.0 config complete"],
        ));
    let site = Site::of(fake);
    site.done("deployment-policy reset gpu --confirm");
    let compartment = &site.cr()["status"]["compartmentStatuses"]["__default__"];
    assert_eq!(compartment["batchState"]["currentBatch"], json!(1));
    assert_eq!(compartment["progressPercent"], json!(100));
}

#[test]
fn reset_before_and_after_upstream_suites() {
    // Nothing there yet, as in reap_old_logs, whose result is looked at.
    let site = Site::of(FakeApi::new().serving(SKYHOOK.0).with(SKYHOOK.operator()));
    site.done("reset gpu --confirm");
    // The object was deleted before.
    let site = Site::of(
        FakeApi::new()
            .serving(SKYHOOK.0)
            .with(SKYHOOK.operator())
            .with(marked(
                "node-1",
                "complete",
                &["driver|1.0.0 config complete"],
            )),
    );
    site.done("reset gpu --confirm");
    assert_eq!(site.entries("node-1"), Value::Null);
    // The operator is at work.
    let site = at_work("in_progress");
    site.done("reset gpu --confirm");
    assert_eq!(site.entries("node-1"), Value::Null);
    assert_eq!(site.noted("pause"), Value::Null);
}
