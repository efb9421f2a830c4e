//! What the process is told from outside: signals, its command line, the time, the environment.

use crate::apply::Stopper;

/// Waits for an interrupt, passes it on, and waits for another one.
pub async fn interrupted_twice(first: impl Future<Output = ()>, stopper: &Stopper) {
    first.await;
    stopper.stop();
    interrupt().await;
}

/// The first SIGINT or SIGTERM from now on, whether it comes before the future is polled or later. Where signals cannot
/// be heard there are none.
#[cfg(unix)]
pub fn interrupt() -> impl Future<Output = ()> {
    use tokio::signal::unix::{Signal, SignalKind, signal};

    async fn next(heard: std::io::Result<Signal>) {
        match heard {
            Ok(mut signals) => {
                signals.recv().await;
            }
            Err(_) => std::future::pending().await,
        }
    }
    let int = signal(SignalKind::interrupt());
    let term = signal(SignalKind::terminate());
    async {
        tokio::select! {
            () = next(int) => {}
            () = next(term) => {}
        }
    }
}

/// The first Ctrl-C from now on, whether it comes before the future is polled or later.
#[cfg(not(unix))]
pub fn interrupt() -> impl Future<Output = ()> {
    let heard = tokio::signal::windows::ctrl_c();
    async {
        match heard {
            Ok(mut signals) => {
                signals.recv().await;
            }
            Err(_) => std::future::pending().await,
        }
    }
}

pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|v| !v.is_empty())
}

/// The command line, for the journal.
pub fn command_line() -> Vec<String> {
    std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}
