//! A cause blocks the nodes of its custom resource and compartment, and no others.

use std::collections::BTreeSet;

use kubectl_skyhook::api::keys;
use kubectl_skyhook::dump;
use kubectl_skyhook::outlook::Outlook;
use kubectl_skyhook::plan::Condition;
use kubectl_skyhook::rules::{self, Scope};
use serde_json::{Value, json};

use crate::support::object_builder::{NODEWRIGHT, PackageRun};
use crate::support::run::run;

const NOW: &str = "2026-11-20T12:00:00Z";
const PACKAGE: &str = "driver";

/// A custom resource with one package, on the nodes with this label.
fn resource(name: &str, priority: i64, label: &str) -> Value {
    let mut resource = NODEWRIGHT
        .skyhook("in_progress", json!({PACKAGE: {"version": "1.0.0", "image": "example.com/driver"}}));
    resource["metadata"]["name"] = name.into();
    resource["metadata"]["uid"] = name.into();
    resource["spec"]["priority"] = priority.into();
    resource["spec"]["nodeSelectors"] = json!({"matchLabels": {label: "yes"}});
    resource
}

/// A node with these labels and, for each of these custom resources, its status and package entry.
fn node(name: &str, labels: Value, records: &[(&str, &str, &str, &str)]) -> Value {
    let mut annotations = json!({});
    for (resource, status, stage, state) in records {
        annotations[keys::status(NODEWRIGHT.0, resource)] = (*status).into();
        let entry = json!({"driver|1.0.0": {"name": PACKAGE, "version": "1.0.0", "image": "example.com/driver",
            "stage": stage, "state": state}});
        if !stage.is_empty() {
            annotations[keys::node_state(NODEWRIGHT.0, resource)] = entry.to_string().into();
        }
    }
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": annotations, "creationTimestamp": "2026-11-20T10:00:00Z"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    })
}

/// `first` has stopped in its canary compartment, where five nodes fail, and continues in the other one;
/// `second` waits for `first` on all nodes, `third` only on nodes outside the canary.
fn stopped_canary() -> Vec<Value> {
    let mut first = resource("first", 10, "all");
    first["spec"]["deploymentPolicy"] = "careful".into();
    first["status"]["nodePriority"] = json!({"main-01": "2026-11-20T11:58:00Z"});
    first["status"]["compartmentStatuses"] = json!({
        "canary": {"matched": 6, "ceiling": 6, "inProgress": 0,
            "batchState": {"currentBatch": 1, "shouldStop": true, "consecutiveFailures": 1}},
        "__default__": {"matched": 20, "ceiling": 1, "inProgress": 1, "batchState": {"currentBatch": 3}},
    });
    let policy = json!({
        "apiVersion": NODEWRIGHT.0.api_version(), "kind": "DeploymentPolicy", "metadata": {"name": "careful"},
        "spec": {"default": {"budget": {"count": 1}},
            "compartments": [{"name": "canary", "selector": {"matchLabels": {"canary": "yes"}}, "budget": {"count": 6},
                "strategy": {"fixed": {"initialBatch": 6, "failureThreshold": 1}}}]},
    });
    let mut items = vec![
        first,
        resource("second", 20, "all"),
        resource("third", 30, "main"),
        policy,
        NODEWRIGHT.operator(),
    ];
    let waits = |name| (name, "waiting", "", "");
    for n in 1..=5 {
        let name = format!("canary-{n:02}");
        let failed = ("first", "erroring", "apply", "erroring");
        let labels = json!({"all": "yes", "canary": "yes"});
        items.push(node(&name, labels, &[failed, waits("second")]));
        items.push(NODEWRIGHT.job(&package_run(&name), failed_job()));
    }
    let labels = json!({"all": "yes", "canary": "yes"});
    items.push(node("canary-06", labels, &[waits("first"), waits("second")]));
    for n in 1..=20 {
        let labels = json!({"all": "yes", "main": "yes"});
        let own = match n {
            1 => ("first", "in_progress", "apply", "in_progress"),
            _ => waits("first"),
        };
        let name = format!("main-{n:02}");
        items.push(node(&name, labels, &[own, waits("second"), waits("third")]));
    }
    items.push(NODEWRIGHT.job(&package_run("main-01"), json!({"active": 1})));
    items.push(json!({"apiVersion": "v1", "kind": "PodList", "items": []}));
    for item in &mut items {
        // Rename the custom resource of the Jobs: the builder always uses `gpu`.
        let text = item.to_string().replace("\"gpu\"", "\"first\"").replace("\\\"gpu\\\"", "\\\"first\\\"");
        *item = serde_json::from_str(&text).expect("the text is valid JSON");
    }
    items
}

fn package_run(node: &str) -> PackageRun<'_> {
    // As the operator names it. Never freed: the process ends with the tests.
    let name = format!("first-driver-1-0-0-apply-{node}").leak();
    PackageRun { node, job: Some(name), at: "2026-11-20T11:55:00Z", ..PackageRun::default() }
}

fn failed_job() -> Value {
    let failed = json!({"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded",
        "lastTransitionTime": "2026-11-20T11:56:00Z"});
    json!({"failed": 4, "conditions": [failed]})
}

fn list(items: &[Value]) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

fn read(command: &str) -> crate::support::run::RunOutput {
    run(&format!("{command} --from - --now {NOW}")).stdin(list(&stopped_canary())).output()
}

#[test]
fn a_stopped_canary_holds_up_no_node_outside_of_it() {
    let document = read("diagnose stuck -o json").json();
    let findings = document["findings"].as_array().expect("findings");
    for finding in findings {
        let node = finding["subject"]["node"].as_str().unwrap_or_default();
        let explained = finding["explainedBy"].as_array().map_or(0, Vec::len);
        if node.starts_with("main-") {
            assert_eq!(explained, 0, "{finding}");
            assert_eq!(finding["severity"], "Info", "{finding}");
        }
    }
    assert_eq!(document["blockedNodes"], 6);
    assert_eq!(document["selectedNodes"], 26);
    let blocks: Vec<&Value> = document["causes"]
        .as_array()
        .expect("causes")
        .iter()
        .filter(|cause| cause["severity"] == "Error")
        .map(|cause| &cause["blocked"])
        .collect();
    let [first, second] =
        ["first", "second"].map(|name| json!({"skyhook": name, "node": "canary-[01-06]", "nodeCount": 6}));
    assert!(blocks.contains(&&json!([first, second])), "{blocks:?}");
    assert!(blocks.iter().all(|blocks| !blocks.to_string().contains("third")));
    for cause in document["causes"].as_array().expect("causes") {
        let explains = cause["explains"].as_array().expect("places").iter();
        let mut nodes = explains.filter_map(|at| {
            let at = usize::try_from(at.as_u64()?).ok()?;
            findings[at]["subject"]["node"].as_str()
        });
        assert!(nodes.all(|node| node.starts_with("canary-")), "{cause}");
    }
    insta::assert_snapshot!(read("diagnose stuck").transcript());
}

#[test]
fn a_node_outside_of_a_stopped_canary_is_not_blamed_on_it() {
    insta::assert_snapshot!(read("diagnose node main-07").transcript());
}

#[test]
fn one_of_five_failing_nodes_gets_its_own_remedies() {
    insta::assert_snapshot!(read("diagnose node canary-03").transcript());
}

#[test]
fn a_compartment_blocks_only_later_resources_that_share_its_nodes() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("cluster.json");
    std::fs::write(&file, list(&stopped_canary())).expect("a write");
    let cluster = dump::load(&[file], None).expect("objects that load");
    let outlook = Outlook::new(&cluster, rules::diagnose(&cluster, &Scope::default()).findings);
    let codes = |name: &str| {
        let skyhook = cluster.skyhook(name).expect("the custom resource exists");
        let blockers = outlook.blockers(skyhook, &Condition::Complete);
        let codes: BTreeSet<&str> = blockers.iter().map(|finding| finding.rule.code).collect();
        codes
    };
    assert_eq!(codes("second"), BTreeSet::from(["SKY201", "SKY301", "SKY302"]));
    assert_eq!(codes("third"), BTreeSet::new());
}
