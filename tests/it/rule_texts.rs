//! The whole text of findings whose message, evidence or remedies depend on what else was read.

use insta::assert_snapshot;

use crate::support::run::run;

/// The output of `diagnose stuck` for fixtures of one rule.
fn texts(code: &str, fixtures: &[&str]) -> String {
    let stuck = |fixture: &&str| {
        let ran = run(&format!("diagnose stuck --rule {code} -v --from tests/rules/{fixture}.yaml")).output();
        // The time of the file is that of the checkout.
        let transcript = ran.transcript();
        let undated = match transcript.split_once(" Ages are relative to ") {
            Some((before, after)) => match after.split_once(", when the file was written.") {
                Some((_, after)) => format!("{before}{after}"),
                None => transcript,
            },
            None => transcript,
        };
        format!("# {fixture}\n{undated}")
    };
    fixtures.iter().map(stuck).collect::<Vec<_>>().join("\n")
}

/// The nodes that wait next, owners whose pods do not end, and cordons that are lifted repeatedly.
#[test]
fn drains_show_what_follows() {
    assert_snapshot!("interrupt_waits", texts("SKY404", &["interrupt_waits_for_workload"]));
    let ran =
        run("diagnose stuck --rule SKY415 --node lifted --from tests/rules/cordon_lifted.yaml").output();
    assert_snapshot!("cordon_lifted", ran.transcript());
}

/// A pod on each node: the operator must be allowed to evict such pods, and no node is worth ignoring.
#[test]
fn refused_drains_show_what_follows() {
    assert_snapshot!("drain_unmanaged", texts("SKY401", &["drain_blocked.unmanaged"]));
}

#[test]
fn overdue_action_names_what_refuses_it() {
    let variants = ["quota", "pod_security", "limit_range", "compute_quota", "webhook", "roles", "allowed"];
    let fixtures = variants.map(|variant| format!("action_overdue.{variant}"));
    let fixtures = fixtures.iter().map(String::as_str).collect::<Vec<_>>();
    assert_snapshot!("action_overdue", texts("SKY228", &fixtures));
}

/// Every command that answers "is it stuck" gives the same answer.
#[test]
fn overdue_action_is_stuck_everywhere() {
    let from = "--from tests/rules/action_overdue.quota.yaml";
    let commands = ["diagnose stuck", "diagnose node node-1", "status", "status gpu", "diagnose check"];
    let outputs = commands.map(|command| run(&format!("{command} {from}")).output().transcript());
    assert_snapshot!("action_overdue_everywhere", outputs.join("\n"));
}

#[test]
fn refused_pull_names_the_cause() {
    let from = "--from tests/rules/image_not_pulled.refusals.yaml";
    let nodes = ["rate-limit", "credentials", "absent", "either", "other-architecture"];
    let texts = nodes.map(|node| {
        let ran = run(&format!("diagnose stuck --rule SKY202 --node {node} {from}")).output();
        ran.transcript()
    });
    assert_snapshot!("image_refusals", texts.join("\n"));
}

#[test]
fn sandbox_and_volume_are_told_apart() {
    assert_snapshot!("sandbox", texts("SKY203", &["container_not_created.sandbox"]));
}

#[test]
fn operator_out_of_memory_names_its_limit() {
    assert_snapshot!("operator_out_of_memory", texts("SKY501", &["operator_not_running.out_of_memory"]));
}

#[test]
fn evicted_pod_waits_for_the_end_of_the_taint() {
    assert_snapshot!("disk_pressure", texts("SKY204", &["ended_pod_blocks_stage.pressure"]));
}

/// A taint that only the operator removes.
#[test]
fn a_taint_waits_for_the_operator() {
    assert_snapshot!("taint_without_operator", texts("SKY411", &["runtime_required_not_in_force.down"]));
}

/// The finalizers of custom resources cannot be stripped before the webhooks are deleted.
#[test]
fn webhooks_of_a_removed_operator_are_deleted_first() {
    let fixtures = ["operator_not_running.namespace", "webhook_unreachable"];
    let from = fixtures.map(|fixture| format!("--from tests/rules/{fixture}.yaml")).join(" ");
    let ran = run(&format!("diagnose stuck --rule SKY501 -o json {from}")).output();
    let remedies = ran.json()["causes"][0]["remedies"].clone();
    let last = remedies.as_array().and_then(|remedies| remedies.last()).expect("a remedy");
    let caveat = last["caveat"].as_str().expect("a caveat");
    assert!(
        caveat.starts_with("then delete the webhook configurations that SKY505 names, strip"),
        "{caveat}"
    );
}

#[test]
fn foreign_deadline_is_not_the_timeout_of_the_stage() {
    assert_snapshot!("foreign_deadline", texts("SKY201", &["package_erroring.deadline"]));
}

#[test]
fn job_controller_and_other_managers_are_named() {
    let texts = [texts("SKY229", &["job_controller_stopped"]), texts("SKY230", &["job_suspended_by_others"])];
    assert_snapshot!("job_controllers", texts.join("\n"));
}

/// The text of one rule on one node of its fixture.
fn on_node(code: &str, fixture: &str, node: &str) -> String {
    let words = format!("diagnose stuck --rule {code} --node {node} --from tests/rules/{fixture}.yaml");
    run(&words).output().transcript()
}

#[test]
fn other_programs_on_a_node_are_named() {
    let texts = [
        on_node("SKY414", "node_being_deleted", "drained-for-hours"),
        on_node("SKY414", "node_being_deleted", "behind-budget"),
        on_node("SKY415", "cordon_lifted", "lifted"),
        on_node("SKY403", "untolerated_taint", "gated"),
        on_node("SKY403", "untolerated_taint", "left-by-scale-down"),
        on_node("SKY402", "cordon_without_owner", "half-changed"),
        on_node("SKY231", "foreign_container_running", "injected"),
    ];
    assert_snapshot!("other_programs", texts.join("\n"));
}

#[test]
fn other_programs_of_the_cluster_are_named() {
    let texts = [texts("SKY514", &["foreign_webhook_unreachable"]), texts("SKY515", &["crd_being_deleted"])];
    assert_snapshot!("other_programs_of_the_cluster", texts.join("\n"));
}

#[test]
fn conclusions_that_the_evidence_proves() {
    let texts = [
        on_node("SKY409", "node_not_ready", "shutting-down"),
        texts("SKY501", &["operator_not_running.circle"]),
        texts("SKY201", &["package_erroring.evicted", "package_erroring.selector"]),
    ];
    assert_snapshot!("conclusions", texts.join("\n"));
}
