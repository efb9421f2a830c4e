//! Remedies that fail, or whose result is unknown, and a `fix` that is killed while its pauses are set.

use serde_json::{Value, json};

use super::live::two_packages;
use crate::support::fake_api::{FakeApi, Reply, State};
use crate::support::object_builder::SKYHOOK;
use crate::support::run::Child;
use crate::support::test_cluster::TestCluster;

const PAUSE: &str = "skyhook.nvidia.com/pause";

/// A second custom resource, `net`, whose package fails on a node of its own.
fn two_custom_resources() -> FakeApi {
    let fake = two_packages();
    let agent = json!({"agent": {"version": "1.0.0", "image": "example.com/agent"}});
    let mut net = SKYHOOK.skyhook("erroring", agent);
    net["metadata"]["name"] = json!("net");
    net["metadata"]["uid"] = json!("22222222-0000-4000-8000-000000000000");
    fake.load(net);
    let node = SKYHOOK.node("net-1", "erroring", &["agent|1.0.0 apply erroring"]);
    let of_net = node.to_string().replace("_gpu\"", "_net\"");
    fake.load(serde_json::from_str(&of_net).expect("JSON"));
    fake
}

/// `gpu` has two remedies: one for `driver` on both nodes, then one for `tuning` on gpu-1.
#[test]
fn failed_remedy_stops_the_others_of_its_custom_resource_only() {
    for (reply, why, code) in [
        (Reply::from(403), "failed", 4),
        (Reply::Body("<html>signed out</html>".to_owned()), "may not have been made", 4),
    ] {
        let test_cluster = TestCluster::serving(two_custom_resources());
        test_cluster.fake.on("PATCH nodes gpu-2").reply(reply.clone());
        // The result of the patch is unknown only if the node cannot be read again either.
        test_cluster.fake.on("GET nodes gpu-2").reply(reply);
        let ran = test_cluster.run("fix --up-to B4 --no-pause --max-parallel 1 --confirm");
        ran.expect_code(code);
        let reason = format!("not run, because an earlier change to node/gpu-2 {why}");
        ran.expect_stdout(&reason);
        let writes = test_cluster.writes();
        let to = |name: &str| writes.iter().filter(|w| w.ends_with(name)).count();
        assert_eq!((to("/gpu-1"), to("/net-1")), (1, 1), "{}", ran.transcript());
        let shown = test_cluster.run("journal show");
        shown.expect_stdout(&reason);
    }
}

/// The command is killed after it has paused both custom resources, and before the operator acknowledges a pause.
#[test]
fn undo_ends_all_pauses_of_a_killed_fix() {
    let test_cluster = TestCluster::serving(two_custom_resources());
    let paused = |name: &str| {
        let object = test_cluster.fake.get("skyhooks", "", name);
        let object = object.expect("the custom resource exists");
        object["metadata"]["annotations"][PAUSE].clone()
    };
    let child = Child::default();
    let kill = child.kill();
    let fake = &test_cluster.fake;
    fake.on("GET skyhooks net").after(move |state: &mut State| {
        let net = state.store.find("skyhooks", "", "net");
        if net.expect("the custom resource exists")["metadata"]["annotations"][PAUSE] == "true" {
            kill(state);
        }
    });
    let ran = test_cluster.command("fix --up-to B4 --confirm").child(&child).output();
    assert_eq!(ran.code, None, "{}", ran.transcript());
    test_cluster.fake.heal();
    let both = [json!("true"), json!("true")];
    assert_eq!(["gpu", "net"].map(paused), both, "{}", ran.transcript());
    let undone = test_cluster.run("undo --confirm");
    undone.expect_code(0);
    undone.expect_stdout("undo \"fix SKY201\" (only its 2 pauses remain): 2 changed");
    assert_eq!(["gpu", "net"].map(paused), [Value::Null, Value::Null]);
    let again = test_cluster.run("undo --confirm");
    again.expect_code(1);
    again.expect_stderr("nothing to undo");
}

/// The node of `net` changes after the plan was made, and the pods of `gpu` are awaited afterwards.
#[test]
fn skipped_remedy_does_not_end_unrelated_ones() {
    for skipped in [false, true] {
        let fake = two_custom_resources();
        fake.load(SKYHOOK.operator());
        let test_cluster = TestCluster::serving(fake);
        let planned = test_cluster.fake.on("POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews");
        if skipped {
            planned.nth(1).after(|state: &mut State| {
                let node = SKYHOOK.node("net-1", "complete", &["agent|1.0.0 config complete"]);
                let of_net = node.to_string().replace("_gpu\"", "_net\"");
                state.store.load(serde_json::from_str(&of_net).expect("JSON"));
            });
        }
        let ran = test_cluster.with_operator(|| test_cluster.run("fix --up-to B4 --confirm -o json"));
        ran.expect_code(if skipped { 4 } else { 0 });
        let outcome = ran.json();
        let results: Vec<(String, String)> = outcome["steps"]
            .as_array()
            .expect("steps")
            .iter()
            .map(|step| (step["target"].to_string(), step["result"].to_string()))
            .filter(|(target, _)| target.contains("node/"))
            .collect();
        assert!(results.len() >= 3, "{}", ran.transcript());
        for (target, result) in results {
            let expected = if skipped && target.contains("net-1") { "\"skipped\"" } else { "\"applied\"" };
            assert_eq!(result, expected, "{target}: {}", ran.transcript());
        }
        assert_eq!(outcome["ended"], "finished", "{}", ran.transcript());
        let paused = |name: &str| {
            let object = test_cluster.fake.get("skyhooks", "", name).expect("the custom resource exists");
            object["metadata"]["annotations"][PAUSE].clone()
        };
        assert_eq!(["gpu", "net"].map(paused), [Value::Null, Value::Null]);
    }
}
