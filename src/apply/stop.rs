//! The sign to stop, given by the user.

use std::future::Future;

use tokio::sync::watch;

/// Gives the sign.
#[derive(Debug)]
pub struct Stopper(watch::Sender<bool>);

/// Is given the sign.
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

    /// Runs a future until the sign is given; `None` if it was given first.
    pub async fn during<F: Future>(&self, future: F) -> Option<F::Output> {
        let mut sign = self.0.clone();
        let asked = async move {
            // A sender that is gone gives no sign any more.
            if sign.wait_for(|asked| *asked).await.is_err() {
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
