//! Notices a server that stops answering while its connections stay open, as a stopped process does. A watch
//! may be silent for long, so its silence shows nothing.

use std::time::Duration;

use http::Request;
use kube::client::Body;
use tokio::sync::watch;
use tokio::time::sleep;

use super::request::{Failure, JSON, open_with};
use crate::connect::{TimeLimit, TransportError};

/// Pause between two probes.
const INTERVAL: Duration = Duration::from_secs(4);
/// Time limit of a probe. Probes do not wait in the queues of a busy server, as lists do.
const LIMIT: Duration = Duration::from_secs(10);
/// Exempt from the server's request queues, and answered without reading objects.
const PATH: &str = "/livez";

/// Whether the server answers: the error of the last probe.
#[derive(Debug, Clone)]
pub(super) struct Liveness(watch::Receiver<Option<TransportError>>);

impl Liveness {
    /// Returns the state, and its sender for [`probe`].
    pub fn new() -> (watch::Sender<Option<TransportError>>, Liveness) {
        let (sender, receiver) = watch::channel(None);
        (sender, Liveness(receiver))
    }

    /// Waits until the server does not answer.
    pub async fn lost(&mut self) -> TransportError {
        let lost = self.0.wait_for(Option::is_some).await.ok().and_then(|error| error.clone());
        match lost {
            Some(error) => error,
            None => std::future::pending().await,
        }
    }
}

/// Probes the server until `send` returns false. `send` receives each failed probe, and each success.
pub(super) async fn probe(
    client: kube::Client,
    state: watch::Sender<Option<TransportError>>,
    mut send: impl FnMut(Option<Failure>) -> bool,
) {
    loop {
        sleep(INTERVAL).await;
        let mut request = Request::get(PATH).header(http::header::ACCEPT, JSON);
        request.extensions_mut().map(|all| all.insert(TimeLimit::Whole(LIMIT)));
        let request = request.body(Body::empty()).expect("the path is valid");
        // Any answer will do, also "forbidden".
        let lost = match open_with(&client, request).await {
            Err(Failure::TransportError(error)) => Some(error),
            _ => None,
        };
        state.send_replace(lost.clone());
        if !send(lost.map(Failure::TransportError)) {
            return;
        }
    }
}
