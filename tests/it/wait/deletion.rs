//! `wait --for=deleted`: its end, and what blocks it.

use kubectl_skyhook::api::ApiFlavor;
use serde_json::{Value, json};

use super::{driver, in_progress, on_watch, removable, wait};
use crate::support::clusters;
use crate::support::fake_api::FakeApi;
use crate::support::object_builder::SKYHOOK;

#[test]
fn wait_for_deleted_ends_when_gone() {
    let fake = in_progress(SKYHOOK, driver());
    on_watch(&fake, |it| it.store.forget("skyhooks", "", "gpu"));
    assert_eq!(wait(&fake, "gpu --for deleted").parts(), ("skyhook/gpu deleted\n", "", Some(0)));
    // The records of its nodes show that the custom resource existed.
    assert_eq!(wait(&fake, "gpu --for deleted").parts(), ("skyhook/gpu deleted\n", "", Some(0)));
}

/// A mistyped name must not pass for a deleted custom resource.
#[test]
fn name_that_never_existed_is_not_deleted() {
    let fake = in_progress(SKYHOOK, driver());
    let ran = wait(&fake, "gup --for=deleted");
    let stderr = "error: Skyhook \"gup\" not found\n\
                  hint: did you mean gpu?\n\
                  hint: kubectl skyhook wait --for=deleted --ignore-not-found accepts a name that does not exist\n";
    assert_eq!(ran.parts(), ("", stderr, Some(1)));
    let ran = wait(&fake, "gup --for=deleted --ignore-not-found");
    assert_eq!(ran.parts(), ("skyhook/gup deleted\n", "", Some(0)));
    let ran = wait(&fake, "gpu --ignore-not-found");
    assert_eq!(ran.parts(), ("", "error: --ignore-not-found requires --for=deleted\n", Some(64)));
}

/// A custom resource of the same name that was created in the meantime is another object.
#[test]
fn recreated_custom_resource_counts_as_deleted() {
    let fake = deletion_in_progress(|gpu| {
        deleted_just_now(gpu);
        gpu["metadata"]["uid"] = json!("of-the-deleted");
    });
    on_watch(&fake, |it| {
        let mut again = SKYHOOK.skyhook("in_progress", removable(false));
        again["metadata"]["uid"] = json!("of-the-new");
        it.store.load(again);
    });
    assert_eq!(wait(&fake, "gpu --for=deleted").parts(), ("skyhook/gpu deleted\n", "", Some(0)));
}

#[test]
fn blocked_deletion_ends_the_wait() {
    let captured = clusters::named("deleted-while-paused");
    let ran = wait(&captured.served(), "gpu-tune --for=deleted");
    assert_eq!(ran.code, Some(2));
    let finding = ran.stdout.lines().nth(2).expect("a finding");
    assert!(finding.starts_with("error SKY109 deletion-blocked-while-paused  gpu-tune  "), "{finding}");
}

/// A deletion that waits for the uninstall of a package from two nodes.
fn deletion_in_progress(change: impl FnOnce(&mut Value)) -> FakeApi {
    let mut gpu = SKYHOOK.skyhook("in_progress", removable(false));
    gpu["metadata"]["deletionTimestamp"] = json!("2026-11-20T11:00:00Z");
    gpu["metadata"]["finalizers"] = json!([ApiFlavor::Skyhook.finalizer()]);
    change(&mut gpu);
    let node = |name| SKYHOOK.node(name, "complete", &["driver|1.0.0 config complete"]);
    SKYHOOK.serve(removable(false)).with(gpu).with(node("node-1")).with(node("node-2"))
}

/// Sets a deletion time in the future, so that the deletion does not count as slow.
fn deleted_just_now(gpu: &mut Value) {
    gpu["metadata"]["deletionTimestamp"] = json!("2100-01-01T00:00:00Z");
}

/// `teardown` shows the same words.
#[test]
fn progress_counts_the_uninstalls_that_are_left() {
    let fake = deletion_in_progress(deleted_just_now);
    let ran = wait(&fake, "gpu --for=deleted --timeout 3s");
    ran.expect_code(5);
    ran.expect_stderr("error: timed out after 3s: gpu: 2 uninstalls left on 2 nodes\n");
    let fake = in_progress(SKYHOOK, driver());
    let ran = wait(&fake, "gpu --for=deleted --timeout 3s");
    ran.expect_stderr("error: timed out after 3s: gpu: not being deleted yet\n");
}

#[test]
fn deletion_wait_ends_when_nodes_are_blocked() {
    let fake = deletion_in_progress(|_| {});
    let mut ignored = SKYHOOK.node("node-2", "complete", &["driver|1.0.0 config complete"]);
    ignored["metadata"]["labels"][ApiFlavor::Skyhook.key("ignore")] = json!("true");
    fake.load(ignored);
    insta::assert_snapshot!(wait(&fake, "gpu --for=deleted").transcript());
}

#[test]
fn deletion_wait_ends_when_the_operator_is_blocked() {
    let fake = deletion_in_progress(|gpu| gpu["spec"]["deploymentPolicy"] = json!("careful"));
    insta::assert_snapshot!(wait(&fake, "gpu --for=deleted").transcript());
}

/// The operator's webhook with its Service, and endpoints that are ready or not.
fn webhook(ready: bool) -> Value {
    let service = json!({"namespace": SKYHOOK.namespace(), "name": "webhook-service"});
    let labels = json!({"kubernetes.io/service-name": "webhook-service"});
    json!({"apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "validating"},
            "webhooks": [{
                "name": "validate.example",
                "clientConfig": {"service": service},
                "rules": [{"apiGroups": [SKYHOOK.0.group()], "operations": ["*"], "resources": ["*"]}],
            }],
        },
        {"apiVersion": "v1", "kind": "Service", "metadata": service},
        {
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": "webhook-1", "namespace": SKYHOOK.namespace(), "labels": labels},
            "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": ready}}],
        },
    ]})
}

#[test]
fn brief_webhook_outage_does_not_end_the_wait() {
    let fake = deletion_in_progress(deleted_just_now).with(webhook(false));
    let slices = |nth| fake.on("LIST endpointslices").nth(nth);
    slices(2).after(|it| it.store.load(webhook(true)));
    slices(3).after(|it| it.store.forget("skyhooks", "", "gpu"));
    assert_eq!(wait(&fake, "gpu --for=deleted").parts(), ("skyhook/gpu deleted\n", "", Some(0)));
}

#[test]
fn later_webhook_outage_ends_the_wait() {
    let fake = deletion_in_progress(deleted_just_now).with(webhook(true));
    let second = fake.on("LIST endpointslices").nth(2);
    second.after(|it| it.store.load(webhook(false)));
    let ran = wait(&fake, "gpu --for=deleted");
    ran.expect_code(2);
    let finding = ran.stdout.lines().nth(2).expect("a finding");
    assert!(finding.starts_with("error SKY505 webhook-unreachable  "), "{finding}");
}
