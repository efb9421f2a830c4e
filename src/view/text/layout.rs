//! The layout of text in lines of a given width.

use unicode_width::UnicodeWidthStr;

use super::{Block, Content, Label, Line, Span, Text, plain};
use crate::view::sanitize;

/// The properties of an output that determine the layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Columns of the terminal. Without a width no line is wrapped, so that `grep` and `awk` see whole lines.
    pub width: Option<usize>,
    /// Whether tables have headings.
    pub headers: bool,
}

impl Layout {
    /// The layout without a terminal.
    pub const PIPE: Layout = Layout { width: None, headers: true };

    /// The layout of a terminal of this width.
    pub fn columns(width: usize) -> Layout {
        Layout { width: Some(width), headers: true }
    }
}

/// Minimum width of wrapped text in columns, even on a narrower terminal.
pub(in crate::view) const NARROWEST: usize = 20;

/// Maximum width of wrapped text in columns, even on a wider terminal: longer lines are hard to read.
const WIDEST: usize = 100;

pub(super) fn each_line(text: &Text, layout: Layout, emit: impl FnMut(Line)) {
    let mut lines = Lines { emit, last: None };
    for Block { indent, content } in &text.blocks {
        let room = layout.width.map(|width| width.saturating_sub(*indent));
        let mut line = |line: Line| {
            lines.push(match *indent {
                0 => line,
                _ if line.is_empty() => line,
                by => plain(" ".repeat(by)) + line,
            });
        };
        match content {
            Content::Blank => lines.blank(),
            Content::Line(own) => line(safe(own)),
            Content::Summary(own) => line(match room {
                Some(room) => safe(own).truncated(room),
                None => safe(own),
            }),
            Content::Paragraph(mark, own) => {
                let room = room.map(|room| room.min(WIDEST));
                hanging(mark, &safe(own), room).into_iter().for_each(line);
            }
            Content::Table(table) => table.each_line(Layout { width: room, ..layout }, line),
        }
    }
    if let Some(last) = lines.last.filter(|last| !last.is_empty()) {
        (lines.emit)(last);
    }
}

/// Emits lines one after the other. The last line is held back, so that empty lines at the end are dropped.
struct Lines<F> {
    emit: F,
    last: Option<Line>,
}

impl<F: FnMut(Line)> Lines<F> {
    fn push(&mut self, line: Line) {
        if let Some(before) = self.last.replace(line) {
            (self.emit)(before);
        }
    }

    /// Adds an empty line, except at the start or after another one.
    fn blank(&mut self) {
        if self.last.as_ref().is_some_and(|last| !last.is_empty()) {
            self.push(Line::default());
        }
    }
}

/// Sanitizes a line. All text for people passes through here, so that no view has to escape anything.
pub(in crate::view) fn safe(line: &Line) -> Line {
    let spans = line
        .spans
        .iter()
        .map(|Span { label, text }| Span { label: *label, text: sanitize(text).into_owned() });
    Line { spans: spans.collect() }
}

/// Wraps a paragraph after a mark, with further lines indented to the first word.
fn hanging(mark: &str, line: &Line, room: Option<usize>) -> Vec<Line> {
    let hang = mark.width();
    let room = room.map(|room| room.saturating_sub(hang));
    let wrapped = wrap(line, room).into_iter().enumerate();
    wrapped
        .map(|(i, line)| match i {
            0 => Line::default() + mark + line,
            _ => Line::default() + " ".repeat(hang) + line,
        })
        .collect()
}

/// Wraps a line at blanks. Commands and long words, such as names and addresses, stay whole, so that they can
/// be copied.
pub(in crate::view) fn wrap(line: &Line, room: Option<usize>) -> Vec<Line> {
    let room = room.map_or(usize::MAX, |room| room.max(NARROWEST));
    let mut lines = vec![Line::default()];
    let mut used = 0;
    for word in words(line) {
        let width: usize = word.iter().map(|span| span.text.width()).sum();
        let last = lines.last_mut().expect("`lines` is never empty");
        if used == 0 {
            used = width;
        } else if used + 1 + width > room {
            lines.push(Line::default());
            used = width;
        } else {
            // A blank between two words with the same label gets that label.
            let label = match (last.spans.last(), word.first()) {
                (Some(before), Some(after)) if before.label == after.label => before.label,
                _ => Label::Plain,
            };
            last.push(label.span(" "));
            used += 1 + width;
        }
        let last = lines.last_mut().expect("`lines` is never empty");
        word.into_iter().for_each(|span| last.push(span));
    }
    lines
}

/// Splits a line into words; one word may have several labels.
fn words(line: &Line) -> Vec<Vec<Span>> {
    let mut words: Vec<Vec<Span>> = Vec::new();
    let mut inside = false;
    for Span { label, text } in &line.spans {
        let parts: Vec<&str> = if *label == Label::Command { vec![text] } else { text.split(' ').collect() };
        for (i, part) in parts.into_iter().enumerate() {
            inside &= i == 0;
            if part.is_empty() {
                continue;
            }
            match words.last_mut() {
                Some(word) if inside => word.push(label.span(part)),
                _ => words.push(vec![label.span(part)]),
            }
            inside = true;
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::text::{command, error, name};

    fn sample() -> Text {
        let mut text = Text::new();
        text.line(error("error") + " SKY101  deletion-waits-for-erroring-install  node/gpu-0001");
        text.item(
            "  - ",
            "the package "
                + name("shellscript")
                + ", on "
                + name("gpu-0001")
                + ", has failed 12 times and waits; try "
                + command("kubectl skyhook explain SKY101"),
        );
        text
    }

    #[test]
    fn wraps_prose_under_its_first_word_and_leaves_lines_alone() {
        assert_eq!(
            sample().labelled(Layout::columns(40)),
            "[error:error] SKY101  deletion-waits-for-erroring-install  node/gpu-0001\n\
            \x20 - the package [name:shellscript], on\n\
            \x20   [name:gpu-0001], has failed 12 times and\n\
            \x20   waits; try\n\
            \x20   [command:kubectl skyhook explain SKY101]\n"
        );
    }

    #[test]
    fn does_not_wrap_in_a_pipe() {
        assert_eq!(
            sample().plain(),
            "error SKY101  deletion-waits-for-erroring-install  node/gpu-0001\n\
            \x20 - the package shellscript, on gpu-0001, has failed 12 times and waits; \
            try kubectl skyhook explain SKY101\n"
        );
    }

    #[test]
    fn a_cluster_cannot_break_out_of_its_line() {
        let mut text = Text::new();
        text.paragraph("a\nb\x1b[2Jc").blank().blank().line("x\ry");
        assert_eq!(text.plain(), "a\\nb^[[2Jc\n\nx\\ry\n");
    }
}
