//! Text as HTML: labels and indentations are classes. All text is escaped.

use maud::{Markup, html};

use super::text::layout::safe;
use super::text::{Content, Label, Line, Span, Text};

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
