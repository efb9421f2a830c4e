//! Text on the command line and in annotations.

use std::collections::BTreeSet;

use kubectl_skyhook::api::name::is_object_name;
use kubectl_skyhook::api::{LabelSelector, NodeState, Stage, State};
use kubectl_skyhook::args::labels::selector;
use kubectl_skyhook::view::{NodeSet, expand};
use proptest::prelude::*;
use serde_json::Value;

use super::fuzz_texts;
use super::mutate::{changed, changes, mutated, mutations};
use crate::support::fuzz::selector_pieces;

const KEY: &str = "skyhook.nvidia.com/nodeState_gpu";

fn state(text: &str) -> NodeState {
    let mut state = NodeState::default();
    state.add(KEY, Some("gpu"), text);
    state
}

const STATE: &str = r#"{"driver|2.0.1":{"name":"driver","version":"2.0.1","image":"ghcr.io/x/driver","stage":"config",
"state":"complete","restarts":3,"x":{"y":[1,"é"]}},"tune|1.0":{"name":"tune","version":"1.0","stage":"apply","state":"erroring"}}"#;

#[test]
fn node_states_round_trip_and_keep_other_entries() {
    let real: Value = serde_json::from_str(STATE).expect("JSON");
    let spelled = changes().prop_map(move |changes| changed(&real, &changes).to_string());
    let cut = mutations()
        .prop_map(|mutations| String::from_utf8_lossy(&mutated(STATE.as_bytes(), &mutations)).into_owned());
    fuzz_texts("node states", 4_000, &prop_oneof![spelled, cut], |text| {
        let read = state(&text);
        let _ = read.annotations().count();
        for entry in read.entries() {
            let _ = (entry.identity(), entry.may_be_installed());
            let (Some((_, without)), true) = (read.without_entry(&entry.key), read.malformed().is_empty())
            else {
                continue;
            };
            // Editing one entry leaves the others unchanged, byte for byte.
            let texts = |state: &NodeState| -> BTreeSet<(String, Option<String>)> {
                let others = state.entries().iter().filter(|e| e.key != entry.key);
                others.map(|e| (e.key.to_string(), state.entry_text(&e.key).map(str::to_owned))).collect()
            };
            let left = without.map(|text| state(&text)).unwrap_or_default();
            prop_assert_eq!(texts(&left), texts(&read));
            prop_assert!(left.entry(&entry.key).is_none());
            if let Some((_, edited)) = read.with_stage(&entry.key, &Stage::Config, &State::Complete) {
                let edited = state(&edited);
                prop_assert_eq!(texts(&edited), texts(&read));
                let found = edited.entry(&entry.key).map(|e| (&e.stage, &e.state));
                prop_assert_eq!(found, Some((&Stage::Config, &State::Complete)));
            }
        }
        Ok(())
    });
}

/// The selector in kubectl's syntax.
fn kubectl_selector(selector: &LabelSelector) -> String {
    let terms = selector.match_expressions.iter().map(|r| {
        let (key, values) = (&r.key, r.values.join(","));
        match r.operator.as_str() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Gt" => format!("{key}>{values}"),
            "Lt" => format!("{key}<{values}"),
            "Exists" => key.clone(),
            "DoesNotExist" => format!("!{key}"),
            other => panic!("no such operator: {other}"),
        }
    });
    terms.collect::<Vec<_>>().join(",")
}

#[test]
fn label_selectors_round_trip() {
    let text = prop_oneof![
        4 => prop::collection::vec(selector_pieces(), 0..16).prop_map(|pieces| pieces.concat()),
        1 => any::<String>(),
    ];
    fuzz_texts("label selectors", 20_000, &text, |text| {
        if let Ok(read) = selector(&text) {
            let again = kubectl_selector(&read);
            prop_assert_eq!(selector(&again), Ok(read), "{} as {}", text, again);
        }
        Ok(())
    });
}

#[test]
fn node_sets_round_trip() {
    let pieces = prop::sample::select(vec![
        "gpu-",
        "n",
        "[",
        "]",
        ",",
        "-",
        "0",
        "1",
        "9",
        "09",
        "10",
        "0001",
        "100000",
        "18446744073709551616",
        ".ec2",
        "node/",
        " ",
        "é",
    ]);
    let text = prop_oneof![
        4 => prop::collection::vec(pieces, 0..16).prop_map(|pieces| pieces.concat()),
        1 => any::<String>(),
    ];
    fuzz_texts("node sets", 10_000, &text, |text| {
        if let Some(Ok(names)) = expand(&text) {
            prop_assert!(names.len() <= 100_000);
            let meant: BTreeSet<String> = names.into_iter().filter(|n| !n.is_empty()).collect();
            // A text that is no node name need not round-trip.
            if meant.iter().all(|name| is_object_name(name)) {
                let printed = NodeSet::of(meant.iter().map(String::as_str)).to_string();
                let again: BTreeSet<String> = match expand(&printed) {
                    Some(names) => names.expect("as many names").into_iter().collect(),
                    None => [printed].into_iter().filter(|n| !n.is_empty()).collect(),
                };
                prop_assert_eq!(again, meant);
            }
        }
        Ok(())
    });
}
