//! Messages about what will start, unknown names, and flags without effect.

use insta::assert_snapshot;
use serde_json::json;

use crate::support::object_builder::NODEWRIGHT;
use crate::support::run::run;

/// The transcripts of commands over a captured cluster, one after the other.
fn transcripts(cluster: &str, commands: &[&str]) -> String {
    let from = format!("--from tests/clusters/{cluster}");
    let all = commands.iter().map(|c| run(&format!("{c} {from}")).output());
    all.map(|ran| ran.transcript()).collect()
}

#[test]
fn preview_of_resuming_names_what_starts() {
    assert_snapshot!(transcripts("deleted-while-paused", &["resume gpu-tune"]));
    assert_snapshot!(transcripts("v0.17-paused", &["resume gpu"]));
    assert_snapshot!(transcripts("disabled-midway", &["enable gpu-tune"]));
    assert_snapshot!(transcripts(
        "runtime-required-and-ignored",
        &["node unignore *", "node unignore * -o json"]
    ));
}

/// If some checks could not run, warnings are still counted as problems.
#[test]
fn warnings_count_as_problems() {
    let first = |words: &str| {
        let transcripts = transcripts("finalizer-stripped", &[words]);
        transcripts.lines().nth(1).map(str::to_owned)
    };
    let headline = first("diagnose stuck gpu-tune").expect("a headline");
    let ends = "could not run; the others found 2 warnings and 1 note, but no errors";
    assert!(headline.starts_with("Incomplete diagnosis: "), "{headline}");
    assert!(headline.ends_with(ends), "{headline}");
}

/// A node blocked by another node is not reported as fine.
#[test]
fn blocked_queue_is_not_reported_fine() {
    assert_snapshot!(transcripts("drain-blocked", &["diagnose node node-3"]));
}

/// An erroring entry proves a failed attempt, even if the Job does not count it yet.
#[test]
fn retrying_job_has_at_least_one_failed_attempt() {
    let running = std::fs::read_to_string("tests/plans/pause-while-jobs-run/before.yaml");
    let running = running.expect("a fixture");
    let failing = running
        .replace(r#""state":"in_progress""#, r#""state":"erroring""#)
        .replace("status_gpu: in_progress", "status_gpu: erroring");
    let ran = run("diagnose stuck --rule SKY201 --from -").stdin(failing).output();
    ran.expect_stdout("package driver fails at stage apply: its job is retrying, 1 failed attempt so far\n");
}

#[test]
fn preview_says_the_operator_is_paused() {
    assert_snapshot!(transcripts(
        "apply-erroring",
        &[
            "package rerun driver --skyhook gpu-tune --node node-2",
            "package rerun driver --skyhook gpu-tune --node node-2 --no-pause",
            "update-state gpu-tune driver 2.0.1 config complete --node node-2",
        ]
    ));
}

#[test]
fn flag_without_effect_gives_a_warning() {
    assert_snapshot!(transcripts("apply-erroring", &["reset gpu-tune --node node-2 --retaint --no-pause"]));
}

#[test]
fn unknown_name_lists_existing_names() {
    assert_snapshot!(transcripts(
        "two-priorities",
        &[
            "pause zzz",
            "status zzz",
            "pause secnd",
            "uninstall second zzz",
            "uninstall second",
            "uninstall second --cancel",
            "package rerun zzz --skyhook second --node node-1",
            "update-state second zzz 1 config complete",
        ]
    ));
    assert_snapshot!(transcripts(
        "apply-erroring",
        &[
            "update-state gpu-tune driver 9.9.9 config complete --node node-3 --force",
            "update-state gpu-tune driver 9.9.9 config complete --node node-2 --node node-3 --force",
        ]
    ));
}

#[test]
fn views_count_absent_packages_as_done_during_deletion() {
    for (cluster, name) in [("deleted-while-erroring", "gpu-tune"), ("v0.17-deletion-in-progress", "gpu")] {
        let status = format!("status {name}");
        let nodes = format!("node status --skyhook {name}");
        assert_snapshot!(transcripts(cluster, &[&status, &nodes]));
    }
}

#[test]
fn finished_entries_of_a_deleted_object_are_shown() {
    assert_snapshot!(transcripts(
        "orphaned-uninstall-complete",
        &["status", "status gpu-tune", "package status driver --skyhook gpu-tune"]
    ));
    assert_snapshot!(transcripts(
        "finalizer-stripped",
        &["status", "package status driver --skyhook gpu-tune"]
    ));
}

/// Files without Deployments do not show whether there is an operator.
#[test]
fn input_without_deployments_is_reported() {
    let ran = run("status --from tests/plans/pause/before.yaml").output();
    let says = "Operator (version unknown: the capture has no Deployments)";
    assert!(ran.stdout.starts_with(says), "{}", ran.transcript());
}

#[test]
fn schema_is_printed_only_as_json_or_yaml() {
    for words in ["schema Version", "schema Version -o json"] {
        let ran = run(words).output();
        assert_eq!(ran.json()["title"], run("schema Version").output().json()["title"]);
    }
    let yaml = run("schema Version -o yaml").output();
    let yaml: serde_json::Value = serde_saphyr::from_str(&yaml.stdout).expect("YAML");
    assert_eq!(yaml, run("schema Version").output().json());
    for words in ["name", "jsonpath=.title", "wide"] {
        let ran = run(&format!("schema Version -o {words}")).output();
        ran.expect_code(64);
        assert_eq!(
            (ran.stdout.as_str(), ran.stderr.as_str()),
            ("", "error: schema supports only -o json and -o yaml\n")
        );
    }
}

#[test]
fn help_has_no_backslashes() {
    let ran = run("rbac --help").output();
    let says = "such as reset or \"node status\", or only the role viewer";
    ran.expect_stdout(says);
}

/// Large numbers have thousands separators in findings, too.
#[test]
fn large_counts_have_thousands_separators() {
    let package = json!({"driver": {"version": "1.0.0", "image": "example.com/driver"}});
    let mut items = vec![
        NODEWRIGHT.skyhook("in_progress", package),
        NODEWRIGHT.operator(),
        json!({"apiVersion": "v1", "kind": "PodList", "items": []}),
        json!({"apiVersion": "batch/v1", "kind": "JobList", "items": []}),
    ];
    items.extend((0..1200).map(|n| NODEWRIGHT.node(&format!("gpu-{n:04}"), "waiting", &[])));
    let cluster = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let ran = run("diagnose stuck --rule SKY222 --now 2026-11-20T12:00:00Z --from -")
        .stdin(cluster.to_string())
        .output();
    ran.expect_stdout("unfinished packages on 1,200 nodes");
}
