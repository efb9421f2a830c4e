//! Packages that cannot start because of their spec: the first remedy edits the spec.

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

/// Opens the spec as is printed, edits it so, and waits for the end of the rollout.
#[track_caller]
fn cured_by_edit(gpu: &Rollout<'_>, code: &str, subject: &serde_json::Value, sed: &str) {
    first_change_made(gpu, code, subject, sed);
    gpu.until(everywhere(DRIVER, "config", "complete")).until(complete());
    all_well(gpu.cluster);
}

/// SKY203: the environment names a Secret that there is not.
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

/// SKY213: the operator cuts the reference at the port of the registry, and writes it back so.
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
    let asked = gpu.view().object.expect("it is there");
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
    let mut stdin = kubectl.stdin.take().expect("it is piped");
    let written = stdin.write_all(skyhook.body().to_string().as_bytes());
    written.expect("it reads");
    drop(stdin);
    assert!(kubectl.wait().expect("it ends").success());
    cluster.rollout(&skyhook.name)
}

/// SKY223: the webhook takes a version that makes no label, and the API server takes no pod with it.
pub fn package_label_invalid(cluster: &Cluster) {
    let gpu = cluster.apply(&skyhook("gpu").with(package("driver", "2.0.1+cuda12")));
    let nothing = that("no pod is made", |view| view.pods.is_empty());
    gpu.stays(&nothing, LONG_ENOUGH).capture("old-package-label-invalid");
    cured_by_edit(&gpu, "SKY223", &json!({"package": "driver"}), "s/2[.]0[.]1+cuda12/2.0.1/");
}

/// SKY503: the operator cannot note the taint on a new node, and so does nothing at all.
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
