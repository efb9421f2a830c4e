//! What every request to an API server goes through: a time limit, few and patient retries of
//! reads, and the collecting of warnings.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::RETRY_AFTER;
use http::{Method, Request, Response, StatusCode};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use kube::client::Body;
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use tower::{BoxError, Service, ServiceExt};

use super::transport_error::{TransportError, TransportErrorKind};
use super::warnings::Warnings;

/// How often a read is tried again.
pub const RETRIES: u32 = 3;
/// The longest wait before a read is tried again, whatever the server asks for.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// What is said of a server that was too busy for a request.
const BUSY: &str = "the API server throttled some requests (429); they were retried";
/// The wait before the first retry where the server does not name one; it doubles.
const FIRST_WAIT: Duration = Duration::from_millis(250);

/// How requests are made, over whatever carries them.
#[derive(Debug, Clone, Default)]
pub struct RequestPolicy {
    /// The address of the server, for messages.
    pub server: String,
    /// The time one request may take, its body included; `None` is for ever.
    pub timeout: Option<Duration>,
    /// The time for which the server may send nothing of what is read, where there is no time limit; `None` is for ever.
    /// Watches and logs that are followed are quiet for longer.
    pub silence: Option<Duration>,
    pub warnings: Warnings,
}

impl RequestPolicy {
    /// A client whose requests all go this way.
    ///
    /// Reads that the server is too busy for (429, 503, 504) or fails at (500, 502), and those to which it closes
    /// the connection, are tried again up to three times, after the time it asks for, at most ten seconds. Writes are never repeated here: whether
    /// that is safe only their author knows. Must be called within a tokio runtime.
    pub fn client<S, B>(self, service: S, default_namespace: &str) -> kube::Client
    where
        S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        kube::Client::new(self.over(service), default_namespace)
    }

    /// The service that makes requests this way.
    pub(super) fn over<S>(self, service: S) -> PoliteService<S> {
        PoliteService { how: self, service }
    }

    fn transport_error(&self, error: BoxError) -> BoxError {
        // Trouble with credentials has its own, better words.
        if error.is::<super::Error>()
            || error.is::<kube::Error>()
            || error.is::<kube::client::AuthError>()
        {
            return error;
        }
        Box::new(TransportError::new(&self.server, &*error))
    }

    fn timed_out(&self, limit: Limit) -> BoxError {
        Box::new(TransportError {
            server: self.server.clone(),
            kind: TransportErrorKind::TimedOut(Some(limit.time())),
        })
    }

    fn limit(&self, request: &Request<Body>) -> Option<Limit> {
        let silence = self.silence.filter(|_| is_answered_at_once(request));
        let whole = self.timeout.map(Limit::Whole);
        whole.or(silence.map(Limit::Silence))
    }
}

/// How long a request may take.
#[derive(Debug, Clone, Copy)]
enum Limit {
    /// With its body.
    Whole(Duration),
    /// From one part of the response to the next.
    Silence(Duration),
}

impl Limit {
    fn time(self) -> Duration {
        let (Limit::Whole(time) | Limit::Silence(time)) = self;
        time
    }
}

/// Whether the server has the whole answer when it begins: not of a watch, or of a log that is followed.
fn is_answered_at_once(request: &Request<Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    let mut fields = query.split('&');
    let lasts = fields.any(|f| ["watch=true", "watch=1", "follow=true"].contains(&f));
    request.method() == Method::GET && !lasts
}

/// What [`RequestPolicy`] makes of a service.
#[derive(Clone)]
pub struct PoliteService<S> {
    how: RequestPolicy,
    service: S,
}

impl<S, B> Service<Request<Body>> for PoliteService<S>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<TimedBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // Each request waits for its own clone to be ready, within its time limit.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (how, service) = (self.how.clone(), self.service.clone());
        let (head, body) = request.into_parts();
        Box::pin(async move {
            if head.method != Method::GET {
                return once(&how, service, Request::from_parts(head, body)).await;
            }
            let mut retries = 0;
            loop {
                let request = Request::from_parts(head.clone(), Body::empty());
                let answer = once(&how, service.clone(), request).await;
                let passes = match &answer {
                    Ok(response) => passes(response.status()),
                    Err(error) => was_cut(&**error),
                };
                if retries == RETRIES || !passes {
                    return answer;
                }
                let busy =
                    |response: &Response<_>| response.status() == StatusCode::TOO_MANY_REQUESTS;
                if answer.as_ref().is_ok_and(busy) {
                    how.warnings.say(BUSY.to_owned());
                }
                let asked = answer.ok().and_then(|response| asked(&response));
                sleep(wait(asked, retries)).await;
                retries += 1;
            }
        })
    }
}

/// One request, with its time limit on head and body.
async fn once<S, B>(
    how: &RequestPolicy,
    service: S,
    request: Request<Body>,
) -> Result<Response<TimedBody>, BoxError>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let limit = how.limit(&request).map(|l| (l, Instant::now() + l.time()));
    let call = service.oneshot(request);
    let response = match limit {
        Some((limit, at)) => tokio::time::timeout_at(at, call)
            .await
            .map_err(|_| how.timed_out(limit))?,
        None => call.await,
    };
    let mut response = response.map_err(|e| how.transport_error(e.into()))?;
    how.warnings.note(response.headers());
    response
        .extensions_mut()
        .insert(ServedBy(how.server.clone()));
    Ok(response.map(|body| TimedBody {
        body: body.map_err(Into::into).boxed_unsync(),
        limit: limit.map(|(limit, at)| (limit, Box::pin(sleep_until(at)))),
        how: how.clone(),
    }))
}

/// Which server a response came from; an extension of every response, for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedBy(pub String);

/// Whether the server may well answer the same read a moment later.
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

/// The wait that the server asks for.
fn asked<B>(response: &Response<B>) -> Option<Duration> {
    let asked = response.headers().get(RETRY_AFTER)?;
    asked.to_str().ok()?.parse().ok().map(Duration::from_secs)
}

/// The wait before a read is tried again.
pub fn wait(asked: Option<Duration>, retries: u32) -> Duration {
    asked
        .unwrap_or(FIRST_WAIT * 2_u32.pow(retries))
        .min(LONGEST_WAIT)
}

/// A body that must come within its limit.
pub struct TimedBody {
    body: http_body_util::combinators::UnsyncBoxBody<Bytes, BoxError>,
    limit: Option<(Limit, Pin<Box<Sleep>>)>,
    how: RequestPolicy,
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
            if let Some((Limit::Silence(time), late)) = &mut this.limit {
                late.as_mut().reset(Instant::now() + *time);
            }
            return Poll::Ready(frame.map(|f| f.map_err(|e| this.how.transport_error(e))));
        }
        if let Some((limit, late)) = &mut this.limit
            && late.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(Some(Err(this.how.timed_out(*limit))));
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
