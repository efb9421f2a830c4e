//! Faults of `package rerun`.

use serde_json::{Value, json};

use super::{TestCluster, complete_cluster};
use crate::dropin::SKYHOOK;

fn packages() -> Value {
    json!({
        "a": {"version": "1.0.0", "image": "example.com/a"},
        "b": {"version": "1.0.0", "image": "example.com/b", "dependsOn": {"a": "1.0.0"}},
    })
}

fn cluster(entries: &[&str]) -> TestCluster {
    TestCluster::serving(complete_cluster(packages()).with(SKYHOOK.node("node-1", "complete", entries)))
        .simulating_operator()
}

const BOTH: [&str; 2] = ["a|1.0.0 config complete", "b|1.0.0 config complete"];

#[test]
fn p1_concurrent_operator_writes_are_kept() {
    let cluster = cluster(&["a|1.0.0 config complete", "b|1.0.0 apply complete"]);
    let now = json!({
        "a|1.0.0": {"name": "a", "version": "1.0.0", "image": "example.com/a", "stage": "config", "state": "complete"},
        "b|1.0.0": {"name": "b", "version": "1.0.0", "image": "example.com/b", "stage": "config", "state": "complete"},
        "c|1.0.0": {"name": "c", "version": "1.0.0", "image": "example.com/c", "stage": "apply", "state": "complete"},
    });
    let text = now.to_string();
    cluster.fake.on("PATCH nodes").nth(1).after(move |state| {
        let mut node = state.store.find("nodes", "", "node-1").cloned().expect("the node exists");
        node["metadata"]["annotations"][SKYHOOK.0.key("nodeState_gpu")] = json!(text);
        state.store.load(node);
    });
    cluster.run_ok("package rerun a --skyhook gpu --node node-1 -y --no-pause");
    let mut expected = now;
    expected.as_object_mut().expect("a map").remove("a|1.0.0");
    assert_eq!(cluster.node_state("node-1"), expected);
}

#[test]
fn p2_unknown_fields_are_kept() {
    let mut node = SKYHOOK.node("node-1", "complete", &[]);
    let text = r#"{"a|1.0.0":{"name":"a","version":"1.0.0","image":"i","stage":"config","state":"complete","new":[1]},"b|1.0.0":{"name":"b","version":"1.0.0","image":"i","stage":"config","state":"complete","odd":{"x":null}}}"#;
    node["metadata"]["annotations"][SKYHOOK.0.key("nodeState_gpu")] = json!(text);
    let cluster = TestCluster::serving(complete_cluster(packages()).with(node));
    cluster.run_ok("package rerun a --skyhook gpu --node node-1 --stage config -y --no-pause");
    let wanted = text.replacen(r#""state":"complete""#, r#""state":"in_progress""#, 1);
    let expected: Value = serde_json::from_str(&wanted).expect("JSON");
    assert_eq!(cluster.node_state("node-1"), expected);
}

#[test]
fn p3_misleading_stages_are_refused() {
    let cluster = cluster(&BOTH);
    for stage in ["interrupt", "post-interrupt", "uninstall", "uninstall-interrupt"] {
        let ran = cluster.run(&format!("package rerun a --skyhook gpu --node node-1 --stage {stage} -y"));
        assert_eq!((ran.stdout.as_str(), ran.code), ("", Some(3)), "{stage}");
        ran.expect_stderr("nothing was changed");
    }
    let ran = cluster.run("package rerun a --skyhook gpu --node node-1 --stage nope -y");
    ran.expect_code(64);
    assert_eq!(cluster.patched_paths(), [""; 0]);
    for stage in ["apply", "config"] {
        let cluster = self::cluster(&BOTH);
        cluster.run_ok(&format!("package rerun a --skyhook gpu --node node-1 --stage {stage} -y"));
        let entry = &cluster.node_state("node-1")["a|1.0.0"];
        assert_eq!((&entry["stage"], &entry["state"]), (&json!(stage), &json!("in_progress")));
    }
}

#[test]
fn dependants_that_never_ran_are_not_in_the_warning() {
    let warns = |entries: &[&str]| {
        let ran = self::cluster(entries).run("package rerun a --skyhook gpu --node node-1 --dry-run");
        ran.expect_code(0);
        let warning = "packages that depend on a do not run again: b";
        ran.transcript().contains(warning)
    };
    assert!(warns(&BOTH));
    assert!(!warns(&["a|1.0.0 apply erroring"]));
}

#[test]
fn p4_pod_running_the_stage_is_named() {
    let place = crate::support::object_builder::PackageRun { package: "a", ..Default::default() };
    let pod = SKYHOOK.pod("gpu-a", &place, "Pending", &["a-init done", "a-apply looping"]);
    let node = SKYHOOK.node("node-1", "erroring", &["a|1.0.0 apply erroring"]);
    let cluster = TestCluster::serving(complete_cluster(packages()).with(node).with(pod));
    let ran = cluster.ok("package rerun a --skyhook gpu --node node-1 --stage apply --dry-run");
    ran.expect_stdout("this stage is already running and will not restart: pod/skyhook/gpu-a on node-1");
}

#[test]
fn p5_upgrade_stage_can_be_rerun() {
    let cluster = cluster(&BOTH);
    cluster.run_ok("package rerun a --skyhook gpu --node node-1 --stage upgrade -y");
    assert_eq!(cluster.node_state("node-1")["a|1.0.0"]["stage"], json!("upgrade"));
}

#[test]
fn p6_dependents_and_blockers_are_named() {
    let cluster = cluster(&BOTH);
    cluster.run_ok("disable gpu -y");
    cluster.run_ok("node ignore node-1 -y");
    let ran = cluster.ok("package rerun a --skyhook gpu --node node-1 --dry-run");
    let text = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for says in [
        "packages that depend on a do not run again: b",
        "skyhook/gpu is disabled: nothing runs until you run `kubectl skyhook enable gpu`",
        "node-1 carries the ignore label: nothing runs there until you run `kubectl skyhook node unignore node-1`",
    ] {
        assert!(text.contains(says), "{}", ran.transcript());
    }
}

/// The operator does not run a package without its dependencies.
#[test]
fn uninstalled_dependency_is_named() {
    let mut packages = packages();
    packages["a"]["uninstall"] = json!({"enabled": true, "apply": true});
    let cluster = TestCluster::serving(complete_cluster(packages).with(SKYHOOK.node(
        "node-1",
        "erroring",
        &["b|1.0.0 apply erroring"],
    )));
    let says =
        "b depends on a, which is uninstalled on node-1: b waits there until the uninstall of a is canceled";
    for words in
        ["package rerun b --skyhook gpu --node node-1 --dry-run", "fix --skyhook gpu --up-to B2 --dry-run"]
    {
        let ran = cluster.run(words);
        let text = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(says), "{}", ran.transcript());
    }
}

#[test]
fn p7_nodes_can_be_selected_by_all_label_or_failure() {
    let mut labelled = SKYHOOK.node("node-2", "complete", &BOTH);
    labelled["metadata"]["labels"] = json!({"pool": "a"});
    let cluster = || {
        TestCluster::serving(
            complete_cluster(packages())
                .with(SKYHOOK.node("node-1", "complete", &BOTH))
                .with(labelled.clone())
                .with(SKYHOOK.node("node-3", "erroring", &["a|1.0.0 apply erroring"])),
        )
    };
    for (flags, nodes) in [
        ("--all-nodes", 3),
        ("-l pool=a", 1),
        ("--all-nodes --failed-only", 1),
        ("--node node-1 --node node-2", 2),
    ] {
        let cluster = cluster();
        cluster.run_ok(&format!("package rerun a --skyhook gpu {flags} -y --no-pause"));
        assert_eq!(cluster.patched_paths().len(), nodes, "{flags}");
    }
    // `--failed-only` skips nodes on which only another package fails.
    let site_of = |entries: &[&str]| {
        let node = SKYHOOK.node("node-1", "erroring", entries);
        TestCluster::serving(complete_cluster(packages()).with(node))
    };
    let fails = "package rerun a --skyhook gpu --all-nodes --failed-only -y --no-pause";
    let other = site_of(&["a|1.0.0 config complete", "b|1.0.0 apply erroring"]);
    other.run_ok(fails);
    assert_eq!(other.patched_paths().len(), 0);
    let ran = cluster().run("package rerun a --skyhook gpu -y");
    ran.expect_code(64);
}
