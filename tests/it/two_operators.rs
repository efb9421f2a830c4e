//! A Deployment of somebody else that has the operator's labels.

use serde_json::json;

use crate::support::test_cluster::{TestCluster, operator_of_version};

/// A ready Deployment with a newer version in the namespace of a tenant.
fn with_impostor(cluster: &str, version: &str, ready: u8) -> TestCluster {
    let cluster = TestCluster::from_capture(cluster);
    let mut real = operator_of_version(version);
    real["status"]["availableReplicas"] = json!(ready);
    cluster.fake.load(real);
    let mut impostor = operator_of_version("v0.20.0");
    impostor["metadata"]["namespace"] = json!("tenant");
    cluster.fake.load(impostor);
    cluster
}

/// The real operator is not ready, so that only the impostor acts; or both are ready.
#[test]
fn refusals_for_the_real_operator_stand() {
    for ready in [0, 1] {
        let cluster = with_impostor("complete", "v0.14.0", ready);
        let ran = cluster.run("uninstall gpu-tune tuning --confirm");
        ran.expect_code(3);
        ran.expect_stderr("does not support explicit uninstall");
        assert_eq!(cluster.writes(), [""; 0]);
    }
}
