//! A plan pauses the operator, resets a package on nodes and resumes the operator, while the operator and
//! users write to the same objects between its requests: the plan overwrites no value and no pause of another
//! writer, deleted values stay deleted, and `undo` reverts only the plan's own changes.
//!
//! `FUZZ_CASES=N cargo test --test it -- interleaved --nocapture` runs N schedules, from a new seed each
//! time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use kubectl_skyhook::apply::journal::{Circumstances, Store};
use kubectl_skyhook::apply::{StepResult, owner};
use kubectl_skyhook::cluster::hold::{HOLDER, REASON};
use kubectl_skyhook::plan::{Hold, WaitCondition, WaitFor};
use proptest::prelude::*;

use super::*;
use crate::support::fake_api::{FakeApi, State as Api};
use crate::support::fuzz::fuzz;

const NODES: [&str; 2] = ["gpu-0000", "gpu-0001"];
const CR: &str = "gpu";
/// The number of the last request before which others may write.
const LAST: usize = 24;

/// A write by the operator or a user.
#[derive(Debug, Clone)]
enum Write {
    /// The operator moves a package on a node to a stage and state.
    Entry(usize, &'static str, (&'static str, &'static str)),
    /// The operator removes a package from a node state.
    Forget(usize, &'static str),
    /// The operator writes the status of a node.
    Status(usize, &'static str),
    /// A user writes an unrelated annotation of a node.
    Note(usize, u8),
    Cordon(usize),
    /// The operator writes the status of the custom resource.
    Rollout(u8),
    /// A user edits the spec.
    Spec(u8),
    /// A user adds a finalizer that is not the operator's.
    Finalizer,
    /// A user writes an unrelated annotation of the custom resource.
    Mark(u8),
    /// A user pauses the custom resource with a reason, which replaces our hold.
    Pause,
    /// A user resumes the custom resource.
    Resume,
}

fn write() -> impl Strategy<Value = Write> {
    let places = prop::sample::select(vec![
        ("apply", "in_progress"),
        ("apply", "erroring"),
        ("config", "in_progress"),
        ("config", "complete"),
        ("uninstall", "in_progress"),
    ]);
    let package = || prop::sample::select(vec!["a", "b"]);
    let says = prop::sample::select(vec!["erroring", "in_progress", "complete"]);
    let node = 0..NODES.len();
    prop_oneof![
        4 => (node.clone(), package(), places).prop_map(|(n, p, at)| Write::Entry(n, p, at)),
        1 => (node.clone(), package()).prop_map(|(n, p)| Write::Forget(n, p)),
        2 => (node.clone(), says).prop_map(|(n, says)| Write::Status(n, says)),
        1 => (node.clone(), any::<u8>()).prop_map(|(n, v)| Write::Note(n, v)),
        1 => node.prop_map(Write::Cordon),
        2 => any::<u8>().prop_map(Write::Rollout),
        1 => any::<u8>().prop_map(Write::Spec),
        1 => Just(Write::Finalizer),
        1 => any::<u8>().prop_map(Write::Mark),
        2 => Just(Write::Pause),
        1 => Just(Write::Resume),
    ]
}

/// Values by object and path; each entry of a node state has its own path.
type Leaves = BTreeMap<(String, String), Value>;

fn leaves(objects: &[Value]) -> Leaves {
    fn walk(at: &str, value: &Value, out: &mut Vec<(String, Value)>) {
        let entries = value.as_str().filter(|_| at.ends_with(&state_key()));
        let entries: Option<Value> = entries.map(|text| serde_json::from_str(text).expect("JSON"));
        match (entries, value) {
            (Some(Value::Object(entries)), _) => {
                let each = entries.into_iter();
                out.extend(each.map(|(entry, value)| (format!("{at} {entry}"), value)));
            }
            (None, Value::Object(members)) => {
                for (member, value) in members {
                    walk(&format!("{at}/{member}"), value, out);
                }
            }
            _ => out.push((at.to_owned(), value.clone())),
        }
    }
    let mut leaves = Leaves::new();
    for object in objects {
        let name = object["metadata"]["name"].as_str().expect("a name");
        let mut object = object.clone();
        let metadata = object["metadata"].as_object_mut().expect("metadata");
        metadata.retain(|key, _| !["resourceVersion", "managedFields", "generation"].contains(&key.as_str()));
        let mut all = Vec::new();
        walk("", &object, &mut all);
        leaves.extend(all.into_iter().map(|(at, value)| ((name.to_owned(), at), value)));
    }
    leaves
}

/// A change of one value; `None` means absent.
#[derive(Debug, Clone, PartialEq)]
struct ValueChange {
    object: String,
    place: String,
    from: Option<Value>,
    to: Option<Value>,
}

fn changes(before: &Leaves, after: &Leaves) -> Vec<ValueChange> {
    let mut keys: Vec<_> = before.keys().chain(after.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    let keys = keys.into_iter().filter(|key| before.get(*key) != after.get(*key));
    keys.map(|key| ValueChange {
        object: key.0.clone(),
        place: key.1.clone(),
        from: before.get(key).cloned(),
        to: after.get(key).cloned(),
    })
    .collect()
}

/// Our writes and those of others, in order.
#[derive(Debug, Default)]
struct History {
    requests: usize,
    /// The objects after the last write.
    now: Leaves,
    ours: Vec<ValueChange>,
    /// The changes of others, each with the number of our changes before it.
    theirs: Vec<(usize, ValueChange)>,
    /// Whether a user paused the custom resource and has not resumed it.
    paused_by_another: bool,
}

fn nodes_and_resources(api: &Api) -> Vec<Value> {
    let kinds = ["Node", FLAVOR.kind()];
    let of_interest = |o: &Value| kinds.iter().any(|kind| o["kind"] == *kind);
    let all = api.store.objects();
    all.into_iter().filter(of_interest).collect()
}

impl History {
    fn record_our_changes(&mut self, api: &Api) {
        let now = leaves(&nodes_and_resources(api));
        self.ours.extend(changes(&self.now, &now));
        self.now = now;
    }

    fn record_other_changes(&mut self, api: &Api) {
        let now = leaves(&nodes_and_resources(api));
        let before = self.ours.len();
        let changes = changes(&self.now, &now).into_iter();
        self.theirs.extend(changes.map(|change| (before, change)));
        self.now = now;
    }
}

fn edit(api: &mut Api, plural: &str, name: &str, change: impl FnOnce(&mut Value)) {
    let mut object = api.store.find(plural, "", name).cloned().expect("the object exists");
    change(&mut object);
    // Every write changes the resource version.
    object["metadata"]["resourceVersion"] = Value::Null;
    api.store.load(object);
}

fn annotation<'a>(object: &'a mut Value, key: &str) -> &'a mut Value {
    &mut object["metadata"]["annotations"][key]
}

fn remove(object: &mut Value, key: &str) {
    if let Some(map) = object["metadata"]["annotations"].as_object_mut() {
        map.remove(key);
    }
}

impl Write {
    fn apply_to(&self, api: &mut Api) {
        let node = |api: &mut Api, at: usize, change: &dyn Fn(&mut Value)| {
            edit(api, "nodes", NODES[at], change);
        };
        let cr = |api: &mut Api, change: &dyn Fn(&mut Value)| {
            edit(api, FLAVOR.plural(), CR, change);
        };
        let entries = |node: &mut Value, change: &dyn Fn(&mut serde_json::Map<String, Value>)| {
            let text = node["metadata"]["annotations"][state_key()].as_str();
            let state = text.map(|text| serde_json::from_str(text).expect("JSON"));
            let mut state: serde_json::Map<String, Value> = state.unwrap_or_default();
            change(&mut state);
            if state.is_empty() {
                remove(node, &state_key());
            } else {
                *annotation(node, &state_key()) = json!(Value::Object(state).to_string());
            }
        };
        match self {
            Write::Entry(at, package, (stage, state)) => node(api, *at, &|node| {
                entries(node, &|all| {
                    let one = entry(package, stage, state);
                    let one: Value = serde_json::from_str(&format!("{{{one}}}")).expect("JSON");
                    let key = format!("{package}|1.0.0");
                    all.insert(key.clone(), one[&key].clone());
                });
            }),
            Write::Forget(at, package) => node(api, *at, &|node| {
                entries(node, &|all| {
                    all.remove(&format!("{package}|1.0.0"));
                });
            }),
            Write::Status(at, says) => node(api, *at, &|node| {
                *annotation(node, &status_key()) = json!(says);
                node["metadata"]["labels"][status_key()] = json!(says);
            }),
            Write::Note(at, value) => node(api, *at, &|node| {
                *annotation(node, "example.com/note") = json!(value.to_string());
            }),
            Write::Cordon(at) => node(api, *at, &|node| {
                node["spec"]["unschedulable"] = json!(true);
            }),
            Write::Rollout(value) => cr(api, &|cr| cr["status"]["completeNodes"] = json!(value)),
            Write::Spec(value) => cr(api, &|cr| cr["spec"]["priority"] = json!(value)),
            Write::Finalizer => cr(api, &|cr| {
                cr["metadata"]["finalizers"] = json!(["example.com/other"]);
            }),
            Write::Mark(value) => cr(api, &|cr| {
                *annotation(cr, "example.com/mark") = json!(value.to_string());
            }),
            Write::Pause => cr(api, &|cr| {
                *annotation(cr, &FLAVOR.key("pause")) = json!("true");
                *annotation(cr, REASON) = json!("mine");
                remove(cr, HOLDER);
            }),
            Write::Resume => cr(api, &|cr| {
                for key in [&FLAVOR.key("pause"), REASON, HOLDER] {
                    remove(cr, key);
                }
            }),
        }
    }
}

/// Simulates the operator: it acknowledges a pause.
fn acknowledge(api: &mut Api) {
    let cr = api.store.find(FLAVOR.plural(), "", CR);
    let cr = cr.expect("the custom resource exists");
    let asked = cr["metadata"]["annotations"][FLAVOR.key("pause")] == "true";
    let says = if asked { "paused" } else { "in_progress" };
    if cr["status"]["status"] != says {
        edit(api, FLAVOR.plural(), CR, |cr| cr["status"]["status"] = json!(says));
    }
}

/// A server on which the scheduled writes happen right before the n-th request.
fn served(schedule: Vec<(usize, Write)>) -> (FakeApi, Arc<Mutex<History>>) {
    let fake = FakeApi::new().serving(FLAVOR);
    for name in NODES {
        fake.load(node(name));
    }
    fake.load(json!({
        "apiVersion": FLAVOR.api_version(), "kind": FLAVOR.kind(),
        "metadata": {"name": CR, "uid": "uid-gpu", "annotations": {"example.com/mark": "0"}},
        "spec": {"priority": 200}, "status": {"status": "in_progress"},
    }));
    let history = Arc::new(Mutex::new(History::default()));
    fake.change(|api| history.lock().expect("no panic").now = leaves(&nodes_and_resources(api)));
    let noted = history.clone();
    fake.on("* *").after(move |api: &mut Api| {
        let mut history = noted.lock().expect("no panic");
        history.requests += 1;
        history.record_our_changes(api);
        let number = history.requests;
        for (_, write) in schedule.iter().filter(|(at, _)| *at == number) {
            write.apply_to(api);
            match write {
                Write::Pause => history.paused_by_another = true,
                Write::Resume => history.paused_by_another = false,
                _ => {}
            }
        }
        acknowledge(api);
        history.record_other_changes(api);
    });
    (fake, history)
}

/// A plan that pauses the operator, removes package a from the node states, and resumes the operator.
fn plan() -> Plan {
    let target = Target::skyhook(FLAVOR, CR, Some("uid-gpu"));
    let [hold, end] = Hold::around(&FLAVOR.key("pause"), "reset gpu", |_| None, None);
    let step = |change| Step::new(target.clone(), change, "hold the operator");
    let mut plan = plan_of(&NODES.map(str::to_owned));
    plan.erroring = None;
    plan.stages.insert(
        0,
        PlanStage {
            steps: vec![step(Change::Hold(hold))],
            until: Some(WaitFor { target: target.clone(), condition: WaitCondition::Paused, at_most: 5 }),
            ..PlanStage::default()
        },
    );
    plan.stages.push(PlanStage {
        steps: vec![step(Change::Release(end))],
        always: true,
        ..PlanStage::default()
    });
    plan
}

fn apply_plan(fake: &FakeApi, plan: &Plan, journal: Option<&mut Journal>) -> PlanOutcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let options = Options { holder: owner::of(jiff::Timestamp::UNIX_EPOCH).identity(), ..options() };
    runtime.block_on(async {
        let (_stopper, stop) = Stopper::new();
        apply(&fake.client(), plan, &options, journal, &stop, &mut |_| {}, None).await
    })
}

/// The reason why the plan must not make this change; `None` if it may.
fn violation(change: &ValueChange) -> Option<&'static str> {
    let is = |key: &str| change.place.ends_with(&format!("/metadata/annotations/{key}"));
    if change.object == CR {
        let ours = [&FLAVOR.key("pause"), REASON, HOLDER].into_iter().any(is);
        return (!ours).then_some("somebody else's part of the custom resource");
    }
    let entry_of_a = change.place.ends_with(" a|1.0.0");
    let status = change.place.ends_with(&format!("/{}", status_key()));
    match (&change.from, &change.to) {
        (_, Some(_)) => Some("something is written on a node"),
        (Some(from), None) if entry_of_a => {
            let fails = from["stage"] == "apply" && from["state"] == "erroring";
            (!fails).then_some("an entry goes that is not what was to be reset")
        }
        (_, None) if status => None,
        _ => Some("somebody else's part of a node"),
    }
}

fn case(schedule: Vec<(usize, Write)>) -> Result<(), TestCaseError> {
    let directory = tempfile::tempdir().expect("a directory");
    let state = directory.path().to_string_lossy().into_owned();
    let store = Store::of(|name| (name == "XDG_STATE_HOME").then(|| state.clone()));
    let store = store.expect("a place");
    let (fake, history) = served(schedule);
    let plan = plan();
    let mut journal = Journal::begin(&store, &plan, Circumstances::default()).expect("a journal");
    let outcome = apply_plan(&fake, &plan, Some(&mut journal));
    fake.change(|api| history.lock().expect("no panic").record_our_changes(api));

    let (ours, theirs, forward, paused_by_another) = {
        let mut history = history.lock().expect("no panic");
        // Skip the rest of the schedule: nobody else writes during the undo. Take the recorded changes out of
        // the history, which then records only those of the undo.
        history.requests = LAST + 1;
        let ours = std::mem::take(&mut history.ours);
        let theirs = std::mem::take(&mut history.theirs);
        (ours, theirs, history.now.clone(), history.paused_by_another)
    };
    for change in &ours {
        prop_assert_eq!(violation(change), None, "{:?}: {:?}", change, outcome);
    }
    let of_cr = |leaves: &Leaves, key: &str| {
        let place = (CR.to_owned(), format!("/metadata/annotations/{key}"));
        leaves.get(&place).cloned()
    };
    let pause = FLAVOR.key("pause");
    let free = |leaves: &Leaves| -> Result<(), TestCaseError> {
        prop_assert_eq!(of_cr(leaves, HOLDER), None, "{:?}", &outcome);
        let (paused, reason) = (of_cr(leaves, &pause), of_cr(leaves, REASON));
        if paused_by_another {
            let kept = (Some(json!("true")), Some(json!("mine")));
            prop_assert_eq!((paused, reason), kept, "a pause is lost: {:?}", &outcome);
        } else {
            prop_assert_eq!((paused, reason), (None, None), "a pause is left: {:?}", &outcome);
        }
        Ok(())
    };
    free(&forward)?;
    for (at, result) in outcome.results.get(1).into_iter().flatten().enumerate() {
        let changed = ours.iter().any(|change| change.object == NODES[at]);
        let applied = *result == StepResult::Applied;
        prop_assert_eq!(applied, changed, "{}: {:?}", NODES[at], result);
    }

    let (undo, lost) = store.read(&journal.id).expect("a journal").undo();
    prop_assert!(lost.is_empty(), "{:?}", lost);
    let undone = apply_plan(&fake, &undo, None);
    fake.change(|api| history.lock().expect("no panic").record_our_changes(api));
    let history = history.lock().expect("no panic");
    free(&history.now)?;
    for back in history.ours.iter().filter(|change| change.object != CR) {
        let there = ours.iter().find(|there| (&there.object, &there.place) == (&back.object, &back.place));
        let way = there.map(|there| (there.to.clone(), there.from.clone()));
        let is = Some((back.from.clone(), back.to.clone()));
        prop_assert_eq!(way, is, "undo writes what was not there: {:?}", back);
    }
    // `undo` restores each value if nobody else has written to its node since.
    for (number, there) in ours.iter().enumerate().filter(|(_, c)| c.object != CR) {
        let since =
            |(before, change): &&(usize, ValueChange)| *before > number && change.object == there.object;
        if theirs.iter().filter(since).count() == 0 {
            let place = (there.object.clone(), there.place.clone());
            let now = history.now.get(&place).cloned();
            prop_assert_eq!(&now, &there.from, "{:?} is not taken back: {:?}", there, undone);
        }
    }
    Ok(())
}

/// The wait for the operator times out before any node is written; the operator itself removes the package.
#[test]
fn undo_does_not_restore_values_the_plan_never_changed() {
    let schedule = vec![(1, Write::Forget(0, "a")), (1, Write::Pause), (2, Write::Resume)];
    case(schedule).expect("each writer changes only its own values");
}

#[test]
fn interleaved_writers_keep_their_values() {
    let writes = prop::collection::vec((1..=LAST, write()), 0..12);
    fuzz("interleaved writers", 600, &writes, case);
}
