//! Any leaf of any object, replaced by every value that an API server stores there: it costs at most its field.
//!
//! A sample runs with the suite; `LEAVES=1 cargo test --test it -- accepted` replaces every leaf.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use kubectl_skyhook::cluster::{Cluster, Source};
use kubectl_skyhook::rules::{Scope, diagnose};
use serde_json::{Value, json};

use super::any_leaf::{is_identity, leaves, load, objects, others};
use super::{NEVER, run};
use crate::support::sample::some;
use crate::support::test_cluster::{CR, TestCluster, operator};

/// One of this many leaves is replaced.
const SAMPLE: usize = 41;

const TIMES: [&str; 7] = [
    NEVER,
    "10000-01-01T11:59:59Z",
    "9998-01-01T00:00:00Z",
    "-0001-12-31T23:00:00Z",
    "0001-01-01T00:00:01Z",
    "2026-11-20T16:00:00.123456Z",
    "2026-11-20T16:00:00+05:30",
];

const QUANTITIES: [&str; 9] =
    ["9223372036854775808", "1e18", "10E", "1E-3", "0", "-1", "100m", "1.5Gi", "36893488147419103232"];

/// The values that an API server stores at a path that holds `value` now, and whether they mean the same to
/// all rules: a text may name another version or state, on which rules depend.
fn accepted(path: &str, value: &Value) -> Vec<(Value, bool)> {
    let holds = |names: &[&str]| path.split('/').any(|part| names.contains(&part));
    let alike = |values: Vec<Value>| values.into_iter().map(|value| (value, true)).collect();
    match value {
        // Users' texts, which may have the form of a time.
        Value::String(_) if holds(&["annotations", "labels", "data"]) => vec![(json!(NEVER), false)],
        Value::String(text) if text.parse::<Timestamp>().is_ok() => {
            alike(TIMES.map(Value::from).into_iter().chain([Value::Null]).collect())
        }
        Value::String(_) if holds(&["capacity", "allocatable", "limits", "requests", "divisor"]) => {
            alike(QUANTITIES.map(Value::from).to_vec())
        }
        _ if holds(&["targetPort", "port", "minAvailable", "maxUnavailable", "maxSurge"]) => {
            alike(vec![json!("https"), json!("50%"), json!(""), json!(65535), json!(i32::MAX)])
        }
        Value::String(_) => ["", "Unheard-of"].map(|text| (json!(text), false)).to_vec(),
        Value::Number(_) if path.ends_with("eneration") || path.ends_with("Seconds") => {
            alike(vec![json!(0), json!(i64::MAX)])
        }
        Value::Number(_) => vec![(json!(i32::MAX), true), (json!(i32::MIN), false), (json!(0), false)],
        Value::Bool(flag) => vec![(json!(!flag), false)],
        Value::Null | Value::Array(_) | Value::Object(_) => Vec::new(),
    }
}

fn codes(cluster: &Cluster) -> BTreeSet<&'static str> {
    diagnose(cluster, &Scope::default()).not_checked.iter().map(|rule| rule.rule.code).collect()
}

/// Returns the number of leaves, and what was lost by which value.
fn lost_by_any(objects: &[Value], every: usize) -> (usize, Vec<String>) {
    let before = load(objects);
    let unchecked = codes(&before);
    let (mut count, mut lost) = (0, Vec::new());
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
            for (value, alike) in accepted(path, leaf) {
                let mut changed = objects.to_vec();
                *changed[at].pointer_mut(path).expect("a leaf") = value.clone();
                let after = load(&changed);
                let mut note = |what: String| lost.push(format!("{name} {path} = {value}: {what}"));
                for unknown in Source::ALL.iter().flat_map(|source| after.unknown_values(*source)) {
                    note(format!("{:?}", unknown.undecoded));
                }
                if others(&after, name) != before_others {
                    note("other objects differ".to_owned());
                }
                let now = codes(&after);
                if alike && !now.is_subset(&unchecked) {
                    note(format!("not checked: {:?}", now.difference(&unchecked)));
                }
            }
        }
    }
    (count, lost)
}

fn sample(usual: usize) -> usize {
    if std::env::var_os("LEAVES").is_some() { 1 } else { usual }
}

#[test]
fn captures() {
    for capture in [
        "apply-erroring",
        "drain-blocked",
        "rollout-stopped",
        "nodewright-apply-erroring",
        "modelled-migration-hold",
    ] {
        let (count, lost) = lost_by_any(&objects(capture), sample(SAMPLE));
        assert!(count > 100 && lost.is_empty(), "{capture}: {count} leaves\n{}", lost.join("\n"));
    }
}

/// The fixtures of rules have objects of all kinds that are read.
#[test]
fn fixtures_of_rules() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rules");
    let mut kinds = BTreeSet::new();
    let entries = std::fs::read_dir(directory).expect("the directory is there");
    let mut fixtures: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    fixtures.sort();
    let checked = some(fixtures.clone(), 40);
    for path in fixtures {
        let text = std::fs::read_to_string(&path).expect("a fixture");
        let objects: Vec<Value> = text
            .split("\n---")
            .map(|document| serde_saphyr::from_str::<Value>(document).expect("YAML"))
            .flat_map(|document| match document["items"].as_array() {
                Some(items) => items.clone(),
                None => vec![document],
            })
            .filter(|object| object["metadata"]["name"].is_string())
            .collect();
        kinds.extend(objects.iter().filter_map(|object| object["kind"].as_str().map(str::to_owned)));
        if !checked.contains(&path) {
            continue;
        }
        let (count, lost) = lost_by_any(&objects, sample(SAMPLE));
        assert!(lost.is_empty(), "{}: {count} leaves\n{}", path.display(), lost.join("\n"));
    }
    for kind in ["Node", "Pod", "Job", "Skyhook", "NodeWright", "DeploymentPolicy", "Event", "ConfigMap"] {
        assert!(kinds.contains(kind), "{kind}");
    }
    for kind in ["PodDisruptionBudget", "Deployment", "Service", "EndpointSlice", "Namespace"] {
        assert!(kinds.contains(kind), "{kind}");
    }
    assert!(kinds.iter().any(|kind| kind.ends_with("WebhookConfiguration")));
}

/// All leaves at once, and commands against a server.
#[test]
fn every_command_reads_a_server_full_of_odd_values() {
    for (odd_time, odd_quantity) in [(NEVER, "10E"), ("0001-01-01T00:00:01Z", "9223372036854775808")] {
        let test_cluster = TestCluster::captured_with_operator("apply-erroring");
        for mut object in objects("apply-erroring").into_iter().chain([operator(1)]) {
            let mut paths = Vec::new();
            leaves(&object, "", &mut paths);
            for path in paths {
                let leaf = object.pointer_mut(&path).expect("a leaf");
                let odd = match accepted(&path, leaf).as_slice() {
                    [(Value::String(time), true), ..] if time == NEVER => odd_time,
                    [(Value::String(first), true), ..] if first == QUANTITIES[0] => odd_quantity,
                    _ => continue,
                };
                *leaf = json!(odd);
            }
            object["status"]["capacity"]["nvidia.com/gpu"] = json!(odd_quantity);
            test_cluster.fake.load(object);
        }
        for words in [
            "status",
            "status gpu-tune -o json",
            "node status -o wide",
            "node list --skyhook gpu-tune -o json",
            "package status -o json",
            "diagnose stuck --all",
            "diagnose node node-2",
            "diagnose check",
            "events",
        ] {
            let ran = run(&test_cluster, words);
            assert!(matches!(ran.code, Some(0 | 2)), "{}", ran.transcript());
            ran.expect_no_stdout("cannot be read");
            ran.expect_no_stderr("cannot be read");
        }
        let report = run(&test_cluster, "diagnose stuck -o json").json();
        assert_eq!(report["notChecked"], json!([]));
        run(&test_cluster, &format!("reset {CR} --node node-2 --no-pause -y")).expect_code(0);
        assert!(!test_cluster.fake.writes().is_empty());
    }
}
