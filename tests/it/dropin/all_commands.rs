//! Faults that several commands have in common.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{TestCluster, complete_cluster, driver, with_operator_keys};
use crate::dropin::SKYHOOK;
use crate::support::fake_api::FakeApi;
use crate::support::run::{Child, run};

const NODES: [&str; 4] = ["worker-1", "worker-2", "worker-10", "gpu-worker-2"];

fn ignored(cluster: &TestCluster, nodes: &[&str]) -> Vec<String> {
    let marked = nodes.iter().filter(|n| cluster.node_label(n, "ignore") == "true");
    marked.map(|n| (*n).to_owned()).collect()
}

#[test]
fn g1_regex_alternation_is_anchored_as_a_whole() {
    let cluster = TestCluster::with_complete_nodes(&NODES);
    cluster.run_ok("node ignore --match worker-1|worker-2 -y");
    assert_eq!(ignored(&cluster, &NODES), ["worker-1", "worker-2"]);
    cluster.run_ok("node reset --match worker-1|worker-2 --skyhook gpu -y");
    let paths: BTreeSet<String> = cluster.patched_paths().split_off(2).into_iter().collect();
    assert!(paths.contains("/api/v1/nodes/worker-1") && paths.contains("/api/v1/nodes/worker-2"));
    assert_eq!(paths.len(), 2, "{paths:?}");
}

#[test]
fn g2_dot_in_an_exact_name_is_literal() {
    let nodes = ["ip-10-0-1-2.ec2", "ip-10-0-1-2-ec2", "ip-10-0-1-2xec2"];
    let cluster = TestCluster::with_complete_nodes(&nodes);
    cluster.run_ok("node ignore ip-10-0-1-2.ec2 -y");
    assert_eq!(ignored(&cluster, &nodes), ["ip-10-0-1-2.ec2"]);
}

#[test]
fn g3_output_order_is_stable() {
    let cluster = TestCluster::with_complete_nodes(&NODES);
    let first = cluster.ok("node ignore * --dry-run").stdout;
    for _ in 0..4 {
        assert_eq!(cluster.ok("node ignore * --dry-run").stdout, first);
    }
    let steps = cluster.ok("node ignore * --dry-run -o json").json()["steps"].clone();
    let steps = steps.as_array().expect("an array");
    let targets: Vec<&Value> = steps.iter().map(|s| &s["target"]).collect();
    let mut sorted = targets.clone();
    sorted.sort_by_key(|t| t.to_string());
    let named = |name: &str| targets.iter().any(|t| **t == json!(format!("node/{name}")));
    assert!(NODES.iter().all(|n| named(n)), "{targets:?}");
    assert_eq!(targets.len(), sorted.len());
}

#[test]
fn g4_name_that_matches_nothing_is_an_error() {
    let cluster = TestCluster::with_complete_nodes(&["worker-1"]);
    for words in [
        "node ignore worker-1 worker-7",
        "node reset worker-1 worker-7 --skyhook gpu -y",
        "node status worker-1 worker-7",
        "package status driver --skyhook gpu --node worker-1 --node worker-7",
        "package rerun driver --skyhook gpu --node worker-1 --node worker-7 -y",
    ] {
        let ran = cluster.run(words);
        assert_eq!(
            ran.parts(),
            ("", "error: node \"worker-7\" not found\nhint: did you mean worker-1?\n", Some(1)),
            "{words}"
        );
    }
    assert_eq!(cluster.patched_paths(), [""; 0]);
}

#[test]
fn g5_partial_failure_sets_the_exit_code() {
    let cluster = TestCluster::with_complete_nodes(&["worker-1", "worker-2"]);
    cluster.fake.on("PATCH nodes worker-2").times(9).reply(403);
    for words in ["node ignore worker-1 worker-2 -y", "node reset worker-1 worker-2 --skyhook gpu -y"] {
        assert_eq!(cluster.run(words).code, Some(4), "{words}");
    }
    let all = TestCluster::with_complete_nodes(&["worker-1"]);
    all.fake.on("PATCH nodes").reply(403);
    let ran = all.run("reset gpu -y");
    assert_eq!((ran.stdout.as_str(), ran.code), ("", Some(1)));
}

#[test]
fn g6_each_node_takes_one_patch_in_parallel() {
    let names: Vec<String> = (0..30).map(|n| format!("node-{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let cluster = TestCluster::with_complete_nodes(&names);
    cluster.run_ok("reset gpu -y");
    let nodes = cluster.patched_paths().into_iter();
    let nodes: Vec<String> = nodes.filter(|p| p.contains("/nodes/")).collect();
    assert_eq!(nodes.len(), 30);
    assert_eq!(nodes.iter().collect::<BTreeSet<_>>().len(), 30);
}

#[test]
fn g7_lists_are_paged() {
    let cluster = TestCluster::with_complete_nodes(&["worker-1"]);
    cluster.run_ok("node list --skyhook gpu");
    let requests = cluster.fake.requests();
    let lists: Vec<_> = requests.iter().filter(|r| r.path == "/api/v1/nodes").collect();
    assert!(!lists.is_empty());
    for list in lists {
        assert!(list.query.contains_key("limit"), "{list}");
    }
}

#[test]
fn g9_changes_print_a_json_result() {
    let cluster = TestCluster::with_complete_nodes(&["worker-1"]);
    let ran = cluster.ok("node ignore worker-1 -o json -y").json();
    assert_eq!(ran["counts"]["applied"], json!(1));
    assert_eq!(ran["steps"][0]["target"], json!("node/worker-1"));
    let version = cluster.ok("version -o json").json();
    assert_eq!(version["operator"]["version"], json!("v0.17.1"));
    let name = cluster.ok("node unignore worker-1 -o name -y");
    assert_eq!(name.stdout, "node/worker-1\n");
}

#[test]
fn g10_confirmation_from_stdin_is_the_same_everywhere() {
    for words in [
        "pause gpu",
        "reset gpu",
        "node reset worker-1 --skyhook gpu",
        "package rerun driver --skyhook gpu --node worker-1",
    ] {
        for answer in ["", "n\n", "yesterday\n"] {
            let cluster = TestCluster::with_complete_nodes(&["worker-1"]);
            let ran = cluster.command(words).stdin(answer).output();
            assert_eq!((ran.stdout.as_str(), ran.code), ("", Some(3)), "{words}");
            assert!(
                ran.stderr.ends_with(
                    "error: not confirmed, and there is no terminal for the prompt; nothing was changed\n\
                     hint: add --confirm, or preview the change with --dry-run\n"
                ),
                "{}",
                ran.transcript()
            );
            assert_eq!(cluster.patched_paths(), [""; 0]);
        }
        for answer in ["y", "y\n", "yes\n"] {
            let cluster = TestCluster::with_complete_nodes(&["worker-1"]);
            let ran = cluster.command(words).stdin(answer).output();
            ran.expect_code(0);
            assert_ne!(cluster.patched_paths(), [""; 0]);
        }
    }
}

#[test]
fn g11_dry_run_reads_the_cluster_without_a_prompt() {
    let cluster = TestCluster::with_complete_nodes(&["worker-1"]);
    let ran = cluster.ok("pause gpu --dry-run");
    ran.expect_stdout("skyhook/gpu");
    let typo = cluster.run("pause gpuu --dry-run");
    assert_eq!(typo.parts(), ("", "error: Skyhook \"gpuu\" not found\nhint: did you mean gpu?\n", Some(1)));
    assert_eq!(cluster.patched_paths(), [""; 0]);
}

#[test]
fn g12_malformed_state_is_a_row() {
    let mut broken = SKYHOOK.node("worker-2", "complete", &[]);
    broken["metadata"]["annotations"][SKYHOOK.0.key("nodeState_gpu")] = json!("{oops");
    let cluster = TestCluster::serving(complete_cluster(driver()).with(broken));
    let json = cluster.ok("node list --skyhook gpu -o json").json();
    assert_eq!(json["nodes"][0]["nodeName"], json!("worker-2"));
    assert!(json["nodes"][0]["malformed"].is_string(), "{json}");
}

#[test]
fn g13_unknown_values_are_errors() {
    for words in
        ["node bogus", "dp bogus", "package bogus", "bogus", "node list a|b --skyhook gpu", "version extra"]
    {
        let ran = run(words).output();
        assert_eq!((ran.stdout.as_str(), ran.code), ("", Some(64)), "{words}");
    }
}

fn deployment(name: &str, image: &str, labels: Value) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "skyhook", "labels": labels},
        "spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": name, "image": image}]}}},
    })
}

#[test]
fn g14_dashboard_is_not_taken_for_the_operator() {
    let grafana = deployment(
        "a-grafana",
        "grafana/grafana:3.1.4",
        json!({"app.kubernetes.io/part-of": "skyhook", "app.kubernetes.io/version": "3.1.4"}),
    );
    let cluster = TestCluster::serving(complete_cluster(driver()).with(grafana.clone()));
    let version = cluster.ok("version -o json").json();
    assert_eq!(version["operator"]["version"], json!("v0.17.1"));

    let alone = TestCluster::serving(FakeApi::new().serving(SKYHOOK.0).with(grafana));
    let version = alone.ok("version -o json").json();
    assert_eq!(version["operator"]["version"], Value::Null);

    // The tag of the running image has priority over the chart's label, and the newer image name is
    // recognized.
    let renamed = deployment(
        "nodewright",
        "ghcr.io/nvidia/nodewright/operator:v0.19.2",
        json!({"control-plane": "controller-manager", "app.kubernetes.io/version": "v0.18.0"}),
    );
    let cluster = TestCluster::serving(FakeApi::new().serving(SKYHOOK.0).with(renamed));
    let version = cluster.ok("version -o json").json();
    assert_eq!(version["operator"]["version"], json!("v0.19.2"));
}

#[test]
fn g15_registry_port_is_not_taken_for_the_version() {
    let operator = deployment(
        "operator",
        "localhost:5000/skyhook-operator",
        json!({"control-plane": "controller-manager"}),
    );
    let cluster = TestCluster::serving(FakeApi::new().serving(SKYHOOK.0).with(operator));
    let version = cluster.ok("version -o json").json();
    assert_eq!(version["operator"]["version"], Value::Null);
}

#[test]
fn g16_undecodable_field_does_not_block_pause() {
    for noted in [Value::Null, json!({"other": "x"})] {
        for verb in ["pause", "disable"] {
            let mut cr = SKYHOOK.skyhook("complete", driver());
            cr["spec"]["priority"] = json!({"of": "a future kind"});
            cr["metadata"]["annotations"] = noted.clone();
            let fake = FakeApi::new().serving(SKYHOOK.0).with(cr).with(SKYHOOK.operator());
            let cluster = TestCluster::serving(fake);
            let ran = cluster.ok(&format!("{verb} gpu -y"));
            assert_eq!(cluster.gpu_annotation(verb), json!("true"), "{}", ran.transcript());
            let missing = cluster.run(&format!("{verb} nope -y"));
            missing.expect_code(1);
            // `undo` skips a command that changed nothing.
            let undone = cluster.ok("undo -y");
            assert_eq!(cluster.gpu_annotation(verb), Value::Null, "{}", undone.transcript());
        }
    }
}

#[test]
fn g17_reason_text_is_sent_as_valid_json() {
    let cluster = TestCluster::with_complete_nodes(&["worker-1"]);
    let reason = "a \"quote\", a \u{7f}, a \u{1}, and \u{10ffff}";
    let ran = cluster.command_of(["pause", "gpu", "-y", "--reason", reason]).output();
    ran.expect_code(0);
    let cr = cluster.gpu();
    assert_eq!(cr["metadata"]["annotations"]["kubectl-skyhook/pause-reason"], json!(reason));
}

#[test]
fn g18_patches_test_old_values_and_name_a_field_manager() {
    let cluster = TestCluster::serving(complete_cluster(driver()).with(with_operator_keys(
        "worker-1",
        "complete",
        &["driver|1.0.0 config complete"],
    )));
    let before = cluster.node_annotation("worker-1", "nodeState_gpu");
    cluster.run_ok("reset gpu -y");
    let patches = cluster.patches();
    assert_eq!(patches[0].header("content-type"), "application/json-patch+json");
    for patch in &patches {
        assert_eq!(patch.query["fieldManager"], "kubectl-skyhook");
        assert_eq!(patch.body[0]["op"], json!("test"), "{}", patch.body);
    }
    let tests = patches[0].body.as_array().expect("an array");
    let state = tests
        .iter()
        .find(|t| t["op"] == "test" && t["path"].as_str().is_some_and(|p| p.contains("nodeState_")));
    assert_eq!(state.expect("a test of the state")["value"], before);

    cluster.run_ok("pause gpu -y --dry-run=server");
    let last = cluster.patches().pop().expect("a patch");
    assert_eq!(last.query["dryRun"], "All");
    assert_eq!(cluster.gpu_annotation("pause"), Value::Null);
}

#[test]
fn g20_table_is_a_header_and_rows() {
    let cluster = TestCluster::with_complete_nodes(&["worker-1"]);
    let ran = cluster.ok("node list --skyhook gpu");
    assert_eq!(
        ran.parts(),
        (
            "NODE      STATUS    PACKAGES  NOTE\nworker-1  complete  1/1       <none>\n",
            "1 node: 1 complete\n",
            Some(0)
        )
    );
    let bare = cluster.ok("node list --skyhook gpu --no-headers");
    assert_eq!(bare.stdout, "worker-1  complete  1/1  <none>\n");
    let names = cluster.ok("node list --skyhook gpu -o name");
    assert_eq!(names.stdout, "node/worker-1\n");
}

#[test]
fn g22_interrupt_finishes_requests_in_flight_and_reports_the_rest() {
    let names: Vec<String> = (0..9).map(|n| format!("node-{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let cluster = TestCluster::with_complete_nodes(&names);
    let child = Child::default();
    cluster.fake.on("PATCH nodes").nth(1).after(child.interrupt());
    let ran = cluster.command("reset gpu -y --max-parallel 1 -o json").child(&child).output();
    ran.expect_code(130);
    let counts = &ran.json()["counts"];
    let done = cluster.patched_paths().len();
    assert!(done < 9);
    assert_eq!(counts["applied"], json!(done));
}

#[test]
fn g23_user_agent_names_the_version() {
    let cluster = TestCluster::with_complete_nodes(&["worker-1"]);
    cluster.run_ok("node list --skyhook gpu");
    let agent = cluster.fake.requests()[0].header("user-agent");
    let expected = format!("kubectl-skyhook/{}", env!("CARGO_PKG_VERSION"));
    assert!(agent.contains(&expected), "{agent}");
}
