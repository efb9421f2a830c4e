//! Invalid arguments, and output from files.

use insta::assert_snapshot;

use super::{SKYHOOK, driver, logs, requested_logs};
use crate::support::object_builder::PackageRun;
use crate::support::run::run;

#[test]
fn unknown_names_stages_and_conflicting_flags_are_refused() {
    let fake =
        SKYHOOK.serve(driver()).with(SKYHOOK.node("node-1", "complete", &["driver|1.0.0 config complete"]));
    assert_snapshot!(logs(&fake, "drivr").transcript());
    assert_snapshot!(logs(&fake, "driver --stage aply").transcript());
    assert_snapshot!(logs(&fake, "driver --node node-9").transcript());
    assert_snapshot!(logs(&fake, "driver --follow --previous").transcript());
    assert_snapshot!(logs(&fake, "driver --follow=false --tail=-1 --timestamps=false").transcript());
}

#[test]
fn unlistable_pods_are_an_error() {
    let fake = SKYHOOK.serve(driver());
    fake.on("LIST pods").reply(403);
    assert_snapshot!(logs(&fake, "driver").transcript());
}

#[test]
fn files_explain_without_logs() {
    let words = "package logs driver --skyhook gpu-tune --from tests/clusters/apply-erroring";
    assert_snapshot!(run(words).output().transcript());
}

/// A failing stage is not complete, so its pod was not deleted because of completion.
#[test]
fn failing_stage_without_a_pod_is_not_complete() {
    let fake =
        SKYHOOK.serve(driver()).with(SKYHOOK.node("node-1", "erroring", &["driver|1.0.0 apply erroring"]));
    let ran = logs(&fake, "driver");
    let message = "though stage apply is erroring";
    ran.expect_stderr(message);
    ran.expect_no_stderr("complete");
}

/// A pod or a Job selects its own run, not another stage on the same node.
#[test]
fn a_pod_shows_its_own_log() {
    let pod = |name: &str, stage: &'static str, state: &str| {
        let place = PackageRun { node: "node-1", stage, ..PackageRun::default() };
        SKYHOOK.pod(name, &place, "Pending", &[&format!("driver-{stage} {state}")])
    };
    let fake = SKYHOOK
        .serve(driver())
        .with(SKYHOOK.node("node-1", "erroring", &["driver|1.0.0 config erroring"]))
        .with(pod("first", "apply", "done"))
        .with(pod("second", "config", "looping"));
    for name in ["first", "pod/first", "pod/second"] {
        logs(&fake, name).expect_code(0);
    }
    let pods = requested_logs(&fake);
    let pods: Vec<&str> = pods.iter().filter_map(|log| log.split('?').next()).collect();
    assert_eq!(pods, ["first", "first", "second"]);
}
