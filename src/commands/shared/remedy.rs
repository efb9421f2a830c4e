//! The text of a remedy.

use crate::plan::Grade;
use crate::rules::Remedy;
use crate::view::shell_words;
use crate::view::text::{self, Line, Span, Text};

/// The title and grade of a remedy, after a mark such as `1. `; below them the command, the nodes to repeat
/// the command on, and the caveats.
pub fn remedy_text(mark: &str, remedy: &Remedy, argv: &[String], repeat: Option<String>) -> Text {
    let mut text = Text::new();
    let title = Line::from(remedy.title.as_str());
    // The command of such a remedy only reads; what its title asks for may do more.
    let title = match remedy.grade {
        Grade::B0 => title,
        _ => title + " (" + remedy_grade(remedy) + ")",
    };
    text.item(mark, title);
    let mut command = Text::new();
    command.line(text::command(shell_words(argv)));
    if let Some(repeat) = repeat {
        command.paragraph(text::dim(repeat));
    }
    if let Some(caveat) = &remedy.caveat {
        command.paragraph(text::dim(format!("note: {caveat}")));
    }
    text.indented(if mark.is_empty() { 2 } else { 5 }, command);
    text
}

/// The worst effect and its grade: `packages run again, B2`.
fn remedy_grade(remedy: &Remedy) -> Span {
    let grade = format!("{}, {}", remedy.worst_effect(), remedy.grade);
    match remedy.grade {
        Grade::B0 | Grade::B1 => text::dim(grade),
        Grade::B2 | Grade::B3 => text::warning(grade),
        Grade::B4 => text::error(grade),
    }
}
