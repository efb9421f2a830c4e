//! The journal is on disk before the first write, and suffices to undo everything.

use std::collections::BTreeMap;

use http::Method;
use kubectl_skyhook::apply::journal::{Circumstances, Store};
use kubectl_skyhook::apply::{StepResult, StopReason};
use kubectl_skyhook::plan::ClusterIdentity;

use super::server::Fault;
use super::*;

fn begin(store: &Store, plan: &Plan) -> Journal {
    begin_at("2026-11-20T12:00:00Z", store, plan)
}

fn begin_at(time: &str, store: &Store, plan: &Plan) -> Journal {
    Journal::begin(
        store,
        plan,
        Circumstances {
            at: time.parse().expect("a time"),
            command: vec!["kubectl".into(), "skyhook".into(), "reset".into(), "gpu".into()],
            origin: ClusterIdentity { server: "https://example.com".into(), uid: None },
            undoes: None,
        },
    )
    .expect("a journal")
}

fn store(directory: &tempfile::TempDir) -> Store {
    let state = directory.path().to_string_lossy().into_owned();
    Store::of(|name| (name == "XDG_STATE_HOME").then(|| state.clone())).expect("a place")
}

/// The objects, without the empty maps that only the test server keeps.
fn without_empty_maps(server: &Server) -> BTreeMap<String, Value> {
    let mut objects = server.objects();
    for object in objects.values_mut() {
        let metadata = object["metadata"].as_object_mut().expect("metadata");
        metadata.retain(|_, v| *v != json!({}));
    }
    objects
}

#[tokio::test(start_paused = true)]
async fn undo_restores_previous_values() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = store(&directory);
    let names = names(5);
    let server = server_of(&names);
    let before = without_empty_maps(&server);
    let plan = plan_of(&names);
    let mut journal = begin(&store, &plan);
    let (_stopper, stop) = Stopper::new();
    let (outcome, _) = execute_until(&server, &plan, &options(), Some(&mut journal), &stop).await;
    assert_eq!(outcome.tally().applied, 5);
    assert_eq!(journal.trouble(), None);

    let record = store.newest_in_force().expect("a journal").record;
    assert_eq!(record.begun.id, "20261120-120000.000-reset-gpu");
    assert_eq!((record.ended.clone(), &record.begun.plan), (Some(StopReason::Finished), &plan));
    let (undo, lost) = record.undo();
    assert_eq!((undo.title.as_str(), lost.len()), (r#"undo "reset gpu" (5 changes)"#, 0));
    let (outcome, _) = execute(&server, &undo, &options()).await;
    assert_eq!(outcome.tally().applied, 5);
    assert_eq!(without_empty_maps(&server), before);
}

#[tokio::test(start_paused = true)]
async fn undo_keeps_later_operator_writes() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = store(&directory);
    let names = names(3);
    let server = server_of(&names);
    let plan = plan_of(&names);
    let mut journal = begin(&store, &plan);
    let (_stopper, stop) = Stopper::new();
    execute_until(&server, &plan, &options(), Some(&mut journal), &stop).await;
    {
        let mut store = server.store.lock().expect("no panic");
        // On the first node, package a runs again; on the second node, the operator wrote only the status.
        let again = two(("apply", "in_progress"), ("config", "complete"));
        store.set(&path(&names[0]), &["metadata", "annotations", &state_key()], json!(again));
        store.set(&path(&names[1]), &["metadata", "annotations", &status_key()], json!("waiting"));
    }
    let (undo, _) = store.newest_in_force().expect("a journal").record.undo();
    let (outcome, _) = execute(&server, &undo, &options()).await;
    let reason = "a|1.0.0 changed from absent to apply/in_progress".to_owned();
    assert_eq!(outcome.results, [[StepResult::Skipped { reason }, StepResult::Applied, StepResult::Applied]]);
    let second = server.object(&path(&names[1]));
    assert_eq!(
        second["metadata"]["annotations"],
        json!({
            state_key(): two(("apply", "erroring"), ("config", "complete")),
            status_key(): "waiting",
        })
    );
    assert_eq!(without_empty_maps(&server)[&path(&names[2])], node(&names[2]));
}

/// The response is lost, and the operator writes the status before the object is read again.
#[tokio::test(start_paused = true)]
async fn undo_reverts_a_write_whose_answer_was_lost() {
    for lost in [1, usize::MAX] {
        let directory = tempfile::tempdir().expect("a directory");
        let store = store(&directory);
        let names = names(1);
        let server = server_of(&names).on_request(move |store, call| {
            if call.method == Method::PATCH && call.nth < lost {
                return Some(Fault::DoneBut(502));
            }
            let operator = call.method == Method::GET && store.writes.len() == 1;
            for map in ["annotations", "labels"] {
                if operator {
                    let status = json!("paused");
                    store.set(&call.path, &["metadata", map, &status_key()], status);
                }
            }
            None
        });
        let plan = plan_of(&names);
        let mut journal = begin(&store, &plan);
        let (_stopper, stop) = Stopper::new();
        let (outcome, _) = execute_until(&server, &plan, &options(), Some(&mut journal), &stop).await;
        let [result] = &outcome.results[0][..] else {
            panic!("one step");
        };
        match lost {
            1 => assert_eq!(*result, StepResult::Applied),
            _ => assert!(matches!(result, StepResult::Unknown { .. }), "{result:?}"),
        }
        let (undo, _) = store.newest_in_force().expect("a journal").record.undo();
        let server = server.on_request(|_, _| None);
        let (outcome, _) = execute(&server, &undo, &options()).await;
        assert_eq!(outcome.results, [[StepResult::Applied]]);
        let annotations = &server.object(&path(&names[0]))["metadata"]["annotations"];
        assert_eq!(annotations[state_key()], node(&names[0])["metadata"]["annotations"][state_key()]);
    }
}

/// The user stops the command after n requests: nothing is half done, and both retry and undo work.
#[tokio::test(start_paused = true)]
async fn stop_after_any_request_allows_retry_and_undo() {
    let names = names(6);
    for moment in 0..8 {
        let directory = tempfile::tempdir().expect("a directory");
        let store = store(&directory);
        let (stopper, stop) = Stopper::new();
        let server = server_of(&names).on_request(move |store, _| {
            if store.calls.len() == moment {
                stopper.stop();
            }
            None
        });
        let before = without_empty_maps(&server);
        let plan = plan_of(&names);
        let mut journal = begin(&store, &plan);
        let two_at_once = Options { parallel: 2, ..options() };
        let (outcome, _) = execute_until(&server, &plan, &two_at_once, Some(&mut journal), &stop).await;
        let tally = outcome.tally();
        let interrupted = moment < names.len();
        assert_eq!(outcome.ended == StopReason::Interrupted, interrupted, "moment {moment}");
        assert_eq!(tally.applied + tally.not_reached, 6, "moment {moment}: {tally:?}");
        assert_eq!(server.writes().len(), tally.applied);

        let again = server.clone().on_request(|_, _| None);
        let (undo, _) = store.newest_in_force().expect("a journal").record.undo();
        let snapshot = again.objects();
        execute(&again, &undo, &options()).await;
        assert_eq!(without_empty_maps(&again), before, "moment {moment}");
        again.store.lock().expect("no panic").objects = snapshot;
        execute(&again, &plan, &options()).await;
        for name in &names {
            assert_eq!(again.object(&path(name)), wanted(name));
        }
    }
}

/// The process is killed with requests in flight: the journal has no end, and an incomplete last line.
#[tokio::test]
async fn undo_works_after_a_crash_with_requests_in_flight() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = store(&directory);
    let names = names(4);
    let server = server_of(&names).on_request(|_, call| {
        // The second node is written, but its response is lost.
        let second = call.path.ends_with("1");
        second.then_some(Fault::DoneAndHang)
    });
    let before = without_empty_maps(&server);
    let plan = plan_of(&names);
    let mut journal = begin(&store, &plan);
    let file = journal.path.clone();
    let (_stopper, stop) = Stopper::new();
    let one_at_once = Options { parallel: 1, timeout: Duration::from_secs(600), ..options() };
    {
        let running = execute_until(&server, &plan, &one_at_once, Some(&mut journal), &stop);
        let second_written = async {
            while server.writes().len() < 2 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            _ = running => panic!("the second request must hang"),
            () = second_written => {}
        }
    }
    drop(journal);
    let mut text = std::fs::read_to_string(&file).expect("a journal");
    text.push_str(r#"{"stepResult":{"stage":0,"#);
    std::fs::write(&file, text).expect("a write");

    let record = store.read("20261120").expect("a journal");
    assert_eq!(record.ended, None);
    assert_eq!(record.results, [[Some(StepResult::Applied), None, None, None]]);
    let well = server.clone().on_request(|_, _| None);
    let (undo, _) = record.undo();
    let (outcome, _) = execute(&well, &undo, &options()).await;
    assert_eq!((outcome.tally().applied, outcome.tally().unchanged), (2, 2));
    assert_eq!(without_empty_maps(&well), before);
}

#[tokio::test(start_paused = true)]
async fn undo_reverts_a_rebased_step_as_sent() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = store(&directory);
    let names = names(1);
    let moved = two(("apply", "erroring"), ("interrupt", "in_progress"));
    let text = moved.clone();
    let server = server_of(&names).on_request(move |store, call| {
        if call.method == Method::PATCH && call.nth == 0 {
            store.set(&call.path, &["metadata", "annotations", &state_key()], json!(text));
        }
        None
    });
    let plan = plan_of(&names);
    let mut journal = begin(&store, &plan);
    let (_stopper, stop) = Stopper::new();
    execute_until(&server, &plan, &options(), Some(&mut journal), &stop).await;
    let (undo, _) = store.newest_in_force().expect("a journal").record.undo();
    let well = server.clone().on_request(|_, _| None);
    execute(&well, &undo, &options()).await;
    let annotations = well.object(&path(&names[0]))["metadata"]["annotations"].clone();
    assert_eq!(annotations, json!({state_key(): moved, status_key(): "erroring"}));
}

#[test]
fn journal_files_are_private_and_unique() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = store(&directory);
    let plan = plan_of(&names(1));
    let ids: Vec<String> = (0..3).map(|_| begin(&store, &plan).id).collect();
    assert_eq!(
        ids,
        [
            "20261120-120000.000-reset-gpu",
            "20261120-120000.000-reset-gpu-2",
            "20261120-120000.000-reset-gpu-3"
        ]
    );
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &std::path::Path| {
            std::fs::metadata(path).expect("the path exists").permissions().mode() & 0o777
        };
        assert_eq!(mode(&store.path(&ids[0])), 0o600);
        assert_eq!(mode(&store.directory), 0o700);
    }
    assert_eq!(
        store.read("2026").expect_err("the prefix is ambiguous").to_string(),
        r#""2026" matches 3 journals; use a longer id"#
    );
}

/// Scripts run several commands within a second.
#[test]
fn newest_journal_is_found_within_one_second() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = store(&directory);
    for (time, verb) in [("12:00:00.004", "resume"), ("12:00:00.03", "disable")] {
        let plan = Plan { title: format!("{verb} gpu"), ..plan_of(&names(1)) };
        begin_at(&format!("2026-11-20T{time}Z"), &store, &plan);
    }
    let newest = store.newest_in_force().expect("a journal").record;
    assert_eq!(newest.begun.plan.title, "disable gpu");
}

#[test]
fn missing_journal_directory_prevents_writes() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("file");
    std::fs::write(&file, "").expect("a file");
    let store = Store { directory: file.join("journal") };
    let error = Journal::begin(&store, &plan_of(&names(1)), Circumstances::default());
    let error = error.expect_err("a file blocks the directory").to_string();
    assert!(error.ends_with("or pass --no-journal to continue without undo"), "{error}");
}
