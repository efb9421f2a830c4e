//! Runs suggested commands on a model of the cluster: each has the announced impact, resolves its finding,
//! and can be undone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use kubectl_skyhook::dump::{self, DumpError};
use kubectl_skyhook::plan::{Grade, SavedPlan};
use kubectl_skyhook::rules::{self, Remedy, Scope};
use serde_json::Value;

use super::{captures, graded_remedies};
use crate::support::marks;
use crate::support::model::{self, execute, tidy};
use crate::support::run::Run;
use crate::support::sample::some;

/// Remedies that only make sense after the first remedy, a pause.
const FOLLOWS: [(&str, &str); 2] = [("SKY208", "resume"), ("SKY314", "resume")];

/// Remedies whose finding only an operator resolves, not the model: it must start a retried stage, react to a
/// pause, an ignored node or a removed record, or run its next reconcile.
const LATER: [(&str, &str); 9] = [
    ("SKY101", "package retry --skyhook --node"),
    ("SKY112", "package retry --skyhook --node"),
    ("SKY201", "package retry --skyhook --node"),
    ("SKY201", "uninstall --cancel"),
    ("SKY202", "reset --node --package"),
    ("SKY205", "node ignore"),
    ("SKY205", "reset --node --package"),
    ("SKY206", "pause"),
    ("SKY301", "deployment-policy reset"),
];

/// One remedy of a finding in a capture.
struct Case {
    capture: PathBuf,
    code: &'static str,
    mark: String,
    remedy: Remedy,
}

/// Each rule with each command that it suggests, once for captures in files and once for directories.
fn cases() -> Vec<Case> {
    let mut cases = BTreeMap::new();
    for capture in captures() {
        let cluster = dump::load(std::slice::from_ref(&capture), None).expect("a capture");
        for finding in rules::diagnose(&cluster, &Scope::default()).findings {
            for remedy in finding.remedies() {
                let ours = remedy.argv.starts_with(&["kubectl".to_owned(), "skyhook".to_owned()]);
                if !ours || !remedy.changes() {
                    continue;
                }
                if FOLLOWS.contains(&(finding.rule.code, &verb(&remedy))) {
                    continue;
                }
                let key = (finding.rule.code, verb(&remedy), capture.is_dir());
                cases.entry(key).or_insert_with(|| Case {
                    capture: capture.clone(),
                    code: finding.rule.code,
                    mark: marks::of_finding(finding.rule.code, finding.severity, &finding.subject),
                    remedy: remedy.clone(),
                });
            }
        }
    }
    cases.into_values().collect()
}

/// The verb and flags of a command, without names.
fn verb(remedy: &Remedy) -> String {
    const GROUPS: [&str; 6] = ["node", "package", "finalizer", "deployment-policy", "uninstall", "cordon"];
    let own = &remedy.argv[2..];
    let words = 1 + usize::from(GROUPS.contains(&own[0].as_str()) && own[0] != "uninstall");
    let flags = own.iter().filter(|w| w.starts_with("--"));
    own[..words].iter().chain(flags).cloned().collect::<Vec<_>>().join(" ")
}

/// The marks of a rule's findings in a capture, without severities.
fn found(capture: &Path, code: &str) -> BTreeSet<String> {
    let cluster = match dump::load(&[capture.to_owned()], None) {
        Ok(cluster) => cluster,
        // No objects are left to diagnose.
        Err(DumpError::NothingKnown { .. }) => return BTreeSet::new(),
        Err(error) => panic!("{error}"),
    };
    let scope = Scope { rules: rules::find(code).into_iter().collect(), ..Scope::default() };
    let report = rules::diagnose(&cluster, &scope);
    report.findings.iter().map(|f| marks::of_finding(f.rule.code, f.severity, &f.subject)).collect()
}

/// Applies and undoes a remedy; fails if it has no effect or does not resolve its finding.
fn apply_and_undo(case: &Case) -> Result<(), String> {
    let directory = tempfile::tempdir().expect("a directory");
    let (file, after) = (directory.path().join("plan.json"), directory.path().join("after.yaml"));
    let own = || case.remedy.argv[2..].iter().cloned();
    let rest = ["--from", &case.capture.display().to_string(), "--plan-out", &file.display().to_string()]
        .map(str::to_owned);
    let mut ran = Run::new(own().chain(rest.clone())).output();
    // If a Job has failed permanently elsewhere, the remedy is refused, and the hinted flag makes it work.
    if ran.stderr.contains("hint: use --no-pause to proceed without a pause") {
        let unpaused = own().chain(["--no-pause".to_owned()]).chain(rest);
        ran = Run::new(unpaused).output();
    }
    // Files that lack a kind do not prove that no such objects exist; an empty list of a server would.
    if ran.stderr.contains("the capture has no ") {
        return Ok(());
    }
    let text =
        std::fs::read_to_string(&file).map_err(|_| format!("no plan: {}{}", ran.stdout, ran.stderr))?;
    let plan = SavedPlan::parse(&text).expect("a plan").plan;
    if plan.is_empty() {
        return Err("does nothing".to_owned());
    }
    let before = tidy(model::capture_objects(&case.capture));
    let mut cluster = before.clone();
    execute(&plan.stages, &mut cluster).map_err(|why| format!("cannot be carried out: {why}"))?;
    model::write(&cluster, &after);
    let (stages, lost) = plan.inverse();
    if lost.is_empty() {
        execute(&stages, &mut cluster).map_err(|why| format!("cannot be taken back: {why}"))?;
        if tidy(cluster) != before {
            return Err("undo does not lead back".to_owned());
        }
    }
    let later = LATER.contains(&(case.code, verb(&case.remedy).as_str()));
    if found(&after, case.code).contains(&case.mark) && !later {
        Err("does not cure".to_owned())
    } else {
        Ok(())
    }
}

/// Checks every command of every finding in every capture, not only one for each rule: its grade is that of its preview.
#[test]
fn remedies_are_accepted_with_the_announced_impact() {
    let mut wrong = String::new();
    for (capture, findings) in &graded_remedies() {
        let mut seen = BTreeSet::new();
        for (code, remedies) in findings {
            for remedy in remedies {
                let words = remedy["argv"].as_array().expect("a command").iter().filter_map(Value::as_str);
                let words: Vec<&str> = words.collect();
                let changes = words[1] == "skyhook" && remedy["grade"] != "B0";
                if !changes || !seen.insert(words.clone()) {
                    continue;
                }
                let from = capture.display().to_string();
                let dry = ["--dry-run", "--from", &from];
                let ran = Run::new(words[2..].iter().chain(&dry).map(ToString::to_string)).output();
                let announced = remedy["grade"].as_str();
                let case = || format!("{from}, {code}: {}", words.join(" "));
                let previewed = Grade::ALL.map(|grade| grade.to_string());
                let previewed = previewed.iter().find(|grade| ran.stdout.contains(&format!("; {grade})\n")));
                // Skip refusals that are expected: the capture lacks the data, or a Job failed permanently on a node
                // outside the plan, which requires `--no-pause`.
                let unpaused = "hint: use --no-pause to proceed without a pause";
                let refused = ran.stderr.contains("the capture has no ") || ran.stderr.contains(unpaused);
                if ran.code != Some(0) && !refused {
                    wrong.push_str(&format!("{}: {}\n", case(), ran.stderr));
                }
                let follows = FOLLOWS.iter().any(|(rule, verb)| code == *rule && words[2] == *verb);
                if previewed.map(String::as_str) != announced && !follows {
                    wrong.push_str(&format!("{}: {previewed:?}, and not {announced:?}\n", case()));
                }
            }
        }
    }
    assert_eq!(wrong, "");
}

#[test]
fn remedies_resolve_findings_on_the_model_and_undo() {
    let cases = some(cases(), 20);
    assert!(!cases.is_empty());
    let mut wrong = String::new();
    for case in &cases {
        if let Err(why) = apply_and_undo(case) {
            let name = case.capture.file_name().unwrap_or_default().to_string_lossy();
            wrong.push_str(&format!("{} {} ({name}, {}): {why}\n", case.code, verb(&case.remedy), case.mark));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
