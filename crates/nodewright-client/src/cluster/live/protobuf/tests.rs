use std::fmt::Debug;

use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};

use super::super::decode::{ListKind, page};
use super::schema::{self, Kind, Message};
use crate::api::Object;
use crate::cluster::{Event, Job, Node, Pod};

macro_rules! recorded {
    ($list:literal) => {
        (
            include_bytes!(concat!("../../../../../../tests/protobuf/", $list, ".json")),
            include_bytes!(concat!("../../../../../../tests/protobuf/", $list, ".pb")),
        )
    };
}

fn decoded<T: Object + DeserializeOwned + Debug>(
    body: &[u8],
    api_version: &str,
    kind: &'static str,
) -> Result<String, String> {
    let api_version = api_version.to_owned();
    let metadata = true;
    let page = page::<T>(body, &ListKind { api_version, kind, metadata }, |_| {})?;
    assert!(!page.items.is_empty() && page.unidentified.is_empty());
    Ok(format!("{:#?} {:?}", page.items, page.next))
}

fn nodes(body: &[u8]) -> Result<String, String> {
    decoded::<Node>(body, "v1", "Node")
}

fn assert_same_objects<T: Object + DeserializeOwned + Debug>(
    (json, protobuf): (&[u8], &[u8]),
    api_version: &str,
    kind: &'static str,
) {
    let [json, protobuf] = [json, protobuf].map(|body| decoded::<T>(body, api_version, kind));
    assert!(json.is_ok());
    assert_eq!(protobuf, json);
}

/// Compares both encodings of the same objects, recorded from a real API server, with every decoded field.
#[test]
fn it_says_what_json_says() {
    assert_same_objects::<Node>(recorded!("nodes"), "v1", "Node");
    assert_same_objects::<Pod>(recorded!("pods"), "v1", "Pod");
    assert_same_objects::<Job>(recorded!("jobs"), "batch/v1", "Job");
    assert_same_objects::<Event>(recorded!("events"), "v1", "Event");
    assert_same_objects::<Node>(recorded!("nodes-metadata"), "v1", "Node");
}

#[test]
fn a_list_of_another_kind_is_refused() {
    let (_, pods) = recorded!("pods");
    let why = "expected v1 NodeList, got v1 PodList";
    assert_eq!(nodes(pods), Err(why.to_owned()));
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

fn bytes_field(number: u64, content: &[u8]) -> Vec<u8> {
    [&varint(number << 3 | 2), &varint(content.len() as u64), content].concat()
}

/// Times in JSON, and their seconds since 1970.
const TIMES: [(&str, i64); 5] = [
    ("9999-12-31T23:59:59Z", 253_402_300_799),
    ("10000-01-01T11:59:59Z", 253_402_343_999),
    ("9999-12-29T23:59:59Z", 253_402_127_999),
    ("0000-01-01T00:00:00Z", -62_167_219_200),
    ("2026-11-28T10:00:00Z", 1_795_860_000),
];

/// Encodes a field as API servers do.
fn encoded(number: u64, kind: &Kind, value: &Json) -> Vec<u8> {
    let text = || value.as_str().expect("text");
    match kind {
        Kind::Text => bytes_field(number, text().as_bytes()),
        Kind::Quantity => bytes_field(number, &bytes_field(1, text().as_bytes())),
        Kind::Json => bytes_field(number, &bytes_field(1, value.to_string().as_bytes())),
        Kind::Time => {
            let known = TIMES.iter().find(|(time, _)| *time == text()).map(|(_, seconds)| (*seconds, 0));
            let (seconds, nanoseconds) = known.unwrap_or_else(|| {
                let time: jiff::Timestamp = text().parse().expect("a time");
                (time.as_second(), time.subsec_nanosecond())
            });
            let nanoseconds = varint(nanoseconds as u64);
            bytes_field(number, &[vec![8], varint(seconds as u64), vec![16], nanoseconds].concat())
        }
        Kind::Number | Kind::Pointer | Kind::Flag => {
            let value = value.as_i64().unwrap_or_else(|| i64::from(value.as_bool() == Some(true)));
            [varint(number << 3), varint(value as u64)].concat()
        }
        Kind::Message(message) => bytes_field(number, &encoded_fields(message, value)),
        Kind::Each(kind) => {
            value.as_array().into_iter().flatten().flat_map(|item| encoded(number, kind, item)).collect()
        }
        Kind::Map(kind) => {
            let entry = |(key, value): (&String, &Json)| {
                bytes_field(number, &[bytes_field(1, key.as_bytes()), encoded(2, kind, value)].concat())
            };
            value.as_object().into_iter().flatten().flat_map(entry).collect()
        }
    }
}

fn encoded_fields(message: &Message, value: &Json) -> Vec<u8> {
    let present = message.iter().filter(|(_, name, _)| value.get(name).is_some_and(|value| !value.is_null()));
    present.flat_map(|(number, name, kind)| encoded(*number, kind, &value[*name])).collect()
}

fn encoded_list(api_version: &str, kind: &str, list: &Json) -> Vec<u8> {
    let head = [bytes_field(1, api_version.as_bytes()), bytes_field(2, kind.as_bytes())].concat();
    let list = encoded_fields(schema::of(kind).expect("a known kind"), list);
    [super::MAGIC, &bytes_field(1, &head), &bytes_field(2, &list)].concat()
}

/// The values that an API server stores in a field, without zeros, which it leaves out in both encodings.
fn stored(kind: &Kind) -> Vec<Json> {
    match kind {
        Kind::Text => vec![json!("Unheard-of"), json!(TIMES[0].0)],
        Kind::Quantity => ["9223372036854775808", "1e18", "10E", "-1", "100m", "0"].map(Json::from).to_vec(),
        Kind::Time => TIMES.iter().map(|(time, _)| json!(time)).chain([Json::Null]).collect(),
        Kind::Number | Kind::Pointer => vec![json!(i32::MAX), json!(-1)],
        Kind::Flag => vec![json!(true)],
        Kind::Json | Kind::Message(_) | Kind::Each(_) | Kind::Map(_) => Vec::new(),
    }
}

/// Calls `check` with a list for each leaf and each value that an API server stores there.
fn each_leaf(kind: &Kind, path: &str, whole: &mut Json, check: &mut dyn FnMut(&str, &Json)) {
    if path.ends_with("/metadata/name") {
        return;
    }
    let here = whole.pointer(path).expect("a value").clone();
    for value in stored(kind) {
        *whole.pointer_mut(path).expect("a value") = value;
        check(path, whole);
    }
    *whole.pointer_mut(path).expect("a value") = here.clone();
    match kind {
        Kind::Message(message) => {
            for (_, name, kind) in message.iter().filter(|(_, name, _)| here.get(name).is_some()) {
                each_leaf(kind, &format!("{path}/{name}"), whole, check);
            }
        }
        Kind::Each(kind) => {
            for at in 0..here.as_array().map_or(0, Vec::len) {
                each_leaf(kind, &format!("{path}/{at}"), whole, check);
            }
        }
        Kind::Map(kind) => {
            for key in here.as_object().into_iter().flat_map(|map| map.keys()) {
                let key = key.replace('~', "~0").replace('/', "~1");
                each_leaf(kind, &format!("{path}/{key}"), whole, check);
            }
        }
        _ => {}
    }
}

/// Each leaf of a recorded list, replaced by every value that an API server stores there, costs nothing, and
/// is the same in both encodings.
fn assert_every_value_is_read<T: Object + DeserializeOwned + Debug>(
    (json, _): (&[u8], &[u8]),
    api_version: &str,
    kind: &'static str,
) {
    let mut list: Json = serde_json::from_slice(json).expect("JSON");
    let known = ListKind { api_version: api_version.to_owned(), kind, metadata: false };
    let list_kind = format!("{kind}List");
    let items = |body: &[u8]| page::<T>(body, &known, |_| {}).expect("a list").items;
    let mut count = 0;
    let mut check = |path: &str, list: &Json| {
        count += 1;
        // JSON keeps the text of this time, which is only printed.
        if path.ends_with("/timeAdded") {
            return;
        }
        let json = items(list.to_string().as_bytes());
        let protobuf = items(&encoded_list(api_version, &list_kind, list));
        assert_eq!(format!("{protobuf:#?}"), format!("{json:#?}"), "{path}: {:?}", list.pointer(path));
        let unknown = json.iter().flat_map(|item| item.unknown_fields().iter());
        assert_eq!(unknown.count(), 0, "{path}: {:?}", list.pointer(path));
    };
    let schema = Kind::Message(schema::of(&list_kind).expect("a known kind"));
    each_leaf(&schema, "", &mut list, &mut check);
    assert!(count > 50, "{count}");
}

#[test]
fn every_value_that_a_server_stores_is_read_in_both_encodings() {
    assert_every_value_is_read::<Node>(recorded!("nodes"), "v1", "Node");
    assert_every_value_is_read::<Pod>(recorded!("pods"), "v1", "Pod");
    assert_every_value_is_read::<Job>(recorded!("jobs"), "batch/v1", "Job");
    assert_every_value_is_read::<Event>(recorded!("events"), "v1", "Event");
}

#[test]
fn what_is_cut_off_is_an_error() {
    let (_, whole) = recorded!("nodes");
    // The content encoding, which is empty, follows the list.
    for length in 4..whole.len() - 4 {
        let error = nodes(&whole[..length]).expect_err("the list is truncated");
        assert!(error.starts_with("the response is not a list: "), "{error}");
    }
    let error = nodes(b"k8s\0").expect_err("the body contains no list");
    assert_eq!(error, r#"the response is not a list: unknown kind """#);
}

proptest! {
    #[test]
    fn what_is_spoilt_is_an_error_or_a_list(at in 4..1800usize, byte: u8) {
        let (_, whole) = recorded!("nodes");
        let mut spoilt = whole.to_vec();
        spoilt[at] = byte;
        let kind = ListKind {
            api_version: "v1".to_owned(),
            kind: "Node",
            metadata: false,
        };
        let _ = page::<Node>(&spoilt[..], &kind, |_| {});
    }
}
