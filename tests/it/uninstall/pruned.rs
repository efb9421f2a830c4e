//! A CustomResourceDefinition that lacks `uninstall`: the server drops the field, and stores nothing.

use serde_json::{Value, json};

use super::{INSTALLED, SKYHOOK, uninstall};
use crate::support::fake_api::FakeApi;

fn without_uninstall() -> (FakeApi, Value) {
    let packages = json!({"driver": {"version": "1.0.0", "image": "example.com/driver"}});
    let fake = SKYHOOK.serve(packages.clone());
    fake.load(SKYHOOK.node("node-1", "complete", &[INSTALLED]));
    fake.change(|state| state.store.pruned = vec!["uninstall"]);
    (fake, packages)
}

#[test]
fn pruned_field_is_an_error_that_names_the_definition() {
    for (flags, code) in
        [("--enable", 1), ("--enable --wait", 1), ("--enable --remove", 1), ("--enable --dry-run=server", 1)]
    {
        let (fake, packages) = without_uninstall();
        let ran = uninstall(&fake, flags);
        ran.expect_code(code);
        ran.expect_stdout("1 failed");
        let stdout = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        let definition = kubectl_skyhook::api::ApiFlavor::Skyhook.resource();
        let reason = format!(
            "the server did not store spec.packages.driver.uninstall: the CustomResourceDefinition {definition} is older than \
             this field; install the CRD of the running operator's version"
        );
        assert!(stdout.contains(&reason), "{}", ran.transcript());
        ran.expect_no_stdout("changed");
        ran.expect_no_stdout("continues in the cluster");
        let cr = fake.get("skyhooks", "", "gpu").expect("the custom resource exists");
        assert_eq!(cr["spec"]["packages"], packages, "{flags}");
    }
}

/// A webhook may change what is sent.
#[test]
fn another_stored_value_is_an_error() {
    let fake = super::installed(SKYHOOK);
    let mut other = SKYHOOK.skyhook("complete", super::driver(false));
    other["metadata"]["resourceVersion"] = json!("99");
    let reply = crate::support::fake_api::Reply::Body(other.to_string());
    fake.on("PATCH skyhooks gpu").reply(reply);
    let ran = uninstall(&fake, "");
    ran.expect_code(1);
    ran.expect_stdout("the server stored spec.packages.driver.uninstall.apply as false");
}
