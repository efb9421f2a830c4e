//! The interface that scripts use: exit codes, the shapes of documents, and the effects on objects.

use kubectl_skyhook::api::ApiFlavor;
use serde_json::{Value, json};

use super::{TestCluster, complete_cluster, driver, with_operator_keys};
use crate::dropin::SKYHOOK;
use crate::support::fake_api::FakeApi;
use crate::support::object_builder::ObjectBuilder;

#[test]
fn reset_succeeds_without_object_or_state() {
    let nothing = TestCluster::serving(FakeApi::new().serving(SKYHOOK.0).with(SKYHOOK.operator()));
    assert_eq!(nothing.ok("reset gpu --confirm").stdout, "");
    assert_eq!(nothing.patched_paths(), [""; 0]);

    let entries = ["driver|1.0.0 config complete"];
    let node = with_operator_keys("node-1", "complete", &entries);
    let orphaned =
        TestCluster::serving(FakeApi::new().serving(SKYHOOK.0).with(SKYHOOK.operator()).with(node));
    orphaned.run_ok("reset gpu --confirm");
    assert_eq!(orphaned.patched_paths(), ["/api/v1/nodes/node-1"]);
    for key in ["nodeState_gpu", "status_gpu", "version_gpu"] {
        assert_eq!(orphaned.node_annotation("node-1", key), Value::Null, "{key}");
    }
    assert_eq!(orphaned.node_label("node-1", "status_gpu"), Value::Null);

    let untouched = TestCluster::serving(complete_cluster(driver()).with(SKYHOOK.node("node-1", "", &[])));
    untouched.run_ok("reset gpu --confirm");
    assert_eq!(untouched.patched_paths(), [""; 0]);
}

#[test]
fn reset_succeeds_without_the_crd() {
    let nothing = TestCluster::serving(FakeApi::new());
    nothing.run_ok("reset gpu --confirm");
    assert_eq!(nothing.patched_paths(), [""; 0]);

    for flavor in ApiFlavor::ALL {
        let world = ObjectBuilder(flavor);
        let entries = ["driver|1.0.0 config complete"];
        let mut node = world.node("node-1", "complete", &entries);
        node["metadata"]["annotations"][flavor.key("cordon_gpu")] = json!("true");
        node["spec"] = json!({"unschedulable": true});
        let cluster = TestCluster::serving(FakeApi::new().with(node));
        cluster.run_ok("reset gpu --confirm");
        let node = cluster.node("node-1");
        assert_eq!(node["metadata"]["annotations"], json!({}));
        assert_eq!(node["spec"]["unschedulable"], Value::Null);
        assert_eq!(cluster.patched_paths(), ["/api/v1/nodes/node-1"]);
    }
}

#[test]
fn empty_result_is_no_error_for_an_existing_object() {
    let cluster = TestCluster::serving(complete_cluster(driver()).with(SKYHOOK.node("node-1", "", &[])));
    for words in [
        "node list --skyhook gpu",
        "node list --skyhook gpu -o json",
        "node status",
        "node status node-1 --skyhook gpu",
        "node reset node-1 --skyhook gpu --confirm",
        "package status driver --skyhook gpu",
        "package logs driver --skyhook gpu",
        "package logs driver --skyhook gpu --node node-1 --stage apply",
        "package rerun driver --skyhook gpu --node node-1 --confirm",
        "dp reset gpu --confirm",
    ] {
        cluster.run_ok(words);
    }
    assert_eq!(cluster.patched_paths(), [""; 0]);
}

#[test]
fn unconfirmed_commands_abort_without_a_terminal() {
    let cluster = TestCluster::with_complete_nodes(&["node-1"]);
    cluster.run_ok("pause gpu -y");
    cluster.run_ok("disable gpu -y");
    for words in ["resume gpu", "enable gpu"] {
        assert!(cluster.ok(words).stderr.contains("\nAborted.\n"), "{words}");
        let json = cluster.ok(&format!("{words} -o json")).json();
        assert_eq!(json["kind"], json!("Plan"), "{words}");
    }
    assert_eq!(cluster.gpu_annotation("pause"), json!("true"));
    assert_eq!(cluster.gpu_annotation("disable"), json!("true"));
    cluster.run_ok("resume gpu -y");
    cluster.run_ok("enable gpu -y");
    let before = cluster.patched_paths().len();
    for words in [
        "pause gpu",
        "disable gpu",
        "reset gpu",
        "node reset node-1 --skyhook gpu",
        "package rerun driver --skyhook gpu --node node-1",
    ] {
        assert_eq!(cluster.run(words).code, Some(3), "{words}");
    }
    assert_eq!(cluster.patched_paths().len(), before);
}

/// Upstream's CLI has no prompt here, so scripts pass no confirmation; and standard input may be the list of
/// a shell loop.
#[test]
fn ignore_and_unignore_need_no_confirmation_without_a_terminal() {
    let cluster = TestCluster::with_complete_nodes(&["node-1", "node-2"]);
    let script = format!(
        "printf 'node-1\\nnode-2\\n' | while read -r node; do '{}' node ignore $node || exit; done",
        env!("CARGO_BIN_EXE_kubectl-skyhook")
    );
    let ended = std::process::Command::new("sh")
        .args(["-c", &script])
        .env("XDG_STATE_HOME", cluster.state.path())
        .env("KUBECONFIG", cluster.served.kubeconfig())
        .output()
        .expect("the shell starts");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    for node in ["node-1", "node-2"] {
        assert_eq!(cluster.node_label(node, "ignore"), json!("true"));
    }
    cluster.run_ok("node unignore node-1");
    assert_eq!(cluster.node_label("node-1", "ignore"), Value::Null);
    // Without the label, the operator would run a package: a confirmation is needed, and y is enough.
    cluster.fake.load(SKYHOOK.node("node-3", "in_progress", &["driver|1.0.0 apply in_progress"]));
    cluster.run_ok("node ignore node-3");
    assert_eq!(cluster.run("node unignore node-3").code, Some(3));
    assert_eq!(cluster.node_label("node-3", "ignore"), json!("true"));
    let ran = cluster.command("node unignore node-3").stdin("y\n").output();
    ran.expect_code(0);
    assert_eq!(cluster.node_label("node-3", "ignore"), Value::Null);
}

#[test]
fn node_list_json_keeps_upstream_fields() {
    let cluster = TestCluster::serving(
        complete_cluster(driver())
            .with(SKYHOOK.node("node-1", "complete", &["driver|1.0.0 config complete"]))
            .with(SKYHOOK.node("node-2", "erroring", &["driver|1.0.0 apply erroring"])),
    );
    let json = cluster.ok("node list --skyhook gpu -o json").json();
    assert_eq!(
        json,
        json!({"skyhookName": "gpu", "nodes": [
            {"nodeName": "node-1", "status": "complete", "packagesComplete": 1, "packagesTotal": 1, "restarts": 0,
             "selected": true, "ignored": false, "malformed": null},
            {"nodeName": "node-2", "status": "erroring", "packagesComplete": 0, "packagesTotal": 1, "restarts": 0,
             "selected": true, "ignored": false, "malformed": null},
        ]})
    );
    let yaml = cluster.ok("node list --skyhook gpu -o yaml").stdout;
    let yaml: Value = serde_saphyr::from_str(&yaml).expect("YAML");
    assert_eq!(yaml, json);
}

#[test]
fn node_status_json_keeps_upstream_fields() {
    let cluster = TestCluster::with_complete_nodes(&["node-1"]);
    let json = cluster.ok("node status node-1 -o json").json();
    let row = &json.as_array().expect("an array")[0];
    let known = [
        ("nodeName", json!("node-1")),
        ("skyhookName", json!("gpu")),
        ("status", json!("complete")),
        ("packagesComplete", json!(1)),
        ("packagesTotal", json!(1)),
    ];
    for (field, value) in known {
        assert_eq!(row[field], value, "{field}");
    }
    assert_eq!(
        row["packages"],
        json!([{"name": "driver", "version": "1.0.0", "stage": "config", "state": "complete", "restarts": 0,
                "image": "example.com/driver", "inSpec": true, "installed": true}])
    );
}

#[test]
fn package_status_json_omits_zero_fields() {
    let cluster = TestCluster::with_complete_nodes(&["node-1"]);
    let json = cluster.ok("package status driver --skyhook gpu -o json").json();
    let row = &json.as_array().expect("an array")[0];
    let known = [
        ("name", json!("driver")),
        ("version", json!("1.0.0")),
        ("image", json!("example.com/driver")),
        ("stage", json!("config")),
        ("state", json!("complete")),
        ("nodeName", json!("node-1")),
    ];
    for (field, value) in known {
        assert_eq!(row[field], value, "{field}");
    }
    for absent in ["restarts", "containerSHA"] {
        assert!(row.get(absent).is_none(), "{absent}");
    }
}

#[test]
fn g8_empty_results_are_valid_json() {
    let mut cr = SKYHOOK.skyhook("complete", driver());
    cr["spec"]["nodeSelectors"] = json!({"matchLabels": {"pool": "none"}});
    let cluster = TestCluster::serving(
        FakeApi::new().serving(SKYHOOK.0).with(cr).with(SKYHOOK.operator()).with(SKYHOOK.node(
            "node-1",
            "",
            &[],
        )),
    );
    for (words, empty) in [
        ("node list --skyhook gpu", json!({"skyhookName": "gpu", "nodes": []})),
        ("node status", json!([])),
        ("package status driver --skyhook gpu", json!([])),
    ] {
        assert_eq!(cluster.ok(&format!("{words} -o json")).json(), empty);
        let yaml = cluster.ok(&format!("{words} -o yaml")).stdout;
        let yaml: Value = serde_saphyr::from_str(&yaml).expect("YAML");
        assert_eq!(yaml, empty);
    }
}

#[test]
fn pause_disable_and_ignore_marks_are_true_or_absent() {
    let cluster = TestCluster::with_complete_nodes(&["node-1"]);
    for (set, remove, key) in [("pause", "resume", "pause"), ("disable", "enable", "disable")] {
        cluster.run_ok(&format!("{set} gpu --confirm"));
        assert_eq!(cluster.gpu_annotation(key), json!("true"));
        // Nothing to change is no error.
        cluster.run_ok(&format!("{set} gpu --confirm"));
        cluster.run_ok(&format!("{remove} gpu --confirm"));
        assert_eq!(cluster.gpu_annotation(key), Value::Null);
        cluster.run_ok(&format!("{remove} gpu --confirm"));
    }
    cluster.run_ok("node ignore node-1 -y");
    assert_eq!(cluster.node_label("node-1", "ignore"), json!("true"));
    cluster.run_ok("node ignore node-1 -y");
    cluster.run_ok("node unignore node-1 -y");
    assert_eq!(cluster.node_label("node-1", "ignore"), Value::Null);
    cluster.run_ok("node unignore node-1 -y");
    let paths = cluster.patched_paths();
    assert_eq!(paths.len(), 6, "{paths:?}");
    assert!(paths.iter().all(|p| !p.ends_with("/status")), "{paths:?}");
}

#[test]
fn missing_object_is_an_error_as_upstream() {
    let cluster = TestCluster::with_complete_nodes(&["node-1"]);
    for words in [
        "pause nope -y",
        "resume nope -y",
        "disable nope -y",
        "enable nope -y",
        "dp reset nope -y",
        "package status driver --skyhook nope",
        "package rerun driver --skyhook nope --node node-1 -y",
    ] {
        let ran = cluster.run(words);
        assert_eq!(
            ran.parts(),
            ("", "error: Skyhook \"nope\" not found\nhint: existing: gpu\n", Some(1)),
            "{words}"
        );
    }
}

#[test]
fn unknown_operator_version_blocks_no_command() {
    let fake = FakeApi::new().serving(SKYHOOK.0).with(SKYHOOK.skyhook("complete", driver()));
    let cluster = TestCluster::serving(fake);
    let version = cluster.ok("version");
    assert!(version.stdout.contains("unknown ("), "{}", version.stdout);
    for words in ["pause", "resume", "disable", "enable"] {
        cluster.run_ok(&format!("{words} gpu --confirm"));
    }
    assert_eq!(cluster.patched_paths().len(), 4);
}
