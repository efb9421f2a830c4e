//! `fix` on a model of each captured cluster: the findings that it resolves at each grade, and its undo.

use std::collections::BTreeSet;
use std::path::Path;

use kubectl_skyhook::dump::{self, DumpError};
use kubectl_skyhook::plan::{Grade, SavedPlan};
use kubectl_skyhook::rules::{self, Scope};

use super::clusters;
use crate::support::marks;
use crate::support::model::{self, Objects, execute, tidy};
use crate::support::run::Run;
use crate::support::sample::{every_case, some};

/// The marks of all findings on these objects.
fn found(objects: &Objects, directory: &Path) -> BTreeSet<String> {
    let file = directory.join("objects.yaml");
    model::write(objects, &file);
    let cluster = match dump::load(&[file], None) {
        Ok(cluster) => cluster,
        // No objects are left to diagnose.
        Err(DumpError::NothingKnown { .. }) => return BTreeSet::new(),
        Err(error) => panic!("{error}"),
    };
    let report = rules::diagnose(&cluster, &Scope::default());
    report.findings.iter().map(|f| marks::of_finding(f.rule.code, f.severity, &f.subject)).collect()
}

/// Applies and undoes the fix of a capture up to a grade. Returns the findings that it ended (`-`) and those that are
/// new (`+`); `None` if it changes nothing.
///
/// The model does not run the operator, so retries end no finding, and a started package may be a new one.
fn apply_and_undo(capture: &Path, up_to: Grade) -> Result<Option<Vec<String>>, String> {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("plan.json");
    let (from, out) = (capture.display().to_string(), file.display().to_string());
    let words =
        ["fix", "--up-to", &up_to.to_string(), "--from", &from, "--plan-out", &out].map(str::to_owned);
    let ran = Run::new(words).output();
    if ran.stderr.contains("so it is unknown what is still in use") {
        return Ok(None);
    }
    let text = std::fs::read_to_string(&file).map_err(|_| format!("no plan: {}", ran.transcript()))?;
    let plan = SavedPlan::parse(&text).expect("a plan").plan;
    if plan.grade() > up_to {
        return Err(format!("is {}, above --up-to {up_to}", plan.grade()));
    }
    if plan.is_empty() {
        return Ok(None);
    }
    let before = tidy(model::capture_objects(capture));
    let mut cluster = before.clone();
    execute(&plan.stages, &mut cluster).map_err(|why| format!("cannot be carried out: {why}"))?;
    let (was, is) = (found(&before, directory.path()), found(&cluster, directory.path()));
    let (stages, lost) = plan.inverse();
    execute(&stages, &mut cluster).map_err(|why| format!("cannot be taken back: {why}"))?;
    if lost.is_empty() && tidy(cluster) != before {
        return Err("undo does not lead back".to_owned());
    }
    let ended = was.difference(&is).map(|mark| format!("- {mark}"));
    Ok(Some(ended.chain(is.difference(&was).map(|mark| format!("+ {mark}"))).collect()))
}

#[test]
fn fixes_resolve_findings_on_the_model_and_undo() {
    let mut effects = String::new();
    let mut wrong = String::new();
    for capture in some(clusters(), 12) {
        let name = capture.file_name().expect("a name").to_string_lossy().into_owned();
        let mut last = None;
        // A capture without a fix at the highest grade has none at a lower grade.
        for grade in [Grade::B4, Grade::B3, Grade::B2, Grade::B1] {
            match apply_and_undo(&capture, grade) {
                Ok(None) => break,
                Ok(marks) if marks == last => effects.push_str(&format!("{name} {grade}: the same\n")),
                Ok(Some(marks)) => {
                    effects.push_str(&format!("{name} {grade}:\n"));
                    marks.iter().for_each(|mark| effects.push_str(&format!("  {mark}\n")));
                    last = Some(marks);
                }
                Err(why) => wrong.push_str(&format!("{name} {grade}: {why}\n")),
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    if every_case() {
        insta::assert_snapshot!(effects);
    }
}
