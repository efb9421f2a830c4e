//! Responses that do not prove what was done.

use http::Method;
use kubectl_skyhook::apply::{PlanVerdict, StepResult};
use kubectl_skyhook::plan::Kind;
use tokio::time::Instant;

use super::server::Fault;
use super::*;

/// Bodies of 200 responses that do not contain the object.
const INVALID_BODIES: [&str; 6] = [
    "<!DOCTYPE html><title>Sign in</title>",
    "null",
    "",
    "{}",
    r#"{"kind": "Status", "status": "Success"}"#,
    r#"{"kind": "Node", "metadata": {"name": "another"}}"#,
];

#[tokio::test(start_paused = true)]
async fn only_a_response_with_the_object_counts_as_done() {
    for text in INVALID_BODIES {
        for fault in [Fault::Body(text), Fault::DoneButBody(text)] {
            let names = names(1);
            let server = server_of(&names).on_request(move |_, call| {
                let first = call.method == Method::PATCH && call.nth == 0;
                first.then_some(fault)
            });
            let (outcome, _) = execute(&server, &plan_of(&names), &options()).await;
            assert_eq!(outcome.results, [[StepResult::Applied]], "{fault:?}");
            assert_eq!(server.object(&path(&names[0])), wanted(&names[0]), "{fault:?}");
            assert_eq!(server.writes()[&path(&names[0])], 1, "{fault:?}");
        }
    }
}

/// An object of the same name with another uid is a different object.
#[tokio::test(start_paused = true)]
async fn response_with_another_uid_does_not_count() {
    const OTHER: &str = r#"{"kind": "Node", "metadata": {"name": "gpu-0000", "uid": "other"}}"#;
    let names = names(1);
    let server =
        server_of(&names).on_request(|_, call| (call.method == Method::PATCH).then_some(Fault::Body(OTHER)));
    let (outcome, _) = execute(&server, &plan_of(&names), &options()).await;
    let reason = "the server returned 200, but the response is not node/gpu-0000".to_owned();
    assert_eq!(outcome.results, [[StepResult::Failed { reason }]]);
}

#[tokio::test(start_paused = true)]
async fn object_is_read_again_after_an_invalid_response() {
    for text in INVALID_BODIES {
        let always = |fault| {
            let names = names(1);
            server_of(&names).on_request(move |_, call| (call.method == Method::PATCH).then_some(fault))
        };
        let plan = plan_of(&names(1));
        let (not_done, _) = execute(&always(Fault::Body(text)), &plan, &options()).await;
        assert_eq!(not_done.verdict(), PlanVerdict::Failed, "{text}");
        let (done, _) = execute(&always(Fault::DoneButBody(text)), &plan, &options()).await;
        assert_eq!(done.results, [[StepResult::Applied]], "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn result_is_unknown_when_the_object_cannot_be_read_again() {
    for fault in [
        Fault::DoneAndHang,
        Fault::Hang,
        Fault::DoneBut(502),
        Fault::DoneButBody("null"),
        Fault::Body("<html>"),
    ] {
        let names = names(2);
        let server = server_of(&names).on_request(move |_, call| {
            call.path.ends_with("0").then_some(match call.method {
                Method::PATCH => fault,
                _ => Fault::Answer(401),
            })
        });
        let (outcome, _) = execute(&server, &plan_of(&names), &options()).await;
        let [unknown, done] = &outcome.results[0][..] else {
            panic!("two steps");
        };
        assert!(matches!(unknown, StepResult::Unknown { .. }), "{fault:?}: {unknown:?}");
        assert_eq!(*done, StepResult::Applied);
        assert_eq!(outcome.verdict(), PlanVerdict::Partly);
        assert_eq!((outcome.tally().unknown, outcome.tally().failed), (1, 0));
    }
}

/// A web page or another invalid body does not prove that the object is gone.
#[tokio::test(start_paused = true)]
async fn web_page_does_not_count_as_not_found() {
    for text in INVALID_BODIES {
        let names = names(1);
        let server = server_of(&names).on_request(move |_, call| match call.method {
            Method::PATCH => Some(Fault::Answer(422)),
            _ => Some(Fault::Body(text)),
        });
        let mut plan = plan_of(&names);
        plan.stages[0].steps[0].may_be_gone = true;
        let (outcome, _) = execute(&server, &plan, &options()).await;
        assert_eq!(outcome.verdict(), PlanVerdict::Failed, "{text}: {:?}", outcome.results);
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_name_sends_no_request() {
    for name in ["a/b", "..", "a b", "a%2Fb", "a#b", "a\nb"] {
        let server = server_of(&names(1));
        let mut plan = plan_of(&names(1));
        plan.stages[0].steps[0].target.name = name.to_owned();
        let (outcome, _) = execute(&server, &plan, &options()).await;
        let reason = "invalid object name".to_owned();
        assert_eq!(outcome.results, [[StepResult::Failed { reason }]], "{name:?}");
        assert!(server.store.lock().expect("no panic").calls.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn delete_is_done_only_when_the_server_confirms_it() {
    for fault in [None, Some("null"), Some("<html>")] {
        let object = path("gpu-0000").replace("/nodes/", "/namespaces/x/pods/");
        let pod = json!({"kind": "Pod", "metadata": {"name": "gpu-0000", "uid": "uid-pod"}});
        let server = Server::new([(object.clone(), pod)]).on_request(move |_, call| {
            let first = call.method == Method::DELETE && call.nth == 0;
            fault.filter(|_| first).map(Fault::DoneButBody)
        });
        let target = Target::inside(Kind::Pod, "x", "gpu-0000", Some("uid-pod"));
        let step = Step::new(target, Change::Delete { was: None }, "a test");
        let plan = Plan { stages: vec![PlanStage::of(vec![step])], ..plan_of(&[]) };
        let (outcome, _) = execute(&server, &plan, &options()).await;
        assert_eq!(outcome.results, [[StepResult::Applied]], "{fault:?}");
        assert_eq!(server.object(&object), Value::Null);
    }
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_limited_in_total() {
    let names = names(40);
    let server = server_of(&names)
        .on_request(|_, call| (call.method == Method::PATCH).then_some(Fault::RetryAfter(3600)));
    let options = Options { parallel: 8, ..options() };
    let begun = Instant::now();
    let (outcome, events) = execute(&server, &plan_of(&names), &options).await;
    assert_eq!(outcome.tally().failed, 40);
    assert!(events.iter().any(|h| h == "throttled"), "{events:?}");
    let took = begun.elapsed();
    assert!((120..180).contains(&took.as_secs()), "{took:?}");
}

/// Each successful change resets the limit on `Retry-After` waits, which 40 waits of 20 s exceed in total.
#[tokio::test(start_paused = true)]
async fn successful_changes_reset_the_retry_after_limit() {
    let names = names(40);
    let server = server_of(&names).on_request(|_, call| {
        let first = call.method == Method::PATCH && call.nth == 0;
        first.then_some(Fault::RetryAfter(20))
    });
    let options = Options { parallel: 1, ..options() };
    let (outcome, _) = execute(&server, &plan_of(&names), &options).await;
    assert_eq!(outcome.tally().applied, 40);
}

/// Without credentials no request is sent, so the outcome is known.
#[tokio::test(start_paused = true)]
async fn failed_credential_plugin_is_a_failure_not_unknown() {
    let names = names(1);
    let server = server_of(&names).on_request(|_, _| Some(Fault::NoCredentials));
    let (outcome, _) = execute(&server, &plan_of(&names), &options()).await;
    let reason = "credential plugin \"login\" failed: exit status: 1; run it manually to see why";
    assert_eq!(outcome.results, [[StepResult::Failed { reason: reason.to_owned() }]]);
}
