//! The kinds that are read, by the names of their files.

use crate::api::ApiFlavor;
use crate::cluster::admission::CONFIGURATIONS;

/// apiVersion and kind of the objects in a file with this name: `pods.json` contains Pods.
pub fn resource_of(stem: &str) -> Option<(String, &'static str)> {
    let plain = |api_version: &str, kind| Some((api_version.to_owned(), kind));
    match stem {
        "nodes" => plain("v1", "Node"),
        "pods" => plain("v1", "Pod"),
        "events" => plain("v1", "Event"),
        "jobs" => plain("batch/v1", "Job"),
        "poddisruptionbudgets" => plain("policy/v1", "PodDisruptionBudget"),
        "deployments" => plain("apps/v1", "Deployment"),
        "configmaps" => plain("v1", "ConfigMap"),
        "services" => plain("v1", "Service"),
        "limitranges" => plain("v1", "LimitRange"),
        "resourcequotas" => plain("v1", "ResourceQuota"),
        "endpointslices" => plain("discovery.k8s.io/v1", "EndpointSlice"),
        "validatingwebhookconfigurations" | "mutatingwebhookconfigurations" => {
            plain("admissionregistration.k8s.io/v1", CONFIGURATIONS[0].0)
        }
        _ => ApiFlavor::ALL.into_iter().find_map(|flavor| {
            let kind = match stem.strip_suffix(flavor.group()) {
                Some("deploymentpolicies.") => "DeploymentPolicy",
                _ if stem == flavor.plural() || stem == flavor.resource() => flavor.kind(),
                _ => return None,
            };
            Some((flavor.api_version(), kind))
        }),
    }
}
