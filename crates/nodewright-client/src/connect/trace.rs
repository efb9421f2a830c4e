//! `-v=6` and above: requests and responses on stderr, without secrets.
//!
//! Requests are traced before credentials are added, so that no credentials are printed. Secrets in responses
//! are masked by pattern.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, HeaderMap, HeaderValue};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::BodyExt;
use http_body_util::combinators::MapFrame;
use kube::client::Body;
use tokio::time::Instant;
use tower::util::BoxCloneService;
use tower::{BoxError, Service, ServiceExt, service_fn};

use crate::redact;

/// The verbosity and the output. The levels are kubectl's: 6 prints method, URL, status and duration of each
/// request, 7 also the headers of requests, 8 also the headers of responses and the beginning of bodies, 9
/// more of the bodies, and 10 whole bodies.
#[derive(Clone)]
pub struct HttpTrace {
    pub level: u8,
    /// Prints one or more whole lines.
    pub say: Arc<dyn Fn(&str) + Send + Sync>,
}

impl HttpTrace {
    /// The lowest level that traces requests.
    pub const FROM: u8 = 6;

    fn headers(&self, title: &str, headers: &HeaderMap) {
        (self.say)(&format!("{title} headers:"));
        for (name, value) in headers {
            let value = if value.is_sensitive() || is_secret(name.as_str()) {
                redact::MASKED.into()
            } else {
                redact::text(&String::from_utf8_lossy(value.as_bytes()))
            };
            (self.say)(&format!("    {name}: {value}"));
        }
    }

    fn body(&self, title: &str, bytes: &[u8], total: usize) {
        let cut = match total.saturating_sub(bytes.len()) {
            0 => String::new(),
            more => format!(" [{more} more bytes]"),
        };
        let text = String::from_utf8_lossy(bytes);
        let text = redact::text(text.trim_end());
        (self.say)(&format!("{title} body: {text}{cut}"));
    }

    /// Maximum number of bytes of a body that are printed.
    fn most(&self) -> usize {
        match self.level {
            0..=7 => 0,
            8 => 1024,
            9 => 10 * 1024,
            _ => usize::MAX,
        }
    }
}

impl fmt::Debug for HttpTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Trace({})", self.level)
    }
}

fn is_secret(header: &str) -> bool {
    let words = ["auth", "cookie", "token", "secret", "password"];
    words.iter().any(|word| header.to_lowercase().contains(word))
}

/// A service that traces requests and responses; `server` is its address without credentials.
pub(super) fn traced<S, B>(
    service: S,
    server: String,
    trace: Option<HttpTrace>,
) -> BoxCloneService<Request<Body>, Response<Observed<B>>, BoxError>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
{
    let trace = trace.filter(|t| t.level >= HttpTrace::FROM);
    let send = move |request: Request<Body>| {
        let (service, server, trace) = (service.clone(), server.clone(), trace.clone());
        async move {
            let Some(trace) = trace else {
                let response = service.oneshot(request).await.map_err(Into::into)?;
                return Ok(response.map(|body| observed(body, None::<fn(&Bytes)>)));
            };
            let (mut head, body) = request.into_parts();
            if trace.most() > 0 {
                ask_for_text(&mut head.headers);
            }
            let url = match head.uri.host() {
                Some(_) => head.uri.to_string(),
                None => format!("{server}{}", head.uri),
            };
            let line = redact::text(&format!("{} {url}", head.method));
            if trace.level >= 7 {
                trace.headers(&format!("{line}\nRequest"), &head.headers);
            }
            let body = match trace.most() {
                0 => body,
                most => {
                    let bytes = body.collect().await?.to_bytes();
                    if !bytes.is_empty() {
                        trace.body("Request", &bytes[..most.min(bytes.len())], bytes.len());
                    }
                    Body::from(bytes)
                }
            };
            let begun = Instant::now();
            let request = Request::from_parts(head, body);
            let answer = service.oneshot(request).await.map_err(Into::into);
            let took = begun.elapsed().as_millis();
            let response = answer.inspect_err(|error| {
                let why = redact::text(&error.to_string());
                (trace.say)(&format!("{line} failed after {took} milliseconds: {why}"));
            })?;
            let status = response.status();
            (trace.say)(&format!("{line} {status} in {took} milliseconds"));
            if trace.level >= 8 {
                trace.headers("Response", response.headers());
            }
            let keep = (trace.most() > 0).then(|| {
                let mut seen = Seen { trace, bytes: Vec::new(), total: 0 };
                move |bytes: &Bytes| seen.add(bytes)
            });
            Ok(response.map(|body| observed(body, keep)))
        }
    };
    service_fn(send).boxed_clone()
}

/// Requests JSON instead of protobuf, so that the printed body is readable.
fn ask_for_text(headers: &mut HeaderMap) {
    let binary = b"application/vnd.kubernetes.protobuf";
    if headers.get(ACCEPT).is_some_and(|value| value.as_bytes().starts_with(binary)) {
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    }
}

/// The beginning of a body, printed once it is complete or dropped.
struct Seen {
    trace: HttpTrace,
    bytes: Vec<u8>,
    total: usize,
}

impl Seen {
    fn add(&mut self, bytes: &Bytes) {
        let room = self.trace.most().saturating_sub(self.bytes.len());
        self.bytes.extend_from_slice(&bytes[..room.min(bytes.len())]);
        self.total += bytes.len();
    }
}

impl Drop for Seen {
    fn drop(&mut self) {
        self.trace.body("Response", &self.bytes, self.total);
    }
}

pub(super) type Observed<B> = MapFrame<B, Box<dyn FnMut(Frame<Bytes>) -> Frame<Bytes> + Send>>;

/// Passes the data of the body to `look`, if given. `look` is dropped with the body: when the body is complete or
/// abandoned.
pub(super) fn observed<B>(body: B, mut look: Option<impl FnMut(&Bytes) + Send + 'static>) -> Observed<B>
where
    B: http_body::Body<Data = Bytes>,
{
    body.map_frame(Box::new(move |frame| {
        if let (Some(look), Some(bytes)) = (&mut look, frame.data_ref()) {
            look(bytes);
        }
        frame
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_that_hold_a_secret_are_known_by_their_names() {
        for header in ["authorization", "Proxy-Authorization", "Set-Cookie", "X-Auth-Token"] {
            assert!(is_secret(header), "{header}");
        }
        assert!(!is_secret("content-type"));
    }
}
