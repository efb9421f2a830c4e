//! Tables as kubectl prints them: no borders, two blanks between columns, headings in capitals.

use comfy_table::{ColumnConstraint, Table as Grid, Width, presets};
use maud::{Markup, html};
use unicode_width::UnicodeWidthStr;

use super::NodeSet;
use super::text::{Label, Layout, Line, NARROWEST, Span, dim, heading, plain, safe, wrap};

#[doc(inline)]
pub use crate::__cells as cells;

/// Rows of labeled cells.
///
/// In a pipe, each row is one line. On a terminal, the last column may be [wrapped](Table::wrap_last) or
/// [truncated](Table::truncate_last). A table without rows prints nothing.
///
/// ```
/// use kubectl_skyhook::view::{Table, cells, text};
///
/// let mut table = Table::new(["node", "status", "age"]);
/// table.row(cells!["gpu-0001", text::error("erroring"), "12m"]);
/// table.row(cells!["gpu-0002", None::<&str>, "5d3h"]);
/// assert_eq!(
///     text::Text::from(table).plain(),
///     "NODE      STATUS    AGE\n\
///      gpu-0001  erroring  12m\n\
///      gpu-0002  <none>    5d3h\n"
/// );
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Table {
    columns: Vec<String>,
    rows: Rows,
    last: LastColumn,
    /// The last column of each row, if it holds [names](Table::names).
    sets: Vec<NodeSet>,
}

/// The treatment of the last column on a terminal that is too narrow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum LastColumn {
    #[default]
    Whole,
    Wrapped,
    Truncated,
    Names {
        runs: usize,
        all: &'static str,
    },
}

/// The cells of one row, of different types that convert to a [`Line`](crate::view::Line).
#[macro_export]
#[doc(hidden)]
macro_rules! __cells {
    ($($cell:expr),* $(,)?) => {
        [$($crate::view::Line::from($cell)),*]
    };
}

/// Indentation of a last column that goes below its row.
const BELOW: usize = 4;
/// Minimum width of a column of sentences; narrower ones go below their rows.
const SENTENCE: usize = 30;
/// Number of blanks between two columns.
const GUTTER: usize = 2;

/// Maximum width of an aligned cell. Wider cells shift the rest of their row instead of widening their
/// column.
const MAX_ALIGNED_WIDTH: usize = 200;
/// Number of rows laid out at once, so that the lines of a long table are printed as they are made.
const LAYOUT_CHUNK_ROWS: usize = 500;

impl Table {
    /// A table with these headings, in capitals.
    pub fn new<S: AsRef<str>>(columns: impl IntoIterator<Item = S>) -> Table {
        Table::with_headings(columns.into_iter().map(|c| c.as_ref().to_uppercase()))
    }

    /// A table with these headings unchanged, because the user has chosen them.
    pub fn with_headings<S: Into<String>>(columns: impl IntoIterator<Item = S>) -> Table {
        Table { columns: columns.into_iter().map(Into::into).collect(), ..Table::default() }
    }

    /// Wraps the last column on a terminal: it holds sentences.
    pub fn wrap_last(mut self) -> Table {
        self.last = LastColumn::Wrapped;
        self
    }

    /// Truncates the last column, which holds summaries, at the right edge of a terminal: each row is one
    /// line.
    pub fn truncate_last(mut self) -> Table {
        self.last = LastColumn::Truncated;
        self
    }

    /// Declares that the last column holds sets of names. Shows at most this many runs, and on a terminal as
    /// many as fit; if any are left out, the line `all` below the table explains how to see them.
    pub fn names(mut self, runs: usize, all: &'static str) -> Table {
        self.last = LastColumn::Names { runs, all };
        self
    }

    /// Adds a row to a table whose last column holds [names](Table::names).
    pub fn row_of(&mut self, cells: impl IntoIterator<Item = Line>, names: NodeSet) -> &mut Self {
        let LastColumn::Names { runs, .. } = self.last else {
            return self.row(cells.into_iter().chain([names.to_string().into()]));
        };
        let text = names.limited(runs).into();
        self.sets.push(names);
        self.row(cells.into_iter().chain::<[Line; 1]>([text]))
    }

    /// Adds a row; see [`cells`]. Missing and empty cells are `<none>`.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Line>) -> &mut Self {
        for cell in cells.into_iter().chain(std::iter::repeat_with(Line::default)).take(self.columns.len()) {
            self.rows.push(&sanitized_cell(&cell));
        }
        self
    }

    /// The table with the context as its first column.
    pub(super) fn in_context(&self, context: &str) -> Table {
        let mut table = Table {
            columns: ["CONTEXT".to_owned()].into_iter().chain(self.columns.iter().cloned()).collect(),
            rows: Rows::default(),
            last: self.last,
            sets: self.sets.clone(),
        };
        for row in self.rows() {
            table.row([Line::from(context)].into_iter().chain(row));
        }
        table
    }

    pub(super) fn has_columns_of(&self, other: &Table) -> bool {
        self.columns == other.columns
    }

    /// Appends the rows of a table with the same columns.
    pub(super) fn join(&mut self, other: Table) {
        self.rows.append(other.rows);
        self.sets.extend(other.sets);
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn len(&self) -> usize {
        self.rows.cells().checked_div(self.columns.len()).unwrap_or_default()
    }

    fn rows(&self) -> impl Iterator<Item = Vec<Line>> {
        let mut cells = self.rows.iter();
        (0..self.len()).map(move |_| cells.by_ref().take(self.columns.len()).collect())
    }

    /// The table in HTML, with its own scroll bar on narrow pages.
    pub fn html(&self) -> Markup {
        html! {
            @if !self.is_empty() {
                div.scroll role="region" aria-label="table" tabindex="0" {
                    table {
                        thead { tr { @for title in &self.columns { th scope="col" { (title) } } } }
                        tbody {
                            @for row in self.rows() {
                                tr { @for cell in row { td class=[has_long_word(&cell).then_some("long")] { (cell.html()) } } }
                            }
                        }
                    }
                }
            }
        }
    }

    /// Lays out the table line by line. The last column is not aligned.
    pub(super) fn each_line(&self, layout: Layout, mut emit: impl FnMut(Line)) {
        let Some(aligned) = self.columns.len().checked_sub(1) else {
            return;
        };
        if self.is_empty() {
            return;
        }
        let headings = self.columns.iter().map(|title| safe(&heading(title).into()));
        let headings = layout.headers.then(|| headings.collect::<Vec<Line>>());
        let widths = self.widths(aligned, headings.as_deref());
        let indent: usize = widths.iter().map(|width| width + GUTTER).sum();
        if let Some(width) = layout.width.filter(|width| indent + self.least_last() > *width) {
            return self.each_folded_line(width, widths, headings, emit);
        }
        let room = layout.width.map(|width| width.saturating_sub(indent));
        let wraps = |room: &usize| self.last == LastColumn::Wrapped && *room >= NARROWEST;
        // Truncation does not help rows that are too long without their last column.
        let is_truncated = matches!(self.last, LastColumn::Truncated | LastColumn::Names { .. });
        let truncates = |room: &usize| is_truncated && *room > 0;
        // A summary of a few letters, or a sentence of a few words on each line, is hard to read: it goes below its row.
        let least = match self.last {
            LastColumn::Truncated => NARROWEST,
            LastColumn::Wrapped if room < Some(self.widest_last()) => SENTENCE,
            _ => 0,
        };
        let below = room.is_some_and(|room| room < least);
        let mut below = below.then(|| layout.width.unwrap_or_default().saturating_sub(BELOW));
        if below.is_some_and(|width| width < NARROWEST) {
            below = None;
        }
        let mut is_heading = headings.is_some();

        let mut sets = headings.is_some().then_some(None).into_iter().chain(self.sets.iter().map(Some));
        let mut left_out = false;
        let mut rows = headings.into_iter().chain(self.rows()).peekable();
        while rows.peek().is_some() {
            let chunk: Vec<Vec<Line>> = rows.by_ref().take(LAYOUT_CHUNK_ROWS).collect();
            let starts = laid_out(&chunk, &widths);
            for (mut row, start) in chunk.into_iter().zip(starts) {
                let mut last = row.pop().unwrap_or_default();
                if let (Some(set), Some(room), LastColumn::Names { runs, .. }) =
                    (sets.next().flatten().filter(|set| !set.is_empty()), room, self.last)
                {
                    let text = set.fitting(runs, room);
                    left_out |= text != set.to_string();
                    last = safe(&text.into());
                }
                if let (Some(width), false) = (below, std::mem::take(&mut is_heading)) {
                    emit(trimmed(start));
                    wrap(&last, Some(width))
                        .into_iter()
                        .for_each(|line| emit(plain(" ".repeat(BELOW)) + line));
                    continue;
                }
                let mut last = match room {
                    Some(room) if wraps(&room) => wrap(&last, Some(room)),
                    Some(room) if truncates(&room) => vec![last.truncated(room)],
                    _ => vec![last],
                }
                .into_iter();
                emit(start + last.next());
                last.for_each(|more| emit(plain(" ".repeat(indent)) + more));
            }
        }
        if let (true, LastColumn::Names { all, .. }, Some(heading)) =
            (left_out, self.last, self.columns.last())
        {
            emit(dim(format!("{heading} is shortened; {all}")).into());
        }
    }

    fn widest_last(&self) -> usize {
        let last = self.rows.texts().skip(self.columns.len() - 1).step_by(self.columns.len());
        let heading = self.columns.last().map(|title| title.width());
        last.map(|cell| cell.width()).chain(heading).max().unwrap_or_default()
    }

    /// The least width of the last column beside the others.
    fn least_last(&self) -> usize {
        match self.last {
            LastColumn::Whole => self.widest_last(),
            LastColumn::Wrapped => self.widest_last().min(NARROWEST),
            LastColumn::Truncated | LastColumn::Names { .. } => 1,
        }
    }

    /// Lays out a table that is wider than the terminal: each row continues on indented lines.
    fn each_folded_line(
        &self,
        width: usize,
        mut widths: Vec<usize>,
        headings: Option<Vec<Line>>,
        mut emit: impl FnMut(Line),
    ) {
        let below = width.saturating_sub(BELOW).max(NARROWEST);
        widths.push(if self.last == LastColumn::Whole { self.least_last() } else { NARROWEST });
        let mut starts = vec![0];
        let mut used = 0;
        for (at, column) in widths.iter().enumerate() {
            let room = if starts.len() == 1 { width } else { below };
            // Sentences and summaries have their own lines.
            let apart = at + 1 == widths.len() && self.last != LastColumn::Whole;
            if used > 0 && (apart || used + column > room) {
                starts.push(at);
                used = 0;
            }
            used += column + GUTTER;
        }
        let mut sets = headings.is_some().then_some(None).into_iter().chain(self.sets.iter().map(Some));
        for mut row in headings.into_iter().chain(self.rows()) {
            if let (Some(set), LastColumn::Names { runs, .. }) =
                (sets.next().flatten().filter(|set| !set.is_empty()), self.last)
            {
                row.pop();
                row.push(safe(&set.fitting(runs, below).into()));
            }
            for (part, start) in starts.iter().enumerate() {
                let end = starts.get(part + 1).copied().unwrap_or(row.len());
                let indent = plain(if part == 0 { String::new() } else { " ".repeat(BELOW) });
                if let [cell] = &row[*start..end] {
                    let room = if part == 0 { width } else { below };
                    wrap(cell, Some(room)).into_iter().for_each(|line| emit(indent.clone() + line));
                    continue;
                }
                let mut line = Line::from(indent);
                for (cell, width) in row[*start..end].iter().zip(&widths[*start..]) {
                    let blanks = width.saturating_sub(cell.plain().width()) + GUTTER;
                    line = line + cell.clone() + " ".repeat(blanks);
                }
                emit(trimmed(line));
            }
        }
    }

    /// The widths of the aligned columns, which are all but the last.
    fn widths(&self, aligned: usize, headings: Option<&[Line]>) -> Vec<usize> {
        let mut widths = vec![0; aligned];
        let mut widen = |column: usize, cell: &str| {
            let width = cell.width();
            if let Some(widest) = widths.get_mut(column).filter(|_| width <= MAX_ALIGNED_WIDTH) {
                *widest = width.max(*widest);
            }
        };
        for (column, heading) in headings.unwrap_or_default().iter().enumerate() {
            widen(column, &heading.plain());
        }
        let columns = (0..self.columns.len()).cycle();
        for (column, cell) in columns.zip(self.rows.texts()) {
            widen(column, cell);
        }
        widths
    }
}

/// Lays out the aligned columns of some rows with the widths of the whole table.
fn laid_out(rows: &[Vec<Line>], widths: &[usize]) -> Vec<Line> {
    // comfy-table returns no lines for rows without cells.
    if widths.is_empty() {
        return vec![Line::default(); rows.len()];
    }
    let mut grid = Grid::new();
    grid.load_style(presets::NOTHING);
    for row in rows {
        grid.add_row(row[..widths.len()].iter().map(|cell| match cell.plain() {
            text if text.width() > MAX_ALIGNED_WIDTH => String::new(),
            text => text,
        }));
    }
    for (column, width) in grid.column_iter_mut().zip(widths) {
        column.set_padding((0, GUTTER as u16));
        column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed((width + GUTTER) as u16)));
    }
    rows.iter().zip(grid.lines()).map(|(row, line)| labelled(&row[..widths.len()], widths, line)).collect()
}

/// Restores the labels, which comfy-table does not support.
///
/// `line` has the text of the cells, each padded to its column.
fn labelled(cells: &[Line], widths: &[usize], line: String) -> Line {
    let is_plain = |cell: &Line| {
        let plain = cell.spans.iter().all(|span| span.label == Label::Plain);
        plain && cell.plain().width() <= MAX_ALIGNED_WIDTH
    };
    if cells.iter().all(is_plain) {
        return plain(line).into();
    }
    let mut labelled = Line::default();
    for (cell, width) in cells.iter().zip(widths) {
        let blanks = width.saturating_sub(cell.plain().width()) + GUTTER;
        labelled = labelled + cell.clone() + " ".repeat(blanks);
    }
    labelled
}

/// The line without trailing blanks.
fn trimmed(mut line: Line) -> Line {
    while let Some(last) = line.spans.last_mut() {
        last.text.truncate(last.text.trim_end().len());
        if !last.text.is_empty() {
            break;
        }
        line.spans.pop();
    }
    line
}

/// Whether the cell has a word that a narrow column of a page has to break, such as a set of nodes.
fn has_long_word(cell: &Line) -> bool {
    cell.plain().split_whitespace().any(|word| word.len() > 24)
}

/// A cell that is safe to print, without trailing blanks; `<none>` if empty.
fn sanitized_cell(cell: &Line) -> Line {
    let cell = trimmed(safe(cell));
    if cell.is_empty() { plain("<none>").into() } else { cell }
}

/// Cells, row by row, in one string: large tables have half a million of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Rows {
    text: String,
    /// Label and number of bytes of each span.
    spans: Vec<(Label, u32)>,
    /// Number of spans of each cell.
    cells: Vec<u32>,
}

impl Rows {
    fn push(&mut self, cell: &Line) {
        for Span { label, text } in &cell.spans {
            self.text.push_str(text);
            self.spans.push((*label, to_u32(text.len())));
        }
        self.cells.push(to_u32(cell.spans.len()));
    }

    fn append(&mut self, other: Rows) {
        self.text.push_str(&other.text);
        self.spans.extend(other.spans);
        self.cells.extend(other.cells);
    }

    /// The number of cells.
    fn cells(&self) -> usize {
        self.cells.len()
    }

    fn iter(&self) -> impl Iterator<Item = Line> {
        self.split().map(|(spans, mut text)| {
            let spans = spans.iter().map(|(label, length)| {
                let (own, rest) = text.split_at(*length as usize);
                text = rest;
                label.span(own)
            });
            spans.collect::<Vec<Span>>().into()
        })
    }

    /// The text of each cell without its labels.
    fn texts(&self) -> impl Iterator<Item = &str> {
        self.split().map(|(_, text)| text)
    }

    /// The spans and the text of each cell.
    fn split(&self) -> impl Iterator<Item = (&[(Label, u32)], &str)> {
        let (mut spans, mut text) = (self.spans.as_slice(), self.text.as_str());
        self.cells.iter().map(move |count| {
            let (own_spans, rest) = spans.split_at(*count as usize);
            spans = rest;
            let length: usize = own_spans.iter().map(|(_, length)| *length as usize).sum();
            let (own_text, rest) = text.split_at(length);
            text = rest;
            (own_spans, own_text)
        })
    }
}

fn to_u32(length: usize) -> u32 {
    u32::try_from(length).expect("a cell has less than 4 GB")
}

#[cfg(test)]
mod tests;

/// The cell of a row.
type Cell<'c, R> = Box<dyn Fn(&R) -> Line + 'c>;

/// The columns of a table with one row per `R`.
///
/// ```
/// use kubectl_skyhook::view::{Columns, text::Text};
///
/// let wide = false;
/// let columns = Columns::new()
///     .with("node", |(name, _): &(&str, usize)| (*name).into())
///     .with("pods", |(_, pods)| pods.to_string().into())
///     .with_if(wide, "zone", |_| "a".into());
/// let table = columns.table([("gpu-1", 3)]);
/// assert_eq!(Text::from(table).plain(), "NODE   PODS\ngpu-1  3\n");
/// ```
pub struct Columns<'c, R> {
    headings: Vec<&'static str>,
    cells: Vec<Cell<'c, R>>,
}

impl<R> Default for Columns<'_, R> {
    fn default() -> Self {
        Columns { headings: Vec::new(), cells: Vec::new() }
    }
}

impl<'c, R> Columns<'c, R> {
    pub fn new() -> Self {
        Columns::default()
    }

    /// Adds a column: its heading, in lower case, and the cell of a row.
    pub fn with(mut self, heading: &'static str, cell: impl Fn(&R) -> Line + 'c) -> Self {
        self.headings.push(heading);
        self.cells.push(Box::new(cell));
        self
    }

    /// Adds a column that is shown on a condition, such as `-o wide`.
    pub fn with_if(self, shown: bool, heading: &'static str, cell: impl Fn(&R) -> Line + 'c) -> Self {
        if shown { self.with(heading, cell) } else { self }
    }

    pub fn headings(&self) -> &[&'static str] {
        &self.headings
    }

    /// The cells of a row.
    pub fn cells(&self, row: &R) -> Vec<Line> {
        self.cells.iter().map(|cell| cell(row)).collect()
    }

    /// A table with these rows.
    pub fn table(&self, rows: impl IntoIterator<Item = R>) -> Table {
        let mut table = Table::new(&self.headings);
        for row in rows {
            table.row(self.cells(&row));
        }
        table
    }
}
