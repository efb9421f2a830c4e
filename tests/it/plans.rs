//! Every case of `tests/plans`: a cluster, a command, its preview, and the cluster afterwards.
//!
//! `before.yaml` and `command` are written by hand. `preview` and `after.yaml` are their results;
//! `UPDATE_PLANS=1` rewrites them, to be reviewed. Every plan is then
//! undone on the model, which must restore the start.

use std::path::{Path, PathBuf};

use kubectl_skyhook::cluster::hold::{HOLDER, REASON};
use kubectl_skyhook::plan::{Plan, SavedPlan};
use serde_json::Value;

use crate::support::model::{Objects, execute, objects, tidy};
use crate::support::run::Run;
use crate::support::sample::some;

fn cases() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plans");
    let mut cases: Vec<PathBuf> = std::fs::read_dir(directory)
        .expect("the directory is there")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    cases.sort();
    cases
}

/// The objects that differ, as YAML.
fn yaml(after: &Objects, before: &Objects) -> String {
    let changed = after.iter().filter(|(path, object)| before.get(*path) != Some(object));
    let documents: Vec<String> =
        changed.map(|(_, object)| serde_saphyr::to_string(object).expect("YAML")).collect();
    if documents.is_empty() { "# nothing changes\n".to_owned() } else { documents.join("---\n") }
}

/// The objects that the undo of a plan must lead to: those before the plan, except that a stale pause of an earlier
/// attempt ends, and that a recreated ConfigMap has no owner, which is gone.
fn restored(mut objects: Objects, plan: &Plan) -> Objects {
    let recreated: Vec<String> = plan.steps().map(|step| step.target.path()).collect();
    for (path, object) in &mut objects {
        if object["kind"] == "ConfigMap"
            && recreated.contains(path)
            && let Some(metadata) = object["metadata"].as_object_mut()
        {
            metadata.remove("ownerReferences");
        }
        let annotations = object.pointer_mut("/metadata/annotations");
        if let Some(annotations) = annotations.and_then(Value::as_object_mut)
            && annotations.remove(HOLDER).is_some()
        {
            annotations.retain(|key, _| key != REASON && !key.ends_with("/pause"));
        }
    }
    tidy(objects)
}

fn compare(file: &Path, is: &str, wrong: &mut String) {
    if std::env::var_os("UPDATE_PLANS").is_some() {
        std::fs::write(file, is).expect("a write");
    }
    let expected = std::fs::read_to_string(file).unwrap_or_default();
    if expected != is {
        wrong.push_str(&format!("--- {}\n{is}\n", file.display()));
    }
}

#[test]
fn plans_match_preview_effect_and_undo() {
    let mut wrong = String::new();
    let updates = std::env::var_os("UPDATE_PLANS").is_some();
    for case in if updates { cases() } else { some(cases(), 60) } {
        let read = |name: &str| std::fs::read_to_string(case.join(name)).expect("a part of the case");
        let command = read("command");
        let words = command.split_whitespace().map(str::to_owned);
        let from = ["--from".to_owned(), case.join("before.yaml").display().to_string()];
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("plan.json");
        let words: Vec<String> = words.chain(from).collect();
        let shown = Run::new(words.clone()).output();
        let output = format!("{}{}[exit status: {}]\n", shown.stdout, shown.stderr, shown.code.unwrap_or(-1));
        compare(&case.join("preview"), &output, &mut wrong);

        let out = ["--plan-out".to_owned(), file.display().to_string()];
        let saved = Run::new(words.into_iter().chain(out)).output();
        assert_eq!(saved.code, shown.code, "{}", saved.transcript());
        let before = tidy(objects(&read("before.yaml")));
        let mut after = before.clone();
        if let Ok(text) = std::fs::read_to_string(&file) {
            let plan = SavedPlan::parse(&text).expect("a plan").plan;
            if let Err(why) = execute(&plan.stages, &mut after) {
                wrong.push_str(&format!("--- {}: {why}\n", case.display()));
            }
            let mut back = after.clone();
            let (stages, lost) = plan.inverse();
            if let Err(why) = execute(&stages, &mut back) {
                wrong.push_str(&format!("--- {}: undo: {why}\n", case.display()));
            }
            if lost.is_empty() && tidy(back) != restored(before.clone(), &plan) {
                wrong.push_str(&format!("--- {}: undo does not lead back\n", case.display()));
            }
        }
        compare(&case.join("after.yaml"), &yaml(&tidy(after), &before), &mut wrong);
    }
    assert!(wrong.is_empty(), "{wrong}");
}
