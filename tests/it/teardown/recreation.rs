//! Objects that are recreated after their deletion, or may be.

use insta::assert_snapshot;
use kubectl_skyhook::api::ApiFlavor;
use serde_json::json;

use super::{NODEWRIGHT, SKYHOOK, cr, delete_at_once, driver, policy, teardown, tuning};
use crate::support::fake_api::FakeApi;
use crate::support::run::run;
use crate::support::test_cluster::TestCluster;

#[test]
fn recreated_object_is_reported() {
    let fake = FakeApi::new().serving(ApiFlavor::Skyhook).with(SKYHOOK.operator()).with(cr(
        SKYHOOK,
        "kept",
        200,
        tuning(),
    ));
    fake.on("DELETE skyhooks kept").after(|it| {
        it.store.forget("skyhooks", "", "kept");
        let mut again = cr(SKYHOOK, "kept", 200, tuning());
        again["metadata"]["uid"] = json!("another");
        it.store.load(again);
    });
    let ran = teardown(&TestCluster::serving(fake), "--confirm");
    ran.expect_code(2);
    ran.expect_stdout("left: skyhook/kept was recreated");
}

#[test]
fn objects_applied_by_helm_give_a_warning() {
    let mut gpu = cr(NODEWRIGHT, "gpu", 200, driver(None));
    gpu["metadata"]["annotations"] = json!({
        "meta.helm.sh/release-name": "gpu-platform",
        "meta.helm.sh/release-namespace": "platform",
    });
    gpu["metadata"]["labels"] = json!({"app.kubernetes.io/managed-by": "Helm"});
    let fake = FakeApi::new().serving(ApiFlavor::NodeWright).with(NODEWRIGHT.operator()).with(gpu);
    let ran = teardown(&TestCluster::serving(fake), "--dry-run");
    assert_snapshot!(ran.transcript());
}

/// The older objects go first, or the operator would recreate the newer ones from them.
#[test]
fn older_api_objects_are_deleted_before_newer() {
    let fake = FakeApi::new()
        .serving(ApiFlavor::Skyhook)
        .serving(ApiFlavor::NodeWright)
        .with(NODEWRIGHT.operator())
        .with(cr(SKYHOOK, "gpu", 200, tuning()))
        .with(cr(NODEWRIGHT, "gpu", 200, tuning()))
        .with(policy(SKYHOOK, "careful"))
        .with(policy(NODEWRIGHT, "careful"));
    delete_at_once(&fake, SKYHOOK, "gpu");
    delete_at_once(&fake, NODEWRIGHT, "gpu");
    let cluster = TestCluster::serving(fake);
    let ran = teardown(&cluster, "--confirm");
    ran.expect_code(0);
    let [old, new] = ApiFlavor::ALL.map(|g| format!("DELETE /apis/{}", g.api_version()));
    assert_eq!(
        cluster.writes(),
        [
            format!("{old}/skyhooks/gpu"),
            format!("{new}/nodewrights/gpu"),
            format!("{old}/deploymentpolicies/careful"),
            format!("{new}/deploymentpolicies/careful"),
        ]
    );
}

/// `--api` does not limit a teardown.
#[test]
fn one_api_cannot_be_chosen_where_both_have_objects() {
    let items = json!([cr(SKYHOOK, "gpu", 200, tuning()), cr(NODEWRIGHT, "net", 200, tuning())]);
    let files = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    let ran = run("teardown --dry-run --api skyhook --from -").stdin(files).output();
    assert_eq!(
        ran.parts(),
        (
            "",
            "error: teardown deletes the custom resources of both APIs; --api does not limit it\n\
             hint: kubectl skyhook teardown --dry-run\n",
            Some(64)
        )
    );
}
