//! Saves the current state of a cluster in the format of `kubectl get -o json`, as a fixture for hermetic
//! tests.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::api::Api;

const CLUSTER: [(&str, &str, &str); 9] = [
    ("/api/v1/nodes", "v1", "Node"),
    ("/apis/skyhook.nvidia.com/v1alpha1/skyhooks", "skyhook.nvidia.com/v1alpha1", "Skyhook"),
    (
        "/apis/skyhook.nvidia.com/v1alpha1/deploymentpolicies",
        "skyhook.nvidia.com/v1alpha1",
        "DeploymentPolicy",
    ),
    ("/apis/nodewright.nvidia.com/v1alpha1/nodewrights", "nodewright.nvidia.com/v1alpha1", "NodeWright"),
    (
        "/apis/nodewright.nvidia.com/v1alpha1/deploymentpolicies",
        "nodewright.nvidia.com/v1alpha1",
        "DeploymentPolicy",
    ),
    ("/api/v1/pods", "v1", "Pod"),
    ("/apis/batch/v1/jobs", "batch/v1", "Job"),
    ("/apis/apps/v1/deployments", "apps/v1", "Deployment"),
    ("/apis/policy/v1/poddisruptionbudgets", "policy/v1", "PodDisruptionBudget"),
];

const EXTRA: [(&str, &str, &str); 5] = [
    ("/api/v1/events", "v1", "Event"),
    ("/api/v1/configmaps", "v1", "ConfigMap"),
    ("/api/v1/namespaces", "v1", "Namespace"),
    (
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
        "admissionregistration.k8s.io/v1",
        "ValidatingWebhookConfiguration",
    ),
    (
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
        "admissionregistration.k8s.io/v1",
        "MutatingWebhookConfiguration",
    ),
];

/// Environment variable with the directory for captures; without it, none are written.
pub const ASKED_FOR: &str = "KUBECTL_SKYHOOK_E2E_CAPTURE";

pub fn write(api: &Api, name: &str) -> Result<()> {
    let Some(dir) = std::env::var_os(ASKED_FOR) else {
        return Ok(());
    };
    let dir = Path::new(&dir).join(name);
    std::fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
    for (file, kinds) in [("cluster.json", &CLUSTER[..]), ("extra.json", &EXTRA[..])] {
        let path = dir.join(file);
        let text = serde_json::to_string_pretty(&list(api, kinds)?)? + "\n";
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    // An empty list of webhook configurations needs a file of its own: a mixed list cannot express "read,
    // none found".
    let webhooks = EXTRA.map(|(path, ..)| path).into_iter().filter(|p| p.ends_with("webhookconfigurations"));
    let mut found = 0;
    for path in webhooks {
        let all = api.find(path)?;
        found += all.map_or(0, |all| all["items"].as_array().map_or(0, Vec::len));
    }
    if found == 0 {
        let none = json!({"apiVersion": "v1", "kind": "List", "items": []}).to_string() + "\n";
        let path = dir.join("validatingwebhookconfigurations.json");
        std::fs::write(&path, none).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

fn list(api: &Api, kinds: &[(&str, &str, &str)]) -> Result<Value> {
    let mut items = Vec::new();
    for (path, version, kind) in kinds {
        // Skip APIs that are not served.
        let Some(list) = api.find(path)? else {
            continue;
        };
        for item in list["items"].as_array().into_iter().flatten() {
            let mut whole = json!({"apiVersion": version, "kind": kind});
            for (key, value) in item.as_object().into_iter().flatten() {
                whole[key] = value.clone();
            }
            // Like kubectl, omit `managedFields`.
            whole["metadata"].as_object_mut().map(|metadata| metadata.remove("managedFields"));
            items.push(whole);
        }
    }
    Ok(json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": items}))
}
