//! Plans applied by the real client to an API server in memory.

mod faults;
mod interleaved;
mod journal;
mod pause_and_resume;
mod responses;
mod server;
mod stage_graph;

use std::time::Duration;

use kubectl_skyhook::api::{ApiFlavor, NodeState, Stage, State, keys};
use kubectl_skyhook::apply::{ApplyEvent, Journal, Options, PlanOutcome, Stop, Stopper, apply};
use kubectl_skyhook::plan::{At, Change, Edit, Metadata, Move, OnConflict, Plan, PlanStage, Step, Target};
use serde_json::{Value, json};
use server::Server;

const FLAVOR: ApiFlavor = ApiFlavor::NodeWright;

/// Default options: the tests run on tokio's paused clock, so delays take no real time.
fn options() -> Options {
    Options::default()
}

fn state_key() -> String {
    keys::node_state(FLAVOR, "gpu")
}

fn status_key() -> String {
    keys::status(FLAVOR, "gpu")
}

fn path(name: &str) -> String {
    format!("/api/v1/nodes/{name}")
}

fn entry(name: &str, stage: &str, state: &str) -> String {
    format!(
        r#""{name}|1.0.0":{{"name":"{name}","version":"1.0.0","image":"i","stage":"{stage}","state":"{state}"}}"#
    )
}

fn two(a: (&str, &str), b: (&str, &str)) -> String {
    format!("{{{},{}}}", entry("a", a.0, a.1), entry("b", b.0, b.1))
}

/// A node with package a erroring and package b complete.
fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": format!("uid-{name}"),
            "annotations": {
                state_key(): two(("apply", "erroring"), ("config", "complete")),
                status_key(): "erroring",
            },
            "labels": {status_key(): "erroring"},
        },
        "spec": {},
    })
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("gpu-{n:04}")).collect()
}

fn server_of(names: &[String]) -> Server {
    Server::new(names.iter().map(|n| (path(n), node(n))))
}

/// A step that removes package `a` from the node state, and deletes the status annotation and label.
fn rerun(name: &str) -> Step {
    let text = two(("apply", "erroring"), ("config", "complete"));
    let mut state = NodeState::default();
    state.add(&state_key(), None, &text);
    let (_, left) = state.without_entry("a|1.0.0").expect("package a has an entry");
    let at = At {
        stage: Stage::Apply,
        state: State::Erroring,
        text: state.entry_text("a|1.0.0").expect("package a has an entry").to_owned(),
    };
    let one = Move { entry: "a|1.0.0".into(), from: Some(at), to: None, onward: true, retried: false };
    let gone = || Edit::new(Some("erroring"), None).on_conflict(OnConflict::Overwrite);
    let edit = Edit::new(Some(&text), left.as_deref()).on_conflict(OnConflict::MoveEntries(vec![one]));
    let change = Metadata::default()
        .annotation(state_key(), edit)
        .annotation(status_key(), gone())
        .label(status_key(), gone());
    let target = Target::node(name, Some(&format!("uid-{name}")));
    Step::new(target, Change::Metadata(change), "a test")
}

fn plan_of(names: &[String]) -> Plan {
    Plan {
        title: "reset gpu".into(),
        subject: "gpu".into(),
        stages: vec![PlanStage::of(names.iter().map(|n| rerun(n)).collect())],
        erroring: Some(format!("{}=erroring", status_key())),
        ..Plan::default()
    }
}

/// The node after the plan.
fn wanted(name: &str) -> Value {
    let mut node = node(name);
    rerun(name).apply_to(&mut node).expect("the step fits");
    // The test server keeps the emptied map.
    node["metadata"]["labels"] = json!({});
    node
}

async fn execute(server: &Server, plan: &Plan, options: &Options) -> (PlanOutcome, Vec<String>) {
    let (_stopper, stop) = Stopper::new();
    execute_until(server, plan, options, None, &stop).await
}

/// Applies a plan; returns its outcome and a short text for each event.
async fn execute_until(
    server: &Server,
    plan: &Plan,
    options: &Options,
    journal: Option<&mut Journal>,
    stop: &Stop,
) -> (PlanOutcome, Vec<String>) {
    let mut events = Vec::new();
    let mut on_event = |event: &ApplyEvent<'_>| {
        events.push(match event {
            ApplyEvent::Started { steps } => format!("started {steps}"),
            ApplyEvent::Sending { step } => format!("sending {}", step.target.name),
            ApplyEvent::Replanned { step, .. } => format!("replanned {}", step.target.name),
            ApplyEvent::Throttled { .. } => "throttled".to_owned(),
            ApplyEvent::Step { step, result, .. } => format!("{} {result:?}", step.target.name),
            ApplyEvent::Pausing { done, left, .. } => format!("pausing {done} {left}"),
            ApplyEvent::Waiting { until } => format!("waiting until {}", until.describe()),
            ApplyEvent::Done { .. } => "done".to_owned(),
        });
    };
    let outcome = apply(&server.client(), plan, options, journal, stop, &mut on_event, None).await;
    (outcome, events)
}
