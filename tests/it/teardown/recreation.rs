//! What comes again after it was deleted, or would.

use insta::assert_snapshot;
use kubectl_skyhook::api::ApiFlavor;
use serde_json::json;

use super::{NEW, OLD, cr, driver, goes, policy, teardown, tuning};
use crate::support::fake_api::FakeApi;
use crate::support::stage::Stage;

#[test]
fn recreated_object_is_reported() {
    let fake = FakeApi::new()
        .serving(ApiFlavor::Skyhook)
        .with(OLD.operator())
        .with(cr(OLD, "kept", 200, tuning()));
    fake.on("DELETE skyhooks kept").after(|it| {
        it.store.forget("skyhooks", "", "kept");
        let mut again = cr(OLD, "kept", 200, tuning());
        again["metadata"]["uid"] = json!("another");
        it.store.load(again);
    });
    let ran = teardown(&Stage::over(fake), "--confirm");
    assert_eq!(ran.code, Some(2), "{}", ran.transcript());
    assert!(
        ran.stdout.contains("left: skyhook/kept was recreated"),
        "{}",
        ran.transcript()
    );
}

#[test]
fn objects_applied_by_helm_give_a_warning() {
    let mut gpu = cr(NEW, "gpu", 200, driver(None));
    gpu["metadata"]["annotations"] = json!({
        "meta.helm.sh/release-name": "gpu-platform",
        "meta.helm.sh/release-namespace": "platform",
    });
    gpu["metadata"]["labels"] = json!({"app.kubernetes.io/managed-by": "Helm"});
    let fake = FakeApi::new()
        .serving(ApiFlavor::NodeWright)
        .with(NEW.operator())
        .with(gpu);
    let ran = teardown(&Stage::over(fake), "--dry-run");
    assert_snapshot!(ran.transcript());
}

/// The older objects first, or the operator would make the newer ones from them again.
#[test]
fn older_api_objects_are_deleted_before_newer() {
    let fake = FakeApi::new()
        .serving(ApiFlavor::Skyhook)
        .serving(ApiFlavor::NodeWright)
        .with(NEW.operator())
        .with(cr(OLD, "gpu", 200, tuning()))
        .with(cr(NEW, "gpu", 200, tuning()))
        .with(policy(OLD, "careful"))
        .with(policy(NEW, "careful"));
    goes(&fake, OLD, "gpu");
    goes(&fake, NEW, "gpu");
    let stage = Stage::over(fake);
    let ran = teardown(&stage, "--confirm");
    assert_eq!(ran.code, Some(0), "{}", ran.transcript());
    let [old, new] = ApiFlavor::ALL.map(|g| format!("DELETE /apis/{}", g.api_version()));
    assert_eq!(
        stage.writes(),
        [
            format!("{old}/skyhooks/gpu"),
            format!("{new}/nodewrights/gpu"),
            format!("{old}/deploymentpolicies/careful"),
            format!("{new}/deploymentpolicies/careful"),
        ]
    );
}
