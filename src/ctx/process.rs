//! What the process is told from outside: signals, its command line, the time, the environment.

use std::io::{BufRead, Read};

use crate::apply::Stopper;
use crate::args::redacted::redacted;

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

/// What came from standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// A line, without its end where the input ends first; empty at the end of the input.
    Of(String),
    /// An interrupt came first.
    Interrupted,
}

/// The next line of standard input, or as much of it as an answer may need, unless an interrupt comes first.
pub async fn line(interrupt: impl Future<Output = ()>) -> Line {
    const MOST: u64 = 1024;
    let (sender, receiver) = tokio::sync::oneshot::channel();
    // A read cannot be called off; on a thread of nobody's it does not keep the process from ending.
    std::thread::spawn(move || {
        let mut line = Vec::new();
        // What cannot be read says nothing.
        let _ = std::io::stdin()
            .lock()
            .take(MOST)
            .read_until(b'\n', &mut line);
        let _ = sender.send(String::from_utf8_lossy(&line).into_owned());
    });
    tokio::select! {
        biased;
        () = interrupt => Line::Interrupted,
        line = receiver => Line::Of(line.unwrap_or_default()),
    }
}

pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|v| !v.is_empty())
}

/// The command line, for the journal.
pub fn command_line() -> Vec<String> {
    redacted(std::env::args_os().map(|word| word.to_string_lossy().into_owned()))
}
