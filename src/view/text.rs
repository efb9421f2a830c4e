//! Text for people: lines of labelled words, paragraphs and tables.
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
pub use layout::Layout;

/// The meaning of a piece of text. `screen` alone decides its style.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Label {
    #[default]
    Plain,
    /// Stuck, broken, failed.
    Error,
    /// Will bite later.
    Warning,
    /// Worth knowing.
    Info,
    /// As it should be.
    Good,
    /// The title of the following text.
    Heading,
    /// Of lesser weight: a caveat, a source.
    Dim,
    /// Something to type.
    Command,
    /// The name of an object or a rule.
    Name,
    /// One of several of a kind, such as the prefixes of a log, distinguished by the number.
    Tint(u8),
}

/// A run of text with one meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    pub label: Label,
    pub text: String,
}

macro_rules! constructors {
    ($($name:ident $label:ident,)*) => {$(
        #[doc = concat!("Text that means [`Label::", stringify!($label), "`].")]
        pub fn $name(text: impl ToString) -> Span {
            Span { label: Label::$label, text: text.to_string() }
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

/// A sentence with input to type in backticks.
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
    /// Of a status or a state, as the operator spells it.
    pub fn of_status(word: &str) -> Label {
        match word {
            "complete" => Label::Good,
            "erroring" => Label::Error,
            "blocked" | "unknown" => Label::Warning,
            _ => Label::Plain,
        }
    }

    /// Text that means this, for when the label is a matter of data.
    pub fn on(self, text: impl ToString) -> Span {
        Span { label: self, text: text.to_string() }
    }
}

/// One line, or one cell: spans side by side. Spans and strings turn into it, and `+` joins them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Line {
    pub spans: Vec<Span>,
}

impl Line {
    pub fn is_empty(&self) -> bool {
        self.spans.iter().all(|span| span.text.is_empty())
    }

    /// Adds at the end; text of the same label joins the last span.
    pub fn push(&mut self, span: Span) {
        match self.spans.last_mut() {
            _ if span.text.is_empty() => {}
            Some(last) if last.label == span.label => last.text.push_str(&span.text),
            _ => self.spans.push(span),
        }
    }

    /// The beginning that fits into these columns, ended by `…` if something is missing.
    pub fn cut(self, columns: usize) -> Line {
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
                    cut.push(label.on(fits.trim_end()));
                    cut.push(label.on("…"));
                    return cut;
                }
                room -= width;
                fits.push(letter);
            }
            cut.push(label.on(fits));
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
    /// Never wrapped: headings, commands to copy.
    Line(Line),
    /// Cut at the width of the terminal.
    Summary(Line),
    /// Wrapped text behind a mark, whose columns stay empty on further lines.
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

    /// A line that is never wrapped: a heading, or a command that is to be copied.
    pub fn line(&mut self, line: impl Into<Line>) -> &mut Self {
        self.block(Content::Line(line.into()))
    }

    /// A line that ends at the right edge of the terminal: one of many, with details elsewhere.
    pub fn summary(&mut self, line: impl Into<Line>) -> &mut Self {
        self.block(Content::Summary(line.into()))
    }

    /// Sentences, wrapped to the width of the terminal.
    pub fn paragraph(&mut self, text: impl Into<Line>) -> &mut Self {
        self.item("", text)
    }

    /// A paragraph behind a mark such as `"- "`: further lines are aligned with its first word.
    pub fn item(&mut self, mark: &str, text: impl Into<Line>) -> &mut Self {
        self.block(Content::Paragraph(mark.to_owned(), text.into()))
    }

    /// An empty line; several in a row are one, and there is none at the very start or end.
    pub fn blank(&mut self) -> &mut Self {
        self.block(Content::Blank)
    }

    pub fn table(&mut self, table: Table) -> &mut Self {
        self.block(Content::Table(table))
    }

    /// Another text, below this one.
    pub fn append(&mut self, text: impl Into<Text>) -> &mut Self {
        self.indented(0, text)
    }

    /// Another text, below this one and further right.
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

    /// Lines in a pipe, where no paragraph is wrapped.
    pub fn height(&self) -> usize {
        self.lines(Layout::PIPE).len()
    }

    /// The lines for a place of that width.
    pub fn lines(&self, layout: Layout) -> Vec<Line> {
        let mut lines = Vec::new();
        self.each_line(layout, |line| lines.push(line));
        lines
    }

    /// [`Text::lines`] one at a time: a table may be long.
    pub fn each_line(&self, layout: Layout, emit: impl FnMut(Line)) {
        layout::each_line(self, layout, emit);
    }

    /// The text as it looks in a pipe.
    pub fn plain(&self) -> String {
        let lines = self.lines(Layout::PIPE);
        lines.iter().map(|line| line.plain() + "\n").collect()
    }

    /// The text with its labels shown, for tests: `[error:stuck] since 5m`.
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
        text.blank().line(Label::Error.on("stuck") + " since 5m").indented(2, inner).blank();
        assert_eq!(text.labelled(Layout::PIPE), "[error:stuck] since 5m\n  why: [dim:no idea]\n");
    }
}
