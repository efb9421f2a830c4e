//! Objects with the operator's labels that the operator did not create, and Deployments that are not the
//! active operator.

use kubectl_skyhook::api::ApiFlavor;
use serde_json::{Value, json};

use crate::support::object_builder::SKYHOOK;
use crate::support::run::run;
use crate::support::test_cluster::{CR, TestCluster, operator};

const OURS: &str = "gone-driver-1-0-0-apply-node-1-0a1b2c3d";

fn key(suffix: &str) -> String {
    ApiFlavor::Skyhook.key(suffix)
}

/// A package pod as the operator makes it.
fn pod(namespace: &str, name: &str, skyhook: &str, phase: &str) -> Value {
    let note = json!({"name": "driver", "version": "1.0.0", "skyhook": skyhook, "stage": "apply"});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": namespace,
            "labels": {key("name"): skyhook, key("package"): "driver-1.0.0"},
            "annotations": {key("package"): note.to_string()},
            "ownerReferences": [{"apiVersion": ApiFlavor::Skyhook.api_version(), "kind": "Skyhook", "name": skyhook,
                "uid": "u-gone", "controller": true}],
        },
        "spec": {"nodeName": "node-1"},
        "status": {"phase": phase},
    })
}

/// The ConfigMap of a package as the operator makes it.
fn config_map(namespace: &str, name: &str) -> Value {
    let mut object = pod(namespace, name, "gone", "");
    object["kind"] = json!("ConfigMap");
    object["metadata"]["labels"] = json!({key("name"): "gone"});
    object["metadata"]["annotations"] =
        json!({key("name"): "gone", key("Package.Name"): "driver", key("Package.Version"): "1.0.0"});
    object["data"] = json!({"a.conf": "x"});
    object
}

fn without(mut object: Value, field: &str) -> Value {
    let metadata = object["metadata"].as_object_mut().expect("a map");
    metadata.remove(field);
    object
}

fn cluster() -> TestCluster {
    TestCluster::captured_with_operator("complete")
}

/// One object of each kind is the operator's; the others lack one proof each.
#[test]
fn clean_deletes_only_what_the_operator_created() {
    let test_cluster = cluster();
    let fake = &test_cluster.fake;
    fake.load(pod("skyhook", OURS, "gone", "Running"));
    fake.load(config_map("skyhook", "gone-driver-1.0.0"));
    fake.load(pod("team-a", OURS, "gone", "Running"));
    fake.load(config_map("team-a", "gone-driver-1.0.0"));
    fake.load(without(config_map("skyhook", "gone-driver-2.0.0"), "ownerReferences"));
    fake.load(without(pod("skyhook", "copied", "gone", "Running"), "annotations"));
    fake.load(pod("skyhook", "debug-shell", "gone", "Running"));

    let listed = test_cluster.run("leftovers");
    listed.expect_code(0);
    listed.expect_stdout("pod skyhook/gone-driver-1-0-0-apply-node-1-0a1b2c3d");
    listed.expect_stdout("ConfigMap skyhook/gone-driver-1.0.0");
    for line in [
        "configmap/team-a/gone-driver-1.0.0,pod/team-a/gone-driver-1-0-0-apply-node-1-0a1b2c3d: labeled as the operator's, but not created by it (not in the operator's namespace); never deleted",
        "configmap/skyhook/gone-driver-2.0.0: labeled as the operator's, but not created by it (no owner reference to its custom resource); never deleted",
        "pod/skyhook/copied: labeled as the operator's, but not created by it (without the operator's annotations); never deleted",
        "pod/skyhook/debug-shell: labeled as the operator's, but not created by it (its name does not follow the operator's naming scheme); never deleted",
    ] {
        assert!(unwrapped(&listed.stdout).contains(line), "{line}\n{}", listed.stdout);
    }
    let names = test_cluster.run("leftovers -o name");
    assert_eq!(names.stdout, format!("pod/skyhook/{OURS}\nconfigmap/skyhook/gone-driver-1.0.0\n"));

    let cleaned = test_cluster.run("leftovers --clean --confirm");
    cleaned.expect_code(0);
    cleaned.expect_stderr(format!("pod/skyhook/{OURS}"));
    cleaned.expect_stderr("configmap/skyhook/gone-driver-1.0.0");
    cleaned.expect_stderr("labeled as the operator's, but not created by it");
    let mut deleted = test_cluster.writes();
    deleted.sort();
    assert_eq!(
        deleted,
        [
            "DELETE /api/v1/namespaces/skyhook/configmaps/gone-driver-1.0.0".to_owned(),
            format!("DELETE /api/v1/namespaces/skyhook/pods/{OURS}"),
        ]
    );
}

/// Text without its line breaks.
fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Without a Deployment, the namespace comes from the Service in the webhook configuration, or else from
/// `--namespace`.
#[test]
fn namespace_is_known_after_the_operator_is_gone() {
    let left = |webhook: bool, flags: &str| {
        let test_cluster = TestCluster::from_capture("complete");
        let fake = &test_cluster.fake;
        fake.load(config_map("operators", "gone-driver-1.0.0"));
        if webhook {
            fake.load(webhook_left("operators"));
        }
        let ran = test_cluster.run(&format!("leftovers --clean --confirm {flags}"));
        ran.expect_code(0);
        let map = fake.get("configmaps", "operators", "gone-driver-1.0.0");
        (map.is_some(), ran.stderr)
    };
    let (kept, output) = left(false, "");
    assert!(kept, "{output}");
    assert!(unwrapped(&output).contains("the operator's namespace is unknown; use --namespace"), "{output}");
    assert!(!left(true, "").0);
    assert!(!left(false, "--namespace operators").0);
    assert!(left(true, "--namespace elsewhere").0);
}

fn webhook_left(namespace: &str) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "skyhook-operator-validating-webhook"},
        "webhooks": [{
            "name": "validate.example", "failurePolicy": "Fail",
            "clientConfig": {"service": {"namespace": namespace, "name": "webhook-service"}, "caBundle": "eA=="},
            "rules": [{"apiGroups": [ApiFlavor::Skyhook.group()], "operations": ["CREATE", "UPDATE"],
                "resources": [ApiFlavor::Skyhook.plural()]}],
        }],
    })
}

/// The operator counts pods of all namespaces, so the pod blocks the stage; no command deletes it.
#[test]
fn forged_failed_pod_is_reported_and_never_deleted() {
    let fake = SKYHOOK
        .serve(json!({"driver": {"version": "1.0.0", "image": "example.com/driver"}}))
        .with(SKYHOOK.node("node-1", "in_progress", &["driver|1.0.0 apply in_progress"]))
        .with(pod("team-a", "gpu-driver-1-0-0-apply-node-1-0a1b2c3d", "gpu", "Failed"));
    let test_cluster = TestCluster::serving(fake);
    let found = test_cluster.run("diagnose stuck --rule SKY204");
    found.expect_code(2);
    found.expect_stdout("labeled as the operator's, but not created by it: not in the operator's namespace");
    found.expect_stdout("kubectl label pod -n team-a gpu-driver-1-0-0-apply-node-1-0a1b2c3d");
    found.expect_no_stdout("package retry");
    let retried = test_cluster.run("package retry driver --skyhook gpu --node node-1 --confirm");
    retried.expect_code(3);
    retried.expect_stderr(
        "pod/team-a/gpu-driver-1-0-0-apply-node-1-0a1b2c3d is labeled as the operator's, but not created by it (not in the operator's namespace); not deleted",
    );
    assert_eq!(test_cluster.writes(), [""; 0]);
}

fn of(namespace: &str, version: &str, replicas: u8) -> Value {
    let mut deployment = operator(replicas);
    deployment["metadata"]["namespace"] = json!(namespace);
    deployment["spec"]["template"]["spec"]["containers"][0]["image"] =
        json!(format!("ghcr.io/nvidia/skyhook/operator:{version}"));
    deployment
}

fn version_with(deployments: impl IntoIterator<Item = Value>) -> (String, TestCluster) {
    let test_cluster = TestCluster::from_capture("complete");
    for deployment in deployments {
        test_cluster.fake.load(deployment);
    }
    let ran = test_cluster.run("version");
    ran.expect_code(0);
    let line = ran.stdout.lines().nth(1).unwrap_or_default().to_owned();
    (line, test_cluster)
}

#[test]
fn deployment_scaled_to_zero_does_not_set_the_version() {
    let (line, test_cluster) = version_with([of("skyhook", "v0.17.1", 1), of("team-a", "v0.20.0", 0)]);
    assert_eq!(line, "Skyhook operator: v0.17.1");
    let status = test_cluster.run("status");
    status.expect_stdout("Operator v0.17.1 in skyhook");
    let (line, _) = version_with([of("team-a", "v0.20.0", 0)]);
    assert_eq!(
        line,
        "Skyhook operator: unknown (deployment/team-a/skyhook-operator-controller-manager is scaled to zero)"
    );
}

#[test]
fn several_operators_leave_the_version_unknown_and_are_all_named() {
    let both = || [of("skyhook", "v0.17.1", 1), of("nodewright", "v0.19.0", 1)];
    let (line, test_cluster) = version_with(both());
    let named = "v0.19.0 in namespace nodewright, v0.17.1 in namespace skyhook";
    assert_eq!(line, format!("Skyhook operator: unknown (2 operators are active: {named})"));
    let check = test_cluster.run("diagnose check");
    check.expect_code(2);
    check.expect_stdout(format!(
        "error: 2 operators work on the same custom resources: {named} (SKY508); expected: one operator works on the \
         custom resources"
    ));
    let stuck = test_cluster.run("diagnose stuck --rule SKY508");
    stuck.expect_code(2);
    stuck.expect_stdout(named);
}

/// A Deployment with ready replicas but without the Lease is not the active operator.
#[test]
fn lease_decides_between_operators() {
    #[expect(clippy::disallowed_methods, reason = "the clock of the program under test")]
    let now = jiff::Timestamp::now();
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "3c22c1ae.nvidia.com", "namespace": "skyhook"},
        "spec": {"holderIdentity": "skyhook-operator-controller-manager-7c4-x2", "leaseDurationSeconds": 15,
            "renewTime": now.to_string()},
    });
    let (line, _) = version_with([of("skyhook", "v0.17.1", 1), of("nodewright", "v0.19.0", 1), lease]);
    assert_eq!(line, "Skyhook operator: v0.17.1");
}

/// The operator, its Deployment and its Service are gone, its configurations are left, and there is no custom
/// resource.
#[test]
fn webhooks_left_behind_are_found_without_any_custom_resource() {
    let test_cluster = TestCluster::from_capture("complete");
    let fake = &test_cluster.fake;
    fake.change(|state| state.store.forget("skyhooks", "", CR));
    fake.load(webhook_left("skyhook"));
    let stuck = test_cluster.run("diagnose stuck");
    stuck.expect_code(2);
    stuck.expect_stdout(
        "every change to a custom resource is rejected: service skyhook/webhook-service does not exist",
    );
    stuck.expect_stdout("kubectl delete validatingwebhookconfigurations skyhook-operator-validating-webhook");
    let check = test_cluster.run("diagnose check");
    check.expect_code(2);
    check.expect_stdout("error: every change to a custom resource is rejected: service skyhook/webhook-service does not exist");
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "skyhook-operator-manager-role"}});
    let other = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "view"}});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{}.{}", ApiFlavor::Skyhook.plural(), ApiFlavor::Skyhook.group())}});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "skyhook-operator-manager-rolebinding"}});
    for object in [role, other, binding, definition] {
        fake.load(object);
    }
    let left = test_cluster.run("leftovers");
    left.expect_code(0);
    left.expect_stdout("kubectl delete validatingwebhookconfigurations skyhook-operator-validating-webhook");
    left.expect_stdout("kubectl delete clusterroles skyhook-operator-manager-role");
    left.expect_stdout("kubectl delete clusterrolebindings skyhook-operator-manager-rolebinding");
    left.expect_stdout("kubectl delete customresourcedefinitions skyhooks.");
    left.expect_no_stdout("clusterroles view");
    assert_eq!(test_cluster.writes(), [""; 0]);
}

/// A patch can empty `managedFields`, which leaves no proof that the operator set the cordon.
#[test]
fn cordon_without_proof_is_not_released() {
    for managers in [json!([]), json!([{"manager": "kubelet", "operation": "Update"}])] {
        let test_cluster = cluster();
        let mut node = test_cluster.node("node-1");
        node["spec"]["unschedulable"] = json!(true);
        node["metadata"]["annotations"][key("cordon_gone")] = json!("true");
        node["metadata"]["managedFields"] = managers;
        test_cluster.fake.load(node);
        let preview = test_cluster.run("leftovers --clean --node node-1 --dry-run");
        let promises = preview.stdout.lines().any(|line| line.trim() == "uncordon");
        assert!(!promises, "{}", preview.transcript());
        let ran = test_cluster.run("leftovers --clean --node node-1 --confirm");
        let node = test_cluster.node("node-1");
        assert_eq!(node["spec"]["unschedulable"], json!(true), "{}", ran.transcript());
        ran.expect_stdout("an unknown owner");
    }
}

/// A stage that exceeds its memory limit: the limit and how to raise it come before the logs.
#[test]
fn memory_limit_is_the_first_remedy_after_an_oom_kill() {
    let mut failed = pod("skyhook", "gpu-driver-1-0-0-apply-node-1-0a1b2c3d", "gpu", "Running");
    failed["spec"]["initContainers"] = json!([{"name": "driver-apply", "image": "i",
        "resources": {"limits": {"memory": "8Gi"}}}]);
    failed["status"]["initContainerStatuses"] = json!([{"name": "driver-apply", "restartCount": 4,
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}},
        "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "message": "build of module x"}}}]);
    let fake = SKYHOOK
        .serve(json!({"driver": {"version": "1.0.0", "image": "example.com/driver"}}))
        .with(SKYHOOK.node("node-1", "erroring", &["driver|1.0.0 apply erroring"]))
        .with(failed);
    let ran = TestCluster::serving(fake).run("diagnose stuck --rule SKY201");
    ran.expect_code(2);
    ran.expect_stdout("container driver-apply: memory limit: 8Gi");
    ran.expect_stdout("message: build of module x");
    ran.expect_stdout("1. Raise spec.packages.driver.resources.memoryLimit");
    ran.expect_stdout("2. Check the logs");
}

/// The Deployment was removed with its namespace while work was in progress: that is the first cause.
#[test]
fn terminating_namespace_of_the_operator_is_the_first_cause() {
    let ran = run(
        "diagnose stuck --from tests/rules/operator_not_running.namespace.yaml --now 2026-11-20T12:00:00Z",
    )
    .output();
    ran.expect_code(2);
    let first = ran.stdout.lines().find(|line| line.contains("SKY"));
    assert!(first.is_some_and(|line| line.starts_with("error SKY501")), "{}", ran.stdout);
    ran.expect_stdout("namespace nodewright is Terminating");
    ran.expect_stdout(
        "note: not terminated yet: pod/nodewright/tuning-driver-1-0-0-config-gpu-1-0a1b2c3d on gpu-1",
    );
}

/// Keys of a custom resource that exists are no leftovers.
#[test]
fn live_keys_are_not_called_leftovers() {
    let ran = run("diagnose stuck --from tests/rules/runtime_required_not_in_force.yaml --rule SKY411 --all")
        .output();
    ran.expect_no_stdout("leftover keys");
    ran.expect_stdout("keys of the operator");
}
