//! Packages that cannot start because of their spec; the first remedy edits the spec.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::json;

use super::{
    remedies::{all_well, first_change_made},
    writes::{DRIVER, LONG_ENOUGH},
};
use crate::{
    cluster::Cluster,
    manifest::{Skyhook, package, skyhook},
    operator,
    rollout::Rollout,
    view::{complete, everywhere, that},
};

/// Runs the first remedy that writes, applies `sed` in the editor that it opens, and waits until the rollout
/// is complete.
#[track_caller]
fn cured_by_edit(gpu: &Rollout<'_>, code: &str, subject: &serde_json::Value, sed: &str) {
    first_change_made(gpu, code, subject, sed);
    gpu.until(everywhere(DRIVER, "config", "complete")).until(complete());
    all_well(gpu.cluster);
}

/// SKY203: the environment refers to a Secret that does not exist.
pub fn container_not_created(cluster: &Cluster) {
    let token = json!([{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "token", "key": "value"}}}]);
    let gpu = cluster.apply(&skyhook("gpu").with(package("driver", "2.0.1").set("env", token)));
    gpu.until(that("a container is refused", |view| {
        view.pods.iter().any(|pod| {
            let containers = pod["status"]["initContainerStatuses"].as_array();
            containers.is_some_and(|all| {
                all.iter().any(|c| c["state"]["waiting"]["reason"] == "CreateContainerConfigError")
            })
        })
    }))
    .capture("old-container-not-created");
    cured_by_edit(
        &gpu,
        "SKY203",
        &json!({"package": "driver"}),
        "/^      env:$/,/^            name: token$/d",
    );
}

/// SKY213: the operator cuts the image reference at the colon before the registry's port, also in the spec.
pub fn image_reference_truncated(cluster: &Cluster) {
    let driver = package("driver", "2.0.1").set("image", json!("registry.example:5000/driver"));
    let gpu = kubectl_applies(cluster, &skyhook("gpu").with(driver));
    gpu.until(that("the image is not there", |view| {
        view.pods.iter().any(|pod| {
            let first = &pod["status"]["initContainerStatuses"][0]["state"];
            first["waiting"]["reason"] == "ImagePullBackOff"
        })
    }))
    .capture("old-image-reference-truncated");
    cured_by_edit(
        &gpu,
        "SKY213",
        &json!({"package": "driver"}),
        "s#^      image: registry.example$#&/driver#",
    );
    let asked = gpu.view().object.expect("the custom resource exists");
    assert_eq!(asked["spec"]["packages"]["driver"]["image"], "registry.example/driver");
}

fn kubectl_applies<'a>(cluster: &'a Cluster, skyhook: &Skyhook) -> Rollout<'a> {
    let mut kubectl = Command::new("kubectl")
        .args(["apply", "-f", "-"])
        .env("KUBECONFIG", cluster.kubeconfig("admin"))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("kubectl runs");
    let mut stdin = kubectl.stdin.take().expect("stdin is piped");
    let written = stdin.write_all(skyhook.body().to_string().as_bytes());
    written.expect("kubectl reads its stdin");
    drop(stdin);
    assert!(kubectl.wait().expect("kubectl can be awaited").success());
    cluster.rollout(&skyhook.name)
}

/// SKY223: the operator accepts a version that is no valid label value, so the API server rejects all package
/// pods.
pub fn package_label_invalid(cluster: &Cluster) {
    let gpu = cluster.apply(&skyhook("gpu").with(package("driver", "2.0.1+cuda12")));
    let nothing = that("no pod is made", |view| view.pods.is_empty());
    gpu.stays(&nothing, LONG_ENOUGH).capture("old-package-label-invalid");
    cured_by_edit(&gpu, "SKY223", &json!({"package": "driver"}), "s/2[.]0[.]1+cuda12/2.0.1/");
}

/// SKY503: the API server rejects the annotation that records the taint on new nodes, because the taint's key
/// contains a slash; the operator then does nothing.
pub fn auto_taint_key_invalid(cluster: &Cluster) {
    let taint = "example.com/runtime=missing:NoSchedule";
    cluster.stop_operator();
    let container = json!({"name": "manager", "image": format!("{}:{}", operator::IMAGE, operator::VERSION),
        "env": [{"name": "RUNTIME_REQUIRED_TAINT", "value": taint}]});
    let template = json!({"spec": {"template": {"spec": {"containers": [container]}}}});
    let path = operator::deployment(operator::NAMESPACE);
    let changed = cluster.api.merge(&path, &template);
    changed.expect("a Deployment can be changed");
    cluster.start_operator_with(&[("RUNTIME_REQUIRED_TAINT", taint)]);
    let gpu = cluster.apply(
        &skyhook("gpu")
            .with(package("driver", "2.0.1"))
            .set("runtimeRequired", json!(true))
            .set("autoTaintNewNodes", json!(true)),
    );
    let nothing = that("nothing is begun", |view| view.pods.is_empty());
    gpu.stays(&nothing, LONG_ENOUGH).capture("old-auto-taint-key-invalid");
    cured_by_edit(
        &gpu,
        "SKY503",
        &json!({"name": "gpu"}),
        "s/^  autoTaintNewNodes: true$/  autoTaintNewNodes: false/",
    );
}
