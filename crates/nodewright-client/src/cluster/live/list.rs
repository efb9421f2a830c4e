//! Complete lists, read page by page; each page is decoded while it is received.

use std::collections::HashSet;
use std::hash::BuildHasher;
use std::io::{self, BufRead, Read};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use foldhash::fast::RandomState;
use kube::Client;
use kube::client::Body;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, percent_decode_str, utf8_percent_encode};
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use super::decode::{self, ListEvent, ListKind, Listed};
use super::protobuf;
use super::request::{self, Failure, JSON, chunk, get_as};
use crate::api::Object;
use crate::api::labels::Labelled;
use crate::cluster::capture::Tape;

/// Maximum number of items in a list. etcd cannot hold more objects of a kind: the list would never end.
const MOST_ITEMS: usize = 1_000_000;
/// Maximum number of pages without items in a list. A server may filter out all items of a page.
const MOST_EMPTY: usize = 100;
/// Number of items per page, as in kubectl.
const PAGE: usize = 500;
/// Number of paged attempts to read a list that expires meanwhile. The next attempt requests a single page.
const RESTARTS: usize = 2;

/// A list request: resource, namespace and selectors.
#[derive(Debug, Clone)]
pub(super) struct List {
    path: String,
    selector: String,
    /// The label that all items have, if the list selects by a label.
    label: Option<String>,
    kind: ListKind,
}

impl List {
    /// A list of a resource in all namespaces, or of a cluster-scoped resource.
    pub fn all(api: &str, plural: &str, kind: &'static str) -> List {
        let version = api.strip_prefix("/apis/").or(api.strip_prefix("/api/"));
        List {
            path: format!("{api}/{plural}"),
            selector: String::new(),
            label: None,
            kind: ListKind { api_version: version.unwrap_or_default().to_owned(), kind, metadata: false },
        }
    }

    /// A list of a resource in one namespace.
    pub fn inside(api: &str, namespace: &str, plural: &str, kind: &'static str) -> List {
        List::all(api, plural, kind).within(namespace)
    }

    /// Restricts a list of all namespaces to one namespace.
    pub fn within(mut self, namespace: &str) -> List {
        if let Some((api, plural)) = self.path.rsplit_once('/') {
            self.path = format!("{api}/namespaces/{}/{plural}", encode(namespace));
        }
        self
    }

    /// Restricts the list to items whose labels match.
    pub fn labelled(mut self, selector: &str) -> List {
        self.selector += &format!("&labelSelector={}", encode(selector));
        self.label = Some(selector.to_owned());
        self
    }

    /// Restricts the list to items whose fields match.
    pub fn with_fields(mut self, selector: &str) -> List {
        self.selector += &format!("&fieldSelector={}", encode(selector));
        self
    }

    /// Requests only the metadata of the items. Servers without such lists return whole items.
    pub fn of_metadata(mut self) -> List {
        self.kind.metadata = true;
        self
    }

    /// Reads the complete list.
    ///
    /// A list that expires between two pages (410) is read again from its beginning. The last attempt
    /// requests a single page, which cannot expire.
    pub async fn read<T: Object + DeserializeOwned + Send + 'static>(
        &self,
        client: &Client,
    ) -> Result<Listed<T>, Failure> {
        let accept = match self.kind.metadata {
            true => protobuf::METADATA_MEDIA_TYPES,
            false if protobuf::knows(&self.resource()) => protobuf::MEDIA_TYPES,
            false => JSON,
        };
        for _ in 0..RESTARTS {
            match self.paged(client, accept, PAGE).await {
                Err(failure) if failure.code() == Some(410) => {}
                done => return done,
            }
        }
        self.paged(client, accept, 0).await
    }

    /// Like [`List::read`], but also records the items that pass `keep`.
    pub async fn record<T: Object + DeserializeOwned>(
        &self,
        client: &Client,
        tape: &Tape,
        keep: &(dyn Fn(&T) -> bool + Sync),
    ) -> Result<Listed<T>, Failure> {
        let mut tries = 0;
        loop {
            let mut segment = tape.begin(&self.resource());
            let mut on_event = |event: ListEvent<'_, T>| match event {
                ListEvent::List { api_version, kind } => segment.is_of(api_version, kind),
                ListEvent::Item(item, text) if keep(item) => {
                    segment.add(serde_json::from_str(text.get()).unwrap_or_default());
                }
                ListEvent::Item(..) => {}
            };
            let limit = if tries < RESTARTS { PAGE } else { 0 };
            match self.whole_pages(client, limit, &mut on_event).await {
                Err(failure) if failure.code() == Some(410) && tries < RESTARTS => tries += 1,
                Err(failure) => return Err(failure),
                Ok(listed) => {
                    segment.keep();
                    return Ok(listed);
                }
            }
        }
    }

    /// The resource, as in file names of a capture: `jobs.batch`.
    fn resource(&self) -> String {
        let parts: Vec<&str> = self.path.split('/').collect();
        let plural = parts.last().copied().unwrap_or_default();
        match parts.as_slice() {
            ["", "apis", group, ..] => format!("{plural}.{group}"),
            _ => plural.to_owned(),
        }
    }

    /// Identifies the list by its path and selectors.
    pub fn id(&self) -> String {
        format!("{}?{}", self.path, self.selector)
    }

    /// The namespace of the list; `None` if the list is not limited to a namespace.
    pub fn namespace(&self) -> Option<String> {
        let (_, rest) = self.path.split_once("/namespaces/")?;
        let (namespace, _) = rest.split_once('/')?;
        Some(percent_decode_str(namespace).decode_utf8().ok()?.into_owned())
    }

    /// Whether these labels include the label by which the list selects; `true` if it selects by none.
    pub fn is_labelled(&self, labels: &impl Labelled) -> bool {
        self.label.as_ref().is_none_or(|label| labels.value(label).is_some())
    }

    /// The URL path of a watch with bookmarks that starts at this version and lasts this many seconds.
    pub fn changes(&self, version: &str, seconds: u64) -> String {
        let selector = &self.selector;
        let version = encode(version);
        let path = &self.path;
        format!(
            "{path}?watch=true&allowWatchBookmarks=true&resourceVersion={version}\
             &timeoutSeconds={seconds}{selector}"
        )
    }

    /// Reads the list page by page, and decodes each page while it is received. The next page is requested as
    /// soon as its token is known.
    async fn paged<T: Object + DeserializeOwned + Send + 'static>(
        &self,
        client: &Client,
        accept: &str,
        limit: usize,
    ) -> Result<Listed<T>, Failure> {
        let mut listed = Listed::default();
        let mut pages = Pages::default();
        let (mut token, mut asked) = (None::<String>, None);
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
            token = pages.append(&mut listed, page?)?;
            if token.is_none() {
                return Ok(listed);
            }
            asked = ahead;
        }
    }

    /// Reads one page; `next` receives the token of the next page as soon as it is known.
    async fn page<T: Object + DeserializeOwned + Send + 'static>(
        &self,
        client: &Client,
        url: &str,
        accept: &str,
        asked: Option<Result<Body, Failure>>,
        next: oneshot::Sender<String>,
    ) -> Result<Listed<T>, Failure> {
        let mut next = Some(next);
        let decode = |body| {
            let next = next.take();
            let on_next = move |token: &str| {
                if let Some(next) = next {
                    let _ = next.send(token.to_owned());
                }
            };
            let kind = self.kind.clone();
            decode_body(body, move |stream| decode::page(stream, &kind, on_next))
        };
        request::read(client, url, accept, asked, decode).await
    }

    /// Reads the list page by page, and receives each page completely before it is decoded.
    async fn whole_pages<T: Object + DeserializeOwned>(
        &self,
        client: &Client,
        limit: usize,
        on_event: &mut (dyn FnMut(ListEvent<'_, T>) + Send),
    ) -> Result<Listed<T>, Failure> {
        let mut listed = Listed::default();
        let mut pages = Pages::default();
        let mut token = None;
        loop {
            let body = get_as(client, &self.url(limit, token.as_deref()), JSON).await?;
            let page = decode::each(&body, &self.kind, &mut *on_event).map_err(Failure::Malformed)?;
            token = pages.append(&mut listed, page)?;
            if token.is_none() {
                return Ok(listed);
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

/// The pages of a list so far, to detect a list without end.
#[derive(Default)]
struct Pages {
    /// Hashes of the page tokens, and of the first object of each page.
    seen: HashSet<u64, RandomState>,
    /// Number of pages without items.
    empty: usize,
}

impl Pages {
    /// Appends a page; returns the token of the next page.
    ///
    /// Fails if a page is repeated, or if there are too many items or pages without items: a server may
    /// return empty pages, but not endlessly.
    fn append<T: Object>(
        &mut self,
        listed: &mut Listed<T>,
        mut page: Listed<T>,
    ) -> Result<Option<String>, Failure> {
        let token = page.next.take();
        let hash = |key: (&str, &str)| self.seen.hasher().hash_one(key);
        let first = page.items.first().map(|item| hash(item.key()));
        let next = token.as_deref().map(|token| hash(("continue", token)));
        self.empty += usize::from(first.is_none() && page.unidentified.is_empty());
        listed.append(page);
        let mut known = |hash: Option<u64>| hash.is_some_and(|hash| !self.seen.insert(hash));
        let repeated = known(first) | known(next);
        let why = match token {
            None => return Ok(None),
            Some(_) if repeated => "the server keeps returning the same page".to_owned(),
            Some(_) if self.empty > MOST_EMPTY => "the server keeps returning pages without items".to_owned(),
            Some(_) if listed.items.len() > MOST_ITEMS => {
                format!("the server returned more than {MOST_ITEMS} items")
            }
            Some(token) => return Ok(Some(token)),
        };
        Err(Failure::Malformed(why))
    }
}

/// The characters to percent-encode: all except the unreserved ones of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Percent-encodes a part of a URL.
pub(super) fn encode(text: &str) -> PercentEncode<'_> {
    utf8_percent_encode(text, RESERVED)
}

/// Size of a piece in bytes. If a body is longer, the next piece is received while another thread decodes.
const PIECE: usize = 1 << 18;

/// Decodes a body with `decode`, on another thread if it is longer than one piece.
pub(super) async fn decode_body<V: Send + 'static>(
    mut body: Body,
    decode: impl FnOnce(&mut dyn BufRead) -> Result<V, String> + Send + 'static,
) -> Result<V, Failure> {
    let (first, more) = piece(&mut body).await?;
    if !more {
        return decode(&mut &first[..]).map_err(Failure::Malformed);
    }
    let (sender, rest) = mpsc::channel(1);
    let mut stream = BodyReader { piece: first, rest };
    let decoding = tokio::task::spawn_blocking(move || decode(&mut stream));
    let receiving = async move {
        loop {
            let (next, more) = piece(&mut body).await?;
            // Stop if the decoder has ended early with an error.
            if sender.send(next).await.is_err() || !more {
                return Ok(());
            }
        }
    };
    let (received, decoded) = futures::join!(receiving, decoding);
    received?;
    decoded.unwrap_or_else(|error| Err(error.to_string())).map_err(Failure::Malformed)
}

/// Receives the next piece; also returns whether another piece follows.
async fn piece(body: &mut Body) -> Result<(Bytes, bool), Failure> {
    let mut piece = BytesMut::with_capacity(2 * PIECE);
    while piece.len() < PIECE {
        match chunk(body).await? {
            Some(data) => piece.extend_from_slice(&data),
            None => return Ok((piece.freeze(), false)),
        }
    }
    Ok((piece.freeze(), true))
}

/// Reader over the pieces of a body; blocks until the next piece.
struct BodyReader {
    piece: Bytes,
    rest: mpsc::Receiver<Bytes>,
}

impl BufRead for BodyReader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.piece.is_empty() {
            match self.rest.blocking_recv() {
                Some(piece) => self.piece = piece,
                None => break,
            }
        }
        Ok(&self.piece)
    }

    fn consume(&mut self, bytes: usize) {
        self.piece.advance(bytes);
    }
}

impl Read for BodyReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(buffer)?;
        self.consume(read);
        Ok(read)
    }
}

/// Records list responses for a capture, within an overall deadline.
#[derive(Clone, Copy)]
pub(super) struct Recorder<'a> {
    pub tape: &'a Tape,
    pub patience: Duration,
    pub deadline: Instant,
}

impl<'a> Recorder<'a> {
    pub fn new(tape: &'a Tape, patience: Duration) -> Recorder<'a> {
        Recorder { tape, patience, deadline: Instant::now() + patience }
    }

    /// Reads a list, and records the items that pass `keep`.
    pub async fn list<T: Object + DeserializeOwned>(
        &self,
        client: &Client,
        list: &List,
        keep: &(dyn Fn(&T) -> bool + Sync),
    ) -> Result<Listed<T>, Failure> {
        self.within(list.record(client, self.tape, keep)).await
    }

    /// Runs a request until the deadline.
    pub async fn within<T>(&self, request: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        self.in_time(request).await?
    }

    /// Runs any future until the deadline.
    pub async fn in_time<T>(&self, request: impl Future<Output = T>) -> Result<T, Failure> {
        let late = |_| Failure::Malformed(self.too_late());
        timeout_at(self.deadline, request).await.map_err(late)
    }

    pub fn too_late(&self) -> String {
        format!("timed out after {} s", self.patience.as_secs_f32())
    }
}
