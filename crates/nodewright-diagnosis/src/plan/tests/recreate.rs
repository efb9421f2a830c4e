//! Deletions and recreations.

use super::*;

/// A custom resource as the server stores it, and as it was created.
fn custom() -> impl Strategy<Value = (Value, Value)> {
    (map(), map(), 0i64..3, any::<bool>()).prop_map(|(annotations, labels, number, held)| {
        let mut made = json!({
            "apiVersion": "a/v1", "kind": "B",
            "metadata": {"name": "gpu", "annotations": annotations, "labels": labels},
            "spec": {"packages": {"driver": {"version": "1.0.0", "number": number}}},
        });
        if held {
            made["metadata"]["finalizers"] = json!(["ours/b"]);
        }
        normalise(&mut made);
        let mut object = made.clone();
        for (member, value) in [
            ("uid", json!("u-1")),
            ("resourceVersion", json!("7")),
            ("generation", json!(2)),
            ("creationTimestamp", json!("2026-01-01T00:00:00Z")),
            ("managedFields", json!([{"manager": "x"}])),
        ] {
            object["metadata"][member] = value;
        }
        object["status"] = json!({"status": "complete"});
        (object, made)
    })
}

proptest! {
    #[test]
    fn what_is_deleted_is_made_again_without_what_the_server_filled_in((object, made) in custom()) {
        let target = Target::skyhook(crate::api::ApiFlavor::NodeWright, "gpu", Some("u-1"));
        let step = Step::new(target, Change::Delete { was: None }, "a test");
        let Rebased::Same(step) = step.rebase(&object) else {
            panic!("the step still applies");
        };
        let mut gone = object.clone();
        step.apply_to(&mut gone).expect("the step fits the object");
        prop_assert_eq!(&gone, &Value::Null);
        prop_assert_eq!(step.rebase(&gone), Rebased::Done);
        let back = step.inverse().expect("an inverse");
        prop_assert_eq!(&back.request().body, &made);
        let mut again = gone;
        back.apply_to(&mut again).expect("the step fits the object");
        prop_assert_eq!(sorted(&again), sorted(&made));
        // The server adds its own metadata; then the step is done and not repeated.
        let mut as_new = object.clone();
        as_new["metadata"]["uid"] = json!("u-2");
        prop_assert_eq!(back.rebase(&as_new), Rebased::Done);
        as_new["spec"]["packages"]["driver"]["version"] = json!("2.0.0");
        prop_assert!(matches!(back.rebase(&as_new), Rebased::Moved(_)));
        // The inverse of the inverse deletes the created object, but no other object.
        let undone = back.inverse().expect("an inverse");
        prop_assert!(matches!(undone.rebase(&object), Rebased::Same(_)));
        prop_assert!(matches!(undone.rebase(&as_new), Rebased::Moved(_)));
    }
}

#[test]
fn an_object_that_is_not_gone_yet_is_not_made_again() {
    let target = Target::skyhook(crate::api::ApiFlavor::NodeWright, "gpu", None);
    let create = Step::new(target, Change::Create(Box::new(json!({"spec": {}}))), "a test");
    let going = json!({"metadata": {"deletionTimestamp": "t"}, "spec": {}});
    let why = "it still exists, and is being deleted".to_owned();
    assert_eq!(create.rebase(&going), Rebased::Moved(why));
}

#[test]
fn what_its_owner_makes_anew_is_not_made_again() {
    let pod = Target { kind: Kind::Pod, namespace: Some("skyhook".into()), ..Target::node("p", Some("u-1")) };
    let step = Step::new(pod, Change::Delete { was: None }, "a test");
    let object = json!({"metadata": {"name": "p", "uid": "u-1"}});
    assert_eq!(step.rebase(&object), Rebased::Same(step.clone()));
    assert_eq!(step.inverse(), None);
}

#[test]
fn what_is_deleted_can_be_made_again_where_that_makes_sense() {
    let object = json!({"metadata": {"name": "n", "uid": "u-1"}});
    let delete = step(Change::Delete { was: Some(Box::new(json!({"metadata": {"name": "n"}}))) });
    let mut after = object.clone();
    delete.apply_to(&mut after).expect("the step fits the object");
    assert_eq!(after, Value::Null);
    assert_eq!(delete.rebase(&after), Rebased::Done);
    let back = delete.inverse().expect("an inverse");
    assert_eq!((back.path().as_str(), &back.target.uid), ("/api/v1/nodes", &None));
    back.apply_to(&mut after).expect("the step fits the object");
    assert_eq!(after, json!({"metadata": {"name": "n"}}));
    assert_eq!(step(Change::Delete { was: None }).inverse(), None);
}
