//! What the process is told from outside: signals, its command line, the time, the environment.

use crate::apply::Stopper;

/// Waits for an interrupt, passes it on, and waits for another one.
pub async fn interrupted_twice(stopper: &Stopper) {
    interrupt().await;
    stopper.stop();
    interrupt().await;
}

/// The next SIGINT or SIGTERM.
pub async fn interrupt() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut term) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = term.recv() => {}
            }
            return;
        }
    }
    if tokio::signal::ctrl_c().await.is_err() {
        // Signals cannot be heard here: then there are none.
        std::future::pending::<()>().await;
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
