//! Objects missing from files do not count as absent: the report says what was not checked.

use insta::assert_snapshot;
use serde_json::Value;

use crate::scope::{codes, diagnose};
use crate::support::run::run;

/// Why the selected rule was not checked.
fn why_not(report: &Value) -> &str {
    assert_eq!(report["verdict"], "NotFullyChecked", "{report}");
    report["notChecked"][0]["message"].as_str().expect("a reason")
}

fn operator(version: &str) -> String {
    format!(
        "apiVersion: apps/v1
kind: Deployment
metadata: {{name: op, namespace: skyhook, labels: {{control-plane: controller-manager}}}}
spec: {{template: {{spec: {{containers: [{{name: manager, image: 'example.org/skyhook/operator:{version}'}}]}}}}}}
"
    )
}

const NODE: &str = "---
apiVersion: v1
kind: Node
metadata: {name: node-1}
";

const OLDER_OBJECT: &str = "---
apiVersion: skyhook.nvidia.com/v1alpha1
kind: Skyhook
metadata: {name: gpu, uid: u-1}
spec: {packages: {driver: {version: 2.0.1, image: i}}}
status: {status: in_progress}
";

const NEWER_OBJECT: &str = "---
apiVersion: nodewright.nvidia.com/v1alpha1
kind: NodeWright
metadata: {name: gpu, uid: u-2}
spec: {packages: {driver: {version: 2.0.1, image: i}}}
";

#[test]
fn rule_needing_newer_objects_is_not_checked_without_them() {
    let words = "--rule SKY601";
    let whole = format!("{}{NODE}{OLDER_OBJECT}{NEWER_OBJECT}", operator("v0.20.0"));
    assert_eq!(codes(&diagnose(words, &whole)), ["SKY601"]);
    let rule = "--rule deletion-waits-for-erroring-install";
    let report = diagnose(rule, &format!("{}{NODE}{OLDER_OBJECT}", operator("v0.20.0")));
    assert_eq!(why_not(&report), "the capture has no NodeWright objects");
    let report = diagnose(rule, &format!("{}{NODE}{NEWER_OBJECT}", operator("v0.17.1")));
    assert_eq!(why_not(&report), "the capture has no Skyhook objects");
}

#[test]
fn rule_needing_older_objects_is_not_checked_without_them() {
    let carries_older_keys = NODE
        .replace("{name: node-1}", "{name: node-1, annotations: {skyhook.nvidia.com/nodeState_gpu: '{}'}}");
    for version in ["v0.18.0", "v0.20.3"] {
        let files = format!("{}{carries_older_keys}{NEWER_OBJECT}", operator(version));
        let report = diagnose("--rule SKY601", &files);
        assert_eq!(why_not(&report), "the capture has no Skyhook objects");
        // Nothing was ever migrated.
        let files = format!("{}{NODE}{NEWER_OBJECT}", operator(version));
        assert_eq!(diagnose("--rule SKY601", &files)["verdict"], "Healthy");
        let without_nodes = format!("{}{NEWER_OBJECT}", operator(version));
        assert_eq!(why_not(&diagnose("--rule SKY601", &without_nodes)), "the capture has no Skyhook objects");
    }
    let files = format!("{}{NODE}{NEWER_OBJECT}", operator("v0.21.0"));
    assert_eq!(diagnose("--rule SKY601", &files)["verdict"], "Healthy");
}

#[test]
fn operator_newer_than_the_plugin_is_named() {
    let files = format!("{}{NODE}{NEWER_OBJECT}", operator("v0.22.0"));
    let ran = run("status --from -").stdin(files).output();
    assert_snapshot!(ran.transcript());
}

#[test]
fn rule_needing_policies_is_not_checked_without_them() {
    let files = format!(
        "{NODE}---
apiVersion: v1
kind: Node
metadata: {{name: node-2}}
---
apiVersion: v1
kind: PodList
items: []
---
apiVersion: skyhook.nvidia.com/v1alpha1
kind: Skyhook
metadata: {{name: gpu, uid: u-1}}
spec: {{deploymentPolicy: slow, packages: {{driver: {{version: 2.0.1, image: i}}}}}}
status: {{nodePriority: {{node-1: '2026-11-01T10:00:00Z'}}, compartmentStatuses: {{a: {{}}, b: {{}}}}}}
"
    );
    let report = diagnose("--rule SKY305", &files);
    assert_eq!(why_not(&report), "the capture does not include deployment policies");
    let named = files.replace("deploymentPolicy: slow, ", "");
    assert_eq!(diagnose("--rule SKY305", &named)["verdict"], "Healthy");
}

/// An empty list in a file named after its kind means that there are none.
#[test]
fn file_named_after_a_kind_requests_that_kind() {
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| {
        std::fs::write(directory.path().join(name), text).expect("a file");
    };
    let held = "---
apiVersion: nodewright.nvidia.com/v1alpha1
kind: NodeWright
metadata: {name: slow, uid: u-3}
spec: {deploymentPolicy: slow, packages: {}}
";
    write("all.yaml", &format!("{}{NODE}{held}", operator("v0.20.0")));
    let words =
        format!("diagnose stuck -o json --rule SKY212 --rule SKY601 --from {}", directory.path().display());
    assert_eq!(run(&words).output().json()["verdict"], "NotFullyChecked");
    let none = r#"{"apiVersion": "v1", "kind": "List", "items": []}"#;
    for name in ["deploymentpolicies.nodewright.nvidia.com.json", "skyhooks.skyhook.nvidia.com.json"] {
        write(name, none);
    }
    assert_eq!(run(&words).output().json()["verdict"], "Healthy");
}

#[test]
fn rule_needing_events_is_not_checked_without_them() {
    let files = format!(
        "{NODE}---
apiVersion: skyhook.nvidia.com/v1alpha1
kind: Skyhook
metadata: {{name: gpu, uid: u-1, generation: 3, creationTimestamp: '2026-11-01T10:00:00Z'}}
spec: {{packages: {{driver: {{version: 2.0.1, image: i, uninstall: {{enabled: true, apply: true}}}}}}}}
"
    );
    for rule in ["SKY103", "SKY104"] {
        let report = diagnose(&format!("--rule {rule}"), &files);
        assert_eq!(why_not(&report), "the capture does not include events");
        let with = format!("{files}---\napiVersion: v1\nkind: EventList\nitems: []\n");
        let report = diagnose(&format!("--rule {rule}"), &with);
        assert_eq!(report["verdict"], "Healthy");
    }
}

#[test]
fn pods_of_one_namespace_are_not_all_pods() {
    let pod = |name: &str, namespace: &str| {
        format!(
            "---
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: {namespace}}}
"
        )
    };
    let rest = format!(
        "{}{NODE}{OLDER_OBJECT}---\napiVersion: policy/v1\nkind: PodDisruptionBudgetList\nitems: []\n",
        operator("v0.17.1")
    );
    let own = format!("{rest}{}", pod("manager", "skyhook"));
    assert_eq!(
        why_not(&diagnose("--rule SKY401", &own)),
        "workload pods on nodes to be drained: the capture has only the pods of namespace skyhook"
    );
    assert_eq!(diagnose("--rule SKY202", &own)["verdict"], "Healthy");
    let others = format!("{rest}{}{}", pod("web", "shop"), pod("db", "shop"));
    assert_eq!(
        why_not(&diagnose("--rule SKY202", &others)),
        "package pods: the capture has only the pods of namespace shop"
    );
    let all = format!("{own}{}", pod("web", "shop"));
    for rule in ["SKY202", "SKY401"] {
        let report = diagnose(&format!("--rule {rule}"), &all);
        assert_eq!(report["verdict"], "Healthy", "{rule}");
    }
}

/// The operator's webhook configuration, which applies to every change of a custom resource.
const WEBHOOK: &str = "---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: skyhook-validating-webhook}
webhooks:
- name: validate.example
  failurePolicy: Fail
  clientConfig: {caBundle: Y2E=, service: {name: hook, namespace: skyhook}}
  rules: [{apiGroups: [skyhook.nvidia.com], apiVersions: [v1alpha1], operations: [CREATE, UPDATE], resources: [skyhooks]}]
";

const SERVICE: &str = "---
apiVersion: v1
kind: Service
metadata: {name: hook, namespace: skyhook}
";

/// The Service that every cluster has, as proof that the Services of all namespaces were captured.
const SERVICE_OF_THE_SERVER: &str = "---
apiVersion: v1
kind: Service
metadata: {name: kubernetes, namespace: default}
";

fn slice(ready: bool) -> String {
    format!(
        "---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: hook-x, namespace: skyhook, labels: {{kubernetes.io/service-name: hook}}}}
endpoints: [{{addresses: [10.0.0.1], conditions: {{ready: {ready}}}}}]
"
    )
}

#[test]
fn rule_needing_webhooks_is_not_checked_without_them() {
    let rule = "--rule SKY505";
    let base = format!("{}{NODE}{OLDER_OBJECT}", operator("v0.17.0"));
    for (also, why) in [
        (String::new(), "the capture does not include admission webhooks"),
        (
            format!("{WEBHOOK}{SERVICE}"),
            "admission webhooks: the capture has no endpoint slices, so the webhook backends are unknown",
        ),
        (
            format!("{WEBHOOK}{}", slice(true).replace("name: hook", "name: other")),
            "admission webhooks: one of these webhooks uses service skyhook/hook, which is not in the \
             capture",
        ),
    ] {
        let report = diagnose(rule, &format!("{base}{also}"));
        assert_eq!(why_not(&report), why);
    }
    let gone = format!("{base}{WEBHOOK}{SERVICE_OF_THE_SERVER}{}", slice(true));
    assert_eq!(codes(&diagnose(rule, &gone)), ["SKY505"]);
    let dead = format!("{base}{WEBHOOK}{SERVICE}{}", slice(false));
    assert_eq!(codes(&diagnose(rule, &dead)), ["SKY505"]);
    let answered = format!("{base}{WEBHOOK}{SERVICE}{}", slice(true));
    assert_eq!(diagnose(rule, &answered)["verdict"], "Healthy");
}

/// Without the custom resources or the nodes, no rollout can be judged: the headline reports this, and no
/// command exits as for a healthy cluster.
#[test]
fn files_without_an_essential_kind_are_not_reported_healthy() {
    let captured = std::fs::read_to_string("tests/clusters/apply-erroring/cluster.json");
    let captured: Value = serde_json::from_str(&captured.expect("a capture")).expect("JSON");
    let only = |kinds: &[&str]| {
        let mut list = captured.clone();
        let items = list["items"].as_array_mut().expect("items");
        items.retain(|item| kinds.iter().any(|kind| item["kind"] == *kind));
        list.to_string()
    };
    let on = |words: &str, files: &str| {
        let ran = run(&format!("{words} --from -")).stdin(files).output();
        (ran.stdout.lines().next().unwrap_or_default().to_owned(), ran)
    };
    for kind in ["Node", "Skyhook"] {
        let files = only(&[kind]);
        for words in ["diagnose stuck", "diagnose check", "status"] {
            let (_, ran) = on(words, &files);
            ran.expect_code(1);
        }
        let (headline, ran) = on("diagnose stuck", &files);
        assert!(headline.starts_with("Incomplete diagnosis: "), "{}", ran.transcript());
        let found = headline.split_once(" rules could not run; the others found ").map(|(_, found)| found);
        assert!(matches!(found, Some("no problems" | "1 note")), "{headline}");
        let (headline, _) = on("diagnose check", &files);
        assert!(headline.starts_with("Incomplete diagnosis: "), "{headline}");
        assert!(headline.contains(" checks could not run"), "{headline}");
    }
    for words in [
        "node status",
        "node list --skyhook gpu-tune",
        "package status driver --skyhook gpu-tune",
        "leftovers",
    ] {
        let (_, ran) = on(words, &only(&["Skyhook"]));
        ran.expect_code(1);
        ran.expect_stderr("cannot read nodes: none in the capture");
    }
    let (headline, ran) = on("diagnose stuck --rule SKY211", &only(&["Node", "Skyhook"]));
    assert_eq!(headline, "Incomplete diagnosis: 1 rule could not run");
    ran.expect_code(1);
    let (_, ran) = on("diagnose stuck --rule SKY211 --fail-on never", &only(&["Node"]));
    ran.expect_code(0);
}

/// Nodes and pods may also stop the operator: without them, the check cannot pass.
#[test]
fn check_without_nodes_does_not_say_that_nothing_stops_the_operator() {
    let files = format!("{}{OLDER_OBJECT}", operator("v0.17.1"));
    let ran = run("diagnose check --from -").stdin(files).output();
    let (checked, unchecked) = ran.stdout.split_once("\nnot checked\n").expect("checks that could not run");
    let title = "no custom resource stops the operator";
    assert!(!checked.contains(title) && unchecked.contains(title), "{}", ran.stdout);
}
