//! Mutations of valid input.

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

/// A mutation of bytes.
#[derive(Debug, Clone)]
pub enum Mutation {
    Cut(Index),
    Remove(Index, usize),
    Repeat(Index, usize, usize),
    Put(Index, Vec<u8>),
    Flip(Index, u8),
}

const PIECES: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "\"",
    ":",
    ",",
    "null",
    "true",
    "-0",
    "1e999",
    "99999999999999999999",
    "\\u0000",
    "\\ud800",
    "\u{1b}[2J",
    "\u{202e}",
    "---\n",
    "- ",
    "&a ",
    "*a",
    "!!binary ",
    "<<: ",
    "|\n",
    "\t",
    "\r\n",
    "\0",
    "items:",
    "{\"kind\":\"List\",\"items\":",
    "é",
    "\u{feff}",
];

fn mutation() -> impl Strategy<Value = Mutation> {
    let piece = prop::sample::select(PIECES).prop_map(|piece| piece.as_bytes().to_vec());
    prop_oneof![
        1 => any::<Index>().prop_map(Mutation::Cut),
        3 => (any::<Index>(), 1..64_usize).prop_map(|(at, n)| Mutation::Remove(at, n)),
        2 => (any::<Index>(), 1..40_usize, 1..20_usize).prop_map(|(at, n, times)| Mutation::Repeat(at, n, times)),
        4 => (any::<Index>(), piece).prop_map(|(at, piece)| Mutation::Put(at, piece)),
        2 => (any::<Index>(), 1..=255_u8).prop_map(|(at, bits)| Mutation::Flip(at, bits)),
    ]
}

pub fn mutations() -> impl Strategy<Value = Vec<Mutation>> {
    prop::collection::vec(mutation(), 0..6)
}

pub fn mutated(bytes: &[u8], mutations: &[Mutation]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for mutation in mutations {
        let place = |at: &Index| at.index(bytes.len() + 1);
        match mutation {
            Mutation::Cut(at) => {
                let at = place(at);
                bytes.truncate(at);
            }
            Mutation::Remove(at, n) => {
                let at = place(at);
                let end = (at + n).min(bytes.len());
                bytes.drain(at..end);
            }
            Mutation::Repeat(at, n, times) => {
                let at = place(at);
                let end = (at + n).min(bytes.len());
                let again = bytes[at..end].repeat(*times);
                bytes.splice(at..at, again);
            }
            Mutation::Put(at, piece) => {
                let at = place(at);
                bytes.splice(at..at, piece.iter().copied());
            }
            Mutation::Flip(at, bits) => {
                let at = place(at);
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= bits;
                }
            }
        }
    }
    bytes
}

/// Values that do not fit the fields.
fn unexpected() -> impl Strategy<Value = Value> {
    let deep = (1..90_usize).prop_map(|n| (0..n).fold(json!(1), |inner, _| json!([inner])));
    prop_oneof![
        prop::sample::select(vec![
            json!(null),
            json!(true),
            json!(-1),
            json!(0),
            json!(1e300),
            json!(u64::MAX),
            json!(i64::MIN),
            json!(""),
            json!("\u{1b}]0;x\u{7}"),
            json!("9999-12-31T23:59:60Z"),
            json!("-1ns"),
            json!("{"),
            json!([]),
            json!({}),
            json!([null]),
            json!({"": null}),
            json!("100%"),
            json!("-5"),
            json!("a|b|c"),
            json!("é|1"),
        ]),
        any::<String>().prop_map(Value::from),
        deep,
    ]
}

/// Places in a document with their new values; `None` removes the value.
pub fn changes() -> impl Strategy<Value = Vec<(Index, Option<Value>)>> {
    prop::collection::vec((any::<Index>(), prop::option::weighted(0.8, unexpected())), 1..8)
}

/// The document with these values replaced.
pub fn changed(document: &Value, changes: &[(Index, Option<Value>)]) -> Value {
    let mut document = document.clone();
    for (at, value) in changes {
        let mut places = Vec::new();
        pointers(&document, &mut String::new(), &mut places);
        let place = &places[at.index(places.len())];
        match value {
            Some(value) => {
                if let Some(found) = document.pointer_mut(place) {
                    *found = value.clone();
                }
            }
            None => {
                if let Some((parent, key)) = place.rsplit_once('/')
                    && let Some(Value::Object(members)) = document.pointer_mut(parent)
                {
                    members.remove(&key.replace("~1", "/").replace("~0", "~"));
                }
            }
        }
    }
    document
}

fn pointers(value: &Value, at: &mut String, places: &mut Vec<String>) {
    places.push(at.clone());
    let mut below = |key: &str, value: &Value| {
        let before = at.len();
        at.push('/');
        at.push_str(&key.replace('~', "~0").replace('/', "~1"));
        pointers(value, at, places);
        at.truncate(before);
    };
    match value {
        Value::Object(members) => members.iter().for_each(|(key, value)| below(key, value)),
        Value::Array(items) => items.iter().enumerate().for_each(|(n, value)| below(&n.to_string(), value)),
        _ => {}
    }
}
