//! Tables as kubectl prints them: no borders, two blanks between columns, headings in capitals.

use comfy_table::{Table as Grid, presets};
use maud::{Markup, html};
use unicode_width::UnicodeWidthStr;

use super::text::layout::{Layout, NARROWEST, safe, wrap};
use super::text::{Label, Line, heading, plain};

/// Rows of labelled cells.
///
/// In a pipe a row is always one line. On a terminal the last column may be wrapped, if it is
/// [prose](Table::prose), or end early, if it is [cut](Table::cut). A table without rows prints nothing.
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
    rows: Vec<Vec<Line>>,
    last: LastColumn,
}

/// The last column on a terminal that is too narrow for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum LastColumn {
    #[default]
    Whole,
    Wrapped,
    Cut,
}

/// The cells of one row: anything that turns into a [`Line`](crate::view::Line), of different types.
#[macro_export]
#[doc(hidden)]
macro_rules! __cells {
    ($($cell:expr),* $(,)?) => {
        [$($crate::view::Line::from($cell)),*]
    };
}
#[doc(inline)]
pub use crate::__cells as cells;

/// Columns between two cells.
const GUTTER: usize = 2;

/// A wider cell shifts the rest of its own row, instead of widening the column for all rows.
const WIDEST: usize = 200;

impl Table {
    /// A table with these headings, in capitals.
    pub fn new<S: AsRef<str>>(columns: impl IntoIterator<Item = S>) -> Table {
        Table::as_given(columns.into_iter().map(|c| c.as_ref().to_uppercase()))
    }

    /// A table with these headings unchanged: the user has chosen them.
    pub fn as_given<S: Into<String>>(columns: impl IntoIterator<Item = S>) -> Table {
        Table {
            columns: columns.into_iter().map(Into::into).collect(),
            ..Table::default()
        }
    }

    /// The last column holds sentences: on a terminal they are wrapped within it.
    pub fn prose(mut self) -> Table {
        self.last = LastColumn::Wrapped;
        self
    }

    /// The last column holds summaries: on a terminal they end at its right edge, so that a row is one line.
    pub fn cut(mut self) -> Table {
        self.last = LastColumn::Cut;
        self
    }

    /// Adds a row; see [`cells`]. Missing cells are `<none>`.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Line>) -> &mut Self {
        let mut row: Vec<Line> = cells.into_iter().collect();
        debug_assert!(row.len() <= self.columns.len(), "a cell without a column");
        row.resize(self.columns.len(), Line::default());
        self.rows.push(row);
        self
    }

    /// The table with a first column that holds this context.
    pub(super) fn in_context(&self, context: &str) -> Table {
        let rows = self.rows.iter().map(|row| {
            let own = row.iter().cloned();
            [Line::from(context)].into_iter().chain(own).collect()
        });
        let columns = self.columns.iter().cloned();
        Table {
            columns: ["CONTEXT".to_owned()].into_iter().chain(columns).collect(),
            rows: rows.collect(),
            last: self.last,
        }
    }

    pub(super) fn has_columns_of(&self, other: &Table) -> bool {
        self.columns == other.columns
    }

    /// Adds the rows of a table with the same columns.
    pub(super) fn join(&mut self, other: Table) {
        self.rows.extend(other.rows);
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// The table, which scrolls by itself where the page is narrower.
    pub fn html(&self) -> Markup {
        html! {
            @if !self.is_empty() {
                div.scroll role="region" aria-label="table" tabindex="0" {
                    table {
                        thead { tr { @for title in &self.columns { th scope="col" { (title) } } } }
                        tbody {
                            @for row in &self.rows {
                                tr { @for cell in row.iter().map(shown) { td class=[has_long_word(&cell).then_some("long")] { (cell.html()) } } }
                            }
                        }
                    }
                }
            }
        }
    }

    /// Lays the table out. comfy-table aligns all columns but the last, which needs no alignment.
    pub(super) fn lines(&self, layout: Layout) -> Vec<Line> {
        let Some(aligned) = self.columns.len().checked_sub(1) else {
            return Vec::new();
        };
        if self.is_empty() {
            return Vec::new();
        }
        let headings = self
            .columns
            .iter()
            .map(|title| safe(&heading(title).into()));
        let headings = layout.headers.then(|| headings.collect::<Vec<_>>());
        let rows = self.rows.iter().map(|row| row.iter().map(shown).collect());
        let rows: Vec<Vec<Line>> = headings.into_iter().chain(rows).collect();

        let mut grid = Grid::new();
        grid.load_style(presets::NOTHING);
        for row in &rows {
            grid.add_row(row[..aligned].iter().map(|cell| match cell.plain() {
                text if text.width() > WIDEST => String::new(),
                text => text,
            }));
        }
        for column in grid.column_iter_mut() {
            column.set_padding((0, GUTTER as u16));
        }
        let widths: Vec<usize> = grid
            .column_max_content_widths()
            .into_iter()
            .map(usize::from)
            .collect();
        let left: usize = widths.iter().map(|width| width + GUTTER).sum();
        let room = layout.width.map(|width| width.saturating_sub(left));
        let wraps = |room: &usize| self.last == LastColumn::Wrapped && *room >= NARROWEST;
        // A row that is too long without its last column gains nothing by a cut.
        let cuts = |room: &usize| self.last == LastColumn::Cut && *room > 0;

        let mut lines = Vec::with_capacity(rows.len());
        // comfy-table gives no lines for rows without cells.
        let laid_out: Vec<String> = match aligned {
            0 => vec![String::new(); rows.len()],
            _ => grid.lines().collect(),
        };
        for (row, line) in rows.into_iter().zip(laid_out) {
            let mut start = labelled(&row[..aligned], &widths, line);
            let last = row.into_iter().next_back().unwrap_or_default();
            let mut last = match room {
                Some(room) if wraps(&room) => wrap(&last, Some(room)),
                Some(room) if cuts(&room) => vec![last.cut(room)],
                _ => vec![last],
            }
            .into_iter();
            start = start + last.next();
            lines.push(start);
            lines.extend(last.map(|more| plain(" ".repeat(left)) + more));
        }
        lines
    }
}

/// A cell made safe to print, without blanks at its end, `<none>` if there is nothing in it.
/// Whether a narrow column of a page has to break a word, such as a set of nodes.
fn has_long_word(cell: &Line) -> bool {
    cell.plain().split_whitespace().any(|word| word.len() > 24)
}

fn shown(cell: &Line) -> Line {
    let mut cell = safe(cell);
    while let Some(last) = cell.spans.last_mut() {
        last.text.truncate(last.text.trim_end().len());
        if !last.text.is_empty() {
            return cell;
        }
        cell.spans.pop();
    }
    plain("<none>").into()
}

/// Puts the labels back that comfy-table does not know of.
///
/// It has turned the cells into one line of text, each cell followed by blanks up to the next column.
fn labelled(cells: &[Line], widths: &[usize], line: String) -> Line {
    let is_plain = |cell: &Line| {
        let plain = cell.spans.iter().all(|span| span.label == Label::Plain);
        plain && cell.plain().width() <= WIDEST
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

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::super::text::{Text, error, good};
    use super::*;

    fn nodes() -> Table {
        let mut table = Table::new(["node", "status", "message"]).prose();
        table.row(cells!["gpu-0001", good("complete"), ""]);
        table.row(cells![
            "日本-2",
            error("erroring"),
            "the container exited with 1, and has been restarted 7 times since",
        ]);
        table
    }

    fn plain_at(width: usize, table: Table) -> String {
        let lines = Text::from(table).lines(Layout::columns(width));
        lines.iter().map(|line| line.plain() + "\n").collect()
    }

    #[test]
    fn aligns_by_width_and_keeps_labels() {
        assert_eq!(
            Text::from(nodes()).labelled(Layout::PIPE),
            "[heading:NODE]      [heading:STATUS]    [heading:MESSAGE]\n\
             gpu-0001  [good:complete]  <none>\n\
             日本-2    [error:erroring]  the container exited with 1, and has been restarted 7 times since\n"
        );
    }

    #[test]
    fn wraps_prose_on_a_terminal_only() {
        assert_eq!(
            plain_at(50, nodes()),
            "NODE      STATUS    MESSAGE\n\
             gpu-0001  complete  <none>\n\
             日本-2    erroring  the container exited with 1,\n\
            \x20                   and has been restarted 7 times\n\
            \x20                   since\n"
        );
        assert_eq!(plain_at(30, nodes()), Text::from(nodes()).plain());
    }

    #[test]
    fn a_summary_is_cut_only_where_the_row_then_fits() {
        let cut = || Table {
            last: LastColumn::Cut,
            ..nodes()
        };
        let lines = plain_at(50, cut());
        let last = "日本-2    erroring  the container exited with 1,…\n";
        assert!(lines.ends_with(last), "{lines}");
        let widest = plain_at(21, cut())
            .lines()
            .map(UnicodeWidthStr::width)
            .max();
        assert_eq!(widest, Some(21));
        assert_eq!(plain_at(20, cut()), Text::from(nodes()).plain());
    }

    #[test]
    fn a_row_is_one_line_whatever_is_in_it() {
        let mut table = Table::new(["a", "b"]);
        table.row(cells!["x\n\x1b[31my\t", "\u{202e}z "]);
        table.row(cells!["w".repeat(70_000), "end"]);
        let lines = Text::from(table).lines(Layout {
            width: None,
            headers: false,
        });
        let lines: Vec<String> = lines.iter().map(Line::plain).collect();
        assert_eq!(
            lines,
            [
                "x\\n^[[31my\\t  <U+202E>z".to_owned(),
                "w".repeat(70_000) + "  end",
            ]
        );
    }

    #[test]
    fn one_column_and_no_rows() {
        let mut table = Table::new(["name"]);
        assert_eq!(Text::from(table.clone()).plain(), "");
        table.row(cells!["a"]).row(cells![""]);
        assert_eq!(Text::from(table).plain(), "NAME\na\n<none>\n");
        assert_eq!(Text::from(Table::default()).plain(), "");
    }

    /// Fifteen thousand rows take a tenth of a second when optimised; the limit suits a debug build.
    #[test]
    fn is_quick_with_a_large_cluster() {
        let mut table = Table::new(["node", "skyhook", "status", "stage", "age"]);
        for i in 0..15_000 {
            let status = if i % 10 == 0 {
                error("erroring")
            } else {
                good("complete")
            };
            table.row(cells![
                format!("gpu-{i:05}"),
                "tuning",
                status,
                "apply",
                "12m"
            ]);
        }
        let start = Instant::now();
        assert_eq!(Text::from(table).lines(Layout::PIPE).len(), 15_001);
        let took = start.elapsed();
        assert!(took < Duration::from_secs(5), "{took:?}");
    }
}
