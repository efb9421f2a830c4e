//! A page of a list whose items are parsed in full only on demand.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// A page of a list, with its body as received.
pub(super) struct RawPage {
    body: Vec<u8>,
    /// The `continue` token of the next page.
    pub next: Option<String>,
    /// Number of items on later pages, if the server sends it.
    pub remaining: Option<usize>,
}

#[derive(Deserialize)]
struct List<'a> {
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    metadata: Option<ListMeta>,
    /// Null if there are no items.
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
struct ObjectHead {
    metadata: Meta,
}

#[derive(Deserialize)]
struct Meta {
    name: String,
}

impl RawPage {
    pub fn of(body: Vec<u8>) -> Result<RawPage, String> {
        let list = List::of(&body)?;
        if !list.kind.is_some_and(|kind| kind.ends_with("List")) {
            return Err("the server's response is not a list".to_owned());
        }
        let metadata = list.metadata.unwrap_or_default();
        let remaining = metadata.remaining_item_count;
        Ok(RawPage {
            body,
            next: metadata.continue_.filter(|next| !next.is_empty()),
            remaining: remaining.and_then(|count| usize::try_from(count).ok()),
        })
    }

    /// Calls `visit` for each item that has a name, with this name and a function that parses the whole item.
    pub fn each(
        &self,
        mut visit: impl FnMut(&str, &dyn Fn() -> Result<Value, String>) -> Result<(), String>,
    ) -> Result<(), String> {
        for item in List::of(&self.body)?.items.unwrap_or_default() {
            let Ok(ObjectHead { metadata }) = serde_json::from_str(item.get()) else {
                continue;
            };
            visit(&metadata.name, &|| serde_json::from_str(item.get()).map_err(|e| e.to_string()))?;
        }
        Ok(())
    }
}

impl<'a> List<'a> {
    fn of(body: &'a [u8]) -> Result<List<'a>, String> {
        serde_json::from_slice(body).map_err(|e| e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Names = (Vec<String>, Option<String>, Option<usize>);

    fn names(body: &'static str) -> Result<Names, String> {
        let page = RawPage::of(body.as_bytes().to_vec())?;
        let mut names = Vec::new();
        page.each(|name, item| {
            assert_eq!(item()?["metadata"]["name"], name);
            names.push(name.to_owned());
            Ok(())
        })?;
        Ok((names, page.next, page.remaining))
    }

    #[test]
    fn items_are_given_by_name() {
        let body = r#"{"kind": "NodeList", "metadata": {"continue": "x", "remainingItemCount": 7}, "items": [
            {"metadata": {"name": "a"}, "spec": {"x": [1]}}, {"metadata": {}}, {"metadata": {"name": "b"}}
        ]}"#;
        let all = vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(names(body), Ok((all, Some("x".to_owned()), Some(7))));
        for body in [
            r#"{"kind": "NodeList", "metadata": null, "items": null}"#,
            r#"{"kind": "NodeList", "metadata": {"continue": ""}}"#,
        ] {
            assert_eq!(names(body), Ok((Vec::new(), None, None)), "{body}");
        }
        let reason = Err("the server's response is not a list".to_owned());
        assert_eq!(names(r#"{"kind": "Status"}"#), reason);
        assert!(names("<html>").is_err());
    }
}
