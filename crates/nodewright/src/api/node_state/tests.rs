//! The codec against real, odd and random texts.

use proptest::prelude::*;

use super::*;

const TWO: &str = r#"{"dax|1.2.3":{"name":"dax","version":"1.2.3","image":"i","stage":"apply","state":"erroring","restarts":3,"later":{"b":1,"a":[ ]}}, "zeb|2.0.0" : {"name":"zeb","version":"2.0.0","image":"i","stage":"config","state":"complete"}}"#;

fn state(text: &str) -> NodeState {
    let mut state = NodeState::default();
    state.add("k", None, text);
    state
}

#[test]
fn reads_entries() {
    let state = state(TWO);
    assert_eq!(state.malformed(), &[]);
    let dax = state.entry("dax|1.2.3").expect("dax");
    assert_eq!((dax.stage.as_str(), dax.state.as_str(), dax.restarts), ("apply", "erroring", 3));
    assert_eq!(state.entries().len(), 2);
}

#[test]
fn moves_one_entry_and_keeps_every_other_byte() {
    let (key, text) =
        state(TWO).with_stage("dax|1.2.3", &Stage::Config, &State::InProgress).expect("the entry exists");
    assert_eq!(key, "k");
    let expected = TWO
        .replace(r#""stage":"apply""#, r#""stage":"config""#)
        .replace(r#""state":"erroring""#, r#""state":"in_progress""#);
    assert_eq!(text, expected);
}

#[test]
fn removes_the_first_the_last_and_the_only_entry() {
    let without = |key| state(TWO).without_entry(key).expect("the entry exists").1;
    let first = without("dax|1.2.3").expect("zeb stays");
    assert_eq!(
        first,
        r#"{ "zeb|2.0.0" : {"name":"zeb","version":"2.0.0","image":"i","stage":"config","state":"complete"}}"#
    );
    let last = without("zeb|2.0.0").expect("dax stays");
    assert!(last.ends_with(r#""later":{"b":1,"a":[ ]}}}"#), "{last}");
    assert_eq!(state(r#"{"a|1":{}}"#).without_entry("a|1"), Some(("k".into(), None)));
}

#[test]
fn an_entry_that_was_taken_out_can_be_put_back() {
    for key in ["dax|1.2.3", "zeb|2.0.0"] {
        let value = state(TWO).entry_text(key).expect("the entry exists").to_owned();
        let left = state(TWO).without_entry(key).expect("the entry exists").1;
        let back = state(&left.expect("the other entry stays")).with_entry("k", key, &value);
        let back = state(&back.expect("the entry is new"));
        assert_eq!(back.malformed(), &[]);
        assert_eq!(back.entries().len(), 2);
        assert_eq!(back.entry_text(key), Some(value.as_str()));
    }
    let alone = Some(r#"{"a|1":{"x":1}}"#.to_owned());
    assert_eq!(NodeState::default().with_entry("k", "a|1", r#"{"x":1}"#), alone);
    assert_eq!(state("{ }").with_entry("k", "a|1", "{}"), Some(r#"{ "a|1":{}}"#.into()));
    assert_eq!(state("null").with_entry("k", "a|1", "{}"), Some(r#"{"a|1":{}}"#.into()));
    assert_eq!(state(TWO).with_entry("k", "dax|1.2.3", "{}"), None);
    assert_eq!(state("{").with_entry("k", "a|1", "{}"), None);
}

#[test]
fn reads_one_key_per_package() {
    let mut state = NodeState::default();
    state.add("a", Some("dax"), r#"{"name":"dax","version":"1","stage":"apply","state":"complete"}"#);
    state.add("b", Some("zeb"), "{");
    assert_eq!(state.entry("dax|1").map(|e| e.state.clone()), Some(State::Complete));
    assert_eq!(state.malformed()[0].annotation, "b");
    assert_eq!(state.without_entry("dax|1"), Some(("a".into(), None)));
}

#[test]
fn the_last_of_equal_keys_wins_and_goes_whole() {
    let text = r#"{"a|1":{"state":"erroring"},"b|1":{},"a|1":{"state":"complete"}}"#;
    let state = state(text);
    assert_eq!(state.entries().len(), 2);
    assert_eq!(state.entry("a|1").map(|e| e.state.clone()), Some(State::Complete));
    assert_eq!(state.without_entry("a|1"), Some(("k".into(), Some(r#"{"b|1":{}}"#.into()))));
}

#[test]
fn the_last_of_many_annotations_with_a_key_wins() {
    for count in [3, 8, 9, 40] {
        let mut state = NodeState::default();
        for version in ["1", "2"] {
            let names = (0..count).map(|number| format!("p{}", number * 7 % count));
            let entries = names
                .map(|name| format!(r#""{name}|1":{{"name":"{name}","version":"1","image":"{version}"}}"#));
            let text = format!("{{{}}}", entries.collect::<Vec<_>>().join(","));
            state.add(&format!("skyhook.nvidia.com/nodeState_{version}"), None, &text);
        }
        assert_eq!(state.entries().len(), 2 * count);
        for number in 0..count {
            let entry = state.entry(&format!("p{number}|1")).expect("an entry");
            assert_eq!(entry.image, "2");
        }
        for absent in ["", "p", "p0", "p0|1 ", "q|1"] {
            assert_eq!(state.entry(absent), None);
        }
    }
}

#[test]
fn empty_text_is_called_empty() {
    assert_eq!(state(" ").malformed()[0].error, "it is empty");
}

#[test]
fn malformed_text_is_a_value() {
    for text in
        ["", "{", "[]", "1", r#"{"a|1":{"stage":1}}"#, r#"{"a|1":[]}"#, "{} x", r#"{"a|1":{"restarts":"3"}}"#]
    {
        assert_eq!(state(text).malformed().len(), 1, "{text}");
    }
    for text in ["null", "{}", " { } ", r#"{"a|1":null}"#, r#"{"a|1":{"stage":"novel"}}"#] {
        assert_eq!(state(text).malformed(), &[], "{text}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_without_panic(text in ".{0,200}") {
        let _ = state(&text);
    }

    #[test]
    fn an_edit_reads_back_as_asked(keys in prop::collection::btree_set("[a-z]{1,5}\\|[0-9]\\.[0-9]", 1..6), pick in 0usize..6) {
        let keys: Vec<_> = keys.into_iter().collect();
        let pick = &keys[pick % keys.len()];
        let text = serde_json::to_string(&keys.iter().map(|k| (k.clone(), serde_json::json!({"x": k, "state": "complete"}))).collect::<serde_json::Map<_, _>>()).expect("json");
        let (_, edited) = state(&text).with_stage(pick, &Stage::Apply, &State::Erroring).expect("the entry exists");
        let read = state(&edited);
        prop_assert_eq!(read.entries().len(), keys.len());
        for entry in read.entries() {
            let expected = if &entry.key == pick { State::Erroring } else { State::Complete };
            prop_assert_eq!(&entry.state, &expected);
        }
        let left = state(&text).without_entry(pick).expect("the entry exists").1;
        prop_assert_eq!(left.map_or(0, |t| state(&t).entries().len()), keys.len() - 1);
    }
}

/// Go's decoder, which the operator uses, ignores the case of names. The last of equal names wins.
#[test]
fn the_case_of_members_means_nothing() {
    for (text, stage, state) in [
        (r#"{"d|1":{"Name":"d","VERSION":"1","Stage":"apply","STATE":"complete"}}"#, "apply", "complete"),
        (
            r#"{"d|1":{"name":"d","version":"1","stage":"apply","Stage":"config","state":"erroring"}}"#,
            "config",
            "erroring",
        ),
        (
            r#"{"d|1":{"name":"d","version":"1","Stage":"apply","stage":"config","state":"erroring"}}"#,
            "config",
            "erroring",
        ),
        (
            r#"{"d|1":{"name":"d","version":"1","stage":"apply","stage":"config","state":"erroring"}}"#,
            "config",
            "erroring",
        ),
        (
            r#"{"d|1":{"name":"d","version":"1","stage":"apply","Stage":null,"state":"erroring"}}"#,
            "apply",
            "erroring",
        ),
        (r#"{"d|1":{"name":"d","version":"1","stage":null,"state":"erroring"}}"#, "", "erroring"),
    ] {
        let mut read = NodeState::default();
        read.add("key", None, text);
        assert!(read.malformed().is_empty(), "{text}: {:?}", read.malformed());
        let entry = read.entry("d|1").expect(text);
        assert_eq!((entry.name.as_str(), entry.version.as_str()), ("d", "1"), "{text}");
        assert_eq!((entry.stage.as_str(), entry.state.as_str()), (stage, state), "{text}");
    }
    let mut read = NodeState::default();
    read.add("key", None, r#"{"d|1":{"Stage":"apply","x":1,"STAGE":"config","State":"erroring"}}"#);
    let (_, edited) =
        read.with_stage("d|1", &Stage::from("apply"), &State::from("complete")).expect("the entry exists");
    assert_eq!(edited, r#"{"d|1":{"Stage":"apply","x":1,"STAGE":"apply","State":"complete"}}"#);
    let mut read = NodeState::default();
    read.add("key", None, r#"{"d|1":{"Restarts":"many"}}"#);
    assert_eq!(read.malformed().len(), 1);
}
