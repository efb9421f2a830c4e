//! `fix` against a server: applied, journalled and undone.

use insta::assert_snapshot;
use kubectl_skyhook::api::ApiFlavor;
use serde_json::{Value, json};

use crate::support::fake_api::FakeApi;
use crate::support::object_builder::SKYHOOK;
use crate::support::test_cluster::TestCluster;

/// Captured clusters whose fixes can be undone completely.
const CLUSTERS: [(&str, &str); 4] = [
    ("apply-erroring", "SKY201"),
    ("malformed-node-state", "SKY206"),
    ("two-priorities", "SKY201"),
    ("rollout-stopped", "SKY201"),
];

/// The codes of the findings.
fn found(test_cluster: &TestCluster) -> Vec<String> {
    let ran = test_cluster.run("diagnose stuck --no-logs --fail-on never -o json");
    let document = ran.json();
    let findings = document["findings"].as_array().expect("findings").iter();
    findings.map(|f| f["code"].as_str().expect("a code").to_owned()).collect()
}

/// The objects without server metadata, and with sorted node states.
fn objects(test_cluster: &TestCluster) -> Vec<Value> {
    let mut all = test_cluster.fake.objects();
    for object in &mut all {
        if let Some(metadata) = object["metadata"].as_object_mut() {
            let counted = ["resourceVersion", "managedFields"];
            metadata.retain(|key, value| !counted.contains(&key.as_str()) && *value != json!({}));
        }
        if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
            for value in annotations.values_mut() {
                let parsed = value.as_str().and_then(|v| serde_json::from_str(v).ok());
                *value = parsed.unwrap_or_else(|| value.clone());
            }
        }
    }
    all
}

#[test]
fn fix_is_applied_and_undone() {
    for (cluster, code) in CLUSTERS {
        let test_cluster = TestCluster::captured_with_operator(cluster);
        let before = objects(&test_cluster);
        assert!(found(&test_cluster).iter().any(|c| c == code), "{cluster}");
        let ran = test_cluster.run("fix --up-to B4 --no-pause --confirm");
        ran.expect_code(0);
        assert!(!test_cluster.writes().is_empty(), "{}", ran.transcript());
        assert!(found(&test_cluster).iter().all(|c| c != code), "{cluster}: {}", ran.transcript());
        test_cluster.run("undo --confirm").expect_code(0);
        assert_eq!(objects(&test_cluster), before, "{cluster}: {}", ran.transcript());
    }
}

/// Ending a pause or an ignore, or removing a record, is left to the user.
#[test]
fn choices_are_never_applied() {
    for cluster in [
        "deleted-while-paused",
        "runtime-required-and-ignored",
        "orphaned-uninstall-complete",
        "finalizer-stripped",
    ] {
        let test_cluster = TestCluster::captured_with_operator(cluster);
        let ran = test_cluster.run("fix --up-to B4 --confirm");
        assert_snapshot!(cluster, ran.transcript());
        assert_eq!(test_cluster.writes(), [""; 0], "{cluster}");
    }
}

#[test]
fn journal_records_the_fixed_codes() {
    let test_cluster = TestCluster::from_capture("malformed-node-state");
    test_cluster.run("fix --no-pause --confirm").expect_code(0);
    let list = test_cluster.run("journal list -o json").json();
    assert_eq!(list["items"][0]["title"], "fix SKY206");
}

/// Without pods, causes and effects cannot be told apart.
#[test]
fn unreadable_pods_prevent_any_fix() {
    let test_cluster = TestCluster::from_capture("apply-erroring");
    test_cluster.fake.on("LIST pods").reply(403);
    let ran = test_cluster.run("fix --up-to B4 --confirm");
    ran.expect_code(1);
    ran.expect_stderr("nothing was changed");
    assert_eq!(test_cluster.writes(), Vec::<String>::new());
}

/// A cluster of the older operator in which two packages fail on one node, and one of them on another.
pub fn two_packages() -> FakeApi {
    let package = |name: &str| json!({"version": "1.0.0", "image": format!("example.com/{name}")});
    let fake = SKYHOOK.serve(json!({"driver": package("driver"), "tuning": package("tuning")}));
    let (driver, tuning) = ("driver|1.0.0 apply erroring", "tuning|1.0.0 config erroring");
    fake.load(SKYHOOK.node("gpu-1", "erroring", &[driver, tuning]));
    fake.load(SKYHOOK.node("gpu-2", "erroring", &[driver]));
    fake
}

#[test]
fn remedies_on_one_node_run_in_sequence_under_one_pause() {
    let test_cluster = TestCluster::serving(two_packages());
    assert_snapshot!(test_cluster.run("fix --up-to B4 --dry-run").transcript());
    let before = objects(&test_cluster);
    let ran = test_cluster.run("fix --up-to B4 --no-pause --confirm");
    ran.expect_code(0);
    let left = found(&test_cluster);
    assert!(!left.contains(&"SKY201".to_owned()), "{}", ran.transcript());
    test_cluster.run("undo --confirm").expect_code(0);
    assert_eq!(objects(&test_cluster), before, "{}", ran.transcript());
}

#[test]
fn abbreviated_command_changes_all_nodes() {
    let fake = SKYHOOK.serve(json!({"driver": {"version": "1.0.0", "image": "example.com/driver"}}));
    for n in 1..=12 {
        let entry = "driver|1.0.0 apply erroring";
        fake.load(SKYHOOK.node(&format!("gpu-{n:02}"), "erroring", &[entry]));
    }
    let test_cluster = TestCluster::serving(fake);
    assert_snapshot!(test_cluster.run("fix --up-to B2 --no-pause --dry-run").transcript());
    assert_snapshot!(test_cluster.run("fix").transcript());
}

#[test]
fn only_the_named_nodes_are_changed() {
    let test_cluster = TestCluster::serving(two_packages());
    let ran = test_cluster.run("fix --node gpu-2 --up-to B4 --no-pause --confirm");
    ran.expect_code(0);
    let writes = test_cluster.writes();
    assert!(
        writes.iter().all(|write| write.ends_with("/gpu-2")) && !writes.is_empty(),
        "{}",
        ran.transcript()
    );
}

/// Resuming a stale pause is the user's choice; a plan that needs a pause takes the stale one over and ends
/// it.
#[test]
fn stale_pause_is_taken_over() {
    let fake = two_packages();
    let name = fake.objects().iter().find_map(|object| {
        let kind = object["kind"].as_str()?;
        (kind == "Skyhook").then(|| object["metadata"]["name"].as_str().map(str::to_owned))?
    });
    let name = name.expect("a custom resource");
    let test_cluster = TestCluster::serving(fake);
    let pause = ApiFlavor::Skyhook.key("pause");
    let mut held = test_cluster.fake.get("skyhooks", "", &name).expect("the custom resource exists");
    held["metadata"]["annotations"] = json!({
        pause: "true",
        "kubectl-skyhook/pause-reason": format!("held for: reset {name} on 3 nodes"),
        "kubectl-skyhook/hold":
            r#"{"by":"ann@laptop","machine":"laptop pid:[1]","process":4711,"since":"2026-11-20T08:00:00Z"}"#,
    });
    test_cluster.fake.load(held);
    let ran = test_cluster.run("fix --up-to B4 --dry-run");
    assert_snapshot!(ran.transcript());
    ran.expect_code(0);
    assert_eq!(test_cluster.writes(), Vec::<String>::new());
}
