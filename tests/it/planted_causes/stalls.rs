//! Stalls: paused or disabled custom resources, custom resources that wait for each other, and chains of
//! packages and custom resources. Also healthy large clusters.

use std::collections::BTreeMap;

use kubectl_skyhook::api::ApiFlavor;
use serde_json::{Value, json};

use super::at;
use super::fleet::{Random, Scheme};
use super::synthetic::{CustomResource, DONE, NodeProgress, cluster, names};
use crate::support::run::run;

const BOTH: [ApiFlavor; 2] = [ApiFlavor::Skyhook, ApiFlavor::NodeWright];
const SCHEMES: [Scheme; 3] = [Scheme::Counted, Scheme::Addresses, Scheme::Random];

/// For each cause: code, custom resource, number of findings, and number of explained findings.
type CauseSummary = (String, String, usize, usize);

fn summaries(document: &Value) -> Vec<CauseSummary> {
    let causes = document["causes"].as_array().expect("causes").iter();
    let summaries = causes.map(|cause| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let first = at(document, &cause["findingIndexes"])[0];
        let count = |field: &str| cause[field].as_array().expect("places").len();
        (text(&cause["code"]), text(&first["subject"]["skyhook"]), count("findingIndexes"), count("explains"))
    });
    summaries.collect()
}

fn wanted(causes: &[(&str, &str, usize, usize)]) -> Vec<CauseSummary> {
    let owned = |(code, skyhook, findings, effects): &(&str, &str, usize, usize)| {
        ((*code).to_owned(), (*skyhook).to_owned(), *findings, *effects)
    };
    causes.iter().map(owned).collect()
}

/// The report as JSON; asserts that the text report is short.
#[track_caller]
fn diagnosed(list: &Value) -> Value {
    let text = list.to_string();
    let report = run("diagnose stuck --from -").stdin(text.as_str()).output();
    let height = |line: &str| line.chars().count().div_ceil(100).max(1);
    let lines: usize = report.stdout.lines().map(height).sum();
    assert!(lines <= 40, "{lines} lines:\n{}", report.stdout);
    run("diagnose stuck --fail-on never -o json --from -").stdin(text).output().json()
}

/// A custom resource with the last priority, which waits on nodes where others are incomplete.
fn last(waiting: &[String], done: &[String]) -> CustomResource {
    let mut last = CustomResource::new("last", 90)
        .with_progress(waiting, &NodeProgress::new("waiting", &[]))
        .with_progress(done, &NodeProgress::new("complete", &[DONE]));
    last.status = "waiting";
    last
}

/// One custom resource is paused, one fails, and one is disabled, which blocks no other.
#[test]
fn paused_custom_resource_comes_before_what_waits_for_it() {
    for (seed, (of, scheme)) in BOTH.into_iter().flat_map(|of| SCHEMES.map(|s| (of, s))).enumerate() {
        let mut dice = Random::new(300 + seed as u64);
        let names = names(scheme, 120, &mut dice);
        let (begun, rest) = names.split_at(40);
        let (off, failing) = rest.split_at(40);
        let complete = NodeProgress::new("complete", &[DONE]);
        let mut paused = CustomResource::new("base", 10)
            .with_progress(&begun[..10], &complete)
            .with_progress(&begun[10..], &NodeProgress::new("paused", &[]));
        (paused.held, paused.status) = (Some("pause"), "paused");
        let mut disabled =
            CustomResource::new("extra", 20).with_progress(off, &NodeProgress::new("disabled", &[]));
        (disabled.held, disabled.status) = (Some("disable"), "disabled");
        let mut fails = CustomResource::new("gpu", 30)
            .with_progress(&failing[..6], &NodeProgress::new("erroring", &[("apply", "erroring")]))
            .with_progress(&failing[6..], &complete);
        fails.status = "erroring";
        let waits = [&begun[10..], &failing[..6]].concat();
        let done = [&begun[..10], off, &failing[6..]].concat();
        let custom_resources = [paused, disabled, fails, last(&waits, &done)];
        let document = diagnosed(&cluster(of, &custom_resources, &BTreeMap::new(), &mut dice));
        assert_eq!(
            summaries(&document),
            wanted(&[("SKY201", "gpu", 6, 6), ("SKY308", "base", 1, 30), ("SKY309", "extra", 1, 0)]),
            "{seed}"
        );
    }
}

/// Custom resource `first` does not tolerate a taint that only `gate` removes; `gate` waits for `first`.
#[test]
fn taint_deadlock_comes_before_what_waits_for_it() {
    for (seed, of) in BOTH.into_iter().enumerate() {
        let mut dice = Random::new(400 + seed as u64);
        let names = names(SCHEMES[seed], 150, &mut dice);
        let (new, old) = names.split_at(25);
        let complete = NodeProgress::new("complete", &[DONE]);
        let mut first = CustomResource::new("first", 10)
            .with_progress(new, &NodeProgress::new("blocked", &[]))
            .with_progress(old, &complete);
        first.status = "blocked";
        let mut gate = CustomResource::new("gate", 20)
            .with_progress(new, &NodeProgress::new("waiting", &[]))
            .with_progress(old, &complete);
        (gate.status, gate.spec) = ("waiting", json!({"runtimeRequired": true}));
        let taint = json!({"key": of.group(), "value": "runtime-required", "effect": "NoSchedule"});
        let taints = new.iter().map(|node| (node.clone(), taint.clone())).collect();
        let custom_resources = [first, gate, last(new, old)];
        let document = diagnosed(&cluster(of, &custom_resources, &taints, &mut dice));
        let summaries = summaries(&document);
        assert_eq!(summaries[0].0, "SKY407", "{summaries:?}");
        assert_eq!(summaries.len(), 1, "{summaries:?}");
        let of_last = at(&document, &document["causes"][0]["explains"]);
        let of_last = of_last.iter().filter(|f| f["subject"]["skyhook"] == "last");
        assert_eq!(of_last.count(), 25, "{summaries:?}");
    }
}

/// The second of five packages fails, so three do not start; three custom resources wait in a chain.
#[test]
fn head_of_a_chain_comes_before_its_dependents() {
    for (seed, of) in BOTH.into_iter().enumerate() {
        let mut dice = Random::new(500 + seed as u64);
        let names = names(SCHEMES[seed], 200, &mut dice);
        let (failing, well) = names.split_at(9);
        let mut chain = CustomResource::new("chain", 10)
            .with_progress(failing, &NodeProgress::new("erroring", &[DONE, ("apply", "erroring")]))
            .with_progress(well, &NodeProgress::new("complete", &[DONE; 5]));
        chain.packages =
            &[("base", ""), ("driver", "base"), ("fabric", "driver"), ("tune", "fabric"), ("test", "tune")];
        chain.status = "erroring";
        let behind = ["one", "two", "three"].into_iter().zip(20..).map(|(name, priority)| {
            let mut custom_resource = CustomResource::new(name, priority)
                .with_progress(failing, &NodeProgress::new("waiting", &[]))
                .with_progress(well, &NodeProgress::new("complete", &[DONE]));
            custom_resource.status = "waiting";
            custom_resource
        });
        let custom_resources: Vec<CustomResource> = [chain].into_iter().chain(behind).collect();
        let document = diagnosed(&cluster(of, &custom_resources, &BTreeMap::new(), &mut dice));
        assert_eq!(summaries(&document), wanted(&[("SKY201", "chain", 9, 27)]), "{seed}");
        assert_eq!(
            at(&document, &document["causes"][0]["findingIndexes"])[0]["subject"]["package"],
            "driver"
        );
    }
}

/// Three custom resources fail, one is paused, one is complete, and the last one waits for all of them.
#[test]
#[ignore = "slow: `tests/run --all` and --include-ignored run it"]
fn report_of_5000_nodes_stays_short() {
    const NODES: usize = 5_000;
    let mut dice = Random::new(600);
    let names = names(Scheme::Random, NODES, &mut dice);
    let complete = NodeProgress::new("complete", &[DONE]);
    let mut custom_resources = Vec::new();
    let mut waits = Vec::new();
    let mut done = Vec::new();
    for (part, name) in names.chunks(NODES / 5).zip(["a", "b", "c", "paused", "well"]) {
        let mut custom_resource = CustomResource::new(name, 10);
        let stuck = match name {
            "paused" => {
                (custom_resource.held, custom_resource.status) = (Some("pause"), "paused");
                Some(NodeProgress::new("paused", &[]))
            }
            "well" => {
                custom_resource.status = "complete";
                None
            }
            _ => {
                custom_resource.status = "erroring";
                Some(NodeProgress::new("erroring", &[("apply", "erroring")]))
            }
        };
        let stuck_on = if stuck.is_some() { 700 } else { 0 };
        let (stuck_nodes, others) = part.split_at(stuck_on);
        if let Some(progress) = stuck {
            custom_resource = custom_resource.with_progress(stuck_nodes, &progress);
        }
        custom_resources.push(custom_resource.with_progress(others, &complete));
        waits.extend_from_slice(stuck_nodes);
        done.extend_from_slice(others);
    }
    custom_resources.push(last(&waits, &done));
    let document = diagnosed(&cluster(ApiFlavor::NodeWright, &custom_resources, &BTreeMap::new(), &mut dice));
    let each = |code, name| (code, name, if code == "SKY308" { 1 } else { 700 }, 700);
    // All causes have the same number of effects, so their order is arbitrary.
    let mut summaries = summaries(&document);
    summaries.sort();
    assert_eq!(
        summaries,
        wanted(&[each("SKY201", "a"), each("SKY201", "b"), each("SKY201", "c"), each("SKY308", "paused")]),
    );
}

/// A complete cluster has no findings, and one in progress has no warnings.
#[test]
fn healthy_large_clusters_have_no_findings() {
    for (seed, of) in BOTH.into_iter().enumerate() {
        let mut dice = Random::new(700 + seed as u64);
        let names = names(SCHEMES[seed], 1_000, &mut dice);
        let complete = NodeProgress::new("complete", &[DONE]);
        let mut custom_resources =
            ["one", "two"].map(|name| CustomResource::new(name, 10).with_progress(&names, &complete));
        for custom_resource in &mut custom_resources {
            custom_resource.status = "complete";
        }
        let list = cluster(of, &custom_resources, &BTreeMap::new(), &mut dice);
        assert_eq!(diagnosed(&list)["findings"], json!([]), "every custom resource is complete");

        let (busy, rest) = names.split_at(100);
        let (next, done) = rest.split_at(300);
        let one = CustomResource::new("one", 10)
            .with_progress(busy, &NodeProgress::new("in_progress", &[("apply", "in_progress")]))
            .with_progress(next, &NodeProgress::new("waiting", &[]))
            .with_progress(done, &complete);
        let waits = [busy, next].concat();
        let document = diagnosed(&cluster(of, &[one, last(&waits, done)], &BTreeMap::new(), &mut dice));
        let findings = document["findings"].as_array().expect("findings");
        let worrying = findings.iter().filter(|f| f["severity"] != "Info");
        assert_eq!(worrying.collect::<Vec<_>>(), Vec::<&Value>::new(), "the rollout makes progress");
    }
}
