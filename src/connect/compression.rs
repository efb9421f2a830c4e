//! Whether to request compressed responses: over a slow connection it pays, over a fast one it costs more than it
//! saves.
//!
//! The first responses show the latency, the pages themselves the bandwidth.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use http::header::ACCEPT_ENCODING;
use http::{HeaderValue, Request, Response};
use kube::client::Body;
use tokio::time::Instant;
use tower::util::BoxCloneService;
use tower::{BoxError, Service, ServiceExt, service_fn};

use super::observed::{Observed, observed};

/// A server that has answered anything within this is near; it may have had to be connected to first.
const NEAR: Duration = Duration::from_millis(20);
/// Bytes a second below which a near server counts as far: compressed, they come faster.
const SLOW: u128 = 12_000_000;
/// Smaller bodies do not show the bandwidth.
const TELLING: usize = 1 << 20;

/// Latency and bandwidth of the connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Way {
    /// The shortest time to the head of an answer.
    nearest: Option<Duration>,
    slow: bool,
}

impl Way {
    fn compresses(self) -> bool {
        self.slow || self.nearest.is_none_or(|time| time > NEAR)
    }

    fn answered(&mut self, after: Duration) {
        self.nearest = Some(self.nearest.map_or(after, |nearest| nearest.min(after)));
    }

    /// Records an uncompressed body.
    fn came(&mut self, bytes: usize, within: Duration) {
        let rate = bytes as u128 * 1000 / within.as_millis().max(1);
        self.slow |= bytes >= TELLING && rate < SLOW;
    }
}

/// Latency and bandwidth of the connection, shared by all requests.
#[derive(Debug, Clone, Default)]
pub(super) struct Pace(Arc<Mutex<Way>>);

impl Pace {
    fn way(&self) -> MutexGuard<'_, Way> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A service that requests uncompressed responses where they arrive sooner; without `pace`, compression is disabled.
pub(super) fn paced<S, B>(
    service: S,
    pace: Option<Pace>,
) -> BoxCloneService<Request<Body>, Response<Observed<B>>, BoxError>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
{
    let send = move |mut request: Request<Body>| {
        let (service, pace) = (service.clone(), pace.clone());
        let plain = pace.clone().filter(|pace| !pace.way().compresses());
        if plain.is_some() {
            let identity = HeaderValue::from_static("identity");
            request.headers_mut().insert(ACCEPT_ENCODING, identity);
        }
        async move {
            let begun = Instant::now();
            let response = service.oneshot(request).await.map_err(Into::into)?;
            if let Some(pace) = pace {
                pace.way().answered(begun.elapsed());
            }
            let count = plain.map(|pace| {
                let mut measured = Measured { pace, begun: Instant::now(), bytes: 0 };
                move |bytes: &Bytes| measured.add(bytes)
            });
            Ok(response.map(|body| observed(body, count)))
        }
    };
    service_fn(send).boxed_clone()
}

/// How long a body takes.
struct Measured {
    pace: Pace,
    begun: Instant,
    bytes: usize,
}

impl Measured {
    fn add(&mut self, bytes: &Bytes) {
        self.bytes += bytes.len();
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        self.pace.way().came(self.bytes, self.begun.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_servers_compress_and_near_ones_do_not_unless_data_comes_slowly() {
        let ms = Duration::from_millis;
        let mut way = Way::default();
        assert!(way.compresses(), "nothing is known yet");
        way.answered(ms(80));
        assert!(way.compresses(), "far");
        way.answered(ms(3));
        way.answered(ms(90));
        assert!(!way.compresses(), "near, if busy");
        way.came(1000, ms(1000));
        assert!(!way.compresses(), "too little to tell");
        way.came(12 << 20, ms(100));
        assert!(!way.compresses(), "fast");
        way.came(12 << 20, ms(3000));
        assert!(way.compresses(), "slow");
    }
}
