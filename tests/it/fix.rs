//! `fix`: the remedies of findings as one plan, which is previewed, applied and undone like any other.

mod failed_remedy;
mod live;
mod model;

use std::fmt::Write as _;
use std::path::PathBuf;

use insta::assert_snapshot;

use crate::support::run::{Run, RunOutput, run};

/// Every captured cluster, by name.
fn clusters() -> Vec<PathBuf> {
    let directory = PathBuf::from("tests/clusters");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(directory)
        .expect("the directory is there")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    paths
}

fn over(cluster: &str, words: &str) -> RunOutput {
    run(&format!("fix {words} --from tests/clusters/{cluster}")).output()
}

/// The whole plan for every captured cluster at the highest impact limit, and the findings that are not
/// fixed.
#[test]
fn plan_for_every_capture_matches_the_snapshot() {
    let mut all = String::new();
    for path in clusters() {
        let from = path.display().to_string();
        let ran = Run::new(["fix", "--up-to", "B4", "--from", &from]).output();
        let name = path.file_name().expect("a name").to_string_lossy();
        let code = ran.code.expect("no signal ends the command");
        let _ = writeln!(all, "## {name}: {code}\n{}{}", ran.stdout, ran.stderr);
    }
    assert_snapshot!(all);
}

#[test]
fn skipped_finding_names_the_remedy_that_diagnose_prints_first() {
    let ran = over("dependency-uninstalled", "--up-to B4");
    let command = "kubectl skyhook uninstall gpu-tune tuning --cancel";
    let line = format!(
        "skips SKY111 dependency-uninstalled, gpu-tune driver, because it needs a decision: `{command}`"
    );
    assert!(ran.transcript().contains(&line), "{}", ran.transcript());
    let from = "--rule SKY111 --from tests/clusters/dependency-uninstalled";
    let diagnosed = run(&format!("diagnose stuck {from}")).output();
    let first = diagnosed.stdout.lines().skip_while(|line| !line.contains(" 1. ")).nth(1);
    assert_eq!(first.map(str::trim), Some(command), "{}", diagnosed.stdout);
}

#[test]
fn default_impact_limit_reruns_no_package() {
    assert_snapshot!(over("apply-erroring", "").transcript());
}

#[test]
fn healthy_cluster_needs_no_fix() {
    let ran = over("complete", "");
    assert_snapshot!(ran.transcript());
}

#[test]
fn fix_can_be_limited_by_code_node_and_custom_resource() {
    for words in [
        "SKY301 --up-to B2",
        "package-erroring --up-to B2",
        "--node node-1 --up-to B2",
        "--skyhook gpu-tune --up-to B2",
    ] {
        assert_snapshot!(words, over("rollout-stopped", words).transcript());
    }
}

#[test]
fn choices_and_manual_remedies_are_not_applied() {
    assert_snapshot!(over("drain-blocked", "--up-to B4").transcript());
    assert_snapshot!(over("image-pull-back-off", "--up-to B4").transcript());
    assert_snapshot!(over("dependency-uninstalled", "--up-to B4").transcript());
}

#[test]
fn non_blocking_finding_is_fixed_when_its_code_is_named() {
    assert_snapshot!(over("v0.17-paused", "--up-to B4").transcript());
    assert_snapshot!(over("v0.17-paused", "SKY308 --up-to B4").transcript());
}

#[test]
fn unknown_names_are_errors() {
    for words in ["SKY999", "pakage-erroring", "--node nod-1", "--skyhook gpu-tun", "--up-to B5"] {
        assert_snapshot!(words, over("apply-erroring", words).transcript());
    }
}

#[test]
fn json_output_matches_the_text() {
    let ran = over("apply-erroring", "--up-to B2 -o json");
    assert_snapshot!(ran.transcript());
    let ran = over("complete", "-o json");
    assert_snapshot!(ran.transcript());
}

/// A batch restart has the impact of the work that continues, here a reboot.
#[test]
fn limit_covers_the_work_that_continues() {
    let ran = run("fix --up-to B2 --from tests/rules/stale_erroring_after_reboot.yaml").output();
    assert_snapshot!(ran.transcript());
}
