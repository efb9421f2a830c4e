//! Sends requests to the API server and classifies the responses.

use std::cell::Cell;
use std::time::Duration;

use http::Method;
use http::header::{ACCEPT, CONTENT_TYPE};
use http_body_util::BodyExt;
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::client::Body;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::Options;
use crate::api::Skyhook;
use crate::cluster::decode_leniently;
use crate::cluster::provenance::applied;
use crate::connect::{self, retry_after};
use crate::plan::{FIELD_MANAGER, Kind, Step, Target, Verb};
use crate::text::escape::escaped;

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// `Accept` value for writes to nodes: omits spec and status, which are most of the response.
const METADATA_ONLY: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
/// `Accept` value: whole objects.
pub(super) const JSON: &str = "application/json";
/// `Accept` value: object metadata only, whole objects as fallback.
pub(super) const METADATA: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";
/// Maximum total wait without a successful change; a busy server is not retried after that.
const MOST_WAITED: Duration = Duration::from_secs(120);

/// Maximum number of retries of a read.
const MOST_READ_RETRIES: u32 = 3;

/// The client shared by all steps, with the server's Retry-After waits.
pub(super) struct ApiWriter {
    pub client: kube::Client,
    timeout: Duration,
    dry_run: bool,
    /// No write before this time (Retry-After).
    not_before: Cell<Option<Instant>>,
    longest_wait: Duration,
    /// Total wait since the last successful change.
    waited: Cell<Duration>,
    /// Delay before the first retry of a read.
    retry_wait: Duration,
}

/// The response to a write, classified.
#[derive(Debug, Clone)]
pub(super) enum Answer {
    /// The server executed the request.
    Done,
    /// The object differs from the request's expectation, or the request is invalid for this object.
    Conflict(String),
    /// The server is too busy; the duration is its `Retry-After`.
    Busy(String, Option<Duration>),
    /// It is unknown whether the server executed the request.
    Unsure(String),
    /// The request was not executed, or the server stored something else.
    Refused(String),
}

impl ApiWriter {
    pub fn new(client: kube::Client, options: &Options) -> ApiWriter {
        ApiWriter {
            client,
            timeout: options.timeout,
            dry_run: options.dry_run,
            not_before: Cell::new(None),
            longest_wait: options.longest_wait,
            waited: Cell::new(Duration::ZERO),
            retry_wait: options.retry_wait,
        }
    }

    /// Retries a read that fails, with exponential backoff.
    pub async fn retried<T>(&self, read: impl AsyncFn() -> Result<T, String>) -> Result<T, String> {
        for retries in 0..MOST_READ_RETRIES {
            if let Ok(found) = read().await {
                return Ok(found);
            }
            sleep(self.retry_wait * 2u32.pow(retries)).await;
        }
        read().await
    }

    /// Delays the writes of all steps; returns the delay, or `None` if the writes already wait that long.
    /// Reads are not delayed.
    pub fn hold(&self, wait: Duration) -> Option<Duration> {
        let wait = wait.min(self.longest_wait);
        let until = Instant::now() + wait;
        let longer = until - self.retry_after_end().unwrap_or_else(Instant::now).min(until);
        self.not_before.set(self.not_before.get().max(Some(until)));
        self.waited.set(self.waited.get() + longer);
        (!longer.is_zero()).then_some(wait)
    }

    /// Whether the retries since the last successful change have taken the maximum time.
    pub fn has_waited_too_long(&self) -> bool {
        self.waited.get() >= MOST_WAITED
    }

    /// The end of the current Retry-After wait.
    pub fn retry_after_end(&self) -> Option<Instant> {
        self.not_before.get().filter(|until| *until > Instant::now())
    }

    /// Sends the request of a step.
    pub async fn write(&self, step: &Step) -> Answer {
        if let Err(reason) = named(&step.target) {
            return Answer::Refused(reason);
        }
        let mut request = step.request();
        let (verb, _) = step.change.endpoint();
        let uri = match (verb, self.dry_run) {
            (Verb::Delete, dry_run) => {
                if dry_run {
                    // The server ignores the query parameters of a deletion with a body.
                    request.body["dryRun"] = json!(["All"]);
                }
                step.path()
            }
            (_, dry_run) => {
                let dry_run = if dry_run { "&dryRun=All" } else { "" };
                format!("{}?fieldManager={}{dry_run}", step.path(), step.field_manager())
            }
        };
        let (method, accept) = match (verb, step.target.kind) {
            (Verb::Create, _) => (Method::POST, JSON),
            (Verb::Delete, _) => (Method::DELETE, JSON),
            (Verb::Patch, Kind::Node) => (Method::PATCH, METADATA_ONLY),
            (Verb::Patch, _) => (Method::PATCH, JSON),
        };
        let body = serde_json::to_string(&request.body).expect("a value is JSON");
        // The server compares the value of a `test` operation with its own JSON encoding, which is Go's.
        let body = escaped(&body).into_owned().into_bytes();
        let sent = http_request(method, &uri, accept, request.content_type, body);
        let answer = match self.exchange(sent).await {
            Ok(reply) => reply.judge(verb, step),
            Err(NoReply { reason, sent: true }) => Answer::Unsure(reason),
            Err(NoReply { reason, .. }) => Answer::Refused(reason),
        };
        if matches!(answer, Answer::Done) {
            self.waited.set(Duration::ZERO);
        }
        answer
    }

    /// Reads the current object; null if it does not exist.
    pub async fn read(&self, target: &Target) -> Result<Value, String> {
        named(target)?;
        let reply = self.get(&target.path(), JSON).await?;
        match reply.status {
            200 => match reply.object() {
                object if shows(&object, target) => Ok(object),
                _ => Err(reply.is_not(target)),
            },
            404 if reply.says_not_found() => Ok(Value::Null),
            _ => Err(reply.message()),
        }
    }

    /// Reads the object through the list of its collection, which needs no further permission than the load of
    /// the cluster; null if it does not exist. `accept` is [`JSON`] or [`METADATA`].
    pub async fn find(&self, target: &Target, accept: &str) -> Result<Value, String> {
        named(target)?;
        let uri = format!("{}?fieldSelector=metadata.name%3D{}", target.collection(), target.name);
        let reply = self.get(&uri, accept).await?;
        match reply.status {
            200 => {}
            404 if reply.says_not_found() => return Ok(Value::Null),
            _ => return Err(reply.message()),
        }
        let mut found = Value::Null;
        RawPage::of(reply.body)?.each(|name, item| {
            if name == target.name {
                found = item()?;
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// The names of the objects of a collection that a label selector selects.
    pub async fn named(&self, collection: &str, selector: &str) -> Result<Vec<String>, String> {
        let selector = utf8_percent_encode(selector, NON_ALPHANUMERIC);
        let reply = self.get(&format!("{collection}?labelSelector={selector}"), METADATA).await?;
        if reply.status != 200 {
            return Err(reply.message());
        }
        let mut names = Vec::new();
        RawPage::of(reply.body)?.each(|name, _| {
            names.push(name.to_owned());
            Ok(())
        })?;
        Ok(names)
    }

    /// A page of a collection, as [`JSON`] or [`METADATA`].
    pub async fn page(
        &self,
        collection: &str,
        accept: &str,
        limit: usize,
        next: Option<&str>,
    ) -> Result<RawPage, String> {
        let next = next.map_or(String::new(), |next| {
            format!("&continue={}", utf8_percent_encode(next, NON_ALPHANUMERIC))
        });
        let uri = format!("{collection}?limit={limit}{next}");
        let reply = self.get(&uri, accept).await?;
        if reply.status != 200 {
            return Err(reply.message());
        }
        RawPage::of(reply.body)
    }

    async fn get(&self, uri: &str, accept: &str) -> Result<Reply, String> {
        let request = http::Request::get(uri).header(ACCEPT, accept).body(Body::empty());
        Ok(self.exchange(request.expect("a request of ASCII parts")).await?)
    }

    /// Why the server refuses a manifest in a dry run; `None` if it accepts the manifest.
    pub async fn refusal(&self, target: &Target, manifest: &Value) -> Result<Option<String>, String> {
        let live = self.read(target).await?;
        let (method, uri, kind, body) = if live.is_null() {
            (Method::POST, target.collection(), JSON, manifest.clone())
        } else {
            let skyhook: Skyhook = decode_leniently(live).map_err(|error| error.to_string())?;
            let patch = merge_patch(&skyhook.whole, &applied(&skyhook, manifest));
            (Method::PATCH, target.path(), MERGE_PATCH, patch)
        };
        let uri = format!("{uri}?fieldManager={FIELD_MANAGER}&dryRun=All");
        let body = body.to_string().into_bytes();
        let reply = self.exchange(http_request(method, &uri, JSON, kind, body)).await?;
        match reply.status {
            200..=299 => Ok(None),
            403 if reply.message().contains("is forbidden: User \"") => Err(reply.message()),
            // A webhook with side effects cannot be asked.
            400 if reply.message().contains("does not support dry run") => Err(reply.message()),
            400 | 403 | 422 => Ok(Some(reply.message())),
            _ => Err(reply.message()),
        }
    }

    /// Posts an access review, which changes nothing; returns whether access is allowed.
    pub async fn review(&self, review: SelfSubjectAccessReview) -> Result<bool, String> {
        let body = serde_json::to_vec(&review).expect("a review is JSON");
        let reply = self.exchange(http_request(Method::POST, REVIEWS, JSON, JSON, body)).await?;
        if reply.status / 100 != 2 {
            return Err(reply.message());
        }
        let answer = serde_json::from_slice::<SelfSubjectAccessReview>(&reply.body).ok();
        let status = answer.and_then(|answer| answer.status);
        status
            .map(|status| status.allowed)
            .ok_or_else(|| "the response is not from the API server".to_owned())
    }

    async fn exchange(&self, request: http::Request<Body>) -> Result<Reply, NoReply> {
        let whole = async {
            let response = self.client.send(request).await.map_err(NoReply::of)?;
            let (head, body) = response.into_parts();
            let body = body.collect().await.map_err(NoReply::of)?.to_bytes().to_vec();
            Ok(Reply { status: head.status.as_u16(), wait: retry_after(&head.headers), body })
        };
        match timeout(self.timeout, whole).await {
            Ok(reply) => reply,
            Err(_) => Err(NoReply {
                reason: format!("no answer within {} s", self.timeout.as_secs_f32()),
                sent: true,
            }),
        }
    }
}

/// The JSON merge patch from one value to another.
fn merge_patch(from: &Value, to: &Value) -> Value {
    let (Value::Object(from), Value::Object(to)) = (from, to) else {
        return to.clone();
    };
    let removed = from.keys().filter(|key| !to.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    let changed = to
        .iter()
        .filter(|(key, value)| from.get(*key) != Some(*value))
        .map(|(key, value)| (key.clone(), merge_patch(from.get(key).unwrap_or(&Value::Null), value)));
    removed.chain(changed).collect::<Map<String, Value>>().into()
}

/// Why there is no reply to a request.
struct NoReply {
    reason: String,
    /// Whether the server may have received the request.
    sent: bool,
}

impl NoReply {
    /// Takes the reason from the innermost cause of an HTTP error, which is the most specific.
    fn of(error: kube::Error) -> NoReply {
        let error = anyhow::Error::from(error);
        NoReply {
            reason: error.root_cause().to_string(),
            // Without credentials no request is sent.
            sent: !error.chain().any(|cause| cause.is::<connect::Error>()),
        }
    }
}

impl From<NoReply> for String {
    fn from(none: NoReply) -> String {
        none.reason
    }
}

/// Rejects an invalid object name: it could lead the request to another path.
fn named(target: &Target) -> Result<(), String> {
    if target.is_well_named() { Ok(()) } else { Err("invalid object name".to_owned()) }
}

/// Whether the response is the target's object, whole or metadata only. Compares kind and name, not the uid.
fn shows(object: &Value, target: &Target) -> bool {
    let kind = object["kind"].as_str();
    [Some(target.kind.kind()), Some("PartialObjectMetadata")].contains(&kind)
        && object["metadata"]["name"] == target.name.as_str()
}

fn http_request(
    method: Method,
    uri: &str,
    accept: &str,
    content_type: &str,
    body: Vec<u8>,
) -> http::Request<Body> {
    http::Request::builder()
        .method(method)
        .uri(uri)
        .header(ACCEPT, accept)
        .header(CONTENT_TYPE, content_type)
        .body(Body::from(body))
        .expect("a request of ASCII parts")
}

struct Reply {
    status: u16,
    wait: Option<Duration>,
    body: Vec<u8>,
}

impl Reply {
    fn judge(self, verb: Verb, step: &Step) -> Answer {
        let target = &step.target;
        match self.status {
            200..=299 if self.confirms(verb, target) => match step.not_stored(&self.object()) {
                None => Answer::Done,
                Some(reason) => Answer::Refused(reason),
            },
            // The body is not the object but, for example, a login page: a proxy may have forwarded the
            // request nevertheless.
            200..=299 => Answer::Unsure(self.is_not(target)),
            404 if verb != Verb::Create => Answer::Conflict(self.message()),
            409 | 422 => Answer::Conflict(self.message()),
            429 => Answer::Busy(self.message(), self.wait),
            // A 503 of the API server itself means that the request was not executed; a proxy may have
            // forwarded it.
            503 if self.wait.is_some() || self.is_of_the_server() => Answer::Busy(self.message(), self.wait),
            // After a timeout, the server may still execute the request.
            500 | 502 | 503 | 504 => Answer::Unsure(self.message()),
            _ => Answer::Refused(self.message()),
        }
    }

    /// The body as JSON; null if it is not JSON.
    fn object(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Whether the response confirms the change.
    fn confirms(&self, verb: Verb, target: &Target) -> bool {
        let answer = self.object();
        let meant = target.uid.as_deref().filter(|_| verb != Verb::Create);
        let same = |uid: &Value| uid.as_str().is_none_or(|uid| meant.is_none_or(|m| m == uid));
        if answer["kind"] == "Status" {
            let details = &answer["details"];
            return verb == Verb::Delete
                && answer["status"] == "Success"
                && details["name"] == target.name.as_str()
                && same(&details["uid"]);
        }
        shows(&answer, target) && same(&answer["metadata"]["uid"])
    }

    fn is_not(&self, target: &Target) -> String {
        format!("the server returned {}, but the response is not {target}", self.status)
    }

    /// Whether the response is from the API server itself, and not from a proxy in front of it.
    fn is_of_the_server(&self) -> bool {
        self.object()["kind"] == "Status"
    }

    /// Whether the API server reports that the object or the API does not exist.
    fn says_not_found(&self) -> bool {
        self.is_of_the_server() || self.body.starts_with(b"404 page not found")
    }

    /// The server's message, in one line.
    fn message(&self) -> String {
        match self.object()["message"].as_str() {
            Some(message) if !message.is_empty() => message.replace('\n', " "),
            _ => format!("the server returned {}", self.status),
        }
    }
}

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
