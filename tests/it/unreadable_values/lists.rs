//! Answers that are not the list that was requested.

use kubectl_skyhook::api::ApiFlavor;
use serde_json::{Value, json};

use super::run;
use crate::support::fake_api::Reply;
use crate::support::test_cluster::{CR, TestCluster};

/// Serves this body as the list of custom resources, and asserts that no command writes as if they were gone.
fn refused(body: &Value, why: &str) {
    let test_cluster = TestCluster::captured_with_operator("complete");
    let plural = ApiFlavor::Skyhook.plural();
    let rule = test_cluster.fake.on(&format!("LIST {plural}"));
    rule.reply(Reply::Body(body.to_string()));
    let ran = run(&test_cluster, &format!("reset {CR} -y"));
    ran.expect_code(1);
    ran.expect_stderr(why);
    assert!(test_cluster.fake.writes().is_empty(), "{body}");
    let ran = run(&test_cluster, "leftovers --clean --yes");
    ran.expect_code(1);
    assert!(test_cluster.fake.writes().is_empty(), "{body}");
}

fn list(items: Value) -> Value {
    let flavor = ApiFlavor::Skyhook;
    let kind = format!("{}List", flavor.kind());
    json!({"apiVersion": flavor.api_version(), "kind": kind, "metadata": {}, "items": items})
}

#[test]
fn another_list_is_not_an_empty_one() {
    let version = ApiFlavor::Skyhook.api_version();
    refused(
        &json!({"apiVersion": "v1", "kind": "NodeList", "items": []}),
        &format!("cannot read custom resources: expected {version} SkyhookList, got v1 NodeList"),
    );
    let mut without_items = list(json!(null));
    refused(&without_items, "the response is a SkyhookList without items");
    without_items.as_object_mut().expect("an object").remove("items");
    refused(&without_items, "the response is a SkyhookList without items");
    let mut newer = list(json!([]));
    newer["apiVersion"] = json!("v1");
    refused(&newer, "got v1 SkyhookList");
}

#[test]
fn an_item_without_a_readable_name_makes_the_list_incomplete() {
    for (item, why) in [
        (json!({"metadata": {"name": 7}}), "metadata.name cannot be read (7)"),
        (json!({"metadata": {}}), "it has no name"),
        (json!({"metadata": {"name": CR, "uid": []}}), "metadata.uid cannot be read (a list)"),
        (json!(7), "invalid type"),
    ] {
        refused(&list(json!([item])), why);
    }
}

/// The items that can be identified are used.
#[test]
fn an_incomplete_list_is_used_and_reported() {
    let test_cluster = TestCluster::captured_with_operator("apply-erroring");
    let plural = ApiFlavor::Skyhook.plural();
    let skyhook = test_cluster.fake.get(plural, "", CR).expect("the custom resource");
    let rule = test_cluster.fake.on(&format!("LIST {plural}"));
    rule.reply(Reply::Body(list(json!([skyhook, {"metadata": {"name": 7}}])).to_string()));
    let ran = run(&test_cluster, "diagnose stuck -o json");
    ran.expect_code(2);
    let report = ran.json();
    let findings = report["findings"].as_array().expect("findings").iter();
    assert!({ findings }.any(|f| f["code"] == "SKY201"), "{report:#}");
    let reasons = report["notChecked"].as_array().expect("a list").iter();
    let why = "custom resources: 1 item cannot be identified: a Skyhook: metadata.name cannot be read (7)";
    assert!({ reasons }.any(|n| n["message"] == why), "{report:#}");
    let ran = run(&test_cluster, &format!("reset {CR} -y"));
    ran.expect_code(1);
    ran.expect_stderr(why);
    // The list is incomplete, so `--all` is refused.
    for verb in ["pause", "resume"] {
        let ran = run(&test_cluster, &format!("{verb} --all -y"));
        ran.expect_code(1);
        ran.expect_stderr(why);
    }
    assert!(test_cluster.fake.writes().is_empty());
    // A pause may be urgent: a named custom resource is paused without being read.
    let ran = run(&test_cluster, &format!("pause {CR} -y"));
    ran.expect_code(0);
    ran.expect_stderr(format!("continuing without reading {CR}"));
    let paused = test_cluster.fake.get(plural, "", CR).expect("the custom resource exists");
    let pause = &paused["metadata"]["annotations"][ApiFlavor::Skyhook.key("pause")];
    assert_eq!(pause, "true");
}

#[test]
fn discovery_without_resources_proves_no_absence() {
    let version = ApiFlavor::Skyhook.api_version();
    for resources in [json!([]), json!(null), json!([{"kind": "Skyhook"}])] {
        let test_cluster = TestCluster::captured_with_operator("complete");
        let rule = test_cluster.fake.on(&format!("GET /apis/{version}"));
        let body = json!({"kind": "APIResourceList", "groupVersion": version, "resources": resources});
        rule.reply(Reply::Body(body.to_string()));
        let ran = run(&test_cluster, &format!("reset {CR} -y"));
        ran.expect_code(1);
        ran.expect_stderr(format!("the response does not list the resources of {version}"));
        assert!(test_cluster.fake.writes().is_empty(), "{body}");
    }
}

#[test]
fn pages_without_end_are_given_up() {
    let node = |name: &str| json!({"metadata": {"name": name}});
    let page = |items: Value, next: &str| {
        let metadata = json!({"continue": next});
        let page = json!({"apiVersion": "v1", "kind": "NodeList", "metadata": metadata, "items": items});
        Reply::Body(page.to_string())
    };
    let same = "cannot read nodes: the server keeps returning the same page";
    for (first, others, why) in [
        // Every page has the same token.
        (page(json!([node("a")]), "x"), page(json!([node("b")]), "x"), same),
        // The token of the second page is new, but its items are the same.
        (page(json!([node("a")]), "x"), page(json!([node("a")]), "y"), same),
    ] {
        let test_cluster = TestCluster::captured_with_operator("complete");
        test_cluster.fake.on("LIST nodes").continued().reply(others);
        test_cluster.fake.on("LIST nodes").times(1).reply(first);
        let ran = run(&test_cluster, &format!("node list --skyhook {CR}"));
        ran.expect_stderr(why);
        let lists = test_cluster.fake.lines();
        let lists = lists.iter().filter(|line| line.contains("/nodes?")).count();
        assert!(lists <= 4, "{lists} requests");
    }
}
