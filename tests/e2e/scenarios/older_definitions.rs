//! Commands that set a field which the served CRD does not have yet.

use serde_json::{Value, json};

use crate::{
    cluster::Cluster,
    manifest::{package, skyhook},
    ours,
    view::complete,
};

const DEFINITION: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/skyhooks.skyhook.nvidia.com";

/// The CRD of operators before v0.16: the server drops `uninstall`.
pub fn uninstall_is_pruned(cluster: &Cluster) {
    let gpu = cluster.apply(&skyhook("gpu").with(package("driver", "2.0.1")));
    gpu.until(complete());
    let mut definition = cluster.api.get(DEFINITION).expect("the CRD exists");
    for version in definition["spec"]["versions"].as_array_mut().expect("a list") {
        let packages = "/schema/openAPIV3Schema/properties/spec/properties/packages";
        let properties = version
            .pointer_mut(&format!("{packages}/additionalProperties/properties"))
            .and_then(Value::as_object_mut)
            .expect("the schema of a package");
        properties.remove("uninstall").expect("the schema has the field");
    }
    cluster.api.put(DEFINITION, &definition).expect("the CRD is accepted");
    let path = gpu.path();
    let trial = json!({"spec": {"packages": {"driver": {"uninstall": {"enabled": true}}}}});
    cluster.await_that("the server prunes the field", || {
        let stored = cluster.api.merge(&format!("{path}?dryRun=All"), &trial);
        stored.is_ok_and(|stored| stored["spec"]["packages"]["driver"]["uninstall"].is_null())
    });
    for flags in [&["--enable"][..], &["--enable", "--wait"], &["--enable", "--dry-run=server"]] {
        let words = [&["uninstall", "gpu", "driver", "--confirm"], flags].concat();
        let ran = ours::run(&cluster.kubeconfig("admin"), &words);
        assert_eq!(ran.exit, Some(1), "{ran:#?}");
        let text = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        let reason = "the server did not store spec.packages.driver.uninstall: the CustomResourceDefinition \
             skyhooks.skyhook.nvidia.com is older than this field";
        assert!(text.contains(reason), "{ran:#?}");
        let stored = cluster.api.get(&path).expect("the custom resource exists");
        assert!(stored["spec"]["packages"]["driver"]["uninstall"].is_null(), "{stored:#}");
    }
}
