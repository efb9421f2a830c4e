//! Warnings about batch counters that still include nodes whose packages run again.

use serde_json::json;

use super::TestCluster;
use crate::support::test_cluster::operator;

const WARNING: &str = "the batch counters of skyhook/gpu-tune still count";

/// A captured rollout with this operator version; its counters have two complete nodes and a failed one.
fn counted(version: &str) -> TestCluster {
    let cluster = TestCluster::from_capture("apply-erroring");
    let mut operator = operator(1);
    let image = format!("ghcr.io/nvidia/skyhook/operator:{version}");
    operator["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
    cluster.fake.load(operator);
    cluster
}

#[test]
fn preview_says_that_batch_counters_still_include_the_nodes() {
    for (words, nodes) in [
        ("reset gpu-tune --node node-1", "node-1"),
        ("reset gpu-tune --node node-1 --node node-2", "node-1 as"),
        ("reset gpu-tune --package driver --node node-1", "node-1"),
        ("reset gpu-tune --skip-batch-reset", "node-[1,3]"),
        ("node reset node-1 --skyhook gpu-tune", "node-1"),
        ("package rerun driver --skyhook gpu-tune --node node-1 --force", "node-1"),
    ] {
        let ran = counted("v0.15.0").run(&format!("{words} --dry-run"));
        ran.expect_code(0);
        let all = ran.transcript();
        assert!(all.contains(&format!("{WARNING} {nodes}")), "{words}: {all}");
        assert!(all.contains("deployment-policy reset gpu-tune"), "{all}");
    }
}

/// The package does not run again, so its nodes stay complete.
#[test]
fn counters_are_not_mentioned_for_a_package_that_left_the_spec() {
    let cluster = counted("v0.15.0");
    let mut cr = cluster.cr().expect("the custom resource exists");
    let packages = cr["spec"]["packages"].as_object_mut().expect("packages");
    packages.remove("driver");
    packages.values_mut().for_each(|package| package["dependsOn"] = json!({}));
    cluster.fake.load(cr);
    let ran = cluster.run("reset gpu-tune --package driver --node node-1 --dry-run");
    insta::assert_snapshot!(ran.transcript());
}

#[test]
fn counters_that_are_reset_or_corrected_are_not_mentioned() {
    for (version, words) in [
        ("v0.15.0", "reset gpu-tune"),
        ("v0.15.0", "reset gpu-tune --node node-1 --reset-batches"),
        // A failed node keeps its batch slot.
        ("v0.15.0", "reset gpu-tune --node node-2"),
        // This operator version corrects its counters.
        ("v0.20.0", "reset gpu-tune --node node-1"),
    ] {
        let ran = counted(version).run(&format!("{words} --dry-run"));
        ran.expect_code(0);
        assert!(!ran.transcript().contains(WARNING), "{words}: {}", ran.transcript());
    }
}
