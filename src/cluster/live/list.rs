//! Whole lists, read page by page.

use kube::client::Body;
use percent_encoding::{
    AsciiSet, NON_ALPHANUMERIC, PercentEncode, percent_decode_str, utf8_percent_encode,
};
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;

use super::decode::{self, ListEvent, ListPage};
use super::request::{self, Failure, JSON, get_as};
use super::{arriving, protobuf};
use crate::api::labels::Labelled;
use crate::cluster::capture::{Keep, Tape};

/// Items in one page, as kubectl asks for.
const PAGE: usize = 500;
/// How often a list is read again from its beginning because it expired while it was read.
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

    /// A list of a resource in one namespace.
    pub fn inside(api: &str, namespace: &str, plural: &str, singular: &'static str) -> List {
        List::all(api, plural, singular).within(namespace)
    }

    /// The same in one namespace, of a list of all.
    pub fn within(mut self, namespace: &str) -> List {
        if let Some((api, plural)) = self.path.rsplit_once('/') {
            self.path = format!("{api}/namespaces/{}/{plural}", encode(namespace));
        }
        self
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
    /// A list that expires between two pages (410) is read again from its beginning, the last time in one piece,
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
        let accept = if protobuf::knows(&self.resource()) {
            protobuf::MEDIA_TYPES
        } else {
            JSON
        };
        for _ in 0..RESTARTS {
            match self.paged(client, accept, PAGE).await {
                Err(failure) if failure.code() == Some(410) => {}
                done => return done,
            }
        }
        self.paged(client, accept, 0).await
    }

    /// [`List::read`], with what is read kept on a tape: of each item as much as `keep` says. `on_start` is called
    /// whenever the list is read from its beginning.
    pub async fn record<T: DeserializeOwned>(
        &self,
        client: &kube::Client,
        tape: &Tape,
        keep: &(dyn Fn(&T) -> Keep + Sync),
        on_start: impl Fn(),
    ) -> Result<Vec<T>, Failure> {
        let mut tries = 0;
        loop {
            on_start();
            let mut segment = tape.begin(&self.resource());
            let mut on_event = |event: ListEvent<'_, T>| match event {
                ListEvent::List { api_version, kind } => segment.is_of(api_version, kind),
                ListEvent::Item(item, text) => match keep(item) {
                    Keep::Not => {}
                    keep => segment.add(keep, serde_json::from_str(text.get()).unwrap_or_default()),
                },
            };
            let limit = if tries < RESTARTS { PAGE } else { 0 };
            match self.whole_pages(client, limit, &mut on_event).await {
                Err(failure) if failure.code() == Some(410) && tries < RESTARTS => tries += 1,
                Err(failure) => return Err(failure),
                Ok(items) => {
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

    /// Its key among all lists.
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

    /// Page by page, each decoded while it is received. The next page is requested as soon as its token is known.
    async fn paged<T: DeserializeOwned + Send + 'static>(
        &self,
        client: &kube::Client,
        accept: &str,
        limit: usize,
    ) -> Result<(Vec<T>, String), Failure> {
        let mut items = Vec::new();
        let (mut token, mut asked) = (None, None);
        loop {
            let url = self.url(limit, token.as_deref());
            let (sender, next_token) = oneshot::channel();
            let page = self.page(client, &url, accept, asked, sender);
            let ahead = async {
                let next = next_token.await.ok();
                let next = next.filter(|next| Some(next) != token.as_ref())?;
                let url = self.url(limit, Some(&next));
                Some(request::open(client, &url, accept).await)
            };
            let (page, ahead) = futures::join!(page, ahead);
            let page: ListPage<T> = page?;
            items.extend(page.items);
            if !advance(&mut token, page.next)? {
                return Ok((items, page.version));
            }
            asked = ahead;
        }
    }

    /// One page; `next` gets the token of the next page as soon as it is known.
    async fn page<T: DeserializeOwned + Send + 'static>(
        &self,
        client: &kube::Client,
        url: &str,
        accept: &str,
        asked: Option<Result<Body, Failure>>,
        next: oneshot::Sender<String>,
    ) -> Result<ListPage<T>, Failure> {
        let singular = self.singular;
        let mut next = Some(next);
        let decode = |body| {
            let next = next.take();
            let on_next = move |token: &str| {
                if let Some(next) = next {
                    let _ = next.send(token.to_owned());
                }
            };
            arriving::decode(body, move |stream| decode::page(stream, singular, on_next))
        };
        request::read(client, url, accept, asked, decode).await
    }

    /// Page by page, each received as a whole before it is decoded.
    async fn whole_pages<T: DeserializeOwned>(
        &self,
        client: &kube::Client,
        limit: usize,
        on_event: &mut (dyn FnMut(ListEvent<'_, T>) + Send),
    ) -> Result<Vec<T>, Failure> {
        let mut items = Vec::new();
        let mut token = None;
        loop {
            let body = get_as(client, &self.url(limit, token.as_deref()), JSON).await?;
            let page = decode::each(&body, self.singular, &mut *on_event);
            let page = page.map_err(Failure::Malformed)?;
            items.extend(page.items);
            if !advance(&mut token, page.next)? {
                return Ok(items);
            }
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

/// Takes the token of the next page; gives whether there is one.
fn advance(token: &mut Option<String>, next: Option<String>) -> Result<bool, Failure> {
    if next.is_some() && next == *token {
        let why = "the server keeps returning the same page".to_owned();
        return Err(Failure::Malformed(why));
    }
    *token = next;
    Ok(token.is_some())
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
