//! Progress that is drawn in place on a terminal, and printed line by line elsewhere.

use std::fmt::Write;
#[cfg(unix)]
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use jiff::SignedDuration;

use super::watch::ContactNotice;
use crate::screen::Screen;
#[cfg(unix)]
use crate::screen::keys::QuietKeys;
use crate::view::human;
use crate::view::text::{Line, Text};
use crate::wait::Wait;

/// The progress of a wait at one check.
pub struct AimProgress {
    pub state: Wait,
    /// The whole progress, redrawn in place on a terminal.
    pub whole: Text,
    /// Changes since the last check, for scrolling output.
    pub news: Vec<Line>,
}

/// Shows the progress of a wait on the screen.
pub(super) struct Display<'a> {
    screen: &'a mut Screen,
    bar: ProgressBar,
    /// Whether progress is the command's output, on stdout; otherwise it goes to stderr.
    on_stdout: bool,
    /// Start of the current outage of the API server; `None` while it responds.
    away_since: Arc<Mutex<Option<Instant>>>,
    #[cfg(unix)]
    quiet: Option<QuietKeys<OwnedFd>>,
}

impl<'a> Display<'a> {
    pub fn new(screen: &'a mut Screen, on_stdout: bool) -> Display<'a> {
        let (target, template) = match (on_stdout, screen.out.redraws, screen.err.redraws) {
            (true, true, _) => (ProgressDrawTarget::stdout(), "{msg}\n{age}; Ctrl-C stops watching"),
            (false, _, true) => (ProgressDrawTarget::stderr(), "{msg}\n{age}; Ctrl-C stops waiting"),
            _ => (ProgressDrawTarget::hidden(), ""),
        };
        let bar = ProgressBar::with_draw_target(None, target);
        let style = ProgressStyle::with_template(template).expect("the template is sound");
        let away_since = Arc::new(Mutex::new(None::<Instant>));
        let away = Arc::clone(&away_since);
        bar.set_style(style.with_key("age", move |state: &ProgressState, text: &mut dyn Write| {
            let words = match *away.lock().unwrap_or_else(PoisonError::into_inner) {
                Some(since) => format!("state {} old", span(since.elapsed())),
                None => format!("{} so far", span(state.elapsed())),
            };
            // Writing to memory cannot fail.
            let _ = text.write_str(&words);
        }));
        #[cfg(unix)]
        let quiet = {
            let (out, err) = (std::io::stdout(), std::io::stderr());
            let terminal = if on_stdout { out.as_fd() } else { err.as_fd() };
            let own = (!bar.is_hidden()).then(|| terminal.try_clone_to_owned().ok());
            own.flatten().map(QuietKeys::new)
        };
        Display {
            screen,
            bar,
            on_stdout,
            away_since,
            #[cfg(unix)]
            quiet,
        }
    }

    /// Redraws every second, so that the elapsed time stays current.
    pub fn tick(&self) {
        self.bar.enable_steady_tick(Duration::from_secs(1));
    }

    pub fn look(&mut self, look: AimProgress) -> Wait {
        #[cfg(unix)]
        if let Some(quiet) = &self.quiet {
            quiet.reapply();
        }
        let screen = &mut *self.screen;
        match (self.on_stdout, screen.out.redraws, screen.err.redraws) {
            (true, true, _) => show(&self.bar, screen.drawn_out(&look.whole)),
            (false, _, true) => show(&self.bar, screen.drawn(&look.whole)),
            (false, _, false) => {
                let news = look.news.into_iter();
                news.for_each(|line| screen.note(line));
            }
            (true, false, _) => {
                for line in look.news {
                    // Ignore write errors: a closed pipe is detected at the end.
                    let _ = screen.line(line);
                }
            }
        }
        look.state
    }

    /// Prints the beginning or the end of an outage above the progress. During an outage, the progress shows
    /// its own age.
    pub fn contact(&mut self, notice: ContactNotice) {
        let away_since = matches!(notice, ContactNotice::Lost(_)).then(Instant::now);
        *self.away_since.lock().unwrap_or_else(PoisonError::into_inner) = away_since;
        let screen = &mut self.screen;
        self.bar.suspend(|| match notice {
            ContactNotice::Lost(warning) => screen.warn(warning),
            ContactNotice::Restored(note) => screen.note(note),
        });
    }
}

/// Draws the message, if it has changed.
fn show(bar: &ProgressBar, message: String) {
    if bar.message() != message {
        bar.set_message(message);
    }
}

fn span(duration: Duration) -> String {
    human(SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX))
}

impl Drop for Display<'_> {
    /// Clears a half-drawn line when the user interrupts.
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
