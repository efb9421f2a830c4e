//! Printing of log lines, prefixed with their node and container.

use crate::cluster::attempts::ContainerLog;
use crate::ctx::Ctx;
use crate::error::Result;
use crate::view::text::{self, Label, Line};

/// Prints lines of several pods with prefixes, or of one pod unchanged.
pub struct Printer {
    prefixed: bool,
    /// The nodes in the order of first appearance, which determines their colors.
    nodes: Vec<String>,
    /// The largest widths of a node and a container name so far.
    width: (usize, usize),
    /// The source of the last line, if lines have no prefix.
    last: Option<(String, String)>,
    /// Whether the last line had no line break.
    open: bool,
}

impl Printer {
    pub fn new<'a>(prefixed: bool, pieces: impl Iterator<Item = &'a ContainerLog>) -> Printer {
        let mut printer = Printer { prefixed, nodes: Vec::new(), width: (0, 0), last: None, open: false };
        for piece in pieces {
            printer.note_source(&piece.node, &piece.container);
        }
        printer
    }

    /// Prints a line; `false` if the reader has closed the pipe.
    pub fn line(&mut self, ctx: &mut Ctx, node: &str, container: &str, line: &[u8]) -> Result<bool> {
        self.note_source(node, container);
        if !self.prefixed {
            self.announce(ctx, node, container)?;
            self.open = line.last().is_some_and(|b| *b != b'\n');
            return ctx.log(&Line::default(), line);
        }
        let at = self.nodes.iter().position(|n| n == node).unwrap_or(0);
        let tint = Label::Tint(u8::try_from(at % 6).unwrap_or(0));
        let (wide, wider) = self.width;
        let prefix = tint.span(format!("{node:wide$} {container:wider$}")) + text::dim(" │ ");
        // A truncated line must not run into the next one.
        match line.last() {
            Some(b'\n') => ctx.log(&prefix, line),
            _ => ctx.log(&prefix, &[line, b"\n"].concat()),
        }
    }

    /// Prints a new source on stderr if lines have no prefix.
    fn announce(&mut self, ctx: &mut Ctx, node: &str, container: &str) -> Result<()> {
        let now = (node.to_owned(), container.to_owned());
        if self.last.as_ref() == Some(&now) {
            return Ok(());
        }
        if std::mem::take(&mut self.open) {
            ctx.log(&Line::default(), b"\n")?;
        }
        let mut note = text::Text::new();
        note.line(text::dim(format!("{node} {container}:")));
        ctx.note(note);
        self.last = Some(now);
        Ok(())
    }

    /// Widens the prefix for the names of a log.
    pub fn note_source(&mut self, node: &str, container: &str) {
        if !self.nodes.iter().any(|n| n == node) {
            self.nodes.push(node.to_owned());
        }
        self.width.0 = self.width.0.max(node.len());
        self.width.1 = self.width.1.max(container.len());
    }
}
