//! The same problem of many custom resources is one cause.

use kubectl_skyhook::api::ApiFlavor;
use serde_json::{Value, json};

use super::shapes::ALIKE;
use crate::support::run::{RunOutput, run};

/// A cluster with this many failing custom resources, after a change of each object.
fn diagnosed(words: &str, count: usize, change: impl Fn(&mut Value)) -> RunOutput {
    let mut items = ALIKE(count).0;
    items.iter_mut().for_each(change);
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    run(&format!("{words} --from - --now 2026-11-20T12:00:00Z")).stdin(list).output()
}

#[test]
fn many_equal_causes_are_one_with_a_set_of_names() {
    let ran = diagnosed("diagnose stuck", 250, |_| {});
    ran.expect_code(2);
    ran.expect_stdout("STUCK: 1 cause blocks 10 of 10 nodes");
    ran.expect_stdout("error SKY201 package-erroring  cr-[00000-00249] driver on node-[0-9] (10 nodes)");
    ran.expect_stdout("repeat for each custom resource");
    assert!(ran.stdout.lines().count() <= 50, "{}", ran.stdout);
    let ran = diagnosed("status", 250, |_| {});
    ran.expect_code(0);
    ran.expect_stdout(
        "\n 1 SKY201 cr-[00000-00249] driver on 10 nodes: package driver fails at stage apply\n",
    );
    let names = diagnosed("diagnose stuck -o name", 250, |_| {});
    let kind = ApiFlavor::Skyhook.kind().to_lowercase();
    assert_eq!(names.stdout, format!("SKY201 {kind}/cr-[00000-00249] node-[0-9]\n"));
}

/// Each plan costs a pass over the cluster.
#[test]
fn fix_plans_fifty_remedies_at_a_time() {
    let ran = diagnosed("fix --up-to restart --dry-run", 60, |_| {});
    ran.expect_stdout(
        "because fix plans 50 remedies at a time; run it again afterwards, or limit it with --skyhook or --node",
    );
}

#[test]
fn the_document_of_many_equal_causes_is_complete() {
    let document = diagnosed("diagnose stuck --all -o json", 250, |_| {}).json();
    let causes = document["causes"].as_array().expect("causes");
    assert_eq!(causes.len(), 1);
    let length = |value: &Value| value.as_array().expect("a list").len();
    assert_eq!(length(&causes[0]["skyhooks"]), 250);
    assert_eq!(length(&causes[0]["nodes"]), 10);
    assert_eq!(length(&causes[0]["findingIndexes"]), 2500);
    assert_eq!(length(&causes[0]["blocked"]), 250);
    let mut failing =
        document["findings"].as_array().expect("findings").iter().filter(|f| f["code"] == "SKY201");
    assert_eq!(failing.clone().count(), 2500);
    let last = failing.next_back().expect("a finding");
    assert_eq!(last["subject"]["skyhook"], "cr-00249");
    let own = last["remedies"].as_array().expect("remedies").iter().filter(|r| r["argv"][1] == "skyhook");
    let names_its_own =
        |remedy: &Value| remedy["argv"].as_array().expect("words").contains(&json!("cr-00249"));
    assert!(own.clone().count() > 0 && { own }.all(names_its_own), "{}", last["remedies"]);
    assert_eq!(document["counts"]["errors"], 1);
}

#[test]
#[ignore = "slow: `tests/run --all` and --include-ignored run it"]
fn messages_that_name_their_custom_resource_are_equal() {
    let invalid = |object: &mut Value| {
        if object["kind"] == ApiFlavor::Skyhook.kind() {
            let package = object["spec"]["packages"]["driver"].take();
            object["spec"]["packages"] = json!({"driver0": package});
        }
    };
    let ran = diagnosed("diagnose stuck --rule SKY212", 250, invalid);
    ran.expect_stdout("STUCK: 1 cause blocks 10 of 10 nodes");
    ran.expect_stdout("the spec of skyhook/cr-[00000-00249] is invalid");
}

/// Each of a few has its own remedies.
#[test]
fn few_equal_causes_and_different_ones_stay_apart() {
    let ran = diagnosed("diagnose stuck", 3, |_| {});
    ran.expect_stdout("STUCK: 3 causes block 10 of 10 nodes");
    ran.expect_stdout("SKY201  cr-00002 driver on node-[0-9]  10 ");
    // Each in another stage.
    let stages = ["apply", "config", "interrupt", "post-interrupt", "upgrade"];
    let differing = |object: &mut Value| {
        let annotations = object["metadata"]["annotations"].as_object_mut().into_iter().flatten();
        for (key, value) in annotations {
            if let Some((_, number)) = key.split_once("nodeState_cr-0000") {
                let stage = stages[number.parse::<usize>().expect("a number")];
                *value = json!(value.as_str().expect("text").replace("apply", stage));
            }
        }
    };
    diagnosed("diagnose stuck", 5, differing).expect_stdout("STUCK: 5 causes block 10 of 10 nodes");
}
