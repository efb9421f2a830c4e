//! Pages of a list, decoded leniently into our own types.

use std::fmt;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::protobuf;
use crate::cluster::nulls;
use crate::reason::first_line;

/// From so many bytes on a page is decoded beside what else goes on.
const LARGE: usize = 1 << 18;

/// One page of a list.
pub(super) struct ListPage<T> {
    pub items: Vec<T>,
    /// Where the next page begins; `None` on the last.
    pub next: Option<String>,
    /// The version of the list as a whole.
    pub version: String,
}

#[derive(Deserialize)]
struct Body<T> {
    #[serde(default, rename = "apiVersion")]
    api_version: Option<String>,
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    metadata: Option<ListMeta>,
    #[serde(default = "none")]
    items: Option<Vec<T>>,
}

fn none<T>() -> Option<Vec<T>> {
    None
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ListMeta {
    #[serde(rename = "continue")]
    next: Option<String>,
    #[serde(rename = "resourceVersion")]
    version: Option<String>,
}

/// Where the next page begins, from the beginning of a page alone: servers write it before the items.
///
/// The outer `None` is of a page that does not begin so, and has to be decoded to know.
pub(super) fn next_of(body: &[u8]) -> Option<Option<String>> {
    let mut found = None;
    if let Some(list) = protobuf::decode::<Head>(body) {
        found = list.ok().map(|list| list.metadata);
    } else {
        // The items end it: they are neither read nor looked at.
        let _ = serde_json::Deserializer::from_slice(body).deserialize_map(Beginning(&mut found));
    }
    let next = found?.next.filter(|token: &String| !token.is_empty());
    Some(next)
}

#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    metadata: ListMeta,
}

struct Beginning<'a>(&'a mut Option<ListMeta>);

impl<'de> Visitor<'de> for Beginning<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "metadata" => {
                    let meta: Option<ListMeta> = map.next_value()?;
                    *self.0 = Some(meta.unwrap_or_default());
                }
                "items" => return Err(A::Error::custom("the beginning ends here")),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// Decodes a page on another thread, if it is large, so that the next one can come meanwhile.
pub(super) async fn page_beside<T: DeserializeOwned + Send + 'static>(
    body: Bytes,
    singular: &'static str,
) -> Result<ListPage<T>, String> {
    if body.len() < LARGE {
        return page(&body, singular);
    }
    let decoding = tokio::task::spawn_blocking(move || page(&body, singular));
    decoding.await.unwrap_or_else(|e| Err(e.to_string()))
}

/// Decodes a page; says what is wrong with it if that cannot be done.
///
/// Whole pages of JSON decode in one go, as a rule. Where one does not, its items are tried one by one,
/// without their nulls, which old clients leave behind where a list or a map should be. `singular`
/// names the kind of item in messages.
pub(super) fn page<T: DeserializeOwned>(
    body: &[u8],
    singular: &str,
) -> Result<ListPage<T>, String> {
    if let Some(list) = protobuf::decode::<Body<T>>(body) {
        return list
            .map_err(|e| format!("the answer is not a list: {e}"))?
            .into_page();
    }
    if let Ok(body) = serde_json::from_slice::<Body<T>>(body) {
        return body.into_page();
    }
    let raw: Body<&RawValue> =
        serde_json::from_slice(body).map_err(|e| format!("the answer is not a list: {e}"))?;
    let raw = raw.into_page()?;
    let items: Result<Vec<T>, String> = raw.items.iter().map(|i| item(i, singular)).collect();
    Ok(ListPage {
        items: items?,
        next: raw.next,
        version: raw.version,
    })
}

impl<T> Body<T> {
    fn into_page(self) -> Result<ListPage<T>, String> {
        // Servers write null for no items, and that it is a list at all says the kind.
        if !self.kind.is_some_and(|kind| kind.ends_with("List")) {
            return Err("the answer is not a list".to_owned());
        }
        let ListMeta { next, version } = self.metadata.unwrap_or_default();
        Ok(ListPage {
            items: self.items.unwrap_or_default(),
            next: next.filter(|token| !token.is_empty()),
            version: version.unwrap_or_default(),
        })
    }
}

/// Decodes a page item by item, and tells of each with its text, and of what it is a list of first.
pub(super) fn each<T: DeserializeOwned>(
    body: &[u8],
    singular: &str,
    mut told: impl FnMut(ListEvent<'_, T>),
) -> Result<ListPage<T>, String> {
    let raw: Body<&RawValue> =
        serde_json::from_slice(body).map_err(|e| format!("the answer is not a list: {e}"))?;
    let (api_version, kind) = (raw.api_version.clone(), raw.kind.clone());
    let raw = raw.into_page()?;
    told(ListEvent::List {
        api_version: api_version.as_deref().unwrap_or_default(),
        kind: kind.as_deref().unwrap_or_default(),
    });
    let mut items = Vec::with_capacity(raw.items.len());
    for text in raw.items {
        let item = item(text, singular)?;
        told(ListEvent::Item(&item, text));
        items.push(item);
    }
    Ok(ListPage {
        items,
        next: raw.next,
        version: raw.version,
    })
}

/// What [`each`] tells.
pub(super) enum ListEvent<'a, T> {
    List { api_version: &'a str, kind: &'a str },
    Item(&'a T, &'a RawValue),
}

/// Decodes one object as leniently; says what is wrong with it if that cannot be done.
pub(super) fn item<T: DeserializeOwned>(raw: &RawValue, singular: &str) -> Result<T, String> {
    let text = raw.get().as_bytes();
    if let Ok(item) = serde_json::from_slice(text) {
        return Ok(item);
    }
    let value: Value = serde_json::from_slice(text).map_err(|e| e.to_string())?;
    let name = value["metadata"]["name"].as_str().unwrap_or("?").to_owned();
    nulls::decode(value)
        .map_err(|why| format!("{singular} {}: {}", first_line(&name), first_line(&why)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_page_goes_on_is_known_from_its_beginning() {
        let cut = r#"{"kind": "NodeList", "metadata": {"continue": "abc"}, "items": [{"metad"#;
        assert_eq!(next_of(cut.as_bytes()), Some(Some("abc".into())));
        let last = r#"{"metadata": {"continue": ""}, "items": []}"#;
        assert_eq!(next_of(last.as_bytes()), Some(None));
        let late = r#"{"items": [], "metadata": {"continue": "abc"}}"#;
        assert_eq!(next_of(late.as_bytes()), None);
        assert_eq!(next_of(b"<html>"), None);
    }
    use crate::cluster::Node;

    fn names(body: &str) -> Result<Vec<String>, String> {
        let page: ListPage<Node> = page(body.as_bytes(), "node")?;
        Ok(page.items.into_iter().map(|n| n.name).collect())
    }

    #[test]
    fn nulls_are_as_good_as_absent() {
        assert_eq!(names(r#"{"kind": "NodeList", "items": null}"#), Ok(vec![]));
        assert_eq!(
            names(r#"{"kind": "NodeList", "metadata": null}"#),
            Ok(vec![])
        );
        let body = r#"{"kind": "NodeList", "items": [
            {"metadata": {"name": "a", "labels": null}, "spec": null},
            {"metadata": {"name": "b"}}
        ]}"#;
        assert_eq!(names(body), Ok(vec!["a".into(), "b".into()]));
    }

    #[test]
    fn what_does_not_decode_is_named() {
        let body = r#"{"kind": "NodeList", "items": [{"metadata": {"name": "a", "labels": 7}}]}"#;
        let why = "node a: invalid type: integer `7`, expected a map";
        assert_eq!(names(body), Err(why.into()));
        let why = "the answer is not a list: expected value at line 1 column 1";
        assert_eq!(names("<html>"), Err(why.into()));
        for body in ["{}", r#"{"items": []}"#, r#"{"kind": "Status"}"#] {
            let why = "the answer is not a list";
            assert_eq!(names(body), Err(why.into()), "{body}");
        }
        let why = names("null").expect_err("null is no list");
        assert!(why.starts_with("the answer is not a list"), "{why}");
    }
}
