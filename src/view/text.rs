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

use std::ops::Add;

use maud::{Markup, html};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::{Table, sanitize};
use crate::program::as_typed;

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
        let mut lines = Lines { emit, last: None };
        for Block { indent, content } in &self.blocks {
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

    /// The text without labels and wrapping, as printed in a pipe.
    pub fn plain(&self) -> String {
        self.lines(Layout::PIPE).iter().map(|line| line.plain() + "\n").collect()
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

impl Text {
    /// The blocks as paragraphs and tables. A style sheet defines the classes.
    pub fn html(&self) -> Markup {
        html! {
            @for block in &self.blocks {
                @match &block.content {
                    Content::Blank => {}
                    Content::Line(line) | Content::Summary(line) => {
                        p class=(format!("line i{}", block.indent)) { (line.html()) }
                    }
                    Content::Paragraph(mark, line) => {
                        p class=(format!("i{}", block.indent)) { (mark) (line.html()) }
                    }
                    Content::Table(table) => (table.html()),
                }
            }
        }
    }
}

impl Line {
    /// The spans, with their labels as classes.
    pub fn html(&self) -> Markup {
        html! {
            @for Span { label, text } in &safe(self).spans {
                @match label {
                    Label::Plain | Label::Tint(_) => (text),
                    Label::Command => code { (text) },
                    label => span class=(format!("{label:?}").to_lowercase()) { (text) },
                }
            }
        }
    }
}

impl Text {
    /// Parses the Markdown that doc comments use: headings, lists, indented or fenced code, `code`.
    ///
    /// Lines of one paragraph are joined, and wrapped to the width of the terminal.
    pub fn markdown(markdown: &str) -> Text {
        let mut text = Text::new();
        let mut open: Option<(String, String)> = None;
        let mut fenced = false;
        // The text of a doc comment begins one blank after its slashes.
        let lines = || markdown.lines().map(str::trim_end);
        let padded = lines().all(|line| line.is_empty() || line.starts_with(' '));
        for line in lines() {
            let line = if padded { line.strip_prefix(' ').unwrap_or(line) } else { line };
            if line.trim_start().starts_with("```") {
                finish(&mut text, &mut open);
                fenced = !fenced;
            } else if fenced || (open.is_none() && line.starts_with("    ")) {
                let code = if fenced { line } else { &line[4..] };
                let mut block = Text::new();
                block.line(command(code));
                text.indented(4, block);
            } else if line.is_empty() {
                finish(&mut text, &mut open);
                text.blank();
            } else if line.starts_with('#') {
                finish(&mut text, &mut open);
                text.line(heading(line.trim_start_matches('#').trim_start()));
            } else if let Some((mark, rest)) = list_mark(line) {
                finish(&mut text, &mut open);
                open = Some((mark.to_owned(), rest.to_owned()));
            } else {
                let (_, paragraph) = open.get_or_insert_default();
                paragraph.push(' ');
                paragraph.push_str(line.trim_start());
            }
        }
        finish(&mut text, &mut open);
        text
    }
}

fn finish(text: &mut Text, open: &mut Option<(String, String)>) {
    if let Some((mark, paragraph)) = open.take() {
        text.item(&mark, prose(paragraph.trim()));
    }
}

/// Splits a list mark off a line: `- `, `* ` or `1. `, with the blanks before and after it.
fn list_mark(line: &str) -> Option<(&str, &str)> {
    let item = line.trim_start();
    let digits = item.len() - item.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let rest = match digits {
        0 => item.strip_prefix(['-', '*']),
        _ => item[digits..].strip_prefix('.'),
    };
    let rest = rest?.strip_prefix(' ')?.trim_start();
    Some((&line[..line.len() - rest.len()], rest))
}

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
    wrap(line, room)
        .into_iter()
        .enumerate()
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
    use crate::view::Layout;
    use crate::view::text::{command, error, name};

    impl Text {
        /// The text with its labels written out: `[error:stuck] since 5m`.
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

    #[test]
    fn prints_what_a_doc_comment_says() {
        let text = Text::markdown(
            "A package of the resource
             errors.

# How to confirm

1. Look at the node state with
   `kubectl skyhook node status`, and at the pod.
2. Then:

    kubectl get pods   -A

```console
kubectl  logs x
```
- done
\x20 - or not",
        );
        assert_eq!(
            text.labelled(Layout::columns(40)),
            "A package of the resource errors.

[heading:How to confirm]

1. Look at the node state with
   [command:`kubectl skyhook node status`], and at
   the pod.
2. Then:

    [command:kubectl get pods   -A]

    [command:kubectl  logs x]
- done
  - or not
"
        );
    }

    #[test]
    fn odd_marks_are_text() {
        assert_eq!(Text::markdown("a ` b\n1.x -y\n#\n").plain(), "a ` b 1.x -y\n");
        assert_eq!(Text::markdown("").plain(), "");
        assert_eq!(Text::markdown(" # A\n\n b\n\n     c\n").plain(), "A\n\nb\n\n    c\n");
    }

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
