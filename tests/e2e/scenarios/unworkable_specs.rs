//! Specs that the operator accepts but cannot apply, and a correction that does not reach the pods.

use serde_json::{Value, json};

use super::remedies::{all_well, execute, first_change_made};
use crate::{
    cluster::Cluster,
    kubelet::StepResult,
    manifest::{package, skyhook},
    operator,
    rollout::{Rollout, pods},
    view::{complete, everywhere},
};

/// Waits for SKY215 and runs its remedy that edits the spec. The pods are recreated endlessly, so the finding
/// is only intermittent.
fn written_into_the_spec(gpu: &Rollout<'_>, sed: &str) {
    gpu.cluster.edits(sed);
    gpu.cluster.await_that("the spec asks for the same", || {
        let report = gpu.report();
        let found = report.with_code("SKY215");
        let Some(finding) = found.first() else {
            return false;
        };
        execute(gpu, finding, &["kubectl", "edit"]);
        true
    });
}

/// SKY215: the API server adds a default `apiVersion` to a `fieldRef`.
pub fn variable_defaulted_by_the_server(cluster: &Cluster) {
    let node = json!([{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]);
    let gpu = cluster.apply(&skyhook("gpu").with(package("driver", "2.0.1").set("env", node)));
    let edit = r"s/\( *\)fieldPath: spec.nodeName/\1apiVersion: v1\n&/";
    written_into_the_spec(&gpu, edit);
    gpu.until(complete()).well();
}

/// SKY215: a LimitRange adds a resource limit that packages have no field for.
pub fn resource_added_by_a_limit_range(cluster: &Cluster) {
    let ranges = format!("/api/v1/namespaces/{}/limitranges", operator::NAMESPACE);
    let range = json!({"metadata": {"name": "disk"}, "spec": {"limits": [
        {"type": "Container", "default": {"ephemeral-storage": "1Gi"}},
    ]}});
    let made = cluster.api.post(&ranges, &range);
    made.expect("a LimitRange can be created");
    let resources = json!({
        "cpuRequest": "100m", "cpuLimit": "1000m", "memoryRequest": "64Mi", "memoryLimit": "1024Mi",
    });
    let driver = package("driver", "2.0.1").set("resources", resources);
    let gpu = cluster.apply(&skyhook("gpu").with(driver));
    cluster.await_that("it is named", || !gpu.report().with_code("SKY215").is_empty());
    let gone = cluster.api.delete(&format!("{ranges}/disk"), &json!({}));
    gone.expect("a LimitRange can be deleted");
    gpu.until(complete()).well();
}

/// SKY225: the package fails before stage config, so the operator does not deliver the corrected configMap.
pub fn config_change_not_applied(cluster: &Cluster) {
    cluster.result(pods("driver", "apply"), StepResult::Exit(1));
    let config = |value: &str| json!({"packages": {"driver": {"configMap": {"module.conf": value}}}});
    let driver = package("driver", "2.0.1").set("configMap", json!({"module.conf": "bad"}));
    let gpu = cluster.apply(&skyhook("gpu").with(driver));
    gpu.until(everywhere("driver|2.0.1", "apply", "erroring"));
    gpu.edit(config("good"));
    let delivered = || {
        let namespace = operator::NAMESPACE;
        let path = format!("/api/v1/namespaces/{namespace}/configmaps/gpu-driver-2.0.1");
        let found = cluster.api.get(&path);
        found.is_ok_and(|map| map["data"]["module.conf"] == "good")
    };
    // The edit recreates the pods, which fail again, so the warning is only intermittent.
    cluster.await_that("it is a warning", || {
        let report = gpu.report();
        let mut found = report.with_code("SKY225").into_iter();
        let warning = found.find(|f| f["subject"]["node"] == "node-1" && f["severity"] == "Warning");
        let Some(finding) = warning else {
            return false;
        };
        assert!(!delivered());
        execute(&gpu, finding, &["delete", "configmap"]);
        true
    });
    cluster.await_that("the operator creates it from the spec", delivered);
    cluster.heal();
    gpu.until(complete()).well();
}

/// SKY226: two custom resources need a ConfigMap of the same name, which blocks the second one.
pub fn config_map_name_taken(cluster: &Cluster) {
    let configured = |name: &str| package(name, "1.0.0").set("configMap", json!({"a": "b"}));
    let first = cluster.apply(&skyhook("aa").with(configured("bb-cc")));
    first.until(complete());
    let second = cluster.apply(&skyhook("aa-bb").with(configured("cc")));
    let subject: Value = json!({"skyhook": "aa-bb", "package": "cc"});
    let edit = "s/version: 1.0.0/version: 1.0.1/";
    first_change_made(&second, "SKY226", &subject, edit);
    second.until(complete());
    all_well(cluster);
}
