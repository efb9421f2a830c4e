//! Single read requests to the API server, and their failures.

use std::error::Error;

use bytes::{Bytes, BytesMut};
use futures::future::join_all;
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde::Deserialize;

use super::protobuf;
use crate::api::ApiFlavor;
use crate::cluster::source::Unread;
use crate::connect::{self, RETRIES, ServedBy, TransportError, TransportErrorKind};
use crate::error::first_line;

/// `Accept` value that every server supports.
pub(super) const JSON: &str = "application/json";

/// The reason why a read failed.
#[derive(Debug, Clone)]
pub(super) enum Failure {
    /// The server responded with an error.
    Refused { code: u16, message: String, server: Option<String> },
    /// The server did not respond, or not completely.
    TransportError(TransportError),
    /// Credentials could not be renewed. (The client had some when it was created.)
    Credentials(String),
    /// A malformed response, with the reason.
    Malformed(String),
}

impl Failure {
    pub fn code(&self) -> Option<u16> {
        match self {
            Failure::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }

    pub fn is_forbidden(&self) -> bool {
        self.code() == Some(403)
    }

    /// Whether the API server itself reports that the resource does not exist. Error pages of proxies do not
    /// count.
    pub fn is_absence(&self) -> bool {
        matches!(self, Failure::Refused { code: 404, message, .. } if !message.starts_with('<'))
    }

    /// Whether the connection was closed before the response was complete.
    fn was_cut(&self) -> bool {
        matches!(self, Failure::TransportError(error) if error.kind == TransportErrorKind::Cut)
    }

    /// A short reason, for a list of unreadable sources.
    pub fn short(&self) -> String {
        match self {
            Failure::Refused { code, message, .. } => match code {
                400 if message.contains("HTTP request to an HTTPS server") => {
                    "the server uses TLS; use https:// in --server".to_owned()
                }
                401 => "unauthorized: the server does not accept the credentials".to_owned(),
                403 => forbidden(message),
                404 => format!("not found: {message}"),
                429 => format!("the server is too busy: {message}"),
                _ => format!("the server returned {code}: {message}"),
            },
            Failure::TransportError(error) => error.short(),
            Failure::Credentials(why) => format!("no credentials: {why}"),
            Failure::Malformed(why) => why.clone(),
        }
    }
}

impl From<Failure> for Unread {
    fn from(failure: Failure) -> Unread {
        Unread { status: failure.code(), message: failure.short() }
    }
}

/// Requests a path, and returns the body of a successful response.
///
/// Does not decode the body, and avoids kube's own checks, which copy the body.
pub(super) async fn get(client: &Client, path: &str) -> Result<Bytes, Failure> {
    get_as(client, path, JSON).await
}

/// Like [`get`], for any media type.
pub(super) async fn get_as(client: &Client, path: &str, accept: &str) -> Result<Bytes, Failure> {
    read(client, path, accept, None, whole).await
}

/// Reads the body of a response. `asked` is the response to a request that was already sent, if any.
pub(super) async fn read<V, F: Future<Output = Result<V, Failure>>>(
    client: &Client,
    path: &str,
    accept: &str,
    mut asked: Option<Result<Body, Failure>>,
    mut read: impl FnMut(Body) -> F,
) -> Result<V, Failure> {
    let mut retries = 0;
    loop {
        let body = match asked.take() {
            Some(body) => body?,
            None => open(client, path, accept).await?,
        };
        match read(body).await {
            // The client does not retry after a response has begun.
            Err(failure) if failure.was_cut() && retries < RETRIES => {
                tokio::time::sleep(connect::wait(None, retries)).await;
                retries += 1;
            }
            done => return done,
        }
    }
}

/// The next bytes of a body; `None` at its end.
pub(super) async fn chunk(body: &mut Body) -> Result<Option<Bytes>, Failure> {
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.map_err(failure)?.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

/// Reads a whole body into one buffer.
async fn whole(mut body: Body) -> Result<Bytes, Failure> {
    let mut whole = BytesMut::new();
    while let Some(data) = chunk(&mut body).await? {
        whole.extend_from_slice(&data);
    }
    Ok(whole.freeze())
}

/// Requests a path; returns the unread body of a successful response.
pub(super) async fn open(client: &Client, path: &str, accept: &str) -> Result<Body, Failure> {
    let request = http::Request::get(path)
        .header(http::header::ACCEPT, accept)
        .body(Body::empty())
        .expect("paths are valid");
    open_with(client, request).await
}

/// Sends a request; returns the unread body of a successful response.
pub(super) async fn open_with(client: &Client, request: http::Request<Body>) -> Result<Body, Failure> {
    let response = client.send(request).await.map_err(failure)?;
    let status = response.status();
    let server = response.extensions().get::<ServedBy>().cloned();
    if status.is_success() {
        return Ok(response.into_body());
    }
    let body = whole(response.into_body()).await?;
    Err(Failure::Refused {
        code: status.as_u16(),
        message: message(&body, status),
        server: server.map(|ServedBy(address)| address),
    })
}

/// The message of an error response: from a `Status` object, or plain text of a proxy.
fn message(body: &[u8], status: http::StatusCode) -> String {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Status {
        message: String,
    }
    let status_of = |body| match protobuf::decode::<Status>(body) {
        Some(status) => status.ok(),
        None => serde_json::from_slice(body).ok(),
    };
    let message = match status_of(body) {
        Some(status) => status.message,
        None => String::from_utf8_lossy(body).into_owned(),
    };
    match first_line(&message) {
        message if message.is_empty() => {
            status.canonical_reason().unwrap_or("no reason given").to_lowercase()
        }
        message => message,
    }
}

/// Shortens the server's message to `forbidden: user U cannot list jobs.batch at the cluster scope`.
fn forbidden(message: &str) -> String {
    let short = || {
        let (_, rest) = message.split_once("User \"")?;
        let (user, rest) = rest.split_once("\" cannot ")?;
        let (verb, rest) = rest.split_once(" resource \"")?;
        let (resource, rest) = rest.split_once("\" in API group \"")?;
        let (group, place) = rest.split_once("\" ")?;
        let place = place.split(':').next()?.replace('"', "");
        let dot = if group.is_empty() { "" } else { "." };
        Some(format!("user {user} cannot {verb} {resource}{dot}{group} {place}"))
    };
    let unquoted = || message.trim_start_matches("forbidden: ").replace('"', "");
    format!("forbidden: {}", short().unwrap_or_else(unquoted))
}

fn failure(error: kube::Error) -> Failure {
    let chain =
        std::iter::successors(Some(&error as &(dyn Error + 'static)), |e: &&(dyn Error + 'static)| {
            (*e).source()
        });
    for cause in chain {
        if cause.is::<connect::Error>() {
            return Failure::Credentials(cause.to_string());
        }
        if cause.is::<kube::client::AuthError>() {
            let why = first_line(&cause.to_string());
            let advice = "log in again, or check the kubeconfig's user";
            return Failure::Credentials(format!("{why}; {advice}"));
        }
    }
    // A client that was not created by `connect` has no server address.
    Failure::TransportError(match &error {
        kube::Error::Service(inner) => TransportError::new("", &**inner),
        other => TransportError::new("", other),
    })
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Resources {
    kind: String,
    group_version: String,
    resources: Option<Vec<Resource>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Resource {
    name: String,
}

/// The APIs whose main resource is served, older first.
///
/// A group without the main resource does not count: it may contain only a leftover policy CRD.
pub(super) async fn served(client: &Client) -> Result<Vec<ApiFlavor>, LoadError> {
    let each = ApiFlavor::ALL.map(|flavor| serves(client, flavor));
    let mut served = Vec::new();
    for (flavor, serves) in ApiFlavor::ALL.into_iter().zip(join_all(each).await) {
        if serves? {
            served.push(flavor);
        }
    }
    Ok(served)
}

async fn serves(client: &Client, flavor: ApiFlavor) -> Result<bool, LoadError> {
    let path = format!("/apis/{}", flavor.api_version());
    let body = match get(client, &path).await {
        Ok(body) => body,
        Err(failure) if failure.is_absence() => return Ok(false),
        Err(failure) => return Err(LoadError::discovery(failure)),
    };
    let resources: Option<Resources> = serde_json::from_slice(&body).ok();
    let resources = resources.filter(|r| r.kind == "APIResourceList");
    let malformed = |why: String| LoadError::discovery(Failure::Malformed(why));
    let Some(found) = resources else {
        let why = "the response is not from an API server; check --server and the proxy";
        return Err(malformed(why.to_owned()));
    };
    // An API server lists the resources of every version that it serves. Reject other responses: they would
    // falsely prove that the API is absent.
    let resources = found.resources.unwrap_or_default();
    if found.group_version != flavor.api_version()
        || resources.is_empty()
        || resources.iter().any(|r| r.name.is_empty())
    {
        let version = flavor.api_version();
        return Err(malformed(format!(
            "the response does not list the resources of {version}; check --server and the proxy"
        )));
    }
    Ok(resources.iter().any(|r| r.name == flavor.plural()))
}

/// Errors that prevent reading a cluster. Each is one line: what, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(
        "the cluster serves neither {} nor {}, so the operator is not installed; install it, or \
         choose another cluster with --context",
        ApiFlavor::Skyhook.resource(),
        ApiFlavor::NodeWright.resource()
    )]
    NotServed,

    #[error(
        "--api is {asked_for}, but the cluster serves only {}; omit --api",
        asked_for.other().resource()
    )]
    AskedForAbsent { asked_for: ApiFlavor },

    #[error(
        "the API server{} does not accept the credentials (401 Unauthorized); log in again, or \
         check the kubeconfig's user and --token",
        at(.server)
    )]
    Unauthorized { server: Option<String> },

    #[error("{why}; check the permissions with kubectl auth can-i")]
    Forbidden { why: String },

    #[error(transparent)]
    TransportError(#[from] TransportError),

    #[error("cannot get credentials: {0}")]
    Credentials(String),

    #[error("cannot discover the APIs of the server{}: {why}", at(.server))]
    Discovery { server: Option<String>, why: String },
}

impl From<LoadError> for crate::error::Error {
    fn from(error: LoadError) -> Self {
        Self::failed(error)
    }
}

impl LoadError {
    pub(super) fn discovery(failure: Failure) -> LoadError {
        match failure {
            Failure::Refused { code: 401, server, .. } => LoadError::Unauthorized { server },
            Failure::Refused { ref server, .. } => {
                LoadError::Discovery { server: server.clone(), why: failure.short() }
            }
            Failure::TransportError(error) => LoadError::TransportError(error),
            Failure::Credentials(why) => LoadError::Credentials(why),
            Failure::Malformed(why) => LoadError::Discovery { server: None, why },
        }
    }
}

fn at(server: &Option<String>) -> String {
    match server.as_deref() {
        Some(server) if !server.is_empty() => format!(" at {server}"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The response of a real API server that refuses a protobuf request.
    #[test]
    fn a_refusal_in_protobuf_says_why() {
        let body = include_bytes!("../../../../../tests/protobuf/refused.pb");
        let forbidden = "nodes is forbidden: User \"restricted\" cannot list resource \"nodes\" in API group \"\" at the \
                         cluster scope";
        assert_eq!(message(body, http::StatusCode::FORBIDDEN), forbidden);
    }

    #[test]
    fn the_servers_sentence_is_shortened() {
        for (message, short) in [
            (
                r#"nodes is forbidden: User "jane" cannot list resource "nodes" in API group "" at the cluster scope"#,
                "forbidden: user jane cannot list nodes at the cluster scope",
            ),
            (
                r#"jobs.batch is forbidden: User "jane" cannot list resource "jobs" in API group "batch" in the namespace "x""#,
                "forbidden: user jane cannot list jobs.batch in the namespace x",
            ),
            (
                r#"pods is forbidden: User "system:serviceaccount:a:b" cannot list resource "pods" in API group "" in the namespace "x": RBAC: not found"#,
                "forbidden: user system:serviceaccount:a:b cannot list pods in the namespace x",
            ),
            (
                r#"forbidden: User "jane" cannot get path "/apis""#,
                "forbidden: User jane cannot get path /apis",
            ),
        ] {
            assert_eq!(forbidden(message), short);
        }
    }
}
