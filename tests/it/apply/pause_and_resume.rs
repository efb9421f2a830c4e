//! Pause, write, resume: with a pause that the operator acknowledges or ignores, and with an interrupt.

use http::Method;
use kubectl_skyhook::apply::{StepResult, StopReason};
use kubectl_skyhook::plan::{Condition, Goal};

use super::server::Fault;
use super::*;

fn cr() -> Value {
    json!({
        "kind": FLAVOR.kind(),
        "metadata": {"name": "gpu", "uid": "uid-gpu"},
        "status": {"status": "in_progress"},
    })
}

fn cr_path() -> String {
    Target::skyhook(FLAVOR, "gpu", None).path()
}

/// A plan that pauses, waits for the operator, writes to the nodes, and resumes.
fn pause_write_resume(names: &[String], at_most: u64) -> Plan {
    let target = Target::skyhook(FLAVOR, "gpu", Some("uid-gpu"));
    let pause = |from, to| {
        let edit = Edit::new(from, to);
        let change = Metadata { no_annotations: from.is_none(), ..Metadata::default() };
        let change = change.annotation(FLAVOR.key("pause"), edit);
        Step::new(target.clone(), Change::Metadata(change), "hold the operator")
    };
    let mut plan = plan_of(names);
    let acting = plan.stages.remove(0);
    plan.stages = vec![
        PlanStage {
            steps: vec![pause(None, Some("true"))],
            until: Some(Goal { target: target.clone(), condition: Condition::Paused, at_most }),
            ..PlanStage::default()
        },
        acting,
        PlanStage { steps: vec![pause(Some("true"), None)], always: true, ..PlanStage::default() },
    ];
    plan
}

fn server(names: &[String]) -> Server {
    let server = server_of(names);
    server.store.lock().expect("no panic").objects.insert(cr_path(), cr());
    server
}

fn paused(object: &Value) -> bool {
    object["metadata"]["annotations"][FLAVOR.key("pause")] == "true"
}

/// Simulates the operator: it acknowledges the pause at the third read.
fn operator(store: &mut server::Store, call: &server::Call) {
    let looks = store.calls.iter().filter(|c| c.path == cr_path() && c.method == Method::GET).count();
    if call.path == cr_path() && looks == 3 && paused(&store.objects[&cr_path()]) {
        store.set(&cr_path(), &["status", "status"], json!("paused"));
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_are_written_only_after_the_operator_paused() {
    let names = names(2);
    let server = server(&names).on_request(|store, call| {
        operator(store, call);
        if call.path.contains("nodes/gpu-") && call.method == Method::PATCH {
            assert_eq!(store.objects[&cr_path()]["status"]["status"], "paused");
        }
        None
    });
    let (outcome, events) = execute(&server, &pause_write_resume(&names, 60), &options()).await;
    assert_eq!((outcome.ended.clone(), outcome.tally().applied), (StopReason::Finished, 4));
    assert!(
        events.contains(&"waiting until the operator has paused nodewright/gpu".to_owned()),
        "{events:?}"
    );
    assert!(!paused(&server.object(&cr_path())));
}

#[tokio::test(start_paused = true)]
async fn wait_for_paused_status_times_out() {
    let names = names(2);
    let server = server(&names);
    let (outcome, _) = execute(&server, &pause_write_resume(&names, 1), &options()).await;
    let waiting = "the operator has paused nodewright/gpu".to_owned();
    assert_eq!(outcome.ended, StopReason::TimedOut { waiting });
    assert_eq!(
        outcome.results,
        [vec![StepResult::Applied], vec![StepResult::NotReached; 2], vec![StepResult::Applied]]
    );
    assert!(!paused(&server.object(&cr_path())), "the plan ends its pause");
}

#[tokio::test(start_paused = true)]
async fn refused_pause_stops_the_plan() {
    let names = names(1);
    let server = server(&names).on_request(|_, call| {
        (call.method == Method::PATCH && call.path == cr_path()).then_some(Fault::Answer(403))
    });
    let (outcome, _) = execute(&server, &pause_write_resume(&names, 60), &options()).await;
    assert_eq!(outcome.ended, StopReason::DependencyFailed);
    assert_eq!(server.writes().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn interrupt_while_paused_resumes_the_operator() {
    let names = names(2);
    let (stopper, stop) = Stopper::new();
    let server = server(&names).on_request(move |store, call| {
        operator(store, call);
        if call.path.contains("nodes/gpu-") {
            stopper.stop();
        }
        None
    });
    let one_at_once = Options { parallel: 1, ..options() };
    let (outcome, _) =
        execute_until(&server, &pause_write_resume(&names, 60), &one_at_once, None, &stop).await;
    assert_eq!(outcome.ended, StopReason::Interrupted);
    assert_eq!(
        outcome.results,
        [
            vec![StepResult::Applied],
            vec![StepResult::Applied, StepResult::NotReached],
            vec![StepResult::Applied]
        ]
    );
    assert!(!paused(&server.object(&cr_path())));
}

#[tokio::test(start_paused = true)]
async fn undo_pauses_the_operator_too() {
    let pause_write_resume = pause_write_resume(&names(1), 60);
    let (stages, lost) = pause_write_resume.inverse();
    assert_eq!(lost.len(), 0);
    let shape: Vec<(Vec<String>, bool, bool)> = stages
        .iter()
        .map(|s| {
            let lines = s.steps.iter().flat_map(|s| s.change.describe()).take(1).collect();
            (lines, s.until.is_some(), s.always)
        })
        .collect();
    let pause = FLAVOR.key("pause");
    assert_eq!(
        shape,
        [
            (vec![format!("set annotation {pause}=true")], true, false),
            (vec!["add entry a|1.0.0 (apply/erroring)".to_owned()], false, false),
            (vec![format!("remove annotation {pause}=true")], false, true),
        ]
    );
}
