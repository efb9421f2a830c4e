//! A pause that is set between the read and the write of `pause`.

use kubectl_skyhook::api::ApiFlavor;
use serde_json::{Value, json};

use super::{HOLD, REASON, erroring, held_by_another};
use crate::support::fake_api::State;
use crate::support::test_cluster::CR;

/// The request between planning and writing.
const REVIEW: &str = "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// A reset sets its own pause right after `pause` has read the object.
#[test]
fn pause_replaces_a_hold_set_in_the_meantime() {
    for (words, reason) in
        [("pause gpu-tune --confirm", Value::Null), ("pause gpu-tune --confirm --reason mine", json!("mine"))]
    {
        let cluster = erroring();
        let hold = held_by_another(&kubectl_skyhook::ctx::now());
        let planned = cluster.fake.on(REVIEW).nth(1);
        planned.after(move |state: &mut State| annotate(state, &hold));
        let ran = cluster.run(words);
        ran.expect_code(0);
        insta::assert_snapshot!(ran.transcript());
        let held = (cluster.cr_annotation("pause"), cluster.annotation(HOLD));
        assert_eq!(held, (json!("true"), Value::Null), "{}", ran.transcript());
        assert_eq!(cluster.annotation(REASON), reason, "{}", ran.transcript());
    }
}

/// A reason that was set in the meantime is not replaced.
#[test]
fn pause_keeps_a_reason_set_in_the_meantime() {
    let cluster = erroring();
    let theirs = json!({ApiFlavor::Skyhook.key("pause"): "true", REASON: "theirs"});
    let planned = cluster.fake.on(REVIEW).nth(1);
    planned.after(move |state: &mut State| annotate(state, &theirs));
    let ran = cluster.run("pause gpu-tune --confirm --reason mine");
    insta::assert_snapshot!(ran.transcript());
    assert_eq!(cluster.cr_annotation("pause"), json!("true"));
    assert_eq!(cluster.annotation(REASON), json!("theirs"));
}

fn annotate(state: &mut State, annotations: &Value) {
    let cr = state.store.find("skyhooks", "", CR).cloned();
    let mut cr = cr.expect("the custom resource exists");
    cr["metadata"]["annotations"] = annotations.clone();
    state.store.load(cr);
}
