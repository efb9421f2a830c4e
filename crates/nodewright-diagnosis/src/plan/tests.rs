//! Properties of every change: simulated as on the server, guarded, invertible.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::edit::{normalise, set};
use super::*;

mod recreate;

mod taints;

const KEYS: [&str; 4] = ["a/x", "b~y", "c", "d/1~2"];

/// Applies a JSON Patch as the API server does: a `test` against null succeeds on an absent value.
fn on_server(object: &Value, patch: &Value) -> Option<Value> {
    let mut after = object.clone();
    for operation in patch.as_array().expect("a list") {
        let path = operation["path"].as_str().expect("a path");
        if operation["op"] == "test" && operation["value"].is_null() {
            let (parent, _) = path.rsplit_once('/').expect("a pointer");
            after.pointer(parent)?;
            if after.pointer(path).is_some_and(|v| !v.is_null()) {
                return None;
            }
            continue;
        }
        let one: json_patch::Patch = serde_json::from_value(json!([operation])).expect("an operation");
        json_patch::patch(&mut after, &one).ok()?;
    }
    normalise(&mut after);
    Some(after)
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut members: Vec<_> = map.iter().map(|(k, v)| (k.clone(), sorted(v))).collect();
            members.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(members.into_iter().collect())
        }
        Value::Array(list) => list.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

fn map() -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::btree_map(prop::sample::select(KEYS.to_vec()), "[a-c]{0,2}", 0..4)
        .prop_map(|m| m.into_iter().map(|(k, v)| (k.to_owned(), Value::from(v))).collect())
}

fn node() -> impl Strategy<Value = Value> {
    (map(), map(), any::<bool>()).prop_map(|(annotations, labels, cordoned)| {
        let mut node = json!({
            "metadata": {"name": "n", "uid": "u-1", "annotations": annotations, "labels": labels, "managedFields": [
                {"manager": "kubectl-skyhook", "operation": "Update", "fieldsV1": {"f:spec": {"f:unschedulable": {}}}},
            ]},
            "spec": {},
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "x", "status": "False"}]},
        });
        if cordoned {
            node["spec"]["unschedulable"] = json!(true);
        }
        normalise(&mut node);
        node
    })
}

/// The edit of a key: none, a removal, or a new value.
fn wish() -> impl Strategy<Value = Option<Option<String>>> {
    prop_oneof![Just(None), Just(Some(None)), "[a-c]{0,2}".prop_map(|v| Some(Some(v))),]
}

fn wishes() -> impl Strategy<Value = Vec<Option<Option<String>>>> {
    prop::collection::vec(wish(), KEYS.len())
}

/// A change that fits the node.
fn metadata(
    node: &Value,
    annotations: &[Option<Option<String>>],
    labels: &[Option<Option<String>>],
    cordon: bool,
) -> Metadata {
    let mut change = Metadata {
        no_annotations: node.pointer("/metadata/annotations").is_none(),
        no_labels: node.pointer("/metadata/labels").is_none(),
        ..Metadata::default()
    };
    let edit = |map: &str, key: &str, to: &Option<String>| {
        let from = node["metadata"][map].get(key).and_then(Value::as_str);
        Edit::new(from, to.as_deref())
    };
    for (key, wish) in KEYS.iter().zip(annotations) {
        if let Some(to) = wish {
            change = change.annotation(*key, edit("annotations", key, to));
        }
    }
    for (key, wish) in KEYS.iter().zip(labels) {
        if let Some(to) = wish {
            change = change.label(*key, edit("labels", key, to));
        }
    }
    if cordon {
        change.unschedulable = Some(node["spec"].get("unschedulable").is_none());
    }
    change
}

fn step(change: Change) -> Step {
    Step::new(Target::node("n", Some("u-1")), change, "a test")
}

/// Asserts the invariants of a step whose guard holds: patch and model agree, a second rebase is done, the
/// inverse restores the object.
fn assert_invariants(step: &Step, object: &Value) {
    let mut after = object.clone();
    step.apply_to(&mut after).expect("the step fits the object");
    let request = step.request();
    if request.content_type.contains("json-patch") {
        let on_server = on_server(object, &request.body).expect("the patch fits the object");
        assert_eq!(sorted(&on_server), sorted(&after), "patch and model differ");
    }
    match step.rebase(object) {
        Rebased::Same(again) => {
            let mut same = object.clone();
            again.apply_to(&mut same).expect("the step fits the object");
            assert_eq!(sorted(&same), sorted(&after), "the rebased step has another effect");
        }
        Rebased::Done => assert_eq!(*object, after, "the step has an effect"),
        Rebased::Moved(why) => panic!("the step fits the object: {why}"),
    }
    if after != *object {
        assert!(
            matches!(step.rebase(&after), Rebased::Done),
            "what is done is not done again: {step:?} on {after}"
        );
    }
    let mut back = after.clone();
    let inverse = step.inverse().expect("an inverse");
    // A map may be absent after its last key was removed.
    match inverse.rebase(&after) {
        Rebased::Same(inverse) => inverse.apply_to(&mut back).expect("the inverse fits"),
        Rebased::Done => {}
        Rebased::Moved(why) => panic!("{why}"),
    }
    assert_eq!(sorted(&back), sorted(object), "the inverse does not lead back");
}

/// Asserts that a step whose guard does not hold changes nothing, in the model and on the server.
fn assert_rejected(step: &Step, object: &Value) {
    let mut after = object.clone();
    step.apply_to(&mut after).expect_err("the guard must not hold");
    assert_eq!(after, *object);
    let request = step.request();
    if request.content_type.contains("json-patch") {
        assert_eq!(on_server(object, &request.body), None);
    }
}

proptest! {
    #[test]
    fn metadata_is_modelled_guarded_and_taken_back(
        node in node(), annotations in wishes(), labels in wishes(), cordon in any::<bool>(),
    ) {
        let step = step(Change::Metadata(metadata(&node, &annotations, &labels, cordon)));
        assert_invariants(&step, &node);
    }

    #[test]
    fn metadata_does_not_touch_what_has_changed(
        node in node(), annotations in wishes(), pick in 0usize..4, value in "[x-z]{1,2}",
    ) {
        let change = metadata(&node, &annotations, &[], false);
        prop_assume!(change.annotations.contains_key(KEYS[pick]));
        let step = step(Change::Metadata(change));
        let mut moved = node.clone();
        set(&mut moved, &["metadata", "annotations", KEYS[pick]], Some(json!(value)));
        assert_rejected(&step, &moved);
        let mut recreated = node.clone();
        recreated["metadata"]["uid"] = json!("u-2");
        assert_rejected(&step, &recreated);
        prop_assert!(matches!(step.rebase(&recreated), Rebased::Moved(_)));
    }

    #[test]
    fn fields_are_modelled_guarded_and_taken_back(
        from in prop::option::of(0i64..3), to in prop::option::of(0i64..3), status in any::<bool>(),
    ) {
        let part = if status { "status" } else { "spec" };
        let mut object = json!({"metadata": {"uid": "u-1"}, part: {"compartments": {"__default__": {"other": 1}}}});
        let path = [part, "compartments", "__default__", "batch"];
        set(&mut object, &path, from.map(Value::from));
        let field = vec![Field::new(path, from.map(Value::from), to.map(Value::from))];
        let step = step(if status { Change::Status(field) } else { Change::Spec(field) });
        assert_invariants(&step, &object);
        set(&mut object, &path, Some(json!(7)));
        assert_rejected(&step, &object);
    }

    #[test]
    fn a_guard_that_does_not_hold_stops_everything(node in node(), annotations in wishes()) {
        let change = Change::Metadata(metadata(&node, &annotations, &[], false));
        let guarded = step(change).guard(Guard::default().require("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z")));
        assert_rejected(&guarded, &node);
    }
}

#[test]
fn a_zero_is_written_and_not_left_out() {
    let path = ["status", "nodeOrderOffset"];
    let step = step(Change::Status(vec![Field::new(path, None, Some(json!(0)))]));
    let mut object = json!({"metadata": {"uid": "u-1"}, "status": {}});
    assert_invariants(&step, &object);
    step.apply_to(&mut object).expect("the step fits the object");
    assert_eq!(object["status"], json!({"nodeOrderOffset": 0}));
}

#[test]
fn one_finalizer_goes_and_the_others_stay() {
    let object = json!({"metadata": {"uid": "u-1", "finalizers": ["other/a", "ours/b"]}});
    let change = Change::Finalizer { entry: "ours/b".into(), index: 1, was: None };
    let step = step(change);
    assert_eq!(
        step.request().body,
        json!([
            {"op": "test", "path": "/metadata/uid", "value": "u-1"},
            {"op": "test", "path": "/metadata/finalizers/1", "value": "ours/b"},
            {"op": "remove", "path": "/metadata/finalizers/1"},
        ])
    );
    let mut after = object.clone();
    step.apply_to(&mut after).expect("the step fits the object");
    assert_eq!(after["metadata"]["finalizers"], json!(["other/a"]));
    assert_eq!(on_server(&object, &step.request().body), Some(after.clone()));
    assert_eq!(step.rebase(&after), Rebased::Done);
    assert_eq!(step.inverse(), None);

    let moved = json!({"metadata": {"uid": "u-1", "finalizers": ["ours/b"], "deletionTimestamp": "t"}});
    assert_rejected(&step, &moved);
    // A forecast writes without checks, although the finalizer may have another index.
    let mut forecast = moved.clone();
    step.change.write(&mut forecast);
    assert_eq!(forecast, Value::Null);
    let Rebased::Same(step) = step.rebase(&moved) else {
        panic!("the step still applies");
    };
    let mut gone = moved;
    step.apply_to(&mut gone).expect("the step fits the object");
    assert_eq!(gone, Value::Null);
    assert_eq!(step.rebase(&gone), Rebased::Done);
}

#[test]
fn conditions_go_and_come_back() {
    let node = json!({"metadata": {"uid": "u-1"}, "status": {"conditions": [
        {"type": "Ready", "status": "True"}, {"type": "x", "status": "False"}]}});
    let step = step(Change::Conditions {
        remove: vec![json!({"type": "x", "status": "False"})],
        restore: Vec::new(),
    });
    assert_invariants(&step, &node);
    let request = step.request();
    assert_eq!(
        (step.change.endpoint().1, request.content_type),
        (Some("status"), "application/strategic-merge-patch+json")
    );
    assert_eq!(
        request.body,
        json!({"status": {"conditions": [{"type": "x", "$patch": "delete"}]}, "metadata": {"uid": "u-1"}})
    );
}

fn plan() -> Plan {
    let label = |value: &str| Change::Metadata(Metadata::default().label("k", Edit::new(None, Some(value))));
    Plan {
        title: "set labels".into(),
        subject: "gpu".into(),
        stages: vec![PlanStage::of(vec![step(label("1")), step(label("2"))])],
        ..Plan::default()
    }
}

fn save(plan: &Plan) -> String {
    SavedPlan::of(plan, None, Vec::new()).text()
}

fn load(text: &str) -> Result<Plan, SavedError> {
    Ok(SavedPlan::parse(text)?.plan)
}

#[test]
fn a_plan_is_read_back_as_it_was_saved() {
    let plan = plan();
    assert_eq!(load(&save(&plan)).expect("a plan"), plan);
    let edited = save(&plan).replace(r#""to": "2""#, r#""to": "3""#);
    assert_eq!(
        load(&edited).expect_err("it was edited").to_string(),
        "the plan does not match its digest: the file was edited or truncated"
    );
    for other in ["plan/v1", "plan/v9"] {
        let text = save(&plan).replace("plan/v3", other);
        let format = format!("kubectl-skyhook/{other}");
        assert!(matches!(load(&text), Err(SavedError::Format(f)) if f == format));
    }
    assert!(matches!(load("{}"), Err(SavedError::Syntax(_))));
}

#[test]
fn the_order_of_stages_is_saved_with_them() {
    let mut graph = plan();
    graph.stages.push(graph.stages[0].clone());
    assert!(!save(&graph).contains("after"), "one after the other");
    graph.stages[1].after = Some(Vec::new());
    assert_eq!(load(&save(&graph)).expect("a plan"), graph);
    graph.stages[0].after = Some(vec![1]);
    assert_eq!(
        load(&save(&graph)).expect_err("it would never begin").to_string(),
        "a stage depends on itself or on a later stage"
    );
}

#[test]
fn a_plan_asks_for_just_what_it_needs() {
    let mut plan = plan();
    let status = Change::Status(vec![Field::new(["status", "a"], None, Some(json!(0)))]);
    let target = Target::skyhook(crate::api::ApiFlavor::NodeWright, "gpu", None);
    plan.stages.push(PlanStage::of(vec![Step::new(target, status, "a test")]));
    let spelled: Vec<String> = plan
        .permissions()
        .iter()
        .map(|p| {
            format!("{} {}{}", p.verb, p.resource, p.subresource.map(|s| format!("/{s}")).unwrap_or_default())
        })
        .collect();
    assert_eq!(spelled, ["get nodes", "get nodewrights", "patch nodes", "patch nodewrights/status"]);
}

#[test]
fn the_uid_decides_and_the_address_where_there_is_none() {
    let origin = |server: &str, uid: &str| ClusterIdentity {
        server: server.to_owned(),
        uid: (!uid.is_empty()).then(|| uid.to_owned()),
    };
    for (a, b, sameness) in [
        (("x", "1"), ("x", "1"), Sameness::Same),
        (("x", "1"), ("y", "1"), Sameness::Same),
        // The cluster was rebuilt behind the same address.
        (("x", "1"), ("x", "2"), Sameness::Other),
        (("x", "1"), ("y", "2"), Sameness::Other),
        (("x", ""), ("x", "2"), Sameness::SameAddress),
        (("x", "1"), ("y", ""), Sameness::OtherAddress),
    ] {
        let found = origin(a.0, a.1).sameness(&origin(b.0, b.1));
        assert_eq!(found, sameness, "{a:?} {b:?}");
    }
}
