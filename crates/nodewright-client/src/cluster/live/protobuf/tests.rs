use std::fmt::Debug;

use proptest::prelude::*;
use serde::de::DeserializeOwned;

use super::super::decode::{ListKind, page};
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

/// A list with a `Time` of this many seconds, which replaces a time of equal encoded length.
fn with_time(seconds: u64) -> Vec<u8> {
    let varint = |mut number: u64| {
        let mut bytes = Vec::new();
        while number >= 0x80 {
            bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        bytes.push(number as u8);
        bytes
    };
    let field = |tag: u8, content: Vec<u8>| [vec![tag], varint(content.len() as u64), content].concat();
    let time = [vec![0x08], varint(seconds)].concat();
    let node = [
        field(0x0a, field(0x0a, b"n".to_vec())),
        field(
            0x1a,
            field(
                0x22,
                [field(0x0a, b"Ready".to_vec()), field(0x12, b"True".to_vec()), field(0x22, time)].concat(),
            ),
        ),
    ];
    let list = field(0x12, node.concat());
    let head = [field(0x0a, b"v1".to_vec()), field(0x12, b"NodeList".to_vec())].concat();
    [super::MAGIC.to_vec(), field(0x0a, head), field(0x12, list)].concat()
}

#[test]
fn a_time_beyond_our_range_is_unknown_as_in_json() {
    let kind = ListKind { api_version: "v1".to_owned(), kind: "Node", metadata: false };
    let page = |seconds| page::<Node>(&with_time(seconds)[..], &kind, |_| {}).expect("a list");
    for (seconds, time) in
        [(253_402_300_799, "9999-12-31T23:59:59Z"), (253_402_214_400, "9999-12-31T00:00:00Z")]
    {
        let page = page(seconds);
        let unknown: Vec<_> = page.items[0].unknown_fields().iter().cloned().collect();
        assert_eq!(unknown.len(), 1);
        assert_eq!(unknown[0].path, "status.conditions[0].lastTransitionTime");
        assert_eq!((unknown[0].value.as_str(), unknown[0].is_mere_time), (time, true));
        assert_eq!(page.items[0].ready(), Some(true));
    }
    let known = page(253_402_127_999);
    assert_eq!(known.items[0].unknown_fields().iter().count(), 0);
    assert!(known.items[0].condition("Ready").expect("a condition").last_transition_time.is_some());
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
