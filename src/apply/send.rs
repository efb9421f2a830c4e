//! Requests and answers, raw: one writer's own view of the line to the server.

use std::cell::Cell;
use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::Options;
use crate::plan::{Kind, Request, Step, Target, Verb};
use crate::view::go_json::escaped;

/// The name under which the server notes who wrote which field.
const FIELD_MANAGER: &str = "kubectl-skyhook";
/// For nodes: the answer without spec and status, which are most of it.
const METADATA_ONLY: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
/// No wait is longer than this, whatever the server asks for.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The line to the server that all steps share.
pub(super) struct Line {
    client: kube::Client,
    timeout: Duration,
    dry_run: bool,
    /// Nothing is sent before this: the server asked for patience.
    not_before: Cell<Option<Instant>>,
}

/// What came back.
#[derive(Debug, Clone)]
pub(super) enum Answer {
    /// The server has done it.
    Done,
    /// The object is not as the request expects it, or the server would not have the request.
    Conflict(String),
    /// The server is too busy; it may name a wait.
    Busy(String, Option<Duration>),
    /// It may have been done, or not.
    Unsure(String),
    /// The server would not have it.
    Refused(String),
}

impl Line {
    pub fn new(client: kube::Client, options: &Options) -> Line {
        Line {
            client,
            timeout: options.timeout,
            dry_run: options.dry_run,
            not_before: Cell::new(None),
        }
    }

    /// Makes all steps wait.
    pub fn hold(&self, wait: Duration) {
        let until = Instant::now() + wait.min(LONGEST_WAIT);
        self.not_before.set(self.not_before.get().max(Some(until)));
    }

    /// How long the server has asked all steps to wait, if it has.
    pub fn held(&self) -> Option<Instant> {
        self.not_before
            .get()
            .filter(|until| *until > Instant::now())
    }

    /// Sends what a step wants done.
    pub async fn write(&self, step: &Step) -> Answer {
        let mut request = step.request();
        let uri = match (request.verb, self.dry_run) {
            (Verb::Delete, dry_run) => {
                if dry_run {
                    // The server does not read the query of a deletion that has a body.
                    request.body["dryRun"] = json!(["All"]);
                }
                step.path()
            }
            (_, true) => format!("{}?fieldManager={FIELD_MANAGER}&dryRun=All", step.path()),
            (_, false) => format!("{}?fieldManager={FIELD_MANAGER}", step.path()),
        };
        match self
            .exchange(http_request(&uri, &request, step.target.kind))
            .await
        {
            Ok(reply) => reply.judge(request.verb),
            Err(why) => Answer::Unsure(why),
        }
    }

    /// The object as it is now; null if there is none.
    pub async fn read(&self, target: &Target) -> Result<Value, String> {
        let reply = self.get(&target.path(), "application/json").await?;
        match reply.status {
            200 => serde_json::from_slice(&reply.body).map_err(|e| e.to_string()),
            404 => Ok(Value::Null),
            _ => Err(reply.message()),
        }
    }

    /// The names of the objects of a collection that a label selector selects.
    pub async fn named(&self, collection: &str, selector: &str) -> Result<Vec<String>, String> {
        let selector = selector.replace('/', "%2F").replace('=', "%3D");
        let accept =
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
        let reply = self
            .get(&format!("{collection}?labelSelector={selector}"), accept)
            .await?;
        if reply.status != 200 {
            return Err(reply.message());
        }
        let list: Value = serde_json::from_slice(&reply.body).map_err(|e| e.to_string())?;
        let items = list["items"].as_array().map_or(&[][..], Vec::as_slice);
        let name = |item: &Value| item["metadata"]["name"].as_str().map(str::to_owned);
        Ok(items.iter().filter_map(name).collect())
    }

    async fn get(&self, uri: &str, accept: &str) -> Result<Reply, String> {
        let request = http::Request::get(uri)
            .header(ACCEPT, accept)
            .body(Body::empty());
        self.exchange(request.expect("a request of ASCII parts"))
            .await
    }

    /// Posts a review, which changes nothing.
    pub async fn review(&self, uri: &str, body: &Value) -> Result<Value, String> {
        let bytes = serde_json::to_vec(body).expect("a value is JSON");
        let request = http::Request::post(uri)
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/json")
            .body(Body::from(bytes))
            .expect("a request of ASCII parts");
        let reply = self.exchange(request).await?;
        if reply.status / 100 == 2 {
            serde_json::from_slice(&reply.body).map_err(|e| e.to_string())
        } else {
            Err(reply.message())
        }
    }

    async fn exchange(&self, request: http::Request<Body>) -> Result<Reply, String> {
        let whole = async {
            let response = self.client.send(request).await.map_err(plain)?;
            let (head, body) = response.into_parts();
            let body = body.collect().await.map_err(plain)?.to_bytes().to_vec();
            let wait = head.headers.get(RETRY_AFTER).and_then(|v| v.to_str().ok());
            Ok(Reply {
                status: head.status.as_u16(),
                wait: wait.and_then(|v| v.parse().ok()).map(Duration::from_secs),
                body,
            })
        };
        match timeout(self.timeout, whole).await {
            Ok(reply) => reply,
            Err(_) => Err(format!("no answer within {} s", self.timeout.as_secs_f32())),
        }
    }
}

/// An error of the stack, with the cause that says most.
fn plain(error: impl std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = error.to_string();
        cause = error.source();
    }
    text
}

fn http_request(uri: &str, request: &Request, kind: Kind) -> http::Request<Body> {
    let method = match request.verb {
        Verb::Create => http::Method::POST,
        Verb::Delete => http::Method::DELETE,
        Verb::Patch => http::Method::PATCH,
    };
    let accept = match kind {
        Kind::Node => METADATA_ONLY,
        _ => "application/json",
    };
    let body = serde_json::to_string(&request.body).expect("a value is JSON");
    // A server compares the text of a `test` with the object as Go writes it.
    let body = escaped(&body).into_owned().into_bytes();
    http::Request::builder()
        .method(method)
        .uri(uri)
        .header(ACCEPT, accept)
        .header(CONTENT_TYPE, request.content_type)
        .body(Body::from(body))
        .expect("a request of ASCII parts")
}

struct Reply {
    status: u16,
    wait: Option<Duration>,
    body: Vec<u8>,
}

impl Reply {
    fn judge(self, verb: Verb) -> Answer {
        match self.status {
            200..=299 => Answer::Done,
            404 if verb != Verb::Create => Answer::Conflict(self.message()),
            409 | 422 => Answer::Conflict(self.message()),
            429 => Answer::Busy(self.message(), self.wait),
            // A server that turns a request away says so; what stands before it may have passed it on.
            503 if self.wait.is_some() || self.is_of_the_server() => {
                Answer::Busy(self.message(), self.wait)
            }
            // After its time is over, the server goes on with what it was asked for.
            500 | 502 | 503 | 504 => Answer::Unsure(self.message()),
            _ => Answer::Refused(self.message()),
        }
    }

    /// Whether it is the API server's own answer, and not of something before it.
    fn is_of_the_server(&self) -> bool {
        let status: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        status["kind"] == "Status"
    }

    /// What the server says, in one line.
    fn message(&self) -> String {
        let status: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        match status["message"].as_str() {
            Some(message) if !message.is_empty() => message.replace('\n', " "),
            _ => format!("the server answered {}", self.status),
        }
    }
}
