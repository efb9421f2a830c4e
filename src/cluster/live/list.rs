//! Whole lists, read page by page.

use bytes::Bytes;
use percent_encoding::{
    AsciiSet, NON_ALPHANUMERIC, PercentEncode, percent_decode_str, utf8_percent_encode,
};
use serde::de::DeserializeOwned;

use super::decode::{self, ListEvent, ListPage};
use super::protobuf;
use super::request::{Failure, JSON, get_as};
use crate::api::labels::Labelled;
use crate::cluster::capture::{Keep, Tape};

/// Items in one page, as kubectl asks for.
const PAGE: usize = 500;
/// The fewest items in a page, however large they are.
const SMALLEST_PAGE: usize = 100;
/// Bytes that a page should have at the most: two of them are held at once.
const LARGEST_PAGE: usize = 8 << 20;
/// How often a list is begun again because it changed too much while it was read.
const RESTARTS: usize = 2;

/// What to list.
#[derive(Debug, Clone)]
pub(super) struct List {
    path: String,
    selector: String,
    /// The label that items have, where it is one.
    label: Option<String>,
    /// What one item is called in messages.
    singular: &'static str,
}

impl List {
    /// A list of a resource in all namespaces, or of one that has none.
    pub fn all(api: &str, plural: &str, singular: &'static str) -> List {
        List {
            path: format!("{api}/{plural}"),
            selector: String::new(),
            label: None,
            singular,
        }
    }

    /// The same in one namespace.
    pub fn inside(api: &str, namespace: &str, plural: &str, singular: &'static str) -> List {
        let api = format!("{api}/namespaces/{}", encode(namespace));
        List::all(&api, plural, singular)
    }

    /// Only items whose labels match.
    pub fn labelled(mut self, selector: &str) -> List {
        self.selector += &format!("&labelSelector={}", encode(selector));
        self.label = Some(selector.to_owned());
        self
    }

    /// Only items whose fields match.
    pub fn with_fields(mut self, selector: &str) -> List {
        self.selector += &format!("&fieldSelector={}", encode(selector));
        self
    }

    /// Reads it whole.
    ///
    /// A list that expires between two pages (410) is begun again, the last time in one piece,
    /// which cannot expire.
    pub async fn read<T: DeserializeOwned + Send + 'static>(
        &self,
        client: &kube::Client,
    ) -> Result<Vec<T>, Failure> {
        Ok(self.read_at(client).await?.0)
    }

    /// [`List::read`], with the version that a watch goes on from.
    pub async fn read_at<T: DeserializeOwned + Send + 'static>(
        &self,
        client: &kube::Client,
    ) -> Result<(Vec<T>, String), Failure> {
        let decode = |body| decode::page_beside(body, self.singular);
        let accept = if protobuf::knows(&self.resource()) {
            protobuf::MEDIA_TYPES
        } else {
            JSON
        };
        for _ in 0..RESTARTS {
            match self.paged(client, accept, PAGE, decode).await {
                Err(failure) if failure.code() == Some(410) => {}
                done => return done,
            }
        }
        self.paged(client, accept, 0, decode).await
    }

    /// [`List::read`], with what is read kept on a tape: of each item as much as is asked for. `again` hears where
    /// it begins, and begins anew.
    pub async fn record<T: DeserializeOwned>(
        &self,
        client: &kube::Client,
        tape: &Tape,
        keep: &(dyn Fn(&T) -> Keep + Sync),
        again: impl Fn(),
    ) -> Result<Vec<T>, Failure> {
        let mut tries = 0;
        loop {
            again();
            let mut segment = tape.begin(&self.resource());
            let decode = |body: Bytes| {
                let page = decode::each(&body, self.singular, |told| match told {
                    ListEvent::List { api_version, kind } => segment.is_of(api_version, kind),
                    ListEvent::Item(item, text) => match keep(item) {
                        Keep::Not => {}
                        keep => {
                            segment.add(keep, serde_json::from_str(text.get()).unwrap_or_default())
                        }
                    },
                });
                std::future::ready(page)
            };
            let limit = if tries < RESTARTS { PAGE } else { 0 };
            match self.paged(client, JSON, limit, decode).await {
                Err(failure) if failure.code() == Some(410) && tries < RESTARTS => tries += 1,
                Err(failure) => return Err(failure),
                Ok((items, _)) => {
                    segment.keep();
                    return Ok(items);
                }
            }
        }
    }

    /// What it is a list of, as the files of a capture are named: `jobs.batch`.
    fn resource(&self) -> String {
        let parts: Vec<&str> = self.path.split('/').collect();
        let plural = parts.last().copied().unwrap_or_default();
        match parts.as_slice() {
            ["", "apis", group, ..] => format!("{plural}.{group}"),
            _ => plural.to_owned(),
        }
    }

    /// What tells it from all other lists.
    pub fn id(&self) -> String {
        format!("{}?{}", self.path, self.selector)
    }

    /// The namespace, and the list of the same in all of them.
    pub fn everywhere(&self) -> Option<(String, List)> {
        let (api, rest) = self.path.split_once("/namespaces/")?;
        let (namespace, plural) = rest.split_once('/')?;
        let namespace = percent_decode_str(namespace).decode_utf8().ok()?;
        let path = format!("{api}/{plural}");
        Some((
            namespace.into_owned(),
            List {
                path,
                ..self.clone()
            },
        ))
    }

    /// Whether it is a label that all of its items have, if they have one in common.
    pub fn is_labelled(&self, labels: &impl Labelled) -> bool {
        self.label
            .as_ref()
            .is_none_or(|label| labels.value(label).is_some())
    }

    /// What one item is called in messages.
    pub fn singular(&self) -> &'static str {
        self.singular
    }

    /// The path of the changes after a version, bookmarks among them, for so many seconds.
    pub fn changes(&self, version: &str, seconds: u64) -> String {
        let selector = &self.selector;
        let version = encode(version);
        let path = &self.path;
        format!(
            "{path}?watch=true&allowWatchBookmarks=true&resourceVersion={version}\
             &timeoutSeconds={seconds}{selector}"
        )
    }

    /// Page by page; while one is decoded the next one comes, where it is decoded beside.
    async fn paged<T, D>(
        &self,
        client: &kube::Client,
        accept: &str,
        mut limit: usize,
        mut decode: impl FnMut(Bytes) -> D,
    ) -> Result<(Vec<T>, String), Failure>
    where
        D: Future<Output = Result<ListPage<T>, String>>,
    {
        let mut items = Vec::new();
        let mut token: Option<String> = None;
        let mut body = get_as(client, &self.url(limit, None), accept).await?;
        loop {
            limit = sized(limit, body.len());
            let known = decode::next_of(&body);
            let decoding = decode(body);
            let (page, coming) = match known {
                Some(Some(next)) if Some(&next) != token.as_ref() => {
                    let url = self.url(limit, Some(&next));
                    let (page, coming) = futures::join!(decoding, get_as(client, &url, accept));
                    (page, Some(coming))
                }
                _ => (decoding.await, None),
            };
            let page = page.map_err(Failure::Malformed)?;
            items.extend(page.items);
            let next = match page.next {
                None => return Ok((items, page.version)),
                Some(next) if Some(&next) == token.as_ref() => {
                    let why = "the server keeps giving the same page".to_owned();
                    return Err(Failure::Malformed(why));
                }
                Some(next) => next,
            };
            body = match coming {
                Some(coming) => coming?,
                None => get_as(client, &self.url(limit, Some(&next)), accept).await?,
            };
            token = Some(next);
        }
    }

    fn url(&self, limit: usize, token: Option<&str>) -> String {
        let mut query = self.selector.clone();
        if limit > 0 {
            query += &format!("&limit={limit}");
        }
        if let Some(token) = token {
            query += &format!("&continue={}", encode(token));
        }
        match query.strip_prefix('&') {
            Some(query) => format!("{}?{query}", self.path),
            None => self.path.clone(),
        }
    }
}

/// How many items to ask for after a page of so many bytes.
fn sized(limit: usize, bytes: usize) -> usize {
    if limit > 0 && bytes > LARGEST_PAGE {
        (limit * LARGEST_PAGE / bytes).clamp(SMALLEST_PAGE.min(limit), limit)
    } else {
        limit
    }
}

/// All but the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Percent-encodes what may not stand in a part of a URL.
pub(super) fn encode(text: &str) -> PercentEncode<'_> {
    utf8_percent_encode(text, RESERVED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_large_items_hold_fewer() {
        let mib = 1 << 20;
        assert_eq!(sized(500, mib), 500);
        assert_eq!(sized(500, 16 * mib), 250);
        assert_eq!(sized(500, 1000 * mib), 100);
        assert_eq!(sized(100, 1000 * mib), 100);
        assert_eq!(sized(0, 1000 * mib), 0);
    }
}
