//! Dependencies between stages: a stage starts after its dependencies; independent stages run in parallel.

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use http::Method;
use kubectl_skyhook::apply::{StepResult, StopReason, WaitStrategy, apply};
use kubectl_skyhook::plan::{Condition, Goal};

use super::server::{Call, Fault, Store};
use super::*;

fn cr_path(name: &str) -> String {
    Target::skyhook(FLAVOR, name, None).path()
}

/// A stage that writes to a node, and waits until the operator has set the status of the custom resource with
/// the node's name.
fn stage(name: &str, after: &[usize]) -> PlanStage {
    PlanStage {
        after: Some(after.to_vec()),
        until: Some(Goal {
            target: Target::skyhook(FLAVOR, name, None),
            condition: Condition::Seen,
            at_most: 60,
        }),
        ..PlanStage::of(vec![rerun(name)])
    }
}

fn graph(stages: &[(&str, &[usize])]) -> Plan {
    Plan { stages: stages.iter().map(|(name, after)| stage(name, after)).collect(), ..Plan::default() }
}

fn serve(plan: &Plan) -> Server {
    let names: Vec<String> = plan.steps().map(|s| s.target.name.clone()).collect();
    let server = server_of(&names);
    for name in &names {
        let cr = json!({"kind": FLAVOR.kind(), "metadata": {"name": name}});
        let mut store = server.store.lock().expect("no panic");
        store.objects.insert(cr_path(name), cr);
    }
    server
}

fn is_written(store: &Store, name: &str) -> bool {
    store.writes.contains_key(&path(name))
}

fn has_status(store: &Store, name: &str) -> bool {
    store.objects[&cr_path(name)].get("status").is_some()
}

/// Simulates the operator: sets the status of a custom resource once the node of its pair is written.
fn operator(store: &mut Store, pairs: &[(&str, &str)]) {
    for (name, node) in pairs {
        if is_written(store, node) {
            store.set(&cr_path(name), &["status"], json!({"status": "complete"}));
        }
    }
}

fn sends(call: &Call, name: &str) -> bool {
    call.method == Method::PATCH && call.path == path(name)
}

const DIAMOND: [(&str, &[usize]); 4] = [("a", &[]), ("b", &[0]), ("c", &[0]), ("d", &[1, 2])];
/// Two branches after `a`: `b` then `d`, and `c` then `e`.
const BRANCHES: [(&str, &[usize]); 5] = [("a", &[]), ("b", &[0]), ("c", &[0]), ("d", &[1]), ("e", &[2])];

fn applied(outcome: &PlanOutcome) -> Vec<bool> {
    let results = outcome.results.iter().flatten();
    results.map(|r| *r == StepResult::Applied).collect()
}

#[tokio::test(start_paused = true)]
async fn branches_wait_in_parallel_and_their_join_waits_for_both() {
    let plan = graph(&DIAMOND);
    let server = serve(&plan).on_request(|store, call| {
        if sends(call, "b") || sends(call, "c") {
            assert!(has_status(store, "a"));
        }
        if sends(call, "d") {
            assert!(has_status(store, "b") && has_status(store, "c"));
        }
        // Stages b and c each wait for the write of the other: run one after the other, neither would end.
        operator(store, &[("a", "a"), ("b", "c"), ("c", "b"), ("d", "d")]);
        None
    });
    let (outcome, _) = execute(&server, &plan, &options()).await;
    assert_eq!(outcome.ended, StopReason::Finished);
    assert_eq!(outcome.tally().applied, 4);
}

#[tokio::test(start_paused = true)]
async fn failed_stage_stops_only_its_dependents() {
    let plan = graph(&BRANCHES);
    let server = serve(&plan).on_request(|store, call| {
        operator(store, &[("a", "a"), ("c", "c"), ("e", "e")]);
        sends(call, "b").then_some(Fault::Answer(403))
    });
    let (outcome, _) = execute(&server, &plan, &options()).await;
    assert_eq!(outcome.ended, StopReason::DependencyFailed);
    assert_eq!(applied(&outcome), [true, false, true, false, true]);
    assert_eq!(outcome.results[3], [StepResult::NotReached]);
}

#[tokio::test(start_paused = true)]
async fn wait_timeout_stops_only_its_dependents() {
    let plan = graph(&BRANCHES);
    let server = serve(&plan).on_request(|store, _| {
        operator(store, &[("a", "a"), ("c", "c"), ("e", "e")]);
        None
    });
    let (outcome, _) = execute(&server, &plan, &options()).await;
    let waiting = "the operator has set the status of nodewright/b".to_owned();
    assert_eq!(outcome.ended, StopReason::TimedOut { waiting });
    assert_eq!(applied(&outcome), [true, true, true, false, true]);
}

/// Appends a stage that always runs, after all others, like the end of a pause.
fn with_cleanup(mut plan: Plan) -> Plan {
    let last = plan.stages.len();
    plan.stages.push(PlanStage {
        always: true,
        after: Some((1..last).collect()),
        ..PlanStage::of(vec![rerun("z")])
    });
    plan
}

#[tokio::test(start_paused = true)]
async fn cleanup_stage_runs_after_all_others_end() {
    let plan = with_cleanup(graph(&BRANCHES));
    let server = serve(&plan).on_request(|store, call| {
        if sends(call, "z") {
            assert!(has_status(store, "e") && !is_written(store, "d"));
        }
        operator(store, &[("a", "a"), ("c", "c"), ("e", "e")]);
        sends(call, "b").then_some(Fault::Answer(403))
    });
    let (outcome, _) = execute(&server, &plan, &options()).await;
    assert_eq!(outcome.ended, StopReason::DependencyFailed);
    assert_eq!(applied(&outcome), [true, false, true, false, true, true]);
}

#[tokio::test(start_paused = true)]
async fn interrupt_ends_waits_and_runs_cleanup_stages() {
    let plan = with_cleanup(graph(&BRANCHES));
    let (stopper, stop) = Stopper::new();
    let server = serve(&plan).on_request(move |store, call| {
        operator(store, &[("a", "a")]);
        if call.path == cr_path("c") && is_written(store, "b") && is_written(store, "c") {
            stopper.stop();
        }
        None
    });
    let (outcome, events) = execute_until(&server, &plan, &options(), None, &stop).await;
    assert_eq!(outcome.ended, StopReason::Interrupted);
    assert_eq!(applied(&outcome), [true, true, true, false, false, true], "{events:?}");
}

/// Blocks until one call waits for both branches; then ends the last wait of each call.
#[derive(Default)]
struct Pairs(Vec<Vec<String>>);

impl WaitStrategy for Pairs {
    fn wait<'a>(&'a mut self, untils: &'a [&'a Goal]) -> LocalBoxFuture<'a, (Vec<usize>, StopReason)> {
        async move {
            let names = untils.iter().map(|until| until.target.name.clone());
            let names: Vec<String> = names.collect();
            let one_branch = names == ["b"] || names == ["c"];
            let asked_for_both = self.0.iter().any(|asked| asked.len() == 2);
            let last = names.len() - 1;
            self.0.push(names);
            if one_branch && !asked_for_both {
                std::future::pending::<()>().await;
            }
            (vec![last], StopReason::Finished)
        }
        .boxed_local()
    }
}

#[tokio::test(start_paused = true)]
async fn parallel_waits_share_one_wait_strategy_call() {
    let plan = graph(&DIAMOND);
    let server = serve(&plan);
    let (_stopper, stop) = Stopper::new();
    let mut pairs = Pairs::default();
    let outcome =
        apply(&server.client(), &plan, &options(), None, &stop, &mut |_| {}, Some(&mut pairs)).await;
    assert_eq!(outcome.ended, StopReason::Finished);
    assert_eq!(outcome.tally().applied, 4);
    assert!(pairs.0.contains(&vec!["b".to_owned(), "c".to_owned()]), "{:?}", pairs.0);
}

#[tokio::test(start_paused = true)]
async fn failure_outranks_blocked_in_the_outcome() {
    struct Blocked;
    impl WaitStrategy for Blocked {
        fn wait<'a>(&'a mut self, goals: &'a [&'a Goal]) -> LocalBoxFuture<'a, (Vec<usize>, StopReason)> {
            let of_c = |at: &usize| goals[*at].target.name == "c";
            let (blocked, met): (Vec<usize>, Vec<usize>) = (0..goals.len()).partition(of_c);
            let findings = vec!["SKY109 c".to_owned()];
            let over = if met.is_empty() {
                (blocked, StopReason::Blocked { findings })
            } else {
                (met, StopReason::Finished)
            };
            async move { over }.boxed_local()
        }
    }
    let plan = graph(&BRANCHES);
    for refused in [false, true] {
        let server = serve(&plan).on_request(move |store, call| {
            operator(store, &[("a", "a"), ("b", "b"), ("d", "d")]);
            (refused && sends(call, "d")).then_some(Fault::Answer(403))
        });
        let (_stopper, stop) = Stopper::new();
        let outcome =
            apply(&server.client(), &plan, &options(), None, &stop, &mut |_| {}, Some(&mut Blocked)).await;
        let ended = if refused {
            StopReason::DependencyFailed
        } else {
            let findings = vec!["SKY109 c".to_owned()];
            StopReason::Blocked { findings }
        };
        assert_eq!(outcome.ended, ended);
        assert_eq!(applied(&outcome), [true, true, true, !refused, false]);
    }
}

/// The stages without their waits, so that nothing relies on their steps.
fn without_waits(mut plan: Plan) -> Plan {
    plan.stages.iter_mut().for_each(|stage| stage.until = None);
    plan
}

#[tokio::test(start_paused = true)]
async fn failed_step_skips_the_stages_that_need_it_and_no_others() {
    let plan = with_cleanup(without_waits(graph(&BRANCHES)));
    for (code, results) in [(403, [true, false, true, false, true, true]), (0, [true; 6])] {
        let server = serve(&plan)
            .on_request(move |_, call| (code > 0 && sends(call, "b")).then_some(Fault::Answer(code)));
        let (outcome, _) = execute(&server, &plan, &options()).await;
        assert_eq!(outcome.ended, StopReason::Finished);
        assert_eq!(applied(&outcome), results);
        let skipped =
            StepResult::Skipped { reason: "not run, because an earlier change to node/b failed".to_owned() };
        assert_eq!(outcome.results[3] == [skipped], code > 0, "{:?}", outcome.results);
    }
}

#[tokio::test(start_paused = true)]
async fn stage_that_only_follows_runs_after_a_failure() {
    let mut plan = without_waits(graph(&DIAMOND));
    plan.stages.iter_mut().for_each(|stage| stage.after = None);
    let server = serve(&plan).on_request(|_, call| sends(call, "b").then_some(Fault::Answer(403)));
    let (outcome, _) = execute(&server, &plan, &options()).await;
    assert_eq!(
        (outcome.ended.clone(), applied(&outcome)),
        (StopReason::Finished, vec![true, false, true, true])
    );
    // A stage that follows a skipped one is skipped, too.
    plan.stages[2].after = Some(vec![1]);
    let server = serve(&plan).on_request(|_, call| sends(call, "b").then_some(Fault::Answer(403)));
    let (outcome, _) = execute(&server, &plan, &options()).await;
    assert_eq!(
        (outcome.ended.clone(), applied(&outcome)),
        (StopReason::Finished, vec![true, false, false, false])
    );
}

/// A step that no longer applies changed nothing: only a wait relies on it.
#[tokio::test(start_paused = true)]
async fn skipped_step_stops_only_stages_that_wait() {
    for waits in [false, true] {
        let mut plan = without_waits(graph(&BRANCHES));
        if waits {
            plan.stages[3].until = graph(&BRANCHES).stages.remove(3).until;
        }
        let server = serve(&plan);
        server.store.lock().expect("no panic").objects.remove(&path("b"));
        let (outcome, _) = execute(&server, &plan, &options()).await;
        let ended = if waits { StopReason::DependencyFailed } else { StopReason::Finished };
        assert_eq!(outcome.ended, ended);
        assert_eq!(applied(&outcome), [true, false, true, !waits, true]);
    }
}
