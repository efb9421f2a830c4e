//! Requests of the operator that the API server refuses. No object records the refusal: it is found because the action is
//! overdue, and from what may have refused it.

use serde_json::{Value, json};

use super::remedies::{all_well, execute, first_change};
use super::writes::driver;
use crate::{
    cluster::Cluster,
    manifest::{package, skyhook},
    operator::NAMESPACE,
    ours,
    rollout::Rollout,
    view::{complete, status},
};

/// Waits for the finding, and asserts that all commands agree.
#[track_caller]
fn is_stuck<'c>(gpu: &Rollout<'c>, cause: &str) -> Value {
    let cluster = gpu.cluster;
    gpu.until(status("waiting"));
    let mut found = Value::Null;
    cluster.await_that("the overdue action is reported", || {
        let report = cluster.report(&["--fail-on", "never"]);
        let mut errors =
            report.with_code("SKY228").into_iter().filter(|finding| finding["severity"] == "Error");
        found = errors.next().cloned().unwrap_or_default();
        !found.is_null()
    });
    let message = found["message"].as_str().unwrap_or_default();
    assert!(message.contains(cause), "{message}");
    let node = found["subject"]["node"].as_str().expect("the finding is about a node").to_owned();
    let ran = ours::run(&cluster.kubeconfig("admin"), &["diagnose", "node", &node, "-o", "json"]);
    assert_eq!(ran.exit, Some(2), "{ran:?}");
    let explained: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(explained["state"], "Stuck", "{explained:#}");
    let shown = cluster.ours(&["status", "gpu", "-o", "json"]);
    assert_eq!(shown["items"][0]["state"], "Stuck", "{shown:#}");
    found
}

/// The first change of the finding lifts the restriction, and the rollout continues.
fn cured(gpu: &Rollout<'_>, finding: &Value) {
    execute(gpu, finding, &first_change(finding));
    gpu.until(complete());
    all_well(gpu.cluster);
}

/// Pod Security of the operator's namespace forbids package pods.
pub fn pod_security_forbids_package_pods(cluster: &Cluster) {
    let labels = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
    cluster
        .api
        .merge(&format!("/api/v1/namespaces/{NAMESPACE}"), &labels)
        .expect("a namespace can be labeled");
    let gpu = cluster.apply(&driver());
    let finding = is_stuck(&gpu, "Pod Security level restricted");
    cured(&gpu, &finding);
}

/// The service of a webhook for pods does not exist.
pub fn webhook_for_pods_has_no_service(cluster: &Cluster) {
    let webhooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let webhook = json!({
        "name": "pods.policies.example.com", "failurePolicy": "Fail", "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "timeoutSeconds": 1,
        "clientConfig": {"service": {"namespace": "policies", "name": "webhook"}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
    });
    let configuration = json!({"metadata": {"name": "policies"}, "webhooks": [webhook]});
    cluster.api.post(webhooks, &configuration).expect("a webhook can be configured");
    let gpu = cluster.apply(&driver());
    is_stuck(&gpu, "service policies/webhook does not exist");
    cluster
        .api
        .delete(&format!("{webhooks}/policies"), &json!({}))
        .expect("the configuration can be deleted");
    gpu.until(complete());
    all_well(cluster);
}

/// The operator's role no longer allows it to create pods.
pub fn operator_may_not_create_pods(cluster: &Cluster) {
    let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/manager-role";
    let was = cluster.api.get(role).expect("the operator's role");
    let mut rules = was["rules"].as_array().expect("rules").clone();
    for rule in &mut rules {
        if let Some(resources) = rule["resources"].as_array_mut() {
            resources.retain(|resource| resource != "pods");
        }
    }
    rules.retain(|rule| rule["resources"] != json!([]));
    rules
        .push(json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "delete"]}));
    cluster.api.merge(role, &json!({"rules": rules})).expect("a role can be edited");
    let gpu = cluster.apply(&driver());
    is_stuck(&gpu, "to create pods");
    cluster.api.merge(role, &json!({"rules": was["rules"]})).expect("the role can be restored");
    gpu.until(complete());
    all_well(cluster);
}

/// A package whose memory limit is above the maximum of a limit range.
pub fn limit_range_forbids_the_package(cluster: &Cluster) {
    let ranges = format!("/api/v1/namespaces/{NAMESPACE}/limitranges");
    let limits = json!([{"type": "Container", "max": {"memory": "64Mi"}}]);
    let range = json!({"metadata": {"name": "small"}, "spec": {"limits": limits}});
    cluster.api.post(&ranges, &range).expect("a limit range can be created");
    let resources =
        json!({"cpuRequest": "10m", "cpuLimit": "20m", "memoryRequest": "64Mi", "memoryLimit": "1Gi"});
    let gpu = cluster.apply(&skyhook("gpu").with(package("driver", "2.0.1").set("resources", resources)));
    is_stuck(&gpu, "limitrange/skyhook/small");
    cluster.api.delete(&format!("{ranges}/small"), &json!({})).expect("the limit range can be deleted");
    gpu.until(complete());
    all_well(cluster);
}
