//! Captures diagnosed at a later time: the cause still comes first, and one failure is one cause.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::support::run::run;

/// Severity, code and explained codes of each cause, when the capture is diagnosed this many minutes later.
fn causes(capture: &str, minutes: i64) -> Vec<String> {
    let from = format!("diagnose stuck -o json --from tests/clusters/{capture}");
    let taken = run(&from).output().json()["takenAt"].clone();
    let taken: Timestamp = taken.as_str().expect("a time").parse().expect("a time");
    let now = taken + SignedDuration::from_mins(minutes);
    let document = run(&format!("{from} --now {now}")).output().json();
    let code = |place: &Value| {
        let place = place.as_u64().expect("a place") as usize;
        document["findings"][place]["code"].as_str().expect("a code").to_owned()
    };
    let causes = document["causes"].as_array().expect("causes").iter();
    causes
        .filter(|cause| cause["severity"] != "Info")
        .map(|cause| {
            let mut effects: Vec<String> =
                cause["explains"].as_array().expect("a list").iter().map(code).collect();
            effects.dedup();
            let severity = cause["severity"].as_str().expect("a severity");
            let code = cause["code"].as_str().expect("a code");
            format!("{severity} {code} {}", effects.join(" ")).trim().to_owned()
        })
        .collect()
}

#[test]
fn masked_failure_is_one_cause() {
    let masked = causes("nodewright-parked-node-masked-by-pause", 0);
    assert_eq!(masked, ["Error SKY201 SKY218 SKY305"]);
}

#[test]
fn stuck_deleted_job_is_one_cause() {
    for (minutes, summary) in [(0, "Error SKY217"), (5, "Error SKY217"), (12, "Error SKY217 SKY208")] {
        let mut wedged = causes("nodewright-undying-pod-after-reset-wedged", minutes);
        assert_eq!(wedged.remove(0), summary, "{wedged:?}");
    }
}

/// An operator whose image is tagged v0.15 supports uninstall if nodes have uninstall data, even without
/// status conditions.
#[test]
fn uninstall_data_on_nodes_proves_uninstall_support() {
    for capture in [
        "apply-true-never-installed",
        "uninstall-complete",
        "uninstall-erroring",
        "uninstall-in-progress",
        "uninstall-interrupt-in-progress",
        "uninstall-interrupt-stranded",
        "version-changed-while-uninstalling",
    ] {
        let mut items = Vec::new();
        for file in ["cluster", "extra"] {
            let path = format!("tests/clusters/{capture}/{file}.json");
            let text = std::fs::read_to_string(path).expect("a capture");
            let list: Value = serde_json::from_str(&text).expect("JSON");
            items.extend(list["items"].as_array().expect("items").clone());
        }
        for item in items.iter_mut().filter(|i| i["kind"] == "Skyhook") {
            item["status"]["conditions"] = Value::Null;
        }
        let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items});
        let ran = run("diagnose stuck -o json --from -").stdin(list.to_string()).output();
        let findings = ran.json()["findings"].clone();
        let codes = findings.as_array().expect("findings").iter().map(|f| f["code"].clone());
        assert!(!codes.clone().any(|c| c == "SKY607"), "{capture}: {codes:?}");
    }
}
