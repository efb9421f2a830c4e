//! Dumps by must-gather and `kubectl cluster-info dump`.

use std::path::Path;

use kubectl_skyhook::api::ApiFlavor;
use serde_json::{Value, json};

use crate::support::clusters;
use crate::support::run::run;

const NEW: ApiFlavor = ApiFlavor::NodeWright;

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
    std::fs::write(path, text).expect("a file");
}

fn list(kind: &str, items: &[Value]) -> String {
    let api_version = items.first().map_or(json!("v1"), |item| item["apiVersion"].clone());
    json!({"apiVersion": api_version, "kind": format!("{kind}List"), "items": items}).to_string()
}

fn objects(cluster: &str) -> Vec<Value> {
    let mut objects = clusters::named(cluster).served().objects();
    objects.retain(|o| o["kind"] != "Namespace");
    objects
}

fn of(objects: &[Value], kind: &str, namespace: &str) -> Vec<Value> {
    let is = |o: &&Value| {
        o["kind"] == kind && o["metadata"]["namespace"].as_str().unwrap_or_default() == namespace
    };
    objects.iter().filter(is).cloned().collect()
}

/// Writes these namespaces in the layout of `oc adm must-gather`.
fn must_gather(root: &Path, objects: &[Value], namespaces: &[&str]) {
    let root = &root.join("quay-io-must-gather-sha256-0123");
    write(root, "timestamp", "2026-11-20 10:00:00.1 +0000 UTC m=+0.1\n");
    write(root, "cluster-scoped-resources/core/nodes.yaml", &list("Node", &of(objects, "Node", "")));
    write(root, "cluster-scoped-resources/example.com/things.yaml", "not: [an, object]\n");
    write(root, "etcd_info/member_list.json", "[1]");
    for resource in of(objects, NEW.kind(), "") {
        let name = resource["metadata"]["name"].as_str().expect("a name");
        let path = format!("cluster-scoped-resources/{}/{}/{name}.yaml", NEW.group(), NEW.plural());
        write(root, &path, &resource.to_string());
    }
    for namespace in namespaces {
        for (group, plural, kind) in [
            ("core", "pods", "Pod"),
            ("core", "events", "Event"),
            ("core", "configmaps", "ConfigMap"),
            ("apps", "deployments", "Deployment"),
            ("batch", "jobs", "Job"),
        ] {
            let path = format!("namespaces/{namespace}/{group}/{plural}.yaml");
            write(root, &path, &list(kind, &of(objects, kind, namespace)));
        }
        for pod in of(objects, "Pod", namespace) {
            let name = pod["metadata"]["name"].as_str().expect("a name");
            let directory = format!("namespaces/{namespace}/pods/{name}");
            write(root, &format!("{directory}/{name}.yaml"), &pod.to_string());
            write(root, &format!("{directory}/c/c/logs/current.log"), "a log\n");
        }
        write(
            root,
            &format!("namespaces/{namespace}/{namespace}.yaml"),
            &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}).to_string(),
        );
        write(root, &format!("namespaces/{namespace}/monitoring/alerts.json"), "[1]");
    }
}

fn codes(report: &Value) -> Vec<&str> {
    let findings = report["findings"].as_array().expect("findings").iter();
    let mut codes: Vec<&str> = findings.filter_map(|f| f["code"].as_str()).collect();
    codes.sort_unstable();
    codes.dedup();
    codes
}

fn diagnose(path: &Path) -> Value {
    let words = format!("diagnose stuck --all --fail-on never -o json --from {}", path.display());
    run(&words).output().json()
}

/// All objects of a must-gather with the operator's namespace are found.
#[test]
fn must_gather_is_read() {
    let cluster = "nodewright-apply-erroring";
    let objects = objects(cluster);
    let directory = tempfile::tempdir().expect("a directory");
    let ours = NEW.default_namespace();
    must_gather(directory.path(), &objects, &["default", ours]);
    let report = diagnose(directory.path());
    let whole = diagnose(Path::new(&clusters::named(cluster).path()));
    assert_eq!(codes(&report), codes(&whole), "{report:#}");
    let unchecked = report["notChecked"].to_string();
    assert!(unchecked.contains(&format!("only the pods of namespace default, {ours}")), "{unchecked}");
}

/// Without the operator's namespace, pods count as not requested.
#[test]
fn must_gather_without_the_operator_namespace_proves_no_absence() {
    let objects = objects("nodewright-apply-erroring");
    let directory = tempfile::tempdir().expect("a directory");
    must_gather(directory.path(), &objects, &["default", "kube-system"]);
    let report = diagnose(directory.path());
    assert_ne!(report["verdict"], "Healthy");
    let unchecked = report["notChecked"].to_string();
    assert!(unchecked.contains("only the pods of namespace default, kube-system"), "{unchecked}");
    assert_eq!(report["counts"]["pods"], 0);
}

/// The layout of `kubectl cluster-info dump --output-directory` contains no custom resources.
#[test]
fn cluster_info_dump_is_read() {
    let objects = objects("apply-erroring");
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path();
    write(root, "nodes.json", &list("Node", &of(&objects, "Node", "")));
    for namespace in ["default", "kube-system"] {
        for (file, kind) in [("pods", "Pod"), ("events", "Event"), ("deployments", "Deployment")] {
            let path = format!("{namespace}/{file}.json");
            write(root, &path, &list(kind, &of(&objects, kind, namespace)));
        }
        write(root, &format!("{namespace}/a-pod/logs.txt"), "==== START logs\n");
    }
    let report = diagnose(root);
    assert_ne!(report["verdict"], "Healthy", "{report:#}");
    let unchecked = report["notChecked"].to_string();
    assert!(unchecked.contains("the capture has no Skyhook objects"), "{unchecked}");
    assert!(unchecked.contains("only the pods of namespace default, kube-system"), "{unchecked}");
    // A dump of all namespaces holds all pods.
    for namespace in ["kube-public", "kube-node-lease", "skyhook"] {
        for (file, kind) in [("pods", "Pod"), ("events", "Event"), ("deployments", "Deployment")] {
            let path = format!("{namespace}/{file}.json");
            write(root, &path, &list(kind, &of(&objects, kind, namespace)));
        }
    }
    let report = diagnose(root);
    assert_eq!(report["counts"]["pods"], of(&objects, "Pod", "skyhook").len());
    let unchecked = report["notChecked"].to_string();
    assert!(!unchecked.contains("only"), "{unchecked}");
}
