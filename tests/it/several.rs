//! Commands about several custom resources at once.

use kubectl_skyhook::api::ApiFlavor;
use serde_json::{Value, json};

use crate::support::test_cluster::TestCluster;

impl TestCluster {
    /// The names of the custom resources with this annotation.
    fn annotated(&self, key: &str) -> Vec<&'static str> {
        let names = ["first", "second"];
        let has = |name: &&str| {
            let cr = self.fake.get("skyhooks", "", name).expect("the custom resource exists");
            !cr["metadata"]["annotations"][ApiFlavor::Skyhook.key(key)].is_null()
        };
        names.into_iter().filter(has).collect()
    }

    /// Sets an annotation as another program does.
    fn annotate(&self, name: &str, key: &str) {
        let mut cr = self.fake.get("skyhooks", "", name).expect("the custom resource exists");
        cr["metadata"]["annotations"][ApiFlavor::Skyhook.key(key)] = "true".into();
        cr["metadata"]["managedFields"] = json!([{
            "manager": "kubectl-annotate", "operation": "Update",
            "fieldsV1": {"f:metadata": {"f:annotations": {format!("f:{}", ApiFlavor::Skyhook.key(key)): {}}}},
        }]);
        self.fake.load(cr);
    }
}

fn two() -> TestCluster {
    TestCluster::captured_with_operator("two-priorities")
}

#[test]
fn one_plan_pauses_several() {
    let cluster = two();
    let ran = cluster.run("pause --all --reason maintenance --dry-run");
    insta::assert_snapshot!(ran.transcript());
    cluster.run("pause --all --reason maintenance --confirm").expect_code(0);
    assert_eq!(cluster.annotated("pause"), ["first", "second"]);
    cluster.run("undo --confirm").expect_code(0);
    assert_eq!(cluster.annotated("pause"), [""; 0]);
    cluster.run("disable first second first --confirm").expect_code(0);
    assert_eq!(cluster.annotated("disable"), ["first", "second"]);
    let typo = cluster.run("enable first secnd -y");
    typo.expect_code(1);
    typo.expect_stderr("did you mean second?");
    assert_eq!(cluster.annotated("disable"), ["first", "second"]);
    cluster.run("enable first second -y").expect_code(0);
    assert_eq!(cluster.annotated("disable"), [""; 0]);
}

/// `resume --all` leaves the pause of someone else, and reports it; naming the custom resource or `--force`
/// ends it.
#[test]
fn resuming_all_leaves_the_pauses_of_others() {
    let cluster = two();
    cluster.run("pause second --reason ours --confirm").expect_code(0);
    cluster.annotate("first", "pause");
    let ran = cluster.run("resume --all -y");
    ran.expect_code(0);
    assert_eq!(cluster.annotated("pause"), ["first"]);
    let left =
        "skips skyhook/first (not stopped by this plugin); to resume these, specify names or add --force";
    ran.expect_stderr(left);
    let again = cluster.run("resume --all -y");
    again.expect_code(0);
    again.expect_stderr(left);
    assert_eq!(cluster.annotated("pause"), ["first"]);
    cluster.run("resume --all --force -y").expect_code(0);
    assert_eq!(cluster.annotated("pause"), [""; 0]);
}

#[test]
fn names_and_all_exclude_each_other() {
    let cluster = two();
    for words in ["pause", "pause first --all", "resume", "enable first --all"] {
        cluster.run(&format!("{words} -y")).expect_code(64);
    }
    assert_eq!(cluster.writes(), [""; 0]);
}

#[test]
fn a_node_starts_over_in_one_plan() {
    let cluster = two();
    let ran = cluster.run("reset --node node-1 --no-pause --dry-run");
    insta::assert_snapshot!(ran.transcript());
    cluster.run("reset --node node-1 --no-pause --confirm").expect_code(0);
    let keys = || {
        let node = cluster.node("node-1");
        let annotations = node["metadata"]["annotations"].as_object().cloned();
        let keys = annotations.unwrap_or_default().into_iter();
        keys.filter(|(key, _)| key.contains("nodeState")).count()
    };
    assert_eq!(keys(), 0);
    cluster.run("undo --confirm").expect_code(0);
    assert_eq!(keys(), 2);
    // Only the custom resource whose package fails is reset, and is paused during the reset.
    let failing = cluster.run("reset --failed-only -l kubernetes.io/os=linux --dry-run");
    failing.expect_code(0);
    failing.expect_stdout("skyhook/first\n");
    assert!(!failing.stdout.contains("skyhook/second"), "{}", failing.transcript());
    for words in ["reset", "reset --node node-1 --package base", "reset --node node-1 --reset-batches"] {
        cluster.run(&format!("{words} --dry-run")).expect_code(64);
    }
}

/// The undo pauses each custom resource, waits for that pause, and restores everything.
#[test]
fn reset_of_two_custom_resources_is_undone_under_two_pauses() {
    let cluster = two();
    // The operator is at work, so the reset pauses it.
    for name in ["first", "second"] {
        let mut cr = cluster.fake.get("skyhooks", "", name).expect("the custom resource exists");
        cr["status"]["status"] = "in_progress".into();
        cluster.fake.load(cr);
    }
    let objects = || {
        let mut objects: Vec<Value> = ["first", "second"]
            .map(|name| cluster.fake.get("skyhooks", "", name).expect("the custom resource exists"))
            .into();
        objects.push(cluster.node("node-1"));
        for object in &mut objects {
            let metadata = object["metadata"].as_object_mut().expect("metadata");
            metadata.retain(|key, value| {
                !["resourceVersion", "managedFields"].contains(&key.as_str()) && *value != json!({})
            });
            if let Some(status) = object["status"].as_object_mut() {
                status.remove("status");
            }
        }
        objects
    };
    let before = objects();
    let ran = cluster.with_operator(|| cluster.run("reset --node node-1 --confirm"));
    ran.expect_code(0);
    assert_ne!(objects(), before);
    let reset = cluster.fake.writes().len();
    let undone = cluster.with_operator(|| cluster.run("undo --confirm"));
    undone.expect_code(0);
    assert_eq!(objects(), before, "{}", undone.transcript());
    // Both pauses come before the node, and both ends after it.
    let kinds: Vec<String> = cluster.fake.writes()[reset..]
        .iter()
        .filter(|write| write.method == "PATCH")
        .map(|write| write.path.rsplit('/').nth(1).expect("a collection").to_owned())
        .collect();
    assert_eq!(kinds.first().map(String::as_str), Some("skyhooks"), "{kinds:?}");
    assert_eq!(kinds.last().map(String::as_str), Some("skyhooks"), "{kinds:?}");
}

/// The page of each deletion has its next command.
#[test]
fn a_deletion_is_shown_with_its_next_command() {
    let cluster = TestCluster::captured_with_operator("deleted-while-erroring");
    let mut other = cluster.cr().expect("the custom resource exists");
    other["metadata"]["name"] = "other".into();
    other["metadata"]["uid"] = "other".into();
    cluster.fake.load(other);
    let ran = cluster.run("status gpu-tune other");
    let commands: Vec<&str> = ran.stdout.lines().filter(|line| line.starts_with("now: ")).collect();
    let logs = "now: kubectl skyhook package logs driver --skyhook gpu-tune --node node-2 --stage apply";
    assert_eq!(commands, [logs, logs], "{}", ran.transcript());
    let json = cluster.run("status gpu-tune other -o json").json();
    let items = json["items"].as_array().expect("items").iter();
    assert!(items.clone().all(|item| item["deletion"]["state"] == "Stuck"), "{json:#}");
    two().run("status gpu-tune").expect_no_stdout("the deletion is");
}
