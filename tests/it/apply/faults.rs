//! Errors of the server while a plan is applied.

use http::Method;
use kubectl_skyhook::apply::{Canary, Options, StepResult, StopReason, Stopper, preflight};
use kubectl_skyhook::plan::Step;
use serde_json::json;

use super::server::Fault;
use super::*;

#[tokio::test(start_paused = true)]
async fn each_node_gets_one_patch() {
    let names = names(3);
    let server = server_of(&names);
    let (outcome, events) = execute(&server, &plan_of(&names), &Options { parallel: 1, ..options() }).await;
    assert_eq!(outcome.results, [[StepResult::Applied, StepResult::Applied, StepResult::Applied]]);
    assert_eq!(
        events,
        [
            "started 3",
            "sending gpu-0000",
            "gpu-0000 Applied",
            "sending gpu-0001",
            "gpu-0001 Applied",
            "sending gpu-0002",
            "gpu-0002 Applied",
            "done",
        ]
    );
    for name in &names {
        assert_eq!(server.object(&path(name)), wanted(name));
    }
    let store = server.store.lock().expect("no panic");
    let uris: Vec<&str> = store.calls.iter().map(|c| c.uri.as_str()).collect();
    assert_eq!(uris[0], "/api/v1/nodes/gpu-0000?fieldManager=kubectl-skyhook");
    assert_eq!(uris.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn server_dry_run_writes_nothing() {
    let names = names(2);
    let server = server_of(&names);
    let before = server.objects();
    let options = Options { dry_run: true, ..options() };
    let (outcome, _) = execute(&server, &plan_of(&names), &options).await;
    assert_eq!(outcome.results, [[StepResult::Applied, StepResult::Applied]]);
    assert_eq!(server.objects(), before);
}

#[tokio::test(start_paused = true)]
async fn concurrent_writes_are_kept() {
    let names = names(1);
    let server = server_of(&names).on_request(|store, call| {
        // Right before our patch arrives, the operator moves package b on.
        if call.method == Method::PATCH && call.nth == 0 {
            let text = two(("apply", "erroring"), ("interrupt", "in_progress"));
            store.set(&call.path, &["metadata", "annotations", &state_key()], json!(text));
        }
        None
    });
    let (outcome, events) = execute(&server, &plan_of(&names), &options()).await;
    assert_eq!(outcome.results, [[StepResult::Applied]]);
    assert!(events.contains(&"replanned gpu-0000".to_owned()), "{events:?}");
    let node = server.object(&path(&names[0]));
    let left = format!("{{{}}}", entry("b", "interrupt", "in_progress"));
    assert_eq!(node["metadata"]["annotations"], json!({state_key(): left}));
}

#[tokio::test(start_paused = true)]
async fn step_whose_precondition_changed_is_skipped() {
    let names = names(1);
    let server = server_of(&names).on_request(|store, call| {
        if call.method == Method::PATCH {
            let text = two(("config", "complete"), ("config", "complete"));
            store.set(&call.path, &["metadata", "annotations", &state_key()], json!(text));
        }
        None
    });
    let (outcome, _) = execute(&server, &plan_of(&names), &options()).await;
    let reason = "a|1.0.0 changed from apply/erroring to config/complete".to_owned();
    assert_eq!(outcome.results, [[StepResult::Skipped { reason }]]);
    assert_eq!(server.writes().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn deleted_or_recreated_object_is_not_patched() {
    let names = names(2);
    let server = server_of(&names).on_request(|store, call| {
        if call.method == Method::PATCH && call.nth == 0 {
            if call.path.ends_with("0") {
                store.objects.remove(&call.path);
            } else {
                store.set(&call.path, &["metadata", "uid"], json!("another"));
            }
        }
        None
    });
    let (outcome, _) = execute(&server, &plan_of(&names), &options()).await;
    let skipped = |reason: &str| StepResult::Skipped { reason: reason.to_owned() };
    assert_eq!(
        outcome.results,
        [[skipped("it no longer exists"), skipped("the object was recreated (its uid changed)"),]]
    );
}

#[tokio::test(start_paused = true)]
async fn admission_denial_is_not_reported_as_conflict() {
    let names = names(1);
    let server =
        server_of(&names).on_request(|_, call| (call.method == Method::PATCH).then_some(Fault::Answer(422)));
    let (outcome, _) = execute(&server, &plan_of(&names), &options()).await;
    let reason = "as the test has it".to_owned();
    assert_eq!(outcome.results, [[StepResult::Failed { reason }]]);
}

#[tokio::test(start_paused = true)]
async fn repeated_conflicts_end_in_a_skip() {
    let names = names(1);
    let server = server_of(&names).on_request(|store, call| {
        if call.method == Method::PATCH {
            let stage = format!("stage-{}", call.nth);
            let text = two(("apply", "erroring"), (&stage, "in_progress"));
            store.set(&call.path, &["metadata", "annotations", &state_key()], json!(text));
        }
        None
    });
    let (outcome, _) = execute(&server, &plan_of(&names), &options()).await;
    let reason = "repeated conflicts; pause the custom resource first, or retry".to_owned();
    assert_eq!(outcome.results, [[StepResult::Skipped { reason }]]);
}

/// On 200 nodes, the operator may write the entry of package b between our requests; no write is lost.
#[tokio::test(start_paused = true)]
async fn operator_writes_survive_races() {
    let names = names(200);
    let server = server_of(&names).on_request(|store, call| {
        let number: usize = call.path[call.path.len() - 4..].parse().expect("a number");
        // Before the first patch; before the first patch and the read after it; before the first two patches.
        let now = match number % 4 {
            0 => call.method == Method::PATCH && call.nth == 0,
            1 => call.nth == 0,
            2 => call.method == Method::PATCH && call.nth <= 1,
            _ => false,
        };
        if now {
            let annotations =
                &mut store.objects.get_mut(&call.path).expect("the node exists")["metadata"]["annotations"];
            let text = annotations[state_key()].as_str().expect("a state").to_owned();
            let first = call.method == Method::PATCH && call.nth == 0;
            let stage = if first { "interrupt" } else { "post-interrupt" };
            let moved = text.replace(r#""stage":"config""#, &format!(r#""stage":"{stage}""#));
            let moved = moved.replace(r#""stage":"interrupt""#, &format!(r#""stage":"{stage}""#));
            annotations[state_key()] = json!(moved);
        }
        None
    });
    let (outcome, _) = execute(&server, &plan_of(&names), &options()).await;
    assert_eq!(outcome.tally().applied, 200, "{:?}", outcome.tally());
    for (number, name) in names.iter().enumerate() {
        let stage = match number % 4 {
            0 => "interrupt",
            1 | 2 => "post-interrupt",
            _ => "config",
        };
        let left = format!("{{{}}}", entry("b", stage, "complete"));
        let node = server.object(&path(name));
        assert_eq!(node["metadata"]["annotations"], json!({state_key(): left}), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn write_done_behind_a_gateway_error_counts_as_applied() {
    for code in [500, 502, 504] {
        let names = names(1);
        let server = server_of(&names).on_request(move |_, call| {
            let first = call.method == Method::PATCH && call.nth == 0;
            first.then_some(Fault::DoneBut(code))
        });
        let (outcome, _) = execute(&server, &plan_of(&names), &options()).await;
        // `undo` reverts what counts as applied, but not what counts as unchanged.
        assert_eq!(outcome.results, [[StepResult::Applied]], "{code}");
        assert_eq!(server.writes()[&path(&names[0])], 1, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn interrupt_during_retry_after_sends_nothing_more() {
    let names = names(20);
    let server = server_of(&names).on_request(|_, call| {
        let first = call.path == path("gpu-0000") && call.nth == 0;
        first.then_some(Fault::RetryAfter(30))
    });
    let (stopper, stop) = Stopper::new();
    let options = Options { parallel: 8, ..options() };
    let plan = plan_of(&names);
    let (_, (outcome, _)) = tokio::join!(
        async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            stopper.stop();
        },
        execute_until(&server, &plan, &options, None, &stop)
    );
    assert_eq!(outcome.ended, StopReason::Interrupted);
    // Only the 7 requests in flight when the server sent `Retry-After` are completed.
    assert_eq!(server.writes().len(), 7);
    assert_eq!((outcome.tally().applied, outcome.tally().not_reached), (7, 13));
}

#[tokio::test(start_paused = true)]
async fn canary_stops_when_nodes_cannot_be_read() {
    let names = names(20);
    let server = server_of(&names)
        .on_request(|_, call| (call.uri.contains("labelSelector")).then_some(Fault::Answer(403)));
    let options = Options {
        canary: Some(Canary { first: "3".parse().expect("a share"), pause: Duration::from_millis(1) }),
        ..options()
    };
    let (outcome, _) = execute(&server, &plan_of(&names), &options).await;
    let reason = "as the test has it".to_owned();
    assert_eq!(outcome.ended, StopReason::NodesUnreadable { reason });
    assert_eq!((outcome.tally().applied, outcome.tally().not_reached), (3, 17));
}

/// The fault for a request, by the number of its node; each fault affects one node in twenty.
fn fault_of(number: usize, nth: usize) -> Option<Fault> {
    let first = nth == 0;
    match number % 20 {
        0 if first => Some(Fault::Answer(409)),
        1 if first => Some(Fault::Answer(422)),
        2 if nth < 3 => Some(Fault::Answer(429)),
        3 if first => Some(Fault::Answer(500)),
        4 => Some(Fault::Answer(403)),
        5 if first => Some(Fault::Hang),
        6 if first => Some(Fault::DoneAndHang),
        7 if first => Some(Fault::DoneBut(500)),
        8 if nth < 2 => Some(Fault::Answer(503)),
        9 => Some(Fault::Answer(500)),
        10 => Some(Fault::Hang),
        _ => None,
    }
}

#[tokio::test(start_paused = true)]
async fn patches_survive_server_errors() {
    let names = names(200);
    let server = server_of(&names).on_request(|_, call| {
        let number: usize = call.path[call.path.len() - 4..].parse().expect("a number");
        (call.method == Method::PATCH).then(|| fault_of(number, call.nth)).flatten()
    });
    let plan = plan_of(&names);
    let (outcome, _) = execute(&server, &plan, &options()).await;
    let mut done = 0;
    for ((step, result), (number, name)) in outcome.of(&plan).zip(names.iter().enumerate()) {
        assert_eq!(&step.target.name, name);
        let object = server.object(&path(name));
        match number % 20 {
            4 | 9 | 10 => {
                assert!(matches!(result, StepResult::Failed { .. }), "{name} {result:?}");
                assert_eq!(object, node(name));
            }
            _ => {
                assert_eq!(result, &StepResult::Applied, "{name}");
                assert_eq!(object, wanted(name));
                done += 1;
            }
        }
    }
    assert_eq!(done, 170);
    assert!(server.writes().values().all(|writes| *writes == 1), "nothing is written twice");
    assert_eq!(format!("{:?}", outcome.verdict()), "Partly");

    // Without faults, the same command changes the remaining nodes and no others.
    let again = server.clone().on_request(|_, _| None);
    let rest: Vec<Step> =
        outcome.of(&plan).filter(|(_, f)| **f != StepResult::Applied).map(|(s, _)| s.clone()).collect();
    assert_eq!(rest.len(), 30);
    let (outcome, _) = execute(&again, &plan, &options()).await;
    assert_eq!((outcome.tally().applied, outcome.tally().unchanged), (30, 170));
    assert!(server.writes().values().all(|writes| *writes == 1));
}

#[tokio::test(start_paused = true)]
async fn canary_stops_when_nodes_turn_erroring() {
    let names = names(20);
    let server = server_of(&names).on_request(|store, call| {
        // The operator has retried on two nodes, and failed.
        if call.uri.contains("labelSelector") {
            for name in ["gpu-0000", "gpu-0001"] {
                store.set(&path(name), &["metadata", "labels", &status_key()], json!("erroring"));
            }
        }
        None
    });
    let canary = Some(Canary { first: "3".parse().expect("a share"), pause: Duration::from_millis(1) });
    let strict = Options { canary: canary.clone(), max_failures: Some(1), ..options() };
    let (outcome, events) = execute(&server, &plan_of(&names), &strict).await;
    assert_eq!(
        outcome.ended,
        StopReason::NodesErroring { nodes: vec!["gpu-0000".into(), "gpu-0001".into()] }
    );
    assert_eq!((outcome.tally().applied, outcome.tally().not_reached), (3, 17));
    assert!(events.contains(&"pausing 3 17".to_owned()), "{events:?}");
    assert_eq!(server.writes().len(), 3);

    let lax = Options { canary, max_failures: Some(2), ..options() };
    let server = server_of(&names);
    let (outcome, events) = execute(&server, &plan_of(&names), &lax).await;
    assert_eq!((outcome.ended.clone(), outcome.tally().applied), (StopReason::Finished, 20));
    let pauses: Vec<&String> = events.iter().filter(|h| h.starts_with("pausing")).collect();
    assert_eq!(pauses, ["pausing 3 17", "pausing 9 11"]);
}

/// The step failed, and the node was erroring before.
#[tokio::test(start_paused = true)]
async fn failed_step_on_an_erroring_node_counts_once() {
    let names = names(6);
    let server = server_of(&names).on_request(|store, call| {
        store.set(&path("gpu-0000"), &["metadata", "labels", &status_key()], json!("erroring"));
        (call.method == Method::PATCH && call.uri.contains("gpu-0000")).then_some(Fault::Answer(403))
    });
    let canary = Some(Canary { first: "3".parse().expect("a share"), pause: Duration::from_millis(1) });
    let options = Options { canary, max_failures: Some(1), ..options() };
    let (outcome, _) = execute(&server, &plan_of(&names), &options).await;
    let tally = outcome.tally();
    assert_eq!((outcome.ended, tally.applied, tally.failed), (StopReason::Finished, 5, 1));
}

#[tokio::test(start_paused = true)]
async fn max_failures_stops_the_plan() {
    let names = names(50);
    let server =
        server_of(&names).on_request(|_, call| (call.method == Method::PATCH).then_some(Fault::Answer(403)));
    let strict = Options { max_failures: Some(4), parallel: 1, ..options() };
    let (outcome, _) = execute(&server, &plan_of(&names), &strict).await;
    assert_eq!(outcome.ended, StopReason::TooManyFailures { failed: 5 });
    assert_eq!((outcome.tally().failed, outcome.tally().not_reached), (5, 45));
    assert_eq!(format!("{:?}", outcome.verdict()), "Failed");
}

#[tokio::test(start_paused = true)]
async fn permissions_are_checked_before_the_first_write() {
    let names = names(1);
    let server = server_of(&names);
    server.store.lock().expect("no panic").denied.insert("patch nodes".into());
    let answer = preflight(&server.client(), &plan_of(&names), &options()).await;
    let denied: Vec<String> = answer.denied.iter().map(ToString::to_string).collect();
    assert_eq!((denied, answer.unknown), (vec!["patch nodes".to_owned()], None));
    assert_eq!(server.writes().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn permission_check_accepts_resource_names() {
    let names = names(2);
    let server = server_of(&names);
    let grant = |name: &str| {
        let mut store = server.store.lock().expect("no panic");
        store.denied.insert("patch nodes".to_owned());
        store.granted.insert(format!("patch nodes {name}"));
    };
    grant(&names[0]);
    let answer = preflight(&server.client(), &plan_of(&names), &options()).await;
    assert_eq!(answer.denied.len(), 1, "the role does not name the second node");
    grant(&names[1]);
    let answer = preflight(&server.client(), &plan_of(&names), &options()).await;
    assert_eq!((answer.denied, answer.unknown), (Vec::new(), None));
}
