//! Declared columns: the heading of each beside its cell.

use super::Table;
use crate::view::text::Line;

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
