//! The output of `-o json` matches the schemas.

use std::collections::BTreeSet;

use kubectl_skyhook::commands::schema::documents;
use kubectl_skyhook::program::Program;
use serde_json::{Value, json};

use crate::support::clusters;
use crate::support::run::{RunOutput, run};
use crate::support::sample::some;
use crate::support::test_cluster::{CR, TestCluster};

/// Captures that together contain every kind of content.
const CLUSTERS: [&str; 10] = [
    "apply-erroring",
    "deleted-while-erroring",
    "finalizer-stripped",
    "malformed-node-state",
    "modelled-mirrored-and-complete",
    "modelled-uninstall-failing",
    "rollout-stopped",
    "two-priorities",
    "uninstall-erroring",
    "v0.17-paused",
];

/// The published schema, with unknown fields forbidden.
fn strict(kind: &str) -> jsonschema::Validator {
    let document = documents().into_iter().find(|d| d.published.kind == kind);
    let mut schema = document.expect(kind).published.schema();
    close(&mut schema);
    jsonschema::validator_for(&schema).expect(kind)
}

/// Forbids unknown fields in every object but the parts of a choice, which do not know their sibling fields.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            for (key, member) in members.iter_mut() {
                if !matches!(key.as_str(), "oneOf" | "anyOf" | "allOf") {
                    close(member);
                }
            }
            if members.get("properties").is_some_and(Value::is_object) {
                members.insert("unevaluatedProperties".to_owned(), json!(false));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}

#[track_caller]
fn fits(kind: &str, ran: &RunOutput) {
    fits_text(kind, &ran.stdout);
}

#[track_caller]
fn fits_text(kind: &str, text: &str) {
    let document: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"));
    let wrong: Vec<String> = strict(kind)
        .iter_errors(&document)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(wrong.is_empty(), "{kind}: {}\n{text}", wrong.join("\n"));
}

#[test]
fn read_output_matches_schemas() {
    for name in some(CLUSTERS, 3) {
        let from = format!("-o json --from {}", clusters::named(name).path());
        let run = |words: &str| run(&format!("{words} {from}")).output();
        fits("Diagnosis", &run("diagnose stuck"));
        fits("NodeDiagnosis", &run("diagnose node node-1"));
        fits("Check", &run("diagnose check"));
        let status = run("status");
        fits("Status", &status);
        fits("NodeStatus", &run("node status"));
        fits("Version", &run("version"));
        let items = status.json()["items"].clone();
        for item in items.as_array().expect("a list") {
            let skyhook = item["name"].as_str().expect("a name");
            fits("NodeList", &run(&format!("node list --skyhook {skyhook}")));
            fits("PackageStatus", &run(&format!("package status --skyhook {skyhook}")));
            fits("Status", &run(&format!("status {skyhook}")));
        }
    }
}

#[test]
fn offline_output_matches_schemas() {
    fits("Rules", &run("explain -o json").output());
    fits("Rule", &run("explain SKY101 -o json").output());
    fits("Explanations", &run("explain SKY101 SKY801 B4 compartment -o json").output());
    fits("Grade", &run("explain B4 -o json").output());
    fits("Term", &run("explain compartment -o json").output());
    fits("Schemas", &run("schema -o json").output());
    fits("Version", &run("version --client-only -o json").output());
}

#[test]
fn change_output_matches_schemas() {
    let cluster = TestCluster::from_capture("apply-erroring");
    let plan = cluster.state.path().join("plan.json");
    let reset = format!("reset {CR} --node node-2 --no-pause");
    fits("Plan", &cluster.run(&format!("{reset} --dry-run -o json")));
    fits("Plan", &cluster.run("fix --up-to B2 --dry-run -o json"));
    let saving = cluster.run(&format!("{reset} --plan-out {} -o json", plan.display()));
    fits("Plan", &saving);
    fits_text("SavedPlan", &std::fs::read_to_string(&plan).expect("a plan"));
    fits("Outcome", &cluster.run(&format!("{reset} --dry-run=server -o json")));
    fits("Outcome", &cluster.run(&format!("{reset} -o json --confirm")));
    fits("Outcome", &cluster.run(&format!("pause {CR} -o json --confirm")));
    cluster.fake.on("PATCH nodes").reply(500);
    let failed = cluster.run(&format!("{reset} -o json --confirm --node node-1"));
    assert_ne!(failed.code, Some(0), "{}", failed.transcript());
    fits("Outcome", &failed);
    fits("JournalList", &cluster.run("journal list -o json"));
    fits("Journal", &cluster.run("journal show -o json"));
    let waited = TestCluster::from_capture("complete").run(&format!("wait {CR} -o json"));
    fits("Waited", &waited);
}

/// The words of every command.
fn leaves(command: &clap::Command, words: &str, found: &mut Vec<String>) {
    if !command.has_subcommands() {
        found.push(words.trim().to_owned());
    }
    for sub in command.get_subcommands() {
        leaves(sub, &format!("{words} {}", sub.get_name()), found);
    }
}

#[test]
fn every_command_declares_its_schema() {
    let mut all = Vec::new();
    leaves(&Program::SKYHOOK.tree(), "", &mut all);
    // A group that runs without a subcommand counts, too.
    all.push("uninstall".to_owned());
    let known: BTreeSet<&str> = documents().into_iter().flat_map(|d| d.printed_by).collect();
    // Scripts, logs, archives and pages have no schema, and roles have that of Kubernetes.
    let others = |words: &str| {
        words.starts_with("completion ") || ["collect", "package logs", "rbac", "report"].contains(&words)
    };
    let missing: Vec<&String> =
        all.iter().filter(|words| !known.contains(words.as_str()) && !others(words)).collect();
    assert!(missing.is_empty(), "say in `command!` what these print: {missing:?}");
    let unknown: Vec<&&str> = known.iter().filter(|words| !all.iter().any(|w| w == **words)).collect();
    assert!(unknown.is_empty(), "no such commands: {unknown:?}");
}

#[test]
fn schema_is_found_by_kind_with_suggestions() {
    let ran = run("schema diagnosis").output();
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert_eq!(ran.json()["title"], "Diagnosis");
    let ran = run("schema Diagnoses").output();
    assert_eq!(ran.code, Some(64));
    assert!(ran.stderr.contains("tip: a similar value exists: 'Diagnosis'"), "{}", ran.stderr);
}
