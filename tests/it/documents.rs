//! The documents that programs read: their common shape, one-liners over them, and upstream's shapes.

use std::process::Command;

use kubectl_skyhook::commands::schema::documents;
use serde_json::{Value, json};

use crate::support::clusters;
use crate::support::run::{Run, RunOutput, run};

/// Documents about one thing, which may have several lists.
const NO_LISTS: [&str; 10] =
    ["Diagnosis", "Grade", "Journal", "Lint", "NodeDiagnosis", "Outcome", "Plan", "Rule", "Term", "Version"];

/// Names of a custom resource, a node or a list in upstream's documents or in other formats.
const OTHER_NAMES: [&str; 6] = ["skyhookName", "nodeName", "owner", "hostname", "nodewright", "packageName"];

/// Published schemas of printed documents; a saved plan is a file instead.
fn schemas() -> impl Iterator<Item = (&'static str, Value)> {
    let printed = documents().into_iter().filter(|document| !document.printed_by.is_empty());
    printed.map(|document| (document.published.kind, document.published.schema()))
}

/// Captures with complete, failing, missing and unreadable states.
const COMPAT: [&str; 4] =
    ["apply-erroring", "malformed-node-state", "uninstall-in-progress", "upgrade-in-progress"];

/// The names of all fields, in the document and its parts.
fn fields(schema: &Value, names: &mut Vec<String>) {
    match schema {
        Value::Object(members) => {
            let own = members.get("properties").and_then(Value::as_object);
            names.extend(own.into_iter().flatten().map(|(name, _)| name.clone()));
            members.values().for_each(|member| fields(member, names));
        }
        Value::Array(members) => members.iter().for_each(|member| fields(member, names)),
        _ => {}
    }
}

#[test]
fn every_document_has_a_version_and_its_kind() {
    for (kind, schema) in schemas() {
        let [version, named] = ["apiVersion", "kind"].map(|field| &schema["properties"][field]["const"]);
        assert_eq!((version, named), (&json!("kubectl-skyhook/v1"), &json!(kind)));
        let required = schema["required"].as_array().expect("required fields");
        assert_eq!(required[..2], ["apiVersion", "kind"], "{kind}");
    }
}

#[test]
fn lists_are_under_items() {
    for (kind, schema) in schemas() {
        let items = schema["properties"]["items"]["type"].as_str();
        let expected = (!NO_LISTS.contains(&kind)).then_some("array");
        assert_eq!(items, expected, "{kind}");
        if expected.is_some() {
            let required = schema["required"].as_array().expect("required fields");
            assert!(required.contains(&json!("items")), "{kind}: an empty list is present");
        }
    }
}

#[test]
fn a_thing_has_one_name() {
    for (kind, schema) in schemas() {
        let mut names = Vec::new();
        fields(&schema, &mut names);
        let other: Vec<&String> = names.iter().filter(|name| OTHER_NAMES.contains(&name.as_str())).collect();
        assert!(other.is_empty(), "{kind}: {other:?}");
    }
}

/// The one-liners of `docs/automation.md`: the capture that each reads, and its output.
const ONE_LINERS: [(&str, &str); 14] = [
    ("apply-erroring", "node-2"),
    ("apply-erroring", "package driver fails at stage apply (exit code 2)"),
    ("two-priorities", "first second"),
    ("in-progress", "node-1 2.0.1 node-2 2.0.1"),
    ("apply-erroring", "driver"),
    ("complete", "node-1 node-2 node-3"),
    ("apply-erroring", "SKY201 package driver fails at stage apply (exit code 2)"),
    ("apply-erroring", "kubectl skyhook package logs driver --skyhook gpu-tune --node node-2 --stage apply"),
    ("apply-erroring", "node-2"),
    ("deleted-while-erroring", "node-2 driver"),
    ("apply-erroring", "BackOff"),
    ("malformed-node-state", "no custom resource stops the operator"),
    ("", "A package fails on a node."),
    ("complete", "v0.15.0"),
];

/// The rows of the table: the calls with jq and with JSONPath.
fn one_liners() -> Vec<(String, String)> {
    let page = std::fs::read_to_string("docs/automation.md").expect("a page");
    let rows = page.lines().filter(|line| line.starts_with("| ") && line.contains("-o jsonpath="));
    let rows = rows.map(|row| {
        let row = row.replace("\\|", "\0");
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [jq, jsonpath] = [cells[2], cells[3]].map(|cell| cell.trim_matches('`').replace('\0', "|"));
        (jq, jsonpath)
    });
    rows.collect()
}

/// Runs a one-liner on a capture, without the shell quotes around its template.
fn call(line: &str, capture: &str) -> RunOutput {
    let words = match line.split_once(" -o jsonpath='") {
        Some((words, template)) => {
            let template = format!("jsonpath={}", template.trim_end_matches('\''));
            words.split(' ').map(str::to_owned).chain(["-o".to_owned(), template]).collect()
        }
        None => line.split(' ').map(str::to_owned).collect::<Vec<_>>(),
    };
    let from = (!capture.is_empty()).then(|| format!("--from=tests/clusters/{capture}"));
    Run::new(words.into_iter().chain(from)).output()
}

/// The output of jq, if it is installed.
fn jq(line: &str, capture: &str) -> Option<String> {
    let (words, filter) = line.split_once(" | jq -r ").expect("a filter");
    let document = call(words, capture).stdout;
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), document).expect("a document");
    let output =
        Command::new("jq").arg("-r").arg(filter.trim_matches('\'')).arg(file.path()).output().ok()?;
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).expect("text"))
}

#[test]
fn one_liners_of_the_page_print_what_they_say() {
    let lines = one_liners();
    assert_eq!(lines.len(), ONE_LINERS.len());
    for ((of_jq, of_jsonpath), (capture, expected)) in lines.iter().zip(ONE_LINERS) {
        let ran = call(of_jsonpath, capture);
        let printed: Vec<&str> = ran.stdout.split_whitespace().collect();
        let expected: Vec<&str> = expected.split_whitespace().collect();
        assert_eq!(printed, expected, "{}", ran.transcript());
        if let Some(output) = jq(of_jq, capture) {
            assert_eq!(output.split_whitespace().collect::<Vec<_>>(), expected, "{of_jq}");
        }
    }
}

#[test]
fn columns_have_a_row_for_each_item() {
    let from = "--from tests/clusters/apply-erroring";
    let ran =
        run(&format!("node status -o custom-columns=NODE:.node,CR:.skyhook,IS:.status {from}")).output();
    assert_eq!(
        ran.parts(),
        (
            "NODE    CR        IS\n\
             node-1  gpu-tune  complete\n\
             node-2  gpu-tune  erroring\n\
             node-3  gpu-tune  complete\n",
            "",
            Some(0)
        )
    );
}

#[test]
fn a_jsonpath_that_matches_nothing_says_so() {
    let from = "--from tests/clusters/apply-erroring";
    let note = "A path matches nothing; each of .items has the fields node, skyhook, status, state, reason, \
                packagesComplete, packagesTotal, packages, cordoned, runtimeRequiredCordon, cordonedBy, \
                cordonedByOthers, runtimeRequiredTaint, taintKeptBy, gone, selected, ignored.\n";
    for (template, stdout, stderr) in [
        ("jsonpath={.nope}", "", note),
        ("jsonpath={range.items[*]}{.nodeName}{end}", "", note),
        ("jsonpath-as-json={.nope}", "[]\n", note),
        ("jsonpath={.items[0].node}", "node-1", ""),
    ] {
        let ran = run(&format!("node status -o {template} {from}")).output();
        assert_eq!(ran.parts(), (stdout, stderr, Some(0)), "{template}");
    }
}

/// The recorded output is that of `-o json` before documents had a kind.
#[test]
fn compat_prints_the_shapes_of_upstream() {
    for captured in COMPAT.map(clusters::named) {
        let from = format!("--skyhook gpu-tune --from {}", captured.path());
        let mut all = String::new();
        for command in ["node list", "node status", "package status"] {
            let ran = run(&format!("{command} {from} -o json --compat")).output();
            let by_variable =
                run(&format!("{command} {from} -o json")).env("KUBECTL_SKYHOOK_COMPAT", "1").output();
            assert_eq!(by_variable.parts(), ran.parts());
            let yaml = run(&format!("{command} {from} -o yaml --compat")).output().stdout;
            assert_eq!(serde_saphyr::from_str::<Value>(&yaml).expect("YAML"), ran.json());
            all += &format!("{command}\n{}", ran.stdout);
        }
        insta::assert_snapshot!(format!("compat_{}", captured.name), all);
    }
}

#[test]
fn compat_leaves_other_documents_alone() {
    for words in ["explain", "version --client-only", "status --from tests/clusters/complete"] {
        let ours = run(&format!("{words} -o json")).output();
        let compat = run(&format!("{words} -o json --compat")).output();
        assert_eq!(ours.parts(), compat.parts());
        assert!(ours.json()["kind"].is_string());
    }
}

#[test]
fn compat_takes_boolean_values() {
    let kind = |words: &str, variable: &str| {
        let words = format!("node status -o jsonpath={{.kind}} --from tests/clusters/complete {words}");
        let ran = run(&words).env("KUBECTL_SKYHOOK_COMPAT", variable).output();
        (ran.stdout, ran.code)
    };
    let ours = ("NodeStatus".to_owned(), Some(0));
    assert_eq!(kind("", ""), ours);
    assert_eq!(kind("", "0"), ours);
    assert_eq!(kind("", "false"), ours);
    assert_eq!(kind("--compat=false", "1"), ours);
    assert_eq!(kind("", "true").0, "");
    assert_eq!(kind("--compat", "false").0, "");
    assert_eq!(kind("", "perhaps"), (String::new(), Some(64)));
}
