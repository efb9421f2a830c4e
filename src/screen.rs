//! The terminal: writes to stdout and stderr, with colors. Other code does so only for live progress
//! (`ctx/wait.rs`, `ctx.rs`) and for help and usage errors, which clap prints.
//!
//! The output of a command goes to stdout, everything else to stderr.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::io::{self, Write};
use std::mem;

use anyhow::Context;
use owo_colors::Style;

use crate::apply::file::place;
use crate::args::global::{ColorChoice, Output};
use crate::program::{Process, Stream};
use crate::view::format::{OutputFormat, Rendered};
use crate::view::text::{self, Label, Line, Text};
use crate::view::{Joined, Layout, List, View, harmless_lines, sanitize};

/// Maximum bytes buffered of a streamed list or table.
const HELD: usize = 1 << 16;
/// Maximum number of lines that stay at the end of a screen that is too long for the terminal.
const LAST_LINES: usize = 5;

/// The output of a command.
pub struct Screen {
    pub out: OutputStream,
    pub err: OutputStream,
}

/// Stdout or stderr, with the properties of the terminal, pipe or file behind it.
pub struct OutputStream {
    pub writer: Box<dyn Write + Send>,
    /// Number of columns of the terminal, if known.
    pub width: Option<usize>,
    pub terminal: bool,
    /// Whether lines can be redrawn in place.
    pub redraws: bool,
    pub colour: bool,
    /// Precedes each line.
    prefix: String,
}

/// The result of writing output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Shown {
    Whole,
    /// The reader has closed the pipe, as `head` does. Not an error.
    ReaderGone,
}

/// Writes a line to stderr immediately, without a [`Screen`]: for events while a command runs.
pub fn trace(process: &Process, line: &str) {
    let mut stderr = process.stderr();
    // Ignore errors of stderr: they cannot be reported.
    let _ = if stderr.is_terminal() {
        stderr.write_all(format!("{}\n", harmless_lines(line)).as_bytes())
    } else {
        stderr.write_all(format!("{line}\n").as_bytes())
    };
}

impl Screen {
    /// A screen on the stdout and stderr of a call.
    pub fn new(choice: ColorChoice, process: &Process) -> Screen {
        let settings = ColourSettings::of(|name| process.variable(name));
        let output = |stream: Stream| {
            let terminal = stream.is_terminal();
            OutputStream {
                width: stream.width().filter(|columns| *columns > 0),
                terminal,
                redraws: terminal && !settings.dumb,
                colour: settings.colour(choice, terminal),
                ..OutputStream::pipe(stream)
            }
        };
        Screen { out: output(process.stdout()), err: output(process.stderr()) }
    }

    /// A screen for one of several contexts: both streams prefix each line with `name`, because several
    /// screens print at once.
    pub fn prefixed(name: &str, process: &Process) -> Screen {
        let prefix = format!("{}: ", sanitize(name));
        let output = |stream| OutputStream { prefix: prefix.clone(), ..OutputStream::pipe(stream) };
        Screen { out: output(process.stdout()), err: output(process.stderr()) }
    }

    /// Prints a view on stdout in the requested format.
    pub fn show(&mut self, view: &dyn View, output: &Output) -> anyhow::Result<Shown> {
        if output.format == OutputFormat::Json
            && let Some(list) = view.list()
        {
            return self.list(list);
        }
        self.rendered(output.format.render(view)?, output)
    }

    fn rendered(&mut self, rendered: Rendered, output: &Output) -> anyhow::Result<Shown> {
        match rendered {
            Rendered::Text(text) => self.out.text(&text, !output.no_headers),
            Rendered::Data(data) => match &output.format {
                // A textfile collector reads the file as another user.
                OutputFormat::OpenMetrics(Some(file)) => {
                    let write =
                        |out: &mut dyn Write| out.write_all(data.as_bytes()).map(|()| data.len() as u64);
                    place(file, true, true, write)
                        .with_context(|| format!("cannot write {}", file.display()))?;
                    Ok(Shown::Whole)
                }
                _ => self.print(&data),
            },
            Rendered::Noted(rendered, note) => {
                let shown = self.rendered(*rendered, output)?;
                self.note(note);
                Ok(shown)
            }
        }
    }

    /// Prints a list document item by item, without buffering all of it.
    fn list(&mut self, list: List<'_>) -> anyhow::Result<Shown> {
        let mut held = String::new();
        for piece in list.pieces() {
            held += &piece;
            if held.len() >= HELD && self.print(&mem::take(&mut held))? == Shown::ReaderGone {
                return Ok(Shown::ReaderGone);
            }
        }
        self.print(&held)
    }

    /// Prints data on stdout: unchanged for programs, with escaped control characters on a terminal.
    pub fn print(&mut self, data: &str) -> anyhow::Result<Shown> {
        if self.out.terminal { self.out.write(&harmless_lines(data)) } else { self.out.write(data) }
    }

    /// Prints a piece of a log after a prefix: unchanged for programs, with escaped control characters on a
    /// terminal.
    pub fn log(&mut self, prefix: &Line, bytes: &[u8]) -> anyhow::Result<Shown> {
        let mut out = Vec::with_capacity(bytes.len() + 32);
        out.extend_from_slice(self.out.prefix.as_bytes());
        out.extend_from_slice(self.out.spelled(prefix).as_bytes());
        if self.out.terminal {
            let text = String::from_utf8_lossy(bytes).replace("\r\n", "\n");
            out.extend_from_slice(harmless_lines(&text).as_bytes());
        } else {
            out.extend_from_slice(bytes)
        }
        self.out.write_bytes(&out)
    }

    /// Prints a notice on stderr.
    pub fn note(&mut self, note: impl Into<Text>) {
        self.aside(&note.into());
    }

    /// Prints a warning on stderr.
    pub fn warn(&mut self, warning: impl Into<Line>) {
        let mut text = Text::new();
        text.paragraph(text::warning("warning:") + " " + warning.into());
        self.aside(&text);
    }

    /// Prints an error and its hints on stderr.
    ///
    /// Continuation lines of the message are indented, so that a server's message cannot imitate ours.
    pub fn error<S: AsRef<str>>(&mut self, message: &str, hints: &[S]) {
        let mut text = Text::new();
        let mut lines = message.lines();
        text.paragraph(text::error("error:") + " " + lines.next().unwrap_or_default());
        for line in lines {
            text.indented(2, line);
        }
        for hint in hints {
            let hint = hint.as_ref();
            let whole = hint.starts_with("kubectl ");
            let line = if whole { text::command(hint).into() } else { text::prose(hint) };
            text.item("hint: ", line);
        }
        self.aside(&text);
    }

    /// Prints a question on stderr, without a line break: the user's answer ends the line.
    pub fn prompt(&mut self, question: &str) {
        // Ignore errors of stderr: they cannot be reported.
        let _ = self.err.write(&harmless_lines(question));
    }

    /// Renders a text for stderr, for callers that redraw it.
    pub fn drawn(&self, text: &Text) -> String {
        text.lines(self.err.layout(true)).iter().map(|line| self.err.spelled(line)).joined("\n")
    }

    /// Renders a text for stdout, for callers that redraw it: cut to the current size of the terminal,
    /// leaving out lines in the middle.
    pub fn drawn_out(&mut self, text: &Text) -> String {
        let size = terminal_size::terminal_size_of(io::stdout());
        let (columns, rows) =
            size.map_or((80, 24), |(width, height)| (usize::from(width.0), usize::from(height.0)));
        self.out.width = Some(columns);
        let mut lines = text.lines(Layout::columns(columns));
        // One row for the line below the text, and one for the cursor.
        let room = rows.saturating_sub(2).max(3);
        if lines.len() > room {
            let end = (room / 3).min(LAST_LINES);
            let hidden = room - end - 1..lines.len() - end;
            lines.splice(hidden, [Line::from(text::dim("…"))]);
        }
        lines.into_iter().map(|line| self.out.spelled(&line.truncated(columns))).joined("\n")
    }

    /// Prints a line of incremental output on stdout.
    pub fn line(&mut self, line: impl Into<Line>) -> anyhow::Result<Shown> {
        let mut text = Text::new();
        text.line(line);
        self.out.text(&text, true)
    }

    /// Prints a text on stderr, ignoring write errors: they cannot be reported.
    fn aside(&mut self, text: &Text) {
        let _ = self.err.text(text, true);
    }
}

impl OutputStream {
    /// A stream that is no terminal: no width, no colors.
    pub fn pipe(writer: impl Write + Send + 'static) -> OutputStream {
        OutputStream {
            writer: Box::new(writer),
            width: None,
            terminal: false,
            redraws: false,
            colour: false,
            prefix: String::new(),
        }
    }

    fn text(&mut self, text: &Text, headers: bool) -> anyhow::Result<Shown> {
        let mut held = String::new();
        let mut shown = Ok(Shown::Whole);
        text.each_line(self.layout(headers), |line| {
            if !matches!(shown, Ok(Shown::Whole)) {
                return;
            }
            held += &format!("{}{}\n", self.prefix, self.spelled(&line));
            if held.len() >= HELD {
                shown = self.write(&mem::take(&mut held));
            }
        });
        match shown? {
            Shown::Whole => self.write(&held),
            Shown::ReaderGone => Ok(Shown::ReaderGone),
        }
    }

    fn layout(&self, headers: bool) -> Layout {
        Layout { width: self.width, headers }
    }

    /// A line as printed, colored if the stream has colors.
    fn spelled(&self, line: &Line) -> String {
        if !self.colour {
            return line.plain();
        }
        line.spans.iter().map(|span| style(span.label).style(&span.text).to_string()).collect()
    }

    fn write(&mut self, text: &str) -> anyhow::Result<Shown> {
        self.write_bytes(text.as_bytes())
    }

    fn write_bytes(&mut self, bytes: &[u8]) -> anyhow::Result<Shown> {
        let written = self.writer.write_all(bytes);
        match written.and_then(|()| self.writer.flush()) {
            Ok(()) => Ok(Shown::Whole),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Shown::ReaderGone),
            Err(error) => Err(error).context("cannot write the output"),
        }
    }
}

/// The environment's settings for colors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct ColourSettings {
    never: bool,
    always: bool,
    dumb: bool,
}

impl ColourSettings {
    /// Reads the environment; see <https://no-color.org>, <https://bixense.com/clicolors> and
    /// <https://force-color.org>.
    fn of(variable: impl Fn(&str) -> Option<String>) -> ColourSettings {
        let set = |name| variable(name).is_some_and(|value| !value.is_empty());
        let on = |name| set(name) && variable(name).as_deref() != Some("0");
        ColourSettings {
            never: set("NO_COLOR"),
            always: on("CLICOLOR_FORCE") || on("FORCE_COLOR"),
            dumb: variable("TERM").as_deref() == Some("dumb"),
        }
    }

    fn colour(self, choice: ColorChoice, terminal: bool) -> bool {
        match choice {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto if self.never => false,
            ColorChoice::Auto => self.always || (terminal && !self.dumb),
        }
    }
}

/// The style of a label: the only mapping from meanings to terminal colors.
fn style(label: Label) -> Style {
    let style = Style::new();
    match label {
        Label::Plain => style,
        Label::Error => style.red().bold(),
        Label::Warning => style.yellow(),
        Label::Info => style.blue(),
        Label::Good => style.green(),
        Label::Heading => style.bold(),
        Label::Dim => style.dimmed(),
        Label::Command => style.bold(),
        Label::Name => style.cyan(),
        Label::Tint(which) => match which % 6 {
            0 => style.cyan(),
            1 => style.green(),
            2 => style.magenta(),
            3 => style.yellow(),
            4 => style.blue(),
            _ => style.bright_black(),
        },
    }
}

#[cfg(test)]
mod tests;
