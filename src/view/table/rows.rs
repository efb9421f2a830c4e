//! The cells of a table in one string, because large tables have half a million of them.

use crate::view::text::{Label, Line, Span};

/// Cells, row by row.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Rows {
    text: String,
    /// Label and number of bytes of each span.
    spans: Vec<(Label, u32)>,
    /// Number of spans of each cell.
    cells: Vec<u32>,
}

impl Rows {
    pub fn push(&mut self, cell: &Line) {
        for Span { label, text } in &cell.spans {
            self.text.push_str(text);
            self.spans.push((*label, to_u32(text.len())));
        }
        self.cells.push(to_u32(cell.spans.len()));
    }

    pub fn append(&mut self, other: Rows) {
        self.text.push_str(&other.text);
        self.spans.extend(other.spans);
        self.cells.extend(other.cells);
    }

    /// The number of cells.
    pub fn cells(&self) -> usize {
        self.cells.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = Line> {
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
    pub fn texts(&self) -> impl Iterator<Item = &str> {
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
