//! The user's request to stop.

use std::future::Future;

use tokio::sync::watch;

/// Requests that a plan stops.
#[derive(Debug)]
pub struct Stopper(watch::Sender<bool>);

/// Observes the stop request of a plan.
#[derive(Debug, Clone)]
pub struct Stop(watch::Receiver<bool>);

impl Stopper {
    pub fn new() -> (Stopper, Stop) {
        let (sender, receiver) = watch::channel(false);
        (Stopper(sender), Stop(receiver))
    }

    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Stop {
    pub fn asked(&self) -> bool {
        *self.0.borrow()
    }

    /// Runs a future until a stop is requested; `None` if that happens first.
    pub async fn during<F: Future>(&self, future: F) -> Option<F::Output> {
        let mut receiver = self.0.clone();
        let asked = async move {
            // A dropped sender never stops us.
            if receiver.wait_for(|asked| *asked).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            () = asked => None,
            output = future => Some(output),
        }
    }
}
