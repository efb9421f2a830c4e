//! Whole lists, read page by page.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use serde::de::DeserializeOwned;

use super::decode::{self, Page};
use super::request::{Failure, get};

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
    /// What one item is called in messages.
    singular: &'static str,
}

impl List {
    /// A list of a resource in all namespaces, or of one that has none.
    pub fn all(api: &str, plural: &str, singular: &'static str) -> List {
        List {
            path: format!("{api}/{plural}"),
            selector: String::new(),
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
        for _ in 0..RESTARTS {
            match self.paged(client, PAGE).await {
                Err(failure) if failure.code() == Some(410) => {}
                done => return done,
            }
        }
        self.paged(client, 0).await
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

    /// Page by page; while one is decoded the next one comes.
    async fn paged<T: DeserializeOwned + Send + 'static>(
        &self,
        client: &kube::Client,
        mut limit: usize,
    ) -> Result<(Vec<T>, String), Failure> {
        let mut items = Vec::new();
        let mut token: Option<String> = None;
        let mut body = get(client, &self.url(limit, None)).await?;
        loop {
            limit = sized(limit, body.len());
            let known = decode::next_of(&body);
            let decoding = decode::page_beside::<T>(body, self.singular);
            let (page, coming) = match known {
                Some(Some(next)) if Some(&next) != token.as_ref() => {
                    let url = self.url(limit, Some(&next));
                    let (page, coming) = futures::join!(decoding, get(client, &url));
                    (page, Some(coming))
                }
                _ => (decoding.await, None),
            };
            let page: Page<T> = page.map_err(Failure::Malformed)?;
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
                None => get(client, &self.url(limit, Some(&next))).await?,
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
    match limit > 0 && bytes > LARGEST_PAGE {
        true => (limit * LARGEST_PAGE / bytes).clamp(SMALLEST_PAGE.min(limit), limit),
        false => limit,
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
