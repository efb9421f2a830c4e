//! Compression of responses. A nearby API server takes longer to compress a list of nodes than the network
//! takes to send it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::header::ACCEPT_ENCODING;
use http::{HeaderValue, Request, Response};
use kube::client::Body;
use tokio::time::Instant;
use tower::util::BoxCloneService;
use tower::{BoxError, Service, ServiceExt, service_fn};

/// Maximum latency of a server that counts as near.
const NEAR: Duration = Duration::from_millis(20);

/// A service that requests uncompressed responses once the server has responded within [`NEAR`].
/// `compresses`: whether the client accepts compressed responses at all.
pub(super) fn uncompressed_if_near<S, B>(
    service: S,
    compresses: bool,
) -> BoxCloneService<Request<Body>, Response<B>, BoxError>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: 'static,
{
    let quickest = Arc::new(AtomicU64::new(u64::MAX));
    let send = move |mut request: Request<Body>| {
        let (service, quickest) = (service.clone(), quickest.clone());
        if compresses && Duration::from_micros(quickest.load(Ordering::Relaxed)) <= NEAR {
            request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        async move {
            let start = Instant::now();
            let response = service.oneshot(request).await.map_err(Into::into)?;
            let micros = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
            quickest.fetch_min(micros, Ordering::Relaxed);
            Ok(response)
        }
    };
    service_fn(send).boxed_clone()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Mutex;

    use super::*;

    /// Latencies are simulated: the clock is paused.
    #[tokio::test(start_paused = true)]
    async fn near_servers_are_asked_for_uncompressed_responses() {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let latencies = Arc::new(Mutex::new(vec![
            Duration::from_millis(90),
            Duration::from_millis(3),
            Duration::from_millis(80),
        ]));
        let seen = asked.clone();
        let server = service_fn(move |request: Request<Body>| {
            let latency = latencies.lock().expect("no thread panics").pop().unwrap_or_default();
            let accepted =
                request.headers().get(ACCEPT_ENCODING).map(|value| value.to_str().expect("ASCII").to_owned());
            seen.lock().expect("no thread panics").push(accepted);
            async move {
                tokio::time::sleep(latency).await;
                Ok::<_, Infallible>(Response::new(()))
            }
        });
        let mut client = uncompressed_if_near(server, true);
        for _ in 0..3 {
            client.ready().await.expect("ready").call(Request::new(Body::empty())).await.expect("a response");
        }
        let identity = Some("identity".to_owned());
        assert_eq!(*asked.lock().expect("no thread panics"), [None, None, identity]);
    }
}
