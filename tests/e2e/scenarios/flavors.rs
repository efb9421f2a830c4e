//! Which of the two APIs is active and why, and what is reported if rights are missing.

use serde_json::{Value, json};

use super::nodewright::{mirrored, upgraded};
use crate::{
    cluster::Cluster,
    kubelet::StepResult,
    manifest::{Skyhook, package, skyhook},
    model::{self, Played},
    ours,
    rollout::pods,
    view::{complete, entry},
};

const OLD: &str = "skyhook.nvidia.com/v1alpha1";
const NEW: &str = "nodewright.nvidia.com/v1alpha1";

fn gpu() -> Skyhook {
    skyhook("gpu").with(package("driver", "2.0.1").uninstallable())
}

#[track_caller]
fn rules(cluster: &Cluster, api: &str, because: &str) {
    let active_api = cluster.report(&["--fail-on", "never"]).json["activeApi"].clone();
    assert_eq!(active_api["api"], api, "{active_api:#}");
    assert!(active_api["reasons"].to_string().contains(because), "{active_api:#}");
}

/// Without either CRD, the only output is one line on stderr; the exit code is 1.
pub fn no_api_served(cluster: &Cluster) {
    let ran = ours::run(&cluster.kubeconfig("admin"), &["diagnose", "stuck"]);
    assert_eq!((ran.exit, ran.stdout.as_str()), (Some(1), ""), "{ran:?}");
    assert_eq!(ran.stderr.trim_end().lines().count(), 1, "{ran:?}");
}

pub fn only_skyhook_served(cluster: &Cluster) {
    cluster.apply(&gpu()).until(complete()).well();
    rules(cluster, OLD, "only");
}

pub fn only_nodewright_served(cluster: &Cluster) {
    let mut gpu = Played::new(cluster, "gpu", &gpu().spec, &json!({})).first_reconcile();
    for node in ["node-1", "node-2", "node-3"] {
        gpu.installs(node, "driver|2.0.1");
    }
    gpu.status("complete", &[]);
    rules(cluster, NEW, "only");
}

/// Both APIs are served, and the operator is the newer one: the Skyhooks are history.
pub fn both_served_and_nodewright_active(cluster: &Cluster) {
    cluster.apply(&gpu()).until(complete());
    upgraded(cluster);
    let mut new = mirrored(cluster, &gpu(), 1);
    for node in ["node-1", "node-2", "node-3"] {
        new.on(node, "driver|2.0.1", Some(("config", "complete")), "complete");
    }
    new.status("complete", &[]);
    rules(cluster, NEW, model::PLAYED);
    // Changes of the new object are reported; the old object is ignored.
    new.on("node-2", "driver|2.0.1", Some(("config", "erroring")), "erroring");
    new.status("erroring", &[]);
    let report = cluster.report(&[]);
    report.has("SKY201", &json!({"node": "node-2", "package": "driver"}));
    let status = cluster.ours(&["node", "status"]);
    let of = |node: &str| {
        status["items"].as_array().into_iter().flatten().filter(|row| row["node"] == node).count()
    };
    assert_eq!(of("node-2"), 1, "one row a node and CR, not one a generation: {status:#}");
}

/// A rollback leaves the new CRDs and objects behind; the running operator is the older one.
pub fn operator_rolled_back(cluster: &Cluster) {
    model::install_crds(cluster.tools(), &cluster.api).expect("the CRDs are accepted");
    let stale = Played::new(cluster, "gpu", &gpu().spec, &json!({}));
    stale.status("erroring", &[]);
    cluster.result(pods("driver", "apply").on("node-2"), StepResult::Exit(1));
    let rollout = cluster.apply(&gpu());
    rollout.until(entry("node-1", "driver|2.0.1", "config", "complete")).until(entry(
        "node-2",
        "driver|2.0.1",
        "apply",
        "erroring",
    ));
    rules(cluster, OLD, "v0.17.0");
    assert!(
        !cluster.report(&[]).with_code("SKY605").is_empty(),
        "what is left of the newer operator is named"
    );
    rollout.diagnosed("SKY201", json!({"node": "node-2", "package": "driver"})).capture("old-rolled-back");
    cluster.heal();
    rollout.until(complete());
    let report = cluster.report(&[]);
    assert!(report.errors().is_empty(), "what the stale object says is nobody's trouble: {:#}", report.json);
    let forced = cluster.report(&["--api", "nodewright", "--fail-on", "never"]);
    assert_eq!(forced.json["activeApi"]["api"], NEW);
}

/// Without any right, the verdict is `incomplete`, not `healthy`.
pub fn without_rights(cluster: &Cluster) {
    cluster.apply(&gpu()).until(complete());
    let restricted = ours::diagnose(&cluster.kubeconfig("restricted"), &[]);
    assert_eq!(restricted.json["verdict"], "NotFullyChecked", "{:#}", restricted.json);
    let admin = cluster.report(&[]);
    assert_eq!(admin.json["verdict"], "Healthy", "{:#}", admin.json);
    let unchecked = restricted.json["notChecked"].as_array().map_or(0, Vec::len);
    assert_eq!(unchecked, admin.json["counts"]["rules"], "no rule could be checked");
}

/// If any one right is missing, the verdict is not `healthy`.
pub fn with_one_right_missing(cluster: &Cluster) {
    cluster.apply(&gpu()).until(complete());
    let all = [
        ("", "nodes"),
        ("", "pods"),
        ("", "events"),
        ("skyhook.nvidia.com", "skyhooks"),
        ("apps", "deployments"),
    ];
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let rule = |(group, resource): &(&str, &str)| json!({"apiGroups": [group], "resources": [resource], "verbs": ["get", "list", "watch"]});
    let grant = |missing: Option<usize>| {
        let kept = all.iter().enumerate().filter(|(index, _)| Some(*index) != missing);
        Value::Array(kept.map(|(_, each)| rule(each)).collect())
    };
    let role = json!({"metadata": {"name": "reader"}, "rules": grant(None)});
    cluster.api.post(roles, &role).expect("a role can be created");
    let binding = json!({
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
        "subjects": [{"kind": "User", "name": "restricted", "apiGroup": "rbac.authorization.k8s.io"}],
    });
    cluster.api.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).expect("a binding");
    let restricted = cluster.user("restricted");
    for (index, (group, resource)) in all.iter().enumerate() {
        let version = if group.is_empty() {
            "/api/v1".to_owned()
        } else {
            format!("/apis/{group}/{}", if *group == "apps" { "v1" } else { "v1alpha1" })
        };
        let path = format!("{version}/{resource}");
        cluster
            .api
            .merge(&format!("{roles}/reader"), &json!({"rules": grant(Some(index))}))
            .expect("a role can be changed");
        // The authorizer sees the changed role only after a moment.
        cluster.await_that("the right is gone", || {
            restricted.get(&path).is_err_and(|refused| refused.code == 403)
        });
        let ran = ours::run(&cluster.kubeconfig("restricted"), &["diagnose", "stuck", "-o", "json"]);
        assert!(!ran.stdout.contains("\"healthy\""), "without {resource}: {ran:?}");
        cluster
            .api
            .merge(&format!("{roles}/reader"), &json!({"rules": grant(None)}))
            .expect("a role can be changed");
        cluster.await_that("the right is back", || restricted.get(&path).is_ok());
    }
}

/// As in upstream's tests: these commands work immediately after the custom resource is created.
pub fn commands_right_after_creation(cluster: &Cluster) {
    cluster.result(pods("driver", "apply"), StepResult::Unseen);
    cluster.apply(&gpu());
    for args in [
        &["node", "list", "--skyhook", "gpu"][..],
        &["node", "status", "node-1"],
        &["node", "status", "node-1", "--skyhook", "gpu"],
    ] {
        let ran = ours::run(&cluster.kubeconfig("admin"), args);
        assert_eq!((ran.exit, ran.stdout.contains("node-1")), (Some(0), true), "{args:?}: {ran:?}");
        cluster.ours(args);
    }
    let unknown = ours::run(&cluster.kubeconfig("admin"), &["node", "list", "--skyhook", "gpus"]);
    assert_eq!(unknown.exit, Some(1), "{unknown:?}");
    assert!(unknown.stderr.contains("gpu"), "a near name is suggested: {unknown:?}");
}
