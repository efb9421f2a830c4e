//! Reads and deletions that fail.

use super::{delete_at_once, teardown, two};
use crate::support::fake_api::Reply;
use crate::support::object_builder::SKYHOOK;
use crate::support::test_cluster::TestCluster;

#[test]
fn unreadable_sources_are_never_reported_safe() {
    let fake = two();
    delete_at_once(&fake, SKYHOOK, "late");
    delete_at_once(&fake, SKYHOOK, "base");
    fake.on("LIST pods").reply(403);
    let test_cluster = TestCluster::serving(fake);
    let dry = teardown(&test_cluster, "--dry-run");
    dry.expect_code(1);
    let ran = teardown(&test_cluster, "--confirm");
    ran.expect_code(4);
    ran.expect_stdout("Cannot tell whether it is safe");
    ran.expect_no_stdout(": it is safe to");
}

/// The deletion and all later reads time out, so the result is unknown.
#[test]
fn deletion_with_a_lost_answer_is_not_reported_refused() {
    let fake = two();
    fake.on("DELETE skyhooks late").reply(Reply::from(504));
    // The plan reads the object once.
    let afterwards = fake.on("GET skyhooks late").nth(2).times(100);
    afterwards.reply(Reply::from(504));
    let test_cluster = TestCluster::serving(fake);
    let ran = teardown(&test_cluster, "--confirm");
    ran.expect_code(4);
    ran.expect_stdout("skyhook/late  unknown  request did not complete");
    ran.expect_no_stdout("1 failed");
    assert!(test_cluster.fake.get("skyhooks", "", "base").is_some());
}

/// The response to the deletion is cut off, but the object shows the deletion.
#[test]
fn deletion_visible_on_the_object_is_awaited() {
    let fake = two();
    fake.on("DELETE skyhooks late").reply(Reply::Half);
    let test_cluster = TestCluster::serving(fake);
    let ran = test_cluster.run("teardown --confirm --timeout 1s");
    ran.expect_code(5);
    let deletions = test_cluster.writes().into_iter().filter(|w| w.ends_with("late"));
    assert_eq!(deletions.count(), 1, "{}", ran.transcript());
}

#[test]
fn unreadable_custom_resources_do_not_count_as_deleted() {
    let fake = two();
    fake.on("LIST skyhooks").reply(403);
    let test_cluster = TestCluster::serving(fake);
    let ran = teardown(&test_cluster, "--confirm");
    ran.expect_code(1);
    ran.expect_stderr("cannot read custom resources");
    assert_eq!(test_cluster.writes(), [""; 0]);
}

#[test]
fn missing_permission_is_reported_before_any_write() {
    let fake = two();
    fake.on("DELETE skyhooks").reply(403);
    let test_cluster = TestCluster::serving(fake);
    let ran = teardown(&test_cluster, "--confirm");
    ran.expect_code(1);
    ran.expect_stderr("missing permission: delete");
    assert_eq!(test_cluster.writes(), [""; 0]);
}
