//! Input from outside the process: signals, command line, time, environment.

use std::future;
#[cfg(unix)]
use std::io::IsTerminal;
use std::io::{BufRead, Read};

use dialoguer::theme::{SimpleTheme, Theme};
#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::Ctx;
use crate::apply::Stopper;
use crate::apply::journal::Store;
use crate::args::safety::{DryRun, Safety};
use crate::error::{Error, Exit, Result};
use crate::plan::{Grade, Plan, Refusal};
use crate::program::Process;
use crate::screen::Screen;
use crate::view::count;
use crate::view::preview::Preview;

/// Waits for an interrupt, stops `stopper`, and waits for a second interrupt. A hangup does not count as the
/// second: when a terminal is closed, both the shell and the kernel send one.
pub async fn interrupted_twice(first: impl Future<Output = ()>, stopper: &Stopper) {
    first.await;
    stopper.stop();
    asked_to_end().await;
}

/// Resolves at the first SIGINT, SIGTERM or SIGHUP after this call, even if the signal arrives before the
/// first poll. Never resolves if signals cannot be handled, and for a call within the process.
pub fn interrupt(process: &Process) -> impl Future<Output = ()> + use<> {
    let signals = process.is_own().then(|| (asked_to_end(), hung_up()));
    async {
        match signals {
            Some((asked_to_end, hung_up)) => tokio::select! {
                () = asked_to_end => {}
                () = hung_up => {}
            },
            None => future::pending().await,
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
            None => future::pending().await,
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

#[cfg(unix)]
async fn next(signals: std::io::Result<Signal>) {
    match signals {
        Ok(mut signals) => {
            signals.recv().await;
        }
        Err(_) => future::pending().await,
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

/// Never resolves: SIGHUP exists on Unix only.
#[cfg(not(unix))]
fn hung_up() -> impl Future<Output = ()> {
    future::pending()
}

#[cfg(not(unix))]
fn asked_to_end() -> impl Future<Output = ()> {
    let signals = tokio::signal::windows::ctrl_c();
    async {
        match signals {
            Ok(mut signals) => {
                signals.recv().await;
            }
            Err(_) => future::pending().await,
        }
    }
}

/// Reads the next line of standard input, at most `MOST` bytes of it, with its line break, which is missing at the end of
/// the input; `None` if `interrupt` resolves first.
async fn line(interrupt: impl Future<Output = ()>) -> Option<String> {
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
        () = interrupt => None,
        line = receiver => Some(line.unwrap_or_default()),
    }
}

/// The answer that confirms a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// `y`.
    YesNo,
    /// Exactly this text.
    Type(String),
}

/// Why a plan was not confirmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unconfirmed {
    /// The user answered no on the terminal.
    No,
    /// There is no terminal, and standard input holds no `y`.
    Unanswered,
    /// Standard input holds a `y`, but the plan requires a stronger confirmation.
    NotEnough(String),
    Interrupted,
}

impl Question {
    /// The confirmation required for the plan's grade.
    pub fn of(plan: &Plan) -> Question {
        match plan.grade() {
            Grade::B0 | Grade::B1 | Grade::B2 => Question::YesNo,
            Grade::B3 => Question::Type(plan.subject.clone()),
            Grade::B4 => Question::Type(match plan.nodes().len() {
                0 => plan.subject.clone(),
                nodes => format!("{} {nodes}", plan.subject),
            }),
        }
    }

    /// Prompts on stderr and reads a whole line from standard input, with the terminal's line editing.
    /// dialoguer reads single keys and leaves the rest of the line to the shell.
    ///
    /// Without a terminal, a piped line can only answer y or N: a question that asks for a name fails.
    ///
    /// # Errors
    ///
    /// The plan is not confirmed.
    pub async fn ask(&self, plan: &Plan, screen: &mut Screen, process: &Process) -> Result<(), Unconfirmed> {
        let terminal = process.reads_terminal();
        if terminal && !screen.err.terminal {
            return Err(Unconfirmed::Unanswered);
        }
        // Catch Ctrl-C before the question is shown.
        let interrupt = interrupt(process);
        screen.prompt(&self.words(plan, terminal));
        let line = if process.is_own() { line(interrupt).await } else { Some(String::new()) };
        // Start the next output on a new line, even if Enter was not pressed.
        if !matches!(&line, Some(typed) if terminal && typed.ends_with('\n')) {
            screen.prompt("\n");
        }
        let Some(line) = line else {
            return Err(Unconfirmed::Interrupted);
        };
        let yes = matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes");
        match (terminal, self) {
            (true, _) if !line.ends_with('\n') => Err(Unconfirmed::No),
            (true, Question::Type(words)) if line.trim() == words => Ok(()),
            (_, Question::YesNo) if yes => Ok(()),
            (true, _) => Err(Unconfirmed::No),
            (false, Question::Type(_)) if yes => {
                Err(Unconfirmed::NotEnough(plan.consequences.at_worst(plan.grade())))
            }
            (false, _) => Err(Unconfirmed::Unanswered),
        }
    }

    fn words(&self, plan: &Plan, terminal: bool) -> String {
        let mut asked = String::new();
        let written = match self {
            Question::Type(words) if terminal => {
                let what = match plan.nodes().len() {
                    nodes if nodes > 0 && plan.grade() == Grade::B4 => {
                        format!("the name and the number of nodes ({})", count(nodes))
                    }
                    _ => "the name".to_owned(),
                };
                let worst = plan.consequences.at_worst(plan.grade());
                let question = format!("Worst effect: {worst}. To confirm, type {what}: {words}");
                SimpleTheme.format_input_prompt(&mut asked, &question, None)
            }
            _ => SimpleTheme.format_confirm_prompt(&mut asked, "Proceed?", Some(false)),
        };
        written.expect("writes to a string never fail");
        asked
    }
}

impl Ctx {
    /// Whether the terminal shows the question and accepts the answer.
    pub(super) fn can_ask(&self) -> bool {
        self.process.reads_terminal() && self.screen.err.terminal
    }

    /// See [`interrupt`].
    pub fn interrupt(&self) -> impl Future<Output = ()> + use<> {
        interrupt(&self.process)
    }

    /// The journals of this user.
    ///
    /// # Errors
    ///
    /// No environment variable names a directory for them.
    pub fn journals(&self) -> anyhow::Result<Store> {
        Store::of(|name| self.variable(name))
    }

    /// The value of an environment variable; `None` if it is empty.
    pub fn variable(&self, name: &str) -> Option<String> {
        self.process.variable(name)
    }

    /// Refuses `--confirm` for a change to files.
    ///
    /// # Errors
    ///
    /// `--confirm` is set with `--from`, and neither `--dry-run` nor `--plan-out` is.
    pub(super) fn refuse_files(&self, safety: &Safety) -> Result<(), Error> {
        let only_looks = safety.dry_run != DryRun::None || safety.plan_out.is_some();
        if self.global.reading.from.is_empty() || !safety.confirm || only_looks {
            return Ok(());
        }
        let reason = "--confirm cannot be used with --from: a capture cannot be changed";
        Err(Error::usage(reason).hint("use only one of them, or add --dry-run"))
    }

    /// Ends the command without a change and without an error.
    pub(super) fn abort(&mut self, preview: &Preview<'_>) -> Result<Exit, Error> {
        if self.global.output.format.is_data() {
            self.show(preview)?;
        }
        self.note("Aborted.");
        self.note("hint: add --confirm to proceed without a terminal");
        Ok(Exit::Done)
    }
}

impl From<Unconfirmed> for Error {
    fn from(unconfirmed: Unconfirmed) -> Error {
        match unconfirmed {
            Unconfirmed::No => Refusal::NotConfirmed {}.into(),
            Unconfirmed::Unanswered => Refusal::NobodyToAsk {}.into(),
            Unconfirmed::NotEnough(effect) => Refusal::NotEnough { effect }.into(),
            Unconfirmed::Interrupted => {
                Error { exit: Exit::Interrupted, ..Error::failed("interrupted; nothing was changed") }
            }
        }
    }
}
