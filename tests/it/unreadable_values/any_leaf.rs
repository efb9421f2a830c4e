//! Any leaf of any object of a capture, replaced by a value that its type rejects.
//!
//! A sample runs with the suite; `LEAVES=1 cargo test --test it -- any_leaf` replaces every leaf.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::path::Path;

use kubectl_skyhook::cluster::{Cluster, Source};
use kubectl_skyhook::dump;
use kubectl_skyhook::rules::{Finding, Report, Scope, Severity, diagnose};
use serde_json::{Value, json};

use super::NEVER;

/// One of this many leaves is replaced.
const SAMPLE: usize = 23;

/// The objects of a capture.
pub fn objects(capture: &str) -> Vec<Value> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clusters").join(capture);
    let read = |file: &str| {
        let text = std::fs::read_to_string(directory.join(file)).expect("a capture");
        let list: Value = serde_json::from_str(&text).expect("JSON");
        list["items"].as_array().expect("a list").clone()
    };
    [read("cluster.json"), read("extra.json")].concat()
}

/// Collects the paths of all values that are neither objects nor lists.
pub fn leaves(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let name = name.replace('~', "~0").replace('/', "~1");
                leaves(value, &format!("{path}/{name}"), found);
            }
        }
        Value::Array(items) => {
            for (at, value) in items.iter().enumerate() {
                leaves(value, &format!("{path}/{at}"), found);
            }
        }
        _ => found.push(path.to_owned()),
    }
}

pub fn load(objects: &[Value]) -> Cluster {
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join("all.json");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    std::fs::write(&file, list.to_string()).expect("a file");
    let mut cluster = dump::load(&[file], None).expect("a cluster");
    cluster.taken_at = "2026-11-25T12:00:00Z".parse().expect("a time");
    cluster
}

/// All objects that were read, except the one of this name, as text.
pub fn others(cluster: &Cluster, name: &str) -> BTreeSet<String> {
    fn each<T: Debug>(items: &[T]) -> impl Iterator<Item = String> {
        items.iter().map(|item| format!("{item:?}"))
    }
    let all = each(cluster.skyhooks.items())
        .chain(each(cluster.nodes.items()))
        .chain(each(cluster.pods.items()))
        .chain(each(cluster.workloads.items()))
        .chain(each(cluster.jobs.items()))
        .chain(each(cluster.events.items()))
        .chain(each(cluster.operators.items()))
        .chain(each(cluster.disruption_budgets.items()));
    all.filter(|text| !text.contains(&format!("{name:?}"))).collect()
}

/// Findings by rule and subject.
fn by_subject(report: &Report) -> BTreeMap<String, &Finding> {
    let findings = report.findings.iter().filter(|f| f.rule.code != "SKY511");
    findings.map(|f| (format!("{} {:?}", f.rule.code, f.subject), f)).collect()
}

/// The errors that wrongly appeared in the report, or were lost, after a leaf was replaced.
fn wrong(before: &Report, after: &Report, name: &str) -> Vec<String> {
    let (known, now) = (by_subject(before), by_subject(after));
    let unchecked: BTreeSet<&str> = after.not_checked.iter().map(|n| n.rule.code).collect();
    let appeared = now.iter().filter(|(key, finding)| {
        let before = known.get(*key).map(|f| f.severity);
        finding.severity == Severity::Error && before < Some(Severity::Error)
    });
    let lost = known.iter().filter(|(key, finding)| {
        let still_reported = now.keys().any(|other| other.starts_with(finding.rule.code))
            && format!("{:?}", finding.subject).contains(&format!("{name:?}"));
        finding.severity == Severity::Error
            && !now.contains_key(*key)
            && !unchecked.contains(finding.rule.code)
            && !still_reported
    });
    let appeared = appeared.map(|(key, _)| format!("appeared: {key}"));
    appeared.chain(lost.map(|(key, _)| format!("lost: {key}"))).collect()
}

/// Whether a leaf identifies its object.
pub fn is_identity(path: &str) -> bool {
    let identity = ["/apiVersion", "/kind", "/metadata/name", "/metadata/namespace", "/metadata/uid"];
    identity.contains(&path)
}

fn check(capture: &str) {
    let objects = objects(capture);
    let scope = Scope::default();
    let before = load(&objects);
    let report = diagnose(&before, &scope);
    let every = if std::env::var_os("LEAVES").is_some() { 1 } else { SAMPLE };
    let mut count = 0;
    let mut failures = Vec::new();
    for (at, object) in objects.iter().enumerate() {
        let name = object["metadata"]["name"].as_str().expect("a name");
        let before_others = others(&before, name);
        let mut paths = Vec::new();
        leaves(object, "", &mut paths);
        for path in paths.iter().filter(|path| !is_identity(path)) {
            count += 1;
            if count % every != 0 {
                continue;
            }
            let leaf = object.pointer(path).expect("a leaf");
            let is_time = leaf.as_str().is_some_and(|t| t.parse::<jiff::Timestamp>().is_ok());
            let mut rejected = vec![json!([{"odd": 7}])];
            rejected.extend(is_time.then(|| json!(NEVER)));
            for value in rejected {
                let mut changed = objects.clone();
                *changed[at].pointer_mut(path).expect("a leaf") = value.clone();
                let after = load(&changed);
                let after_report = diagnose(&after, &scope);
                let mut problems = wrong(&report, &after_report, name);
                if others(&after, name) != before_others {
                    problems.push("other objects differ".to_owned());
                }
                let unknown: usize =
                    Source::ALL.iter().map(|source| after.unknown_values(*source).len()).sum();
                let reported = after_report.findings.iter().any(|f| f.rule.code == "SKY511");
                if (unknown > 0) != reported {
                    problems.push("SKY511 is missing".to_owned());
                }
                if !problems.is_empty() {
                    failures.push(format!("{name} {path} = {value}: {problems:?}"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{capture}: {count} leaves\n{}", failures.join("\n"));
}

#[test]
fn leaves_of_a_failing_rollout() {
    check("apply-erroring");
}

#[test]
fn leaves_of_a_blocked_drain() {
    check("drain-blocked");
}

#[test]
fn leaves_of_a_stuck_deletion() {
    check("deleted-while-erroring");
}

#[test]
fn leaves_of_a_rollout_with_jobs() {
    check("nodewright-apply-erroring");
}
