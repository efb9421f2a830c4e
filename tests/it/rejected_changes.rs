//! Remedies while the API server rejects every change to custom resources.

use serde_json::{Value, json};

use crate::support::object_builder::SKYHOOK;
use crate::support::run::{RunOutput, run};

const NOW: &str = "2026-11-20T12:00:00Z";

fn configuration(kind: &str, name: &str) -> Value {
    let group = SKYHOOK.0.group();
    let webhook = |name: &str, plural: &str| {
        json!({"name": name, "failurePolicy": "Fail",
            "clientConfig": {"service": {"namespace": "skyhook", "name": "webhook"}, "caBundle": "LS0t"},
            "rules": [{"apiGroups": [group], "operations": ["CREATE", "UPDATE"], "resources": [plural]}]})
    };
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
        "metadata": {"name": name, "creationTimestamp": "2026-11-01T00:00:00Z"},
        "webhooks": [webhook("resources.example", SKYHOOK.0.plural()), webhook("policies.example", "deploymentpolicies")],
    })
}

/// A paused custom resource that is being deleted, and webhooks of the operator that have no backend.
fn cluster() -> Vec<Value> {
    let packages = json!({"driver": {"version": "1.0.0", "image": "example.com/driver", "uninstall": {"enabled": true}}});
    let mut skyhook = SKYHOOK.skyhook("paused", packages);
    skyhook["metadata"]["annotations"] = json!({SKYHOOK.0.key("pause"): "true"});
    skyhook["metadata"]["deletionTimestamp"] = "2026-11-20T11:50:00Z".into();
    let mut operator = SKYHOOK.operator();
    operator["metadata"]["creationTimestamp"] = "2026-11-01T00:00:00Z".into();
    operator["status"] = json!({"observedGeneration": 1, "replicas": 1, "conditions": [
        {"type": "Available", "status": "False", "lastTransitionTime": "2026-11-20T02:00:00Z"}]});
    vec![
        skyhook,
        SKYHOOK.node("node-1", "paused", &["driver|1.0.0 config complete"]),
        operator,
        configuration("ValidatingWebhookConfiguration", "validating"),
        configuration("MutatingWebhookConfiguration", "mutating"),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "webhook", "namespace": "skyhook"}, "spec": {}}),
        json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "endpoints": [],
            "metadata": {"name": "webhook-1", "namespace": "skyhook", "labels": {"kubernetes.io/service-name": "webhook"}}}),
    ]
}

fn over(items: &[Value], command: &str) -> RunOutput {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    run(&format!("{command} --from - --now {NOW}")).stdin(list.to_string()).output()
}

fn first_remedy(text: &str) -> &str {
    let mut after = text.lines().skip_while(|line| !line.trim_start().starts_with("1. "));
    after.nth(1).unwrap_or_default().trim()
}

#[test]
fn the_first_remedy_is_one_that_the_server_accepts() {
    let mut items = cluster();
    for command in ["diagnose node node-1", "status gpu"] {
        let ran = over(&items, command);
        assert_eq!(
            first_remedy(&ran.stdout),
            "kubectl describe deployment,pods -n skyhook",
            "{}",
            ran.stdout
        );
    }
    // The operator runs, and its certificate has expired or is not trusted.
    items[2] = SKYHOOK.operator();
    items[6]["endpoints"] = json!([{"addresses": ["10.0.0.1"], "conditions": {"ready": true}}]);
    for configuration in [3, 4] {
        for webhook in [0, 1] {
            items[configuration]["webhooks"][webhook]["clientConfig"]["caBundle"] = "".into();
        }
    }
    for command in ["diagnose node node-1", "status gpu"] {
        let ran = over(&items, command);
        assert!(first_remedy(&ran.stdout).starts_with("kubectl logs -n skyhook"), "{}", ran.stdout);
    }
    let ran = over(&items, "diagnose stuck --all");
    let resume = ran.stdout.split("kubectl skyhook resume gpu\n").nth(1).unwrap_or_default();
    let note = resume.lines().next().unwrap_or_default().trim();
    assert!(note.starts_with("note: the API server rejects this until SKY505 is fixed"), "{}", ran.stdout);
}

#[test]
fn each_webhook_configuration_has_its_patch() {
    let items = cluster();
    for command in ["diagnose stuck 1", "diagnose stuck --all"] {
        let ran = over(&items, command);
        for patch in [
            "kubectl patch validatingwebhookconfigurations validating",
            "kubectl patch mutatingwebhookconfigurations mutating",
        ] {
            assert!(ran.stdout.contains(patch), "{command}: no {patch}\n{}", ran.stdout);
        }
    }
    insta::assert_snapshot!(over(&items, "diagnose stuck").transcript());
}
