//! Responses to a write, from the server or a proxy in front of it.

use kubectl_skyhook::api::{ApiFlavor, keys};
use serde_json::{Value, json};

use super::TestCluster;
use crate::support::fake_api::{Problem, Reply};
use crate::support::test_cluster::CR;

const PAGE: &str = "<!DOCTYPE html><title>Sign in</title>";
const RERUN: &str = "node reset node-2 --skyhook gpu-tune --no-pause -y";

/// From now on, requests for the node return a login page.
fn behind_a_page(cluster: &TestCluster) {
    for verb in ["PATCH", "GET"] {
        cluster.fake.on(&format!("{verb} nodes node-2")).times(1_000_000).reply(Reply::Body(PAGE.to_owned()));
    }
}

#[test]
fn login_page_is_not_reported_as_changed() {
    let cluster = TestCluster::from_capture("apply-erroring");
    let before = cluster.node("node-2");
    cluster.fake.on("PATCH nodes node-2").times(1_000_000).reply(Reply::Body(PAGE.to_owned()));
    let ran = cluster.run(&format!("{RERUN} -o json"));
    ran.expect_code(1);
    assert_eq!(cluster.node("node-2"), before);
    let counts = &ran.json()["counts"];
    assert_eq!((&counts["applied"], &counts["failed"]), (&json!(0), &json!(1)));
    let why = "the server returned 200, but the response is not node/node-2";
    assert_eq!(ran.json()["steps"][0]["reason"], why);
}

#[test]
fn unknown_result_suggests_undo() {
    let cluster = TestCluster::from_capture("apply-erroring");
    behind_a_page(&cluster);
    let ran = cluster.run(RERUN);
    ran.expect_code(4);
    let says = |text: &str| assert!(ran.stdout.contains(text), "{text}: {}", ran.transcript());
    says("1 unknown");
    says("it is unknown whether");
    says("to undo: kubectl skyhook undo ");
    let show = cluster.run("journal show");
    show.expect_stdout("unknown");

    let cluster = TestCluster::from_capture("apply-erroring");
    behind_a_page(&cluster);
    let ran = cluster.run(&format!("{RERUN} -o json"));
    ran.expect_code(4);
    assert_eq!(ran.json()["counts"]["unknown"], json!(1));
    assert_eq!(ran.json()["steps"][0]["result"], "unknown");
}

const HELD: &str = "package rerun driver --skyhook gpu-tune --node node-2 --confirm";

#[test]
fn ended_pause_is_not_counted_as_a_change() {
    let cluster = TestCluster::captured_with_operator("apply-erroring");
    let before = cluster.objects();
    cluster.fake.on("PATCH nodes node-2").reply(403);
    let ran = cluster.with_operator(|| cluster.run(HELD));
    ran.expect_code(1);
    assert_eq!(
        ran.stdout,
        "OBJECT       RESULT  REASON\nnode/node-2  failed  nodes \"node-2\" is forbidden: User \"jane\" cannot patch resource \
         \"nodes\" in API group \"\" at the cluster scope\n\nrerun driver of gpu-tune on 1 node: nothing changed, 1 failed\n"
    );
    assert_eq!(cluster.objects()[1], before[1], "{}", ran.transcript());

    // Another client changes the node before every patch.
    let cluster = TestCluster::captured_with_operator("apply-erroring");
    cluster.fake.on("PATCH nodes node-2").after(|state| {
        let mut node = state.store.find("nodes", "", "node-2").cloned().expect("the node exists");
        let key = keys::node_state(ApiFlavor::Skyhook, CR);
        let text = node["metadata"]["annotations"][&key].as_str().expect("a state");
        let done = text.replace("erroring", "complete");
        node["metadata"]["annotations"][&key] = json!(done);
        state.store.load(node);
    });
    let ran = cluster.with_operator(|| cluster.run(HELD));
    ran.expect_code(3);
    ran.expect_stdout(": nothing changed, 1 skipped\n");
}

#[test]
fn unknown_result_is_reported_although_the_pause_ended() {
    let cluster = TestCluster::captured_with_operator("apply-erroring");
    behind_a_page(&cluster);
    let ran = cluster.with_operator(|| cluster.run(HELD));
    ran.expect_code(4);
    let says = |text: &str| assert!(ran.stdout.contains(text), "{text}: {}", ran.transcript());
    says(": 1 unknown\n");
    says("to undo: kubectl skyhook undo ");
}

#[test]
fn journal_distinguishes_not_reached_from_unknown() {
    let cluster = TestCluster::captured_with_operator("apply-erroring");
    cluster.fake.on("PATCH skyhooks").reply(410);
    cluster.run(HELD).expect_code(1);
    let shown = cluster.run("journal show");
    let row = "node/node-2       not reached  remove entry driver|2.0.1 (apply/erroring)\n";
    shown.expect_stdout(row);
    let journal = cluster.run("journal show -o json").json();
    let results = journal["results"].as_array().expect("stages").iter().flat_map(|s| s.as_array());
    let results: Vec<&Value> = results.flatten().map(|result| &result["result"]).collect();
    assert_eq!(results, ["failed", "notReached", "unchanged"], "{journal:#}");
}

#[test]
fn undo_detects_which_unknown_writes_were_applied() {
    for made in [true, false] {
        let cluster = TestCluster::from_capture("apply-erroring");
        let before = cluster.keys("node-2");
        behind_a_page(&cluster);
        cluster.run(RERUN).expect_code(4);
        if made {
            let mut node = cluster.node("node-2");
            for map in ["annotations", "labels"] {
                let map = node["metadata"][map].as_object_mut().expect("a map");
                map.retain(|key, _| !key.ends_with("_gpu-tune"));
            }
            cluster.fake.load(node);
        }
        cluster.fake.heal();
        cluster.run("undo -y").expect_code(0);
        assert_eq!(cluster.keys("node-2"), before, "made: {made}");
    }
}

#[test]
fn throttling_is_reported() {
    let cluster = TestCluster::from_capture("apply-erroring");
    let busy = Problem::too_many(1);
    cluster.fake.on("PATCH nodes").times(2).reply(busy);
    let ran = cluster.run(RERUN);
    ran.expect_code(0);
    let says = "throttled by the API server, retrying in 1 s\n";
    assert_eq!(ran.stderr.matches(says).count(), 1, "{}", ran.transcript());
}

#[test]
fn retry_after_is_limited_by_the_request_timeout() {
    let cluster = TestCluster::from_capture("apply-erroring");
    cluster.fake.on("PATCH nodes").times(1).reply(Problem::too_many(3600));
    let ran = cluster.run(&format!("{RERUN} --request-timeout 1s"));
    ran.expect_code(0);
    let says = "throttled by the API server, retrying in 1 s\n";
    ran.expect_stderr(says);
}

/// A file may be from an untrusted source, and an invalid name could direct a request to another object.
#[test]
fn journal_or_plan_with_an_invalid_name_is_refused() {
    for name in ["a/b", "..", "a b", "a%2Fb", "a#b", "a\\nb", "A", ""] {
        let cluster = TestCluster::from_capture("apply-erroring");
        let plan = cluster.state.path().join("plan.json");
        let wanted = format!("{RERUN} --plan-out {}", plan.display());
        cluster.run(&wanted).expect_code(0);
        cluster.run(RERUN).expect_code(0);
        let journals = cluster.state.path().join("kubectl-skyhook/journal");
        let journal = std::fs::read_dir(journals).expect("a directory").next();
        let journal = journal.expect("a journal").expect("a file").path();
        let before = cluster.writes().len();
        for file in [&plan, &journal] {
            let text = std::fs::read_to_string(file).expect("text");
            let text = text
                .replace(r#""name": "node-2""#, &format!(r#""name": "{name}""#))
                .replace(r#""name":"node-2""#, &format!(r#""name":"{name}""#));
            std::fs::write(file, text).expect("a file");
        }
        let apply = format!("apply-plan {} -y", plan.display());
        // The plan is refused by its digest, the journal by the invalid name.
        for (words, says) in [
            (apply.as_str(), "the plan does not match its digest"),
            ("undo -y", "is not a valid object name"),
        ] {
            let ran = cluster.run(words);
            ran.expect_code(1);
            ran.expect_stderr(says);
        }
        assert_eq!(cluster.writes().len(), before, "{name:?}");
    }
}

/// The object cannot be read again after a conflict.
#[test]
fn object_that_cannot_be_read_again_is_reported() {
    let cluster = TestCluster::captured_with_operator("apply-erroring");
    cluster.fake.on("PATCH nodes node-1").reply(409);
    cluster.fake.on("GET nodes node-1").reply(403);
    insta::assert_snapshot!(cluster.run("node ignore node-1 --confirm").transcript());
}
