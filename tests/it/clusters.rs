//! The binary over captured clusters: from files, and from a server that holds the same objects.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::support::clusters::{self, Captured};
use crate::support::fake_api::Logged;
use crate::support::marks;
use crate::support::run::run;
use crate::support::sample::some;

fn diagnosis(captured: &Captured) -> Value {
    run(&format!("diagnose stuck --all -o json --from {}", captured.path())).output().json()
}

#[test]
fn findings_match_the_expected_marks_and_snapshots() {
    for captured in clusters::all() {
        let report = diagnosis(&captured);
        let mut expect = captured.expect.clone();
        expect.sort();
        assert_eq!(marks_of_report(&report), expect, "{}", captured.name);
        let findings = serde_json::to_string_pretty(&report["findings"]).expect("plain data");
        insta::assert_snapshot!(format!("findings_{}", captured.name), findings);
    }
}

#[test]
fn diagnose_output_matches_snapshots() {
    for captured in clusters::on_screen() {
        let ran = run(&format!("diagnose stuck --from {}", captured.path())).output();
        insta::assert_snapshot!(format!("diagnose_{}", captured.name), ran.transcript());
    }
}

#[test]
fn node_status_output_matches_snapshots() {
    for captured in clusters::on_screen() {
        let from = captured.path();
        let mut transcript = run(&format!("node status --from {from}")).output().transcript();
        let wide = run(&format!("node status -o wide --from {from}")).output();
        // The last column is wrapped on a terminal.
        assert!(wide.stdout.find("NOTE").is_none_or(|columns| columns <= 170), "{}", wide.stdout);
        transcript += &wide.transcript();
        insta::assert_snapshot!(format!("node_status_{}", captured.name), transcript);
    }
}

/// Severity of each finding, by the finding's mark without severity.
fn severities(document: &Value) -> BTreeMap<String, Severity> {
    let findings = document["findings"].as_array().expect("findings").iter();
    findings
        .map(|finding| {
            let severity = finding["severity"].as_str().expect("a severity");
            let level = ["Info", "Warning", "Error"].iter().position(|s| *s == severity);
            let mark = marks::of_document(finding).replacen(&format!(" {}", severity.to_lowercase()), "", 1);
            (mark, level.expect("a known severity"))
        })
        .collect()
}

/// 0 is info, 1 warning, 2 error.
type Severity = usize;

/// Files cannot tell "there is none" from "none was captured", so a server may report a finding more
/// severely, and may add findings of rules that the files left unchecked. Otherwise both reports are the
/// same.
#[test]
fn server_and_files_give_the_same_report() {
    for captured in some(clusters::all(), 12) {
        let name = &captured.name;
        let served = captured.served().serve();
        let ran = run("diagnose stuck -o json").kubeconfig(&served.kubeconfig()).output();
        // Diagnose the files as of the server's time: a server is diagnosed as of now, long after the
        // capture.
        let (live, path) = (ran.json(), captured.path());
        let now = live["takenAt"].as_str().expect("a time");
        let files = run(&format!("diagnose stuck -o json --from {path} --now {now}")).output().json();
        assert_eq!(ran.stderr, "", "{name}");
        assert_eq!(live["notChecked"], serde_json::json!([]), "{name}");
        let unchecked: Vec<&str> = files["notChecked"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|n| n["code"].as_str())
            .collect();
        let (of_server, of_files) = (severities(&live), severities(&files));
        for (mark, severity) in &of_files {
            assert!(of_server.get(mark) >= Some(severity), "{name}: the server does not say {mark}");
        }
        for mark in of_server.keys().filter(|mark| !of_files.contains_key(*mark)) {
            let code = mark.split(' ').next().expect("a code");
            assert!(unchecked.contains(&code), "{name}: the files do not say {mark}");
        }
        let stuck = live["verdict"] == "Stuck";
        assert_eq!(ran.code, Some(if stuck { 2 } else { 0 }), "{name}");
    }
}

#[test]
fn missing_permission_is_never_reported_healthy() {
    let captured = clusters::named("complete");
    let healthy = captured.served();
    let served = healthy.serve();
    let ran = run("diagnose stuck -o json").kubeconfig(&served.kubeconfig()).output();
    assert_eq!((ran.json()["verdict"].as_str(), ran.code), (Some("Healthy"), Some(0)));
    let mut sources: Vec<String> = healthy.requests().iter().filter_map(listed_plural).collect();
    sources.sort();
    sources.dedup();
    // Namespaces are only read as evidence about a missing operator; no rule needs them.
    sources.retain(|source| source != "namespaces");
    assert!(sources.contains(&"nodes".to_owned()), "{sources:?}");
    for source in sources {
        let fake = captured.served();
        fake.on(&format!("LIST {source}")).reply(403);
        let served = fake.serve();
        let ran = run("diagnose stuck -o json").kubeconfig(&served.kubeconfig()).output();
        assert_eq!(ran.json()["verdict"], "NotFullyChecked", "without {source}");
        assert_ne!(ran.json()["notChecked"], serde_json::json!([]), "without {source}");
        assert_eq!(ran.code, Some(1), "without {source}");
        let ran = run("diagnose stuck --fail-on never").kubeconfig(&served.kubeconfig()).output();
        assert_eq!(ran.code, Some(0), "without {source}");
    }
}

/// The plural that a request lists; `None` for discovery.
fn listed_plural(request: &Logged) -> Option<String> {
    let path = request.path.as_str();
    let resource = path
        .strip_prefix("/api/v1/")
        .or_else(|| path.strip_prefix("/apis/")?.split_once('/')?.1.split_once('/').map(|(_, rest)| rest))?;
    let plural = match resource.strip_prefix("namespaces/") {
        Some(inside) => inside.split_once('/')?.1,
        None => resource,
    };
    Some(plural.to_owned())
}

/// The marks of all findings of a Diagnosis document, sorted.
fn marks_of_report(document: &Value) -> Vec<String> {
    let findings = document["findings"].as_array().expect("findings");
    let mut marks: Vec<String> = findings.iter().map(marks::of_document).collect();
    marks.sort();
    marks
}
