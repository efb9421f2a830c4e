//! Text for people: labeled lines, paragraphs and tables.
//!
//! ```
//! use kubectl_skyhook::view::text::{self, Text};
//!
//! let mut text = Text::new();
//! text.line(text::error("stuck") + ": " + text::name("gpu-0001") + " waits for a reboot");
//! text.item("- ", "A long sentence is wrapped to the width of the terminal, and its lines after the first \
//!                  stand under the first word.");
//! assert!(text.plain().starts_with("stuck: gpu-0001 waits for a reboot\n- A long"));
//! ```

pub(super) mod layout;

use std::ops::Add;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::Table;
use crate::program::as_typed;
pub use layout::Layout;

/// The meaning of a piece of text, from which `screen` derives a color, and `html` a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Label {
    #[default]
    Plain,
    /// Stuck, broken, failed.
    Error,
    /// A future problem.
    Warning,
    /// Notable, but no problem.
    Info,
    /// A good state.
    Good,
    /// The title of the following text.
    Heading,
    /// Less important: a caveat, a source.
    Dim,
    /// Input to type.
    Command,
    /// The name of an object or a rule.
    Name,
    /// One of several similar items, such as the prefixes of a log; the number selects the color.
    Tint(u8),
}

/// Text with one label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    pub label: Label,
    pub text: String,
}

macro_rules! constructors {
    ($($name:ident $label:ident,)*) => {$(
        #[doc = concat!("Text that means [`Label::", stringify!($label), "`].")]
        pub fn $name(text: impl ToString) -> Span {
            Label::$label.span(text)
        }
    )*};
}

constructors! {
    plain Plain,
    error Error,
    warning Warning,
    good Good,
    heading Heading,
    dim Dim,
    command Command,
    name Name,
}

/// A sentence; text in backticks is labeled as a command.
pub fn prose(sentence: &str) -> Line {
    let mut line = Line::default();
    let mut rest = sentence;
    while let Some((before, after)) = rest.split_once('`')
        && let Some((code, after)) = after.split_once('`')
    {
        line.push(plain(before));
        line.push(command(format!("`{code}`")));
        rest = after;
    }
    line.push(plain(rest));
    line
}

impl Label {
    /// The label of a status or state, in the operator's spelling.
    pub fn of_status(word: &str) -> Label {
        match word {
            "complete" => Label::Good,
            "erroring" => Label::Error,
            "blocked" | "unknown" => Label::Warning,
            _ => Label::Plain,
        }
    }

    /// A span with this label, for labels that depend on data. Commands are named as the user typed them.
    pub fn span(self, text: impl ToString) -> Span {
        let text = as_typed(text.to_string().into()).into_owned();
        Span { label: self, text }
    }
}

/// One line or one cell, made of spans. Spans and strings convert to lines, and `+` joins them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Line {
    pub spans: Vec<Span>,
}

impl Line {
    pub fn is_empty(&self) -> bool {
        self.spans.iter().all(|span| span.text.is_empty())
    }

    /// Appends a span; text with the label of the last span is merged into it.
    pub fn push(&mut self, span: Span) {
        match self.spans.last_mut() {
            _ if span.text.is_empty() => {}
            Some(last) if last.label == span.label => last.text.push_str(&span.text),
            _ => self.spans.push(span),
        }
    }

    /// Truncates the line to this many columns, ending with `…` if text is missing.
    pub fn truncated(self, columns: usize) -> Line {
        if self.plain().width() <= columns {
            return self;
        }
        let mut room = columns.saturating_sub(1);
        let mut cut = Line::default();
        for Span { label, text } in self.spans {
            let mut fits = String::new();
            for letter in text.chars() {
                let width = letter.width().unwrap_or(0);
                if width > room {
                    cut.push(label.span(fits.trim_end()));
                    cut.push(label.span("…"));
                    return cut;
                }
                room -= width;
                fits.push(letter);
            }
            cut.push(label.span(fits));
        }
        cut
    }

    /// The text without its labels.
    pub fn plain(&self) -> String {
        self.spans.iter().map(|span| span.text.as_str()).collect()
    }
}

impl From<Span> for Line {
    fn from(span: Span) -> Line {
        Line { spans: vec![span] }
    }
}

impl From<Vec<Span>> for Line {
    fn from(spans: Vec<Span>) -> Line {
        Line { spans }
    }
}

/// `None` is an empty line, which a table shows as `<none>`.
impl<T: Into<Line>> From<Option<T>> for Line {
    fn from(text: Option<T>) -> Line {
        text.map(Into::into).unwrap_or_default()
    }
}

macro_rules! line_from {
    ($($plain:ty)*) => {$(
        impl From<$plain> for Line {
            fn from(text: $plain) -> Line {
                Line::from(plain(text))
            }
        }
    )*};
}

line_from!(&str String &String usize i32 i64 u32 u64);

impl<T: Into<Line>> Add<T> for Line {
    type Output = Line;

    fn add(mut self, more: T) -> Line {
        more.into().spans.into_iter().for_each(|s| self.push(s));
        self
    }
}

impl<T: Into<Line>> Add<T> for Span {
    type Output = Line;

    fn add(self, more: T) -> Line {
        Line::from(self) + more
    }
}

impl Add<Line> for &str {
    type Output = Line;

    fn add(self, more: Line) -> Line {
        Line::from(self) + more
    }
}

impl Add<Span> for &str {
    type Output = Line;

    fn add(self, more: Span) -> Line {
        Line::from(self) + more
    }
}

/// Lines, paragraphs and tables, one below the other.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Text {
    pub(super) blocks: Vec<Block>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Block {
    pub indent: usize,
    pub content: Content,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Content {
    Blank,
    /// Never wrapped: a heading, or a command to copy.
    Line(Line),
    /// Truncated at the width of the terminal.
    Summary(Line),
    /// Wrapped text after a mark; further lines are indented by the mark's width.
    Paragraph(String, Line),
    Table(Table),
}

impl Text {
    pub fn new() -> Text {
        Text::default()
    }

    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Adds a line that is never wrapped: a heading, or a command to copy.
    pub fn line(&mut self, line: impl Into<Line>) -> &mut Self {
        self.block(Content::Line(line.into()))
    }

    /// Adds a line that is truncated at the right edge of the terminal: one of many, with details elsewhere.
    pub fn summary(&mut self, line: impl Into<Line>) -> &mut Self {
        self.block(Content::Summary(line.into()))
    }

    /// Adds sentences, wrapped to the width of the terminal.
    pub fn paragraph(&mut self, text: impl Into<Line>) -> &mut Self {
        self.item("", text)
    }

    /// Adds a paragraph after a mark such as `"- "`; further lines are aligned with its first word.
    pub fn item(&mut self, mark: &str, text: impl Into<Line>) -> &mut Self {
        self.block(Content::Paragraph(mark.to_owned(), text.into()))
    }

    /// Adds an empty line. Consecutive empty lines become one; at the start and the end there are none.
    pub fn blank(&mut self) -> &mut Self {
        self.block(Content::Blank)
    }

    pub fn table(&mut self, table: Table) -> &mut Self {
        self.block(Content::Table(table))
    }

    pub fn append(&mut self, text: impl Into<Text>) -> &mut Self {
        self.indented(0, text)
    }

    /// Appends another text, indented by this many columns.
    pub fn indented(&mut self, by: usize, text: impl Into<Text>) -> &mut Self {
        let blocks = text.into().blocks.into_iter().map(|mut block| {
            block.indent += by;
            block
        });
        self.blocks.extend(blocks);
        self
    }

    fn block(&mut self, content: Content) -> &mut Self {
        self.blocks.push(Block { indent: 0, content });
        self
    }

    /// Number of lines without wrapping.
    pub fn height(&self) -> usize {
        self.lines(Layout::PIPE).len()
    }

    /// The lines for a layout.
    pub fn lines(&self, layout: Layout) -> Vec<Line> {
        let mut lines = Vec::new();
        self.each_line(layout, |line| lines.push(line));
        lines
    }

    /// Passes the lines for a layout to `emit` one by one, as a table may be long.
    pub fn each_line(&self, layout: Layout, emit: impl FnMut(Line)) {
        layout::each_line(self, layout, emit);
    }

    /// The text without labels and wrapping, as printed in a pipe.
    pub fn plain(&self) -> String {
        let lines = self.lines(Layout::PIPE);
        lines.iter().map(|line| line.plain() + "\n").collect()
    }

    /// The text with its labels written out, for tests: `[error:stuck] since 5m`.
    pub fn labelled(&self, layout: Layout) -> String {
        let mut out = String::new();
        for line in self.lines(layout) {
            for Span { label, text } in line.spans {
                match label {
                    Label::Plain => out.push_str(&text),
                    _ => {
                        let label = format!("{label:?}").to_lowercase();
                        out.push_str(&format!("[{label}:{text}]"));
                    }
                }
            }
            out.push('\n');
        }
        out
    }
}

impl<T: Into<Line>> From<T> for Text {
    fn from(paragraph: T) -> Text {
        let mut text = Text::new();
        text.paragraph(paragraph);
        text
    }
}

impl From<Table> for Text {
    fn from(table: Table) -> Text {
        let mut text = Text::new();
        text.table(table);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plus_joins_spans_of_one_label() {
        let line = name("a") + " is " + "not " + error("good") + Some("?") + None::<&str> + 7;
        assert_eq!(line.spans, [name("a"), plain(" is not "), error("good"), plain("?7"),]);
    }

    #[test]
    fn labels_can_be_seen_in_tests() {
        let mut inner = Text::new();
        inner.line("why: " + dim("no idea"));
        let mut text = Text::new();
        text.blank().line(Label::Error.span("stuck") + " since 5m").indented(2, inner).blank();
        assert_eq!(text.labelled(Layout::PIPE), "[error:stuck] since 5m\n  why: [dim:no idea]\n");
    }
}
