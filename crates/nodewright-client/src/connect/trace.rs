//! `-v=6` and above: requests and responses on stderr, without secrets.
//!
//! Requests are traced before credentials are added, so that no credentials are printed.

use std::sync::Arc;

use http::Request;
use http::header::HeaderMap;
use kube::client::Body;
use tokio::time::Instant;
use tower::{ServiceExt, service_fn};

use super::BoxedService;
use crate::redact;

/// The verbosity and the output. The levels are kubectl's: 6 prints method, URL, status and duration of each
/// request, 7 also the headers of requests, and 8 and above also the headers of responses. Bodies are not printed.
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
}

fn is_secret(header: &str) -> bool {
    let words = ["auth", "cookie", "token", "secret", "password"];
    words.iter().any(|word| header.to_lowercase().contains(word))
}

/// A service that traces requests and responses; `server` is its address without credentials.
pub(super) fn traced<B: 'static>(
    service: BoxedService<B>,
    server: String,
    trace: Option<HttpTrace>,
) -> BoxedService<B> {
    let send = move |request: Request<Body>| {
        let (service, server, trace) = (service.clone(), server.clone(), trace.clone());
        async move {
            let Some(trace) = trace else {
                return service.oneshot(request).await;
            };
            let url = match request.uri().host() {
                Some(_) => request.uri().to_string(),
                None => format!("{server}{}", request.uri()),
            };
            let line = redact::text(&format!("{} {url}", request.method()));
            if trace.level >= 7 {
                trace.headers(&format!("{line}\nRequest"), request.headers());
            }
            let begun = Instant::now();
            let answer = service.oneshot(request).await;
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
            Ok(response)
        }
    };
    service_fn(send).boxed_clone()
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
