//! Taints and finalizers, which are list items.

use super::*;

fn taint() -> impl Strategy<Value = Value> {
    let key = prop::sample::select(vec!["a", "b", "c"]);
    let effect = prop::sample::select(vec!["NoSchedule", "NoExecute"]);
    (key, effect, "[x-y]{0,1}").prop_map(|(key, effect, value)| {
        let mut taint = json!({"key": key, "effect": effect});
        if !value.is_empty() {
            taint["value"] = json!(value);
        }
        taint
    })
}

/// The server stores one taint per key and effect.
fn taints() -> impl Strategy<Value = Vec<Value>> {
    prop::collection::vec(taint(), 0..4).prop_map(|all| {
        let mut once: Vec<Value> = Vec::new();
        for taint in all {
            let same = |t: &Value| t["key"] == taint["key"] && t["effect"] == taint["effect"];
            if !once.iter().any(same) {
                once.push(taint);
            }
        }
        once
    })
}

fn tainted(taints: &[Value]) -> Value {
    let mut node = json!({"metadata": {"name": "n", "uid": "u-1"}, "spec": {"podCIDR": "x"}});
    if !taints.is_empty() {
        node["spec"]["taints"] = json!(taints);
    }
    node
}

fn sorted_taints(node: &Value) -> Vec<String> {
    let all = node["spec"]["taints"].as_array().cloned();
    let mut all: Vec<String> = all.unwrap_or_default().iter().map(ToString::to_string).collect();
    all.sort();
    all
}

proptest! {
    #[test]
    fn taints_are_modelled_guarded_and_taken_back(from in taints(), kept in any::<[bool; 4]>()) {
        let keep = from.iter().zip(kept).filter(|(_, keep)| *keep);
        let to: Vec<Value> = keep.map(|(taint, _)| taint.clone()).collect();
        prop_assume!(from != to);
        let step = step(Change::Taints { from: from.clone(), to });
        assert_invariants(&step, &tainted(&from));
    }

    #[test]
    fn a_taint_that_came_meanwhile_stays(from in taints(), pick in 0usize..4) {
        prop_assume!(pick < from.len());
        let mut to = from.clone();
        to.remove(pick);
        let step = step(Change::Taints { from: from.clone(), to: to.clone() });
        let new = json!({"key": "new", "effect": "NoSchedule"});
        let mut moved = vec![new.clone()];
        moved.extend(from);
        let mut node = tainted(&moved);
        assert_rejected(&step, &node);
        let Rebased::Same(again) = step.rebase(&node) else {
            panic!("the step still applies");
        };
        again.apply_to(&mut node).expect("the step fits the object");
        to.push(new);
        prop_assert_eq!(sorted_taints(&node), sorted_taints(&tainted(&to)));
        prop_assert_eq!(again.rebase(&node), Rebased::Done);
    }
}

#[test]
fn a_custom_resource_that_goes_with_its_last_finalizer_is_made_again() {
    let object = json!({
        "apiVersion": "x/v1", "kind": "Skyhook",
        "metadata": {
            "name": "gpu", "uid": "u-1", "resourceVersion": "7", "generation": 3,
            "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-02T00:00:00Z",
            "finalizers": ["ours"], "labels": {"a": "b"}, "managedFields": [],
        },
        "spec": {"packages": {}, "unknown": 1},
        "status": {"status": "complete"},
    });
    let target = Target::skyhook(crate::api::ApiFlavor::Skyhook, "gpu", Some("u-1"));
    let strip = |entry: &str| {
        let (entry, was) = (entry.to_owned(), None);
        let change = Change::Finalizer { entry, index: 0, was };
        Step::new(target.clone(), change, "a test")
    };
    // The inverse needs the object, which was not read yet.
    assert_eq!(strip("ours").inverse(), None);
    let Rebased::Same(step) = strip("ours").rebase(&object) else {
        panic!("the step still applies");
    };
    let mut after = object.clone();
    step.apply_to(&mut after).expect("the step fits the object");
    assert_eq!(after, Value::Null);
    let back = step.inverse().expect("the step contains the deleted object");
    back.apply_to(&mut after).expect("the step recreates the deleted object");
    assert_eq!(
        after,
        json!({
            "apiVersion": "x/v1", "kind": "Skyhook",
            "metadata": {"name": "gpu", "labels": {"a": "b"}},
            "spec": {"packages": {}, "unknown": 1},
        })
    );
    // With another finalizer, the object still exists.
    let mut held = object.clone();
    held["metadata"]["finalizers"] = json!(["ours", "theirs"]);
    let Rebased::Same(step) = strip("ours").rebase(&held) else {
        panic!("the step still applies");
    };
    assert_eq!(step.inverse(), None);
}
