//! Progress that is drawn in place on a terminal, and printed line by line elsewhere.

#[cfg(unix)]
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::screen::Screen;
#[cfg(unix)]
use crate::screen::keys::QuietKeys;
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
    answers: bool,
    #[cfg(unix)]
    quiet: Option<QuietKeys<OwnedFd>>,
}

impl<'a> Display<'a> {
    pub fn new(screen: &'a mut Screen) -> Display<'a> {
        let target =
            if screen.err.redraws { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        Display::drawn(screen, target, "{msg}\n{elapsed} so far; Ctrl-C stops waiting", false)
    }

    pub fn on_stdout(screen: &'a mut Screen) -> Display<'a> {
        let target =
            if screen.out.redraws { ProgressDrawTarget::stdout() } else { ProgressDrawTarget::hidden() };
        Display::drawn(screen, target, "{msg}\n{elapsed} so far; Ctrl-C stops watching", true)
    }

    fn drawn(
        screen: &'a mut Screen,
        target: ProgressDrawTarget,
        template: &str,
        answers: bool,
    ) -> Display<'a> {
        let bar = ProgressBar::with_draw_target(None, target);
        let style = ProgressStyle::with_template(template);
        bar.set_style(style.expect("the template is sound"));
        #[cfg(unix)]
        let quiet = {
            let (out, err) = (std::io::stdout(), std::io::stderr());
            let terminal = if answers { out.as_fd() } else { err.as_fd() };
            let own = (!bar.is_hidden()).then(|| terminal.try_clone_to_owned().ok());
            own.flatten().map(QuietKeys::on)
        };
        Display {
            screen,
            bar,
            answers,
            #[cfg(unix)]
            quiet,
        }
    }

    /// Keeps the elapsed time current.
    pub fn tick(&self) {
        self.bar.enable_steady_tick(Duration::from_millis(250));
    }

    pub fn look(&mut self, look: AimProgress) -> Wait {
        #[cfg(unix)]
        if let Some(quiet) = &self.quiet {
            quiet.reapply();
        }
        let screen = &mut *self.screen;
        match (self.answers, screen.out.redraws, screen.err.redraws) {
            (true, true, _) => self.bar.set_message(screen.drawn_out(&look.whole)),
            (false, _, true) => self.bar.set_message(screen.drawn(&look.whole)),
            (false, _, false) => {
                let news = look.news.into_iter();
                news.for_each(|line| screen.note(line));
            }
            (true, false, _) => {
                for line in look.news {
                    // A closed pipe is noticed at the end.
                    let _ = screen.line(line);
                }
            }
        }
        look.state
    }

    pub fn warn(&mut self, warning: Option<String>) {
        if let Some(warning) = warning {
            let screen = &mut self.screen;
            self.bar.suspend(|| screen.warn(warning.as_str()));
        }
    }
}

impl Drop for Display<'_> {
    /// Clears a half-drawn line when the user interrupts.
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
