//! Input from outside the process: signals, command line, time, environment.

#[cfg(unix)]
use std::io::IsTerminal;
use std::io::{BufRead, Read};

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::apply::Stopper;
use crate::args::redacted::redacted;
use crate::error::Result;

/// Waits for an interrupt, stops `stopper`, and waits for a second interrupt. A hangup does not count as the
/// second: when a terminal is closed, both the shell and the kernel send one.
pub async fn interrupted_twice(first: impl Future<Output = ()>, stopper: &Stopper) {
    first.await;
    stopper.stop();
    asked_to_end().await;
}

/// Resolves at the first SIGINT, SIGTERM or SIGHUP after this call, even if the signal arrives before the
/// first poll. Never resolves if signals cannot be handled.
#[cfg(unix)]
pub fn interrupt() -> impl Future<Output = ()> {
    let (asked_to_end, hung_up) = (asked_to_end(), hung_up());
    async {
        tokio::select! {
            () = asked_to_end => {}
            () = hung_up => {}
        }
    }
}

/// Resolves at the first SIGINT or SIGTERM after this call.
#[cfg(unix)]
fn asked_to_end() -> impl Future<Output = ()> {
    let int = signal(SignalKind::interrupt());
    let term = signal(SignalKind::terminate());
    async {
        tokio::select! {
            () = next(int) => {}
            () = next(term) => {}
        }
    }
}

/// Resolves at the first SIGHUP after this call. Never resolves if SIGHUP is ignored: handling it would end
/// processes that `nohup` keeps running.
#[cfg(unix)]
fn hung_up() -> impl Future<Output = ()> {
    let hangup = (!ignores_hangup()).then(|| signal(SignalKind::hangup()));
    async {
        match hangup {
            Some(signals) => next(signals).await,
            None => std::future::pending().await,
        }
    }
}

/// Makes writes beyond the file size limit (`ulimit -f`) fail, as on a full disk. Unhandled, SIGXFSZ would
/// end the process in the middle of a line of the journal.
#[cfg(unix)]
pub fn survive_file_size_limit() {
    // tokio never removes a handler, and child processes do not inherit it.
    let _ = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()));
}

/// Does nothing: SIGXFSZ exists on Unix only.
#[cfg(not(unix))]
pub fn survive_file_size_limit() {}

/// Refuses to start with fewer open files than the runtime itself needs: it would abort without a message.
///
/// # Errors
///
/// The limit (`ulimit -n`) is too low.
#[cfg(unix)]
pub fn check_open_files() -> Result<()> {
    const LEAST: u64 = 16;
    match rustix::process::getrlimit(rustix::process::Resource::Nofile).current {
        Some(limit) if limit < LEAST => Err(crate::error::Error::failed(format!(
            "cannot start: the limit on open files is {limit}, and at least {LEAST} are needed"
        ))
        .hint("raise the limit: ulimit -n 1024")),
        _ => Ok(()),
    }
}

/// Accepts any limit: it exists on Unix only.
///
/// # Errors
///
/// None.
#[cfg(not(unix))]
pub fn check_open_files() -> Result<()> {
    Ok(())
}

#[cfg(unix)]
async fn next(signals: std::io::Result<Signal>) {
    match signals {
        Ok(mut signals) => {
            signals.recv().await;
        }
        Err(_) => std::future::pending().await,
    }
}

/// Whether the process ignores SIGHUP. Without `/proc`, assume so unless standard error is a terminal, which
/// `nohup` redirects.
#[cfg(unix)]
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    match ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()) {
        Some(mask) => mask & 1 << (SignalKind::hangup().as_raw_value() - 1) != 0,
        None => !std::io::stderr().is_terminal(),
    }
}

/// Resolves at the first Ctrl-C after this call, even if it arrives before the first poll.
#[cfg(not(unix))]
pub fn interrupt() -> impl Future<Output = ()> {
    asked_to_end()
}

#[cfg(not(unix))]
fn asked_to_end() -> impl Future<Output = ()> {
    let signals = tokio::signal::windows::ctrl_c();
    async {
        match signals {
            Ok(mut signals) => {
                signals.recv().await;
            }
            Err(_) => std::future::pending().await,
        }
    }
}

/// The result of reading standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// A line with its line break, which is missing at the end of the input; empty if nothing follows.
    Of(String),
    /// The interrupt came before the line.
    Interrupted,
}

/// Reads the next line of standard input, at most `MOST` bytes of it, unless `interrupt` resolves first.
pub async fn line(interrupt: impl Future<Output = ()>) -> Line {
    const MOST: u64 = 1024;
    let (sender, receiver) = tokio::sync::oneshot::channel();
    // A blocking read cannot be canceled; on a detached thread it does not delay the exit.
    std::thread::spawn(move || {
        let mut line = Vec::new();
        // Unreadable input counts as empty.
        let _ = std::io::stdin().lock().take(MOST).read_until(b'\n', &mut line);
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

/// The command line without secrets, for the journal.
pub fn command_line() -> Vec<String> {
    redacted(std::env::args_os().map(|word| word.to_string_lossy().into_owned()))
}
