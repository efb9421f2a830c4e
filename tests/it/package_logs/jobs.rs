//! The newer API: Jobs, whose attempts are separate pods.

use serde_json::json;

use super::{NODEWRIGHT, driver, logs, requested_logs};
use crate::support::fake_api::FakeApi;
use crate::support::object_builder::PackageRun;
use crate::support::run::run;

fn on<'a>(node: &'a str, job: &'a str, at: &'a str) -> PackageRun<'a> {
    PackageRun { node, job: Some(job), at, ..PackageRun::default() }
}

fn given_up() -> serde_json::Value {
    json!({"failed": 2, "conditions": [
        {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "no more attempts"},
    ]})
}

/// Node 1 is complete; the Job of node 2 has failed permanently, and two of its attempts are kept.
fn two_nodes() -> FakeApi {
    let (first, second) = ("2026-11-20T11:50:00Z", "2026-11-20T11:51:00Z");
    let failed = ["driver-init done", "driver-apply failed", "driver-applycheck waiting:PodInitializing"];
    let done = ["driver-init done", "driver-apply done", "driver-applycheck done"];
    let complete = json!({"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]});
    let fake = NODEWRIGHT
        .serve(driver())
        .with(NODEWRIGHT.node("node-1", "complete", &["driver|1.0.0 config complete"]))
        .with(NODEWRIGHT.node("node-2", "erroring", &["driver|1.0.0 apply erroring"]))
        .with(NODEWRIGHT.job(&on("node-1", "apply-1", first), complete))
        .with(NODEWRIGHT.pod("apply-1-a", &on("node-1", "apply-1", first), "Succeeded", &done))
        .with(NODEWRIGHT.job(&on("node-2", "apply-2", first), given_up()))
        .with(NODEWRIGHT.pod("apply-2-a", &on("node-2", "apply-2", first), "Failed", &failed))
        .with(NODEWRIGHT.pod("apply-2-b", &on("node-2", "apply-2", second), "Failed", &failed));
    fake.change(|it| {
        it.logs.write("apply-1-a", "driver-apply", "2026-11-20T11:50:01Z one\n2026-11-20T11:50:05Z two\n");
        it.logs.write("apply-1-a", "driver-applycheck", "2026-11-20T11:50:06Z fine\n");
        it.logs.write("apply-2-a", "driver-apply", "2026-11-20T11:50:02Z first attempt\n");
        it.logs.write("apply-2-b", "driver-apply", "2026-11-20T11:50:03.5Z latest attempt\n");
    });
    fake
}

#[test]
fn nodes_are_interleaved_by_time_with_name_prefixes() {
    assert_eq!(
        logs(&two_nodes(), "driver").parts(),
        (
            "node-1 driver-apply      │ one\n\
             node-2 driver-apply      │ latest attempt\n\
             node-1 driver-apply      │ two\n\
             node-1 driver-applycheck │ fine\n",
            "node-2 apply (job/nodewright/apply-2): driver-apply Error, exit code 3; the job has failed: BackoffLimitExceeded: \
             no more attempts; 1 earlier attempt kept: --previous\n",
            Some(0)
        )
    );
}

#[test]
fn previous_shows_the_attempt_before() {
    let ran = logs(&two_nodes(), "driver --node node-2 --previous");
    assert_eq!(ran.stdout, "first attempt\n");
}

#[test]
fn missing_latest_log_falls_back_to_an_earlier_attempt() {
    let fake = two_nodes();
    fake.on("GET pods/log apply-2-b").reply(404);
    let ran = logs(&fake, "driver --node node-2");
    assert_eq!((ran.stdout.as_str(), ran.code), ("first attempt\n", Some(0)));
}

#[test]
fn deleted_pods_fall_back_to_the_operator_log_tail() {
    let place = on("node-1", "apply-1", "2026-11-20T11:50:00Z");
    let mut job = NODEWRIGHT.job(&place, given_up());
    let key = kubectl_skyhook::api::ApiFlavor::NodeWright.key("last-logs");
    job["metadata"]["annotations"][key] = "the last words\n".into();
    let fake = NODEWRIGHT
        .serve(driver())
        .with(NODEWRIGHT.node("node-1", "erroring", &["driver|1.0.0 apply erroring"]))
        .with(job);
    assert_eq!(
        logs(&fake, "driver").parts(),
        (
            "the last words\n",
            "node-1 apply:\n\
             node-1 apply (job/nodewright/apply-1): its pods are gone; these are the last lines of the log, kept by the operator; the job has \
             failed: BackoffLimitExceeded: no more attempts\n",
            Some(0)
        )
    );
}

#[test]
fn tails_in_a_capture_name_their_nodes() {
    let key = kubectl_skyhook::api::ApiFlavor::NodeWright.key("last-logs");
    let mut fake = NODEWRIGHT.serve(driver());
    for (node, job) in [("node-1", "apply-1"), ("node-2", "apply-2")] {
        let mut job = NODEWRIGHT.job(&on(node, job, "2026-11-20T11:50:00Z"), given_up());
        job["metadata"]["annotations"][&key] = format!("words of {node}\n").into();
        fake = fake.with(NODEWRIGHT.node(node, "erroring", &["driver|1.0.0 apply erroring"])).with(job);
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": fake.objects()}).to_string();
    let ran = run("package logs driver --from - --now 2026-11-20T12:00:00Z").stdin(list.as_bytes()).output();
    insta::assert_snapshot!(ran.transcript());
}

#[test]
fn pod_that_cannot_start_shows_the_reason() {
    let place = on("node-1", "apply-1", "2026-11-20T11:50:00Z");
    let fake = NODEWRIGHT
        .serve(driver())
        .with(NODEWRIGHT.node("node-1", "in_progress", &["driver|1.0.0 apply in_progress"]))
        .with(NODEWRIGHT.job(&place, json!({"active": 1})))
        .with(NODEWRIGHT.pod(
            "a",
            &place,
            "Pending",
            &["driver-init waiting:ImagePullBackOff", "driver-apply waiting:PodInitializing"],
        ));
    assert_eq!(
        logs(&fake, "driver").parts(),
        ("", "node-1 apply (job/nodewright/apply-1): driver-init waits: ImagePullBackOff\n", Some(0))
    );
    assert_eq!(requested_logs(&fake), Vec::<String>::new());
}

#[test]
fn pending_attempt_shows_the_failed_one() {
    let (first, second) = ("2026-11-20T11:50:00Z", "2026-11-20T11:51:00Z");
    let fake = NODEWRIGHT
        .serve(driver())
        .with(NODEWRIGHT.node("node-1", "in_progress", &["driver|1.0.0 apply erroring"]))
        .with(NODEWRIGHT.job(&on("node-1", "apply-1", first), json!({"active": 1, "failed": 1})))
        .with(NODEWRIGHT.pod("a", &on("node-1", "apply-1", first), "Failed", &["driver-apply failed"]))
        .with(NODEWRIGHT.pod(
            "b",
            &on("node-1", "apply-1", second),
            "Pending",
            &["driver-apply waiting:PodInitializing"],
        ));
    fake.change(|it| it.logs.write("a", "driver-apply", "2026-11-20T11:50:02Z first attempt\n"));
    assert_eq!(logs(&fake, "driver").stdout, "first attempt\n");
}

#[test]
fn uninstall_stage_has_logs() {
    let place = PackageRun { stage: "uninstall", ..on("node-1", "uninstall-1", "2026-11-20T11:50:00Z") };
    let fake = NODEWRIGHT
        .serve(driver())
        .with(NODEWRIGHT.node("node-1", "in_progress", &["driver|1.0.0 uninstall in_progress"]))
        .with(NODEWRIGHT.job(&place, json!({"active": 1})))
        .with(NODEWRIGHT.pod("u", &place, "Pending", &["driver-uninstall running"]));
    fake.change(|it| it.logs.write("u", "driver-uninstall", "2026-11-20T11:50:02Z removing\n"));
    assert_eq!(logs(&fake, "driver --stage uninstall").stdout, "removing\n");
}

#[test]
fn refused_log_is_an_error_and_others_are_shown() {
    let fake = two_nodes();
    fake.on("GET pods/log apply-1-a").reply(403);
    let ran = logs(&fake, "driver");
    insta::assert_snapshot!(ran.transcript());
}
