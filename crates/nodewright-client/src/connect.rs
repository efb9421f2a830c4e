//! (edge) Creates a client from flags, environment and kubeconfig.
//!
//! Kube's own inference is not used: it lets environment variables redirect the connection, and it retries
//! for minutes. This program writes to clusters.

mod client;
mod error;
mod kubeconfig;
mod plugin;
mod trace;

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use kube::client::Body;
use kubeconfig::Target;
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use tower::util::BoxCloneService;
use tower::{BoxError, Service, ServiceExt, service_fn};

use crate::args::connection::Connection;

pub use client::{ServerClock, Warnings};
pub use error::Error;
pub use error::{TransportError, TransportErrorKind};
pub use kubeconfig::Named;
pub use kubeconfig::{Environment, Names, names};
pub use trace::HttpTrace;

/// A client with its server address, kubeconfig names, warnings and clock.
pub struct Connected {
    pub client: kube::Client,
    /// The address of the API server, for messages; without credentials.
    pub server: String,
    /// The names of the used context and cluster in the kubeconfig.
    pub named: Named,
    /// The server's warnings, collected for printing while the client is in use.
    pub warnings: Warnings,
    pub clock: ServerClock,
    /// Whether a difference between the clocks was reported.
    pub reported_clock: bool,
    /// The operator's namespace from `--namespace`. Never the context's namespace, which is only the client's
    /// default.
    pub namespace: Option<String>,
}

/// Creates a client for the cluster that the flags, `KUBECONFIG` or `~/.kube/config` select; without a
/// kubeconfig, for the cluster of this pod.
///
/// `verb` identifies the command in the server's audit log. No request is sent yet, but a credential plugin
/// is run. `trace` receives every request. Must be called within a tokio runtime.
///
/// # Errors
///
/// Fails for a kubeconfig that is missing, unreadable, or has dangling names; for conflicting flags; for
/// credentials that cannot be read; and if a credential plugin fails.
pub async fn connect(
    environment: &Environment,
    connection: &Connection,
    verb: &str,
    trace: Option<HttpTrace>,
) -> Result<Connected, Error> {
    let found = kubeconfig::read(connection.kubeconfig.as_deref(), environment)?;
    let target = match (found, &environment.in_cluster) {
        (Some(kubeconfig), _) => {
            let files = kubeconfig::tried_paths(connection.kubeconfig.as_deref(), environment);
            Target::of(kubeconfig, &files, connection)?
        }
        (None, _) if connection.server.is_some() => Target::default(),
        (None, Some((host, port))) => Target::in_cluster(host, port),
        (None, None) => {
            return Err(Error::NoKubeconfig(kubeconfig::tried_paths(None, environment)));
        }
    };
    let target = target.with_flags(connection)?;
    client::client(target, environment, connection, verb, trace).await
}

/// Maximum number of retries of a read.
pub const RETRIES: u32 = 3;
/// Maximum wait before a retry of a read, regardless of Retry-After.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// The warning about throttled requests.
const BUSY: &str = "the API server throttled some requests (429); they were retried";
/// Wait before the first retry without Retry-After; doubles with each retry.
const FIRST_WAIT: Duration = Duration::from_millis(250);

/// The policy of requests, over any transport.
#[derive(Debug, Clone, Default)]
pub struct RequestPolicy {
    /// The address of the server, for messages.
    pub server: String,
    /// `None` means no limit.
    pub limit: Option<TimeLimit>,
    pub warnings: Warnings,
    pub clock: ServerClock,
}

/// A service that sends a request to the server.
type BoxedService<B> = BoxCloneService<Request<Body>, Response<B>, BoxError>;

impl RequestPolicy {
    /// Wraps a service with this policy.
    ///
    /// Reads are retried up to three times after 429, 500, 502, 503, 504 and closed connections. The wait is
    /// the server's Retry-After, at most ten seconds; without it, 250 ms, doubled with each retry. Writes are
    /// never retried here: only the caller knows whether a retry is safe. Requests must be made within a
    /// tokio runtime.
    pub fn over<S, B>(self, service: S) -> BoxedService<TimedBody>
    where
        S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let send = move |request: Request<Body>| {
            let (policy, service) = (self.clone(), service.clone());
            async move {
                let (head, body) = request.into_parts();
                if head.method != Method::GET {
                    return once(&policy, service, Request::from_parts(head, body)).await;
                }
                let mut retries = 0;
                loop {
                    let request = Request::from_parts(head.clone(), Body::empty());
                    let answer = once(&policy, service.clone(), request).await;
                    let passes = match &answer {
                        Ok(response) => passes(response.status()),
                        Err(error) => was_cut(&**error),
                    };
                    if retries == RETRIES || !passes {
                        return answer;
                    }
                    let busy = |response: &Response<_>| response.status() == StatusCode::TOO_MANY_REQUESTS;
                    if answer.as_ref().is_ok_and(busy) {
                        policy.warnings.say(BUSY.to_owned());
                    }
                    let asked = answer.ok().and_then(|response| retry_after(response.headers()));
                    sleep(wait(asked, retries)).await;
                    retries += 1;
                }
            }
        };
        service_fn(send).boxed_clone()
    }

    fn transport_error(&self, error: BoxError) -> BoxError {
        // Keep errors of credentials: their messages are more specific.
        if error.is::<self::Error>() || error.is::<kube::Error>() || error.is::<kube::client::AuthError>() {
            return error;
        }
        Box::new(TransportError::new(&self.server, &*error))
    }

    fn timed_out(&self, limit: TimeLimit) -> BoxError {
        Box::new(TransportError {
            server: self.server.clone(),
            kind: TransportErrorKind::TimedOut(Some(limit.time())),
        })
    }

    /// The time limit of a request: its own, in an extension, else that of all requests.
    fn limit_of(&self, request: &Request<Body>) -> Option<TimeLimit> {
        let of_all = || {
            self.limit.filter(|limit| match limit {
                TimeLimit::Whole(_) => true,
                TimeLimit::Silence(_) => is_answered_at_once(request),
            })
        };
        request.extensions().get().copied().or_else(of_all)
    }
}

/// The time limit of a request.
#[derive(Debug, Clone, Copy)]
pub enum TimeLimit {
    /// For the request and its whole response.
    Whole(Duration),
    /// For the time between two parts of the response to a read. Does not apply to watches and followed logs,
    /// which may be silent for longer.
    Silence(Duration),
}

impl TimeLimit {
    fn time(self) -> Duration {
        let (TimeLimit::Whole(time) | TimeLimit::Silence(time)) = self;
        time
    }
}

/// Whether the request is a read that the server answers at once and completely: neither a watch nor a
/// followed log.
fn is_answered_at_once(request: &Request<Body>) -> bool {
    let mut fields = request.uri().query().unwrap_or_default().split('&');
    let lasts = fields.any(|f| ["watch=true", "watch=1", "follow=true"].contains(&f));
    request.method() == Method::GET && !lasts
}

/// Sends one request, with its time limit on head and body.
async fn once<S, B>(
    policy: &RequestPolicy,
    service: S,
    request: Request<Body>,
) -> Result<Response<TimedBody>, BoxError>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let limit = policy.limit_of(&request).map(|l| (l, Instant::now() + l.time()));
    let call = service.oneshot(request);
    let response = match limit {
        Some((limit, at)) => tokio::time::timeout_at(at, call).await.map_err(|_| policy.timed_out(limit))?,
        None => call.await,
    };
    let mut response = response.map_err(|e| policy.transport_error(e.into()))?;
    policy.warnings.note(response.headers());
    policy.clock.note(response.headers());
    response.extensions_mut().insert(ServedBy(policy.server.clone()));
    Ok(response.map(|body| TimedBody {
        body: body.map_err(Into::into).boxed_unsync(),
        limit: limit.map(|(limit, at)| (limit, Box::pin(sleep_until(at)))),
        policy: policy.clone(),
    }))
}

/// The server that sent a response; an extension of every response, for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedBy(pub String);

/// Whether the status is transient: the same read may succeed a moment later.
fn passes(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS
            | StatusCode::INTERNAL_SERVER_ERROR
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
    )
}

fn was_cut(error: &(dyn std::error::Error + 'static)) -> bool {
    let transport_error = error.downcast_ref::<TransportError>();
    transport_error.is_some_and(|transport_error| transport_error.kind == TransportErrorKind::Cut)
}

/// The duration of a `Retry-After` header in seconds.
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok().map(Duration::from_secs)
}

/// The wait before the next retry of a read. `asked` is the server's Retry-After, `retries` the number of
/// retries so far.
pub fn wait(asked: Option<Duration>, retries: u32) -> Duration {
    asked.unwrap_or(FIRST_WAIT * 2_u32.pow(retries)).min(LONGEST_WAIT)
}

/// A response body with a time limit.
pub struct TimedBody {
    body: http_body_util::combinators::UnsyncBoxBody<Bytes, BoxError>,
    limit: Option<(TimeLimit, Pin<Box<Sleep>>)>,
    policy: RequestPolicy,
}

impl http_body::Body for TimedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) {
            if let Some((TimeLimit::Silence(time), late)) = &mut this.limit {
                late.as_mut().reset(Instant::now() + *time);
            }
            return Poll::Ready(frame.map(|f| f.map_err(|e| this.policy.transport_error(e))));
        }
        if let Some((limit, late)) = &mut this.limit
            && late.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(Some(Err(this.policy.timed_out(*limit))));
        }
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
