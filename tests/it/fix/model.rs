//! `fix` on a model of each captured cluster: it resolves the findings that it claims to, and can be undone.

use std::collections::BTreeSet;
use std::path::Path;

use kubectl_skyhook::cluster::dump::{self, DumpError};
use kubectl_skyhook::plan::{Plan, SavedPlan};
use kubectl_skyhook::rules::{self, Scope};

use super::clusters;
use crate::support::marks;
use crate::support::model::{self, execute, tidy};
use crate::support::run::Run;

/// The codes that a plan claims to resolve and that the model can check. Not checked: retries, since the
/// operator starts them, and SKY108, since the operator updates its status only in its next reconcile.
fn resolved_codes(plan: &Plan) -> BTreeSet<String> {
    let notes = plan.consequences.notes.iter();
    let resolved_codes = notes.filter_map(|note| note.strip_prefix("for "));
    resolved_codes
        .filter(|resolved_codes| {
            !resolved_codes.contains(": `kubectl skyhook package retry ")
                && !resolved_codes.starts_with("SKY108")
        })
        .filter_map(|rest| rest.split(' ').next())
        .map(str::to_owned)
        .collect()
}

/// The marks of all findings, without severities.
fn found(capture: &Path) -> BTreeSet<String> {
    let cluster = match dump::load(&[capture.to_owned()], None) {
        Ok(cluster) => cluster,
        // No objects are left to diagnose.
        Err(DumpError::NothingKnown { .. }) => return BTreeSet::new(),
        Err(error) => panic!("{error}"),
    };
    let report = rules::diagnose(&cluster, &Scope::default());
    report.findings.iter().map(|f| marks::of_finding(f.rule.code, f.severity, &f.subject)).collect()
}

/// Applies and undoes the fix of a capture; returns whether it changes anything, or an error.
fn apply_and_undo(capture: &Path) -> Result<bool, String> {
    let directory = tempfile::tempdir().expect("a directory");
    let (file, after) = (directory.path().join("plan.json"), directory.path().join("after.yaml"));
    let words = [
        "fix",
        "--up-to",
        "B4",
        "--from",
        &capture.display().to_string(),
        "--plan-out",
        &file.display().to_string(),
    ]
    .map(str::to_owned);
    let ran = Run::new(words).output();
    if ran.stderr.contains("so it is unknown what is still in use") {
        return Ok(false);
    }
    let text = std::fs::read_to_string(&file).map_err(|_| format!("no plan: {}", ran.transcript()))?;
    let plan = SavedPlan::parse(&text).expect("a plan").plan;
    if plan.is_empty() {
        return Ok(false);
    }
    let before = tidy(model::capture_objects(capture));
    let mut cluster = before.clone();
    execute(&plan.stages, &mut cluster).map_err(|why| format!("cannot be carried out: {why}"))?;
    model::write(&cluster, &after);
    let (stages, lost) = plan.inverse();
    execute(&stages, &mut cluster).map_err(|why| format!("cannot be taken back: {why}"))?;
    if lost.is_empty() && tidy(cluster) != before {
        return Err("undo does not lead back".to_owned());
    }
    let (was, is) = (found(capture), found(&after));
    for code in resolved_codes(&plan) {
        let of = |marks: &BTreeSet<String>| marks.iter().filter(|m| m.starts_with(&code)).count();
        if of(&is) >= of(&was) {
            return Err(format!("does not cure {code}"));
        }
    }
    Ok(true)
}

#[test]
fn fixes_resolve_findings_on_the_model_and_undo() {
    let mut done = 0;
    let mut wrong = String::new();
    for capture in clusters() {
        match apply_and_undo(&capture) {
            Ok(changes) => done += usize::from(changes),
            Err(why) => wrong.push_str(&format!("{}: {why}\n", capture.display())),
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(done >= 10, "{done}");
}
