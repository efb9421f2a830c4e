//! Objects that several scenarios start from.

use serde_json::{Value, json};

use crate::{
    cluster::Cluster,
    rollout::Rollout,
    view::{View, that},
};

pub const POLICIES: &str = "/apis/skyhook.nvidia.com/v1alpha1/deploymentpolicies";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

/// Creates the policy `careful`: one node at a time, and none after the first failure.
pub fn careful_policy(cluster: &Cluster) {
    let policy = json!({
        "apiVersion": "skyhook.nvidia.com/v1alpha1", "kind": "DeploymentPolicy", "metadata": {"name": "careful"},
        "spec": {"default": {
            "budget": {"count": 1},
            "strategy": {"fixed": {"initialBatch": 1, "batchThreshold": 100, "failureThreshold": 1, "safetyLimit": 90}},
        }},
    });
    let made = cluster.api.post(POLICIES, &policy);
    made.expect("the policy is accepted");
}

/// Whether a rollout with the policy `careful` has stopped.
pub fn stopped(view: &View) -> bool {
    let object = view.object.as_ref();
    object.is_some_and(|object| {
        object["status"]["compartmentStatuses"]["__default__"]["batchState"]["shouldStop"] == true
    })
}

/// Runs the pod `training` on node-2, whose budget allows no disruption; returns the path of the budget.
pub fn guarded_workload(cluster: &Cluster) -> String {
    let labels: Value = json!({"app": "training"});
    cluster.run_pod("training", "node-2", labels.clone());
    let budget = json!({
        "metadata": {"name": "training"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}},
    });
    let made = cluster.api.post(BUDGETS, &budget);
    made.expect("a budget can be created");
    let path = format!("{BUDGETS}/training");
    cluster.await_that("the budget is computed", || {
        let budget = cluster.api.get(&path);
        budget.is_ok_and(|budget| budget["status"]["currentHealthy"] == 1)
    });
    path
}

/// The node that a rollout with a budget of one has chosen, and the two others: the order is not predictable.
pub fn chosen(gpu: &Rollout<'_>) -> (&'static str, [&'static str; 2]) {
    gpu.until(that("one node is chosen", |view| one_place(view).is_some()));
    let name = one_place(&gpu.view()).expect("the batch keeps its node");
    match name.as_str() {
        "node-1" => ("node-1", ["node-2", "node-3"]),
        "node-2" => ("node-2", ["node-1", "node-3"]),
        _ => ("node-3", ["node-1", "node-2"]),
    }
}

/// The name of a node in the batch.
pub fn one_place(view: &View) -> Option<String> {
    let places = view.object.as_ref()?["status"]["nodePriority"].as_object()?;
    places.keys().next().cloned()
}

/// Creates a quota that allows no pods in a namespace; returns its path.
pub fn no_room_for_pods(cluster: &Cluster, namespace: &str) -> String {
    let api = &cluster.api;
    let namespace = format!("/api/v1/namespaces/{namespace}");
    let quotas = format!("{namespace}/resourcequotas");
    let quota = json!({"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}});
    api.post(&quotas, &quota).expect("a quota can be created");
    let path = format!("{quotas}/none");
    // No quota controller runs here: write the status that it would write.
    let counted = json!({"status": {"hard": {"pods": "0"}, "used": {"pods": "0"}}});
    api.merge(&format!("{path}/status"), &counted).expect("a quota has a status");
    let pod = json!({
        "metadata": {"name": "tried"},
        "spec": {"containers": [{"name": "tried", "image": "tried"}]},
    });
    cluster.await_that("no pod is accepted", || {
        let tried = api.post(&format!("{namespace}/pods?dryRun=All"), &pod);
        tried.is_err()
    });
    path
}

/// Creates an admission policy that applies this JSON patch expression to new pods for which the CEL
/// expression `holds` is true.
pub fn changes_new_pods(cluster: &Cluster, holds: &str, change: &str) {
    let admission = "/apis/admissionregistration.k8s.io/v1";
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy", "metadata": {"name": "pods"},
        "spec": {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"],
            }]},
            "matchConditions": [{"name": "holds", "expression": holds}],
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": change}}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": "pods"}, "spec": {"policyName": "pods"},
    });
    for (path, object) in
        [("mutatingadmissionpolicies", &policy), ("mutatingadmissionpolicybindings", &binding)]
    {
        cluster
            .api
            .post(&format!("{admission}/{path}"), object)
            .unwrap_or_else(|refused| panic!("a policy can be made: {refused}"));
    }
}
