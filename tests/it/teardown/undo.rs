//! `undo` and `undelete` after a teardown.

use kubectl_skyhook::api::ApiFlavor;
use serde_json::json;

use super::{cr, delete_at_once, driver, policy, teardown, tuning, two};
use crate::support::object_builder::SKYHOOK;
use crate::support::test_cluster::TestCluster;

/// One journal holds everything, for `undo` and `undelete`.
#[test]
fn undo_restores_everything_deleted() {
    let fake = two();
    delete_at_once(&fake, SKYHOOK, "late");
    delete_at_once(&fake, SKYHOOK, "base");
    let test_cluster = TestCluster::serving(fake);
    let ran = teardown(&test_cluster, "--confirm -o json");
    ran.expect_code(0);
    let journal = ran.json()["journal"].clone();
    let shown = test_cluster.run("journal show -o json").json();
    assert_eq!(shown["begun"]["id"], journal);
    assert_eq!(shown["begun"]["plan"]["stages"][1]["after"], json!([0]));
    // Everything is installed again, on both nodes, and with the reboot of the driver.
    let preview = test_cluster.run("undo --dry-run -o json").json();
    let effects = &preview["consequences"];
    assert_eq!(
        (&preview["grade"], &effects["nodes"], &effects["reboots"]),
        (&json!("B4"), &json!(2), &json!(2)),
        "{preview:#}"
    );
    test_cluster.run("undo --confirm --max-nodes 1").expect_code(3);
    let undone = test_cluster.command("undo --confirm").output();
    undone.expect_code(0);
    for (kind, name, was) in [
        ("deploymentpolicies", "careful", policy(SKYHOOK, "careful")),
        ("skyhooks", "base", cr(SKYHOOK, "base", 100, tuning())),
        ("skyhooks", "late", cr(SKYHOOK, "late", 300, driver(Some("reboot")))),
    ] {
        let back = test_cluster.fake.get(kind, "", name).expect("undo recreates the object");
        assert_eq!(back["spec"], was["spec"], "{name}");
    }
    let api = format!("POST /apis/{}", ApiFlavor::Skyhook.api_version());
    assert_eq!(
        test_cluster.writes()[3..],
        [format!("{api}/deploymentpolicies"), format!("{api}/skyhooks"), format!("{api}/skyhooks"),]
    );
}

/// The undo also recreates the deployment policy, without which nothing would run.
#[test]
fn undo_is_graded_by_what_is_installed_again() {
    let fake = two();
    let mut late = cr(SKYHOOK, "late", 300, driver(Some("reboot")));
    late["spec"]["deploymentPolicy"] = "careful".into();
    fake.load(late);
    delete_at_once(&fake, SKYHOOK, "late");
    delete_at_once(&fake, SKYHOOK, "base");
    let test_cluster = TestCluster::serving(fake);
    teardown(&test_cluster, "--confirm").expect_code(0);
    // The operator removes the node states.
    for name in ["node-1", "node-2"] {
        let mut node = test_cluster.node(name);
        node["metadata"]["annotations"] = json!({});
        test_cluster.fake.load(node);
    }
    let undo = test_cluster.run("undo --dry-run -o json").json();
    let consequences = &undo["consequences"];
    assert_eq!((&undo["grade"], &consequences["reboots"]), (&json!("B4"), &json!(2)), "{undo}");
    let installed = consequences["effects"].as_array().expect("effects").iter();
    let installed: Vec<&str> =
        installed.map(|effect| effect["package"].as_str().expect("a package")).collect();
    assert_eq!(installed, ["tuning", "driver"]);
    let ran = test_cluster.command("undo").stdin("y\n").output();
    ran.expect_code(3);
    assert_eq!(test_cluster.writes().len(), 3, "{}", ran.transcript());
}

#[test]
fn undelete_restores_one_custom_resource() {
    let fake = two();
    delete_at_once(&fake, SKYHOOK, "late");
    delete_at_once(&fake, SKYHOOK, "base");
    let test_cluster = TestCluster::serving(fake);
    assert_eq!(teardown(&test_cluster, "--confirm").code, Some(0));
    let back = test_cluster.run("undelete base --confirm");
    back.expect_code(0);
    assert!(test_cluster.fake.get("skyhooks", "", "base").is_some());
    assert!(test_cluster.fake.get("skyhooks", "", "late").is_none());
}

/// An object that is being deleted cannot be recreated, and one that was not deleted need not be.
#[test]
fn undo_skips_objects_still_being_deleted() {
    let fake = two();
    let mut held = cr(SKYHOOK, "late", 300, driver(None));
    held["metadata"]["annotations"] = json!({ApiFlavor::Skyhook.key("disable"): "true"});
    fake.load(held);
    let test_cluster = TestCluster::serving(fake);
    assert_eq!(teardown(&test_cluster, "--confirm").code, Some(2));
    let undone = test_cluster.command("undo --confirm").output();
    undone.expect_code(3);
    undone.expect_stderr("skyhook/late (it still exists, and is being deleted); nothing was changed");
    assert_eq!(test_cluster.writes().len(), 1);
}
